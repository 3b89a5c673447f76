"""`python -m bot.cli` is `dutiful`."""

from __future__ import annotations

from bot.cli import main

main()
