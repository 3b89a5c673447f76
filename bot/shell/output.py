"""What a command wrote, kept in bounded memory. What its bytes mean is in `terminal_text.py`."""

from __future__ import annotations

import re

from bot.shell.terminal_text import plain_text

__all__ = ["HeadTail", "plain_text"]

_UNFINISHED = re.compile(
    rb"(?:\x1b(?:\[[0-?]{0,64}[ -/]{0,16}|[\]PX^_][^\x07\n\x18\x1a\x1b]{0,4096}\x1b?|[ -/]{0,4})?"
    rb"|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_LONGEST_UNFINISHED = 4_200


class HeadTail:
    """The first and the last bytes of a stream. Memory stays below 1.5 x `limit_bytes` plus a chunk, whatever comes."""

    def __init__(self, limit_bytes: int = 256 * 1024) -> None:
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Take more of the stream."""
        self.total_bytes += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Cut only now and then: moving the rest for every chunk would make small chunks slow.
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    def text(self, limit_chars: int = 10_000) -> str:
        """Return it as plain text: at most `limit_chars`, half of the head and half of the tail, and a line between.

        That line, which says how much was left out, comes on top of the limit.
        """
        tail = bytes(self._tail[-self._tail_limit :])
        lost_bytes = self.total_bytes - len(self._head) - len(tail)
        head_chars = limit_chars // 2
        if not lost_bytes:
            text = plain_text(bytes(self._head) + tail)
            if len(text) <= limit_chars:
                return text
            hidden = f"{len(text) - limit_chars:,} characters"
            first, last = text[:head_chars], text[head_chars - limit_chars :]
        else:
            first = plain_text(bytes(self._head))[:head_chars]
            last = plain_text(tail)[head_chars - limit_chars :]
            shown_bytes = len(first.encode()) + len(last.encode())
            hidden = f"{max(lost_bytes, self.total_bytes - shown_bytes):,} bytes"
        return f"{first}\n[... {hidden} left out ...]\n{last}"

    def take(self, limit_chars: int = 10_000) -> str:
        """Return `text` and forget it, for a reader who wants only what is new.

        A character or control sequence of which only the beginning has come is kept back for the next time.
        """
        part = self.copy()
        part.hold_back()
        text = part.text(limit_chars)
        self.forget(part.total_bytes)
        return text

    def copy(self) -> HeadTail:
        """Return what is there now, for a thread to look at while more is written."""
        part = HeadTail(self._head_limit + self._tail_limit)
        part._head += self._head
        part._tail += self._tail
        part.total_bytes = self.total_bytes
        return part

    def hold_back(self) -> None:
        """Drop the beginning of a character or control sequence at the end, of which the rest has not come."""
        last = self._tail or self._head
        if unfinished := _UNFINISHED.search(bytes(last[-_LONGEST_UNFINISHED:])):
            length = len(unfinished[0])
            del last[len(last) - length :]
            self.total_bytes -= length

    def forget(self, read_bytes: int) -> None:
        """Forget the first `read_bytes` of the stream; what came after them stays."""
        newer_bytes = self.total_bytes - read_bytes
        kept = bytes(self._head + self._tail)
        kept = kept[max(0, len(kept) - newer_bytes) :]
        self._head.clear()
        self._tail.clear()
        self.total_bytes = newer_bytes - len(kept)  # more than there was room for, in the meantime
        self.write(kept)
