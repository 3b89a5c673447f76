"""What a command wrote: kept in bounded memory, and made harmless text."""

from __future__ import annotations

import re
from collections import deque

_CONTROL_SEQUENCES = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,16}[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC up to their end
    r"|\x1b[ -/]{0,4}[0-~]?"  # every other escape sequence, and a lone escape
    r"|\x9b[0-?]{0,64}[ -/]{0,16}[@-~]?"  # CSI as one character
)
"""ECMA-48, 5th edition, sections 5.4, 5.6 and 8.3 (ecma-international.org, read 2026-11-29)."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_OVERWRITTEN = re.compile(r"[^\n\r]*\r(?=[^\n\r])")
_BACKSPACED = re.compile(r"[^\n\x08]\x08")


def plain_text(data: bytes) -> str:
    """Return bytes as text without terminal control: what is not UTF-8 becomes U+FFFD.

    Of a line that was written over (progress bars) the last state stays. Linear in the input.
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    text = _CONTROL_SEQUENCES.sub("", text)
    text = _OVERWRITTEN.sub("", text)
    text = _BACKSPACED.sub("", text)
    return _CONTROLS.sub("", text)


class HeadTail:
    """The first and the last bytes of a stream. Memory stays below `limit_bytes` plus one chunk, whatever comes."""

    def __init__(self, limit_bytes: int = 1024 * 1024) -> None:
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Take more of the stream."""
        self.total_bytes += len(chunk)
        if room := self._head_limit - len(self._head):
            self._head += chunk[:room]
            chunk = chunk[room:]
        if not chunk:
            return
        chunk = chunk[-self._tail_limit :]
        self._tail.append(bytes(chunk))
        self._tail_bytes += len(chunk)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._tail_limit:
            self._tail_bytes -= len(self._tail.popleft())

    def text(self, limit_chars: int = 10_000) -> str:
        """Return head and tail as plain text of at most about `limit_chars`, with a line about what is left out."""
        tail = b"".join(self._tail)[-self._tail_limit :]
        lost_bytes = self.total_bytes - len(self._head) - len(tail)
        if not lost_bytes:
            return _shortened(plain_text(bytes(self._head) + tail), limit_chars)
        first, last = plain_text(bytes(self._head)), plain_text(tail)
        head_chars = limit_chars // 2
        kept_head, kept_tail = first[:head_chars], last[-(limit_chars - head_chars) :]
        shown = len(kept_head.encode("utf-8", "replace")) + len(kept_tail.encode("utf-8", "replace"))
        left_out = max(lost_bytes, self.total_bytes - shown)
        return f"{kept_head}\n[... {left_out:,} bytes left out ...]\n{kept_tail}"

    def take(self, limit_chars: int = 10_000) -> str:
        """Return `text` and forget it: the next call has only what came since."""
        text = self.text(limit_chars)
        self._head.clear()
        self._tail.clear()
        self._tail_bytes = self.total_bytes = 0
        return text


def _shortened(text: str, limit_chars: int) -> str:
    if len(text) <= limit_chars:
        return text
    head = limit_chars // 2
    tail = limit_chars - head
    return f"{text[:head]}\n[... {len(text) - limit_chars:,} characters left out ...]\n{text[-tail:]}"
