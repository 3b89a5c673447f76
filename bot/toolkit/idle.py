"""Which conversations this process has been busy with, so that what it keeps of the others can be dropped.

Whoever keeps something by conversation has itself told here when to forget one (`forget`). Everything of that kind
can be made anew from the store or from files: forgetting costs time at the next turn, never an answer.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bot.clock import Clock

MAX_REMEMBERED = 256
"""Conversations of which something may be kept; beyond, the one longest unused is forgotten at once."""

Forget = Callable[[int], None]
"""Drops what is kept of a conversation, by its id; must not block or raise."""

_S_PER_MINUTE = 60


class IdleSessions:
    """The conversations in use, the one longest unused first. Nothing here wakes up by itself: others call `sweep`."""

    def __init__(self, clock: Clock, *, idle_minutes: int, limit: int = MAX_REMEMBERED) -> None:
        self._clock = clock
        self._idle_s = idle_minutes * _S_PER_MINUTE
        self._limit = limit
        self._used_s: OrderedDict[int, float] = OrderedDict()
        self._busy: Counter[int] = Counter()
        self._forget: list[Forget] = []

    def on_forget(self, forget: Forget) -> None:
        """Call `forget` for each conversation that is dropped."""
        self._forget.append(forget)

    @contextmanager
    def using(self, session_id: int, *, goes_on: bool = True) -> Iterator[None]:
        """Keep what there is of a conversation inside the `with`; what is idle then is dropped.

        `goes_on` is False for the conversation of a single run, which is dropped with its end.
        """
        self._busy[session_id] += 1
        try:
            yield
        finally:
            self._busy[session_id] -= 1
            if not self._busy[session_id]:
                del self._busy[session_id]
            self._used_s[session_id] = self._clock.monotonic_s() if goes_on else -math.inf
            self._used_s.move_to_end(session_id, last=goes_on)
            self.sweep()

    def sweep(self) -> int:
        """Drop what is kept of conversations that have been idle; returns how many they were."""
        oldest_s = self._clock.monotonic_s() - self._idle_s
        dropped = 0
        for session_id, used_s in list(self._used_s.items()):
            if used_s > oldest_s and len(self._used_s) <= self._limit:
                break
            if session_id in self._busy:
                continue
            del self._used_s[session_id]
            dropped += 1
            for forget in self._forget:
                forget(session_id)
        return dropped

    def __len__(self) -> int:
        return len(self._used_s)
