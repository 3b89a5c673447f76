"""A model whose words a test lets grow, one script for each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from bot.interfaces import ModelReply, ModelRequest, Provider

Show = Callable[[str], None]
Script = Callable[[Show], Awaitable[ModelReply]]

FIRST = "Let me think about that for a moment."
MORE = f"{FIRST} The answer has several parts."
WHOLE = f"{MORE} This is the last of them."


class Typist(Provider):
    """Plays its scripts one call after the other, the last one again and again."""

    name: ClassVar[str] = "typist"
    needs_network: ClassVar[bool] = False

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`."""
        self.requests.append(request)
        script = self.scripts[0] if len(self.scripts) == 1 else self.scripts.pop(0)
        return await script(on_text or _to_nobody)


def _to_nobody(_text: str) -> None:
    """Show a text to nobody."""
