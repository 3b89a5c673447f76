"""Output that nobody has read yet: its head and its tail, however much there is.

A reader takes what is new and it is gone from here. What the bytes mean is in `terminal_text.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 192 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Unread output: all of it in `head` when nothing was cut, else with `cut_bytes` between head and tail."""

    head: bytes
    cut_bytes: int = 0
    tail: bytes = b""


class UnreadOutput:
    """Keeps the first `head_bytes` and the last `tail_bytes` of what was added since the last `take`."""

    def __init__(self, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._cut_bytes = 0

    def __len__(self) -> int:
        """Return the bytes that are held."""
        return len(self._head) + len(self._tail)

    def add(self, data: bytes) -> None:
        """Add what was written."""
        room = self._head_bytes - len(self._head)
        if room > 0 and not self._tail:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Twice the size before anything is cut: each byte is then moved at most once.
        if len(self._tail) > 2 * self._tail_bytes:
            self._trim()

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_bytes
        if excess > 0:
            del self._tail[:excess]
            self._cut_bytes += excess

    def peek(self) -> Taken:
        """Return the unread output and leave it unread."""
        self._trim()
        if not self._cut_bytes:
            return Taken(head=bytes(self._head + self._tail))
        return Taken(head=bytes(self._head), cut_bytes=self._cut_bytes, tail=bytes(self._tail))

    def take(self, *, keep_back: int = 0) -> Taken:
        """Return the unread output, which is read from now on; the last `keep_back` bytes stay unread."""
        taken = self.peek()
        last = taken.tail if taken.cut_bytes else taken.head
        kept = last[len(last) - keep_back :] if keep_back else b""
        last = last[: len(last) - len(kept)]
        self._head, self._tail, self._cut_bytes = bytearray(kept), bytearray(), 0
        if taken.cut_bytes:
            return Taken(head=taken.head, cut_bytes=taken.cut_bytes, tail=last)
        return Taken(head=last)
