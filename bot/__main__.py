"""`python -m bot`: the same as the command `dutiful`, for places where it is not on the path."""

from __future__ import annotations

from bot.cli import main

if __name__ == "__main__":
    main()
