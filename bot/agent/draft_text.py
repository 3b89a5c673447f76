"""What a person sees of a turn before its answer: the text so far, and below it how far a call is."""

from __future__ import annotations

from collections.abc import Callable


class DraftText:
    """Stands between a turn and what shows its text."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._text = ""

    def show(self, text: str) -> None:
        """Show the text as it is now, whole; a line below it is gone then."""
        self._text = text
        self._show(text)

    def show_line(self, line: str) -> None:
        """Show a line below the text, in place of the one before; '' shows the text alone."""
        self._show(f"{self._text}\n\n{line}".strip())
