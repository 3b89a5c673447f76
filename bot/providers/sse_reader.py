"""Server-sent events of a chat.completions stream: bytes in, JSON values out.

Knows lines, comments and `[DONE]`; what the JSON means is the business of `reply_reader`, how long to wait
that of `openai_compatible`. Tolerates CRLF, a BOM, chunks that split lines and characters anywhere, events
without the blank line after them, and JSON spread over several `data:` lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bot.errors import ProviderError, ProviderErrorKind
from bot.providers.lenient_json import read_json

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Longest event read; a server that never ends its line must not fill the memory."""

_BOM = b"\xef\xbb\xbf"


class SseReader:
    """Reads one stream. `done` turns true at `[DONE]`; what follows it is ignored."""

    def __init__(self) -> None:
        self.done = False
        self._buffer = b""
        self._held = b""  # data lines that are no JSON yet
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """Yield the values of the events that `chunk` completes.

        Raises:
            ProviderError: MALFORMED, for data that is not JSON.
        """
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            yield from self._line(line)
        if len(self._buffer) + len(self._held) > MAX_EVENT_BYTES:
            raise ProviderError(ProviderErrorKind.MALFORMED, f"an event of more than {MAX_EVENT_BYTES} bytes")

    def finish(self) -> Iterator[Any]:
        """Yield what a last line without its line break holds; half an event yields nothing."""
        if self._buffer.startswith(b"data:"):
            line, self._buffer = self._buffer, b""
            yield from self._line(line)

    def _line(self, line: bytes) -> Iterator[Any]:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        line = line.rstrip(b"\r")
        if self.done:
            return
        if not line:
            self._end_event()
        elif line.startswith(b"data:"):
            yield from self._data(line[5:].strip())
        elif line.startswith(b"error:"):
            # No field of the standard; llama.cpp reports a failure in mid-answer this way.
            yield {"error": _error_value(line[6:].strip())}

    def _data(self, data: bytes) -> Iterator[Any]:
        if data == b"[DONE]":
            self._end_event()
            self.done = True
            return
        whole = self._held + b"\n" + data if self._held else data
        if not whole:
            return
        try:
            value = read_json(whole)
        except ValueError:
            # Only the end of the event tells broken JSON from JSON that goes on in the next data line.
            self._held = whole
            return
        self._held = b""
        yield value

    def _end_event(self) -> None:
        if self._held:
            shown = self._held[:200].decode(errors="replace")
            raise ProviderError(ProviderErrorKind.MALFORMED, f"an event that is not JSON: {shown}")


def _error_value(data: bytes) -> Any:
    try:
        value = read_json(data)
    except ValueError:
        value = None
    return value or data.decode(errors="replace") or "no explanation"
