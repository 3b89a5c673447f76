"""Turns that only wait for other turns. They leave their place among the turns at work to those they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class WaitingTurns:
    """The turns of this process that are at work on nothing of their own, by id."""

    def __init__(self) -> None:
        self._waits: Counter[int] = Counter()  # one turn may wait in several calls at once

    @contextmanager
    def waiting(self, turn_id: int) -> Iterator[None]:
        """Count the turn among them inside the `with`."""
        self._waits[turn_id] += 1
        try:
            yield
        finally:
            self._waits[turn_id] -= 1
            if not self._waits[turn_id]:
                del self._waits[turn_id]

    def __contains__(self, turn_id: object) -> bool:
        return turn_id in self._waits
