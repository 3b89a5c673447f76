"""The faults that are switched on in a loopback platform: which one strikes, and how often it did.

What a fault is, and which calls it is about, is the platform's own business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Countable(Protocol):
    """A fault that strikes `times` times (None = always)."""

    @property
    def times(self) -> int | None: ...


F = TypeVar("F", bound=Countable)


@dataclass(slots=True)
class _Entry(Generic[F]):
    fault: F
    left: int | None
    hits: int = 0


class Armed(Generic[F]):
    """Faults, first added first."""

    def __init__(self) -> None:
        self._entries: list[_Entry[F]] = []

    def add(self, fault: F) -> F:
        """Switch a fault on; returned for `hits` and `remove`."""
        self._entries.append(_Entry(fault, fault.times))
        return fault

    def remove(self, fault: F) -> None:
        """Switch one fault off."""
        self._entries = [entry for entry in self._entries if entry.fault is not fault]

    def clear(self) -> None:
        """Switch all faults off."""
        self._entries.clear()

    def hits(self, fault: F) -> int:
        """Return how often a fault struck."""
        return sum(entry.hits for entry in self._entries if entry.fault is fault)

    def first(self, meets: Callable[[F], bool]) -> F | None:
        """Return the first fault a call meets, counting it; a used-up fault strikes no more."""
        for entry in self._entries:
            if entry.left == 0 or not meets(entry.fault):
                continue
            if entry.left is not None:
                entry.left -= 1
            entry.hits += 1
            return entry.fault
        return None
