"""Which conversations could not be looked into of late, so that nobody can say what arrived in them."""

from __future__ import annotations

from bot.clock import Clock

_HOLDS_S = 600.0  # a scope that is missing may be granted, and what was away comes back
_KEPT = 1_000


class Blindness:
    """Remembers it of each conversation by itself: one closed history says nothing of the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[str, float] = {}

    def note(self, chat_id: str, *, could_look: bool) -> None:
        """Remember what came of looking into a conversation."""
        self._until_s.pop(chat_id, None)
        if could_look:
            return
        if len(self._until_s) >= _KEPT:
            self._until_s.clear()
        self._until_s[chat_id] = self._clock.monotonic_s() + _HOLDS_S

    def holds(self, chat_id: str) -> bool:
        """Say whether looking into a conversation is of no use now."""
        return self._clock.monotonic_s() < self._until_s.get(chat_id, 0.0)
