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
        kept = _UNFINISHED.search(bytes((self._tail or self._head)[-_LONGEST_UNFINISHED:]))
        rest = kept[0] if kept else b""
        if rest:
            del (self._tail or self._head)[-len(rest) :]
            self.total_bytes -= len(rest)
        text = self.text(limit_chars)
        self._head.clear()
        self._tail.clear()
        self.total_bytes = 0
        self.write(rest)
        return text
