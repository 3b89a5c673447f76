"""An answer's bytes within limits: counted as sent and again as unpacked, before they are kept."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, Iterator

from bot.web.errors import WebError, WebTooLarge

ACCEPT_ENCODING = "gzip, deflate"
"""What `read_body` can unpack."""

_STEP_BYTES = 256 * 1024  # unpacked at once: about a millisecond of the loop's time
_FEED_BYTES = 4 * 1024  # packed bytes at once: the rest is copied after each part of a gzip body, and parts may be tiny
_GZIP, _ZLIB, _RAW = 31, 15, -15  # window bits of zlib
_GZIP_MAGIC = b"\x1f\x8b"


async def read_body(
    chunks: AsyncIterable[bytes], coding: str, *, limit_bytes: int, cut: bool = False
) -> tuple[bytes, bool]:
    """Return a body unpacked by its Content-Encoding, and whether it was cut at the limit.

    Neither what is sent nor what comes out of it may be more than `limit_bytes`.

    Raises:
        WebTooLarge: it is more, and not to be `cut`.
        WebError: an encoding that was not offered, or packed data that is damaged or ends too early.
    """
    unpacker = _unpacker(coding)
    body = bytearray()
    sent_bytes = 0
    async for chunk in chunks:
        sent_bytes += len(chunk)
        for piece in unpacker.feed(chunk) if unpacker else (chunk,):
            body += piece
            if len(body) > limit_bytes or sent_bytes > limit_bytes:
                if cut:
                    return bytes(body[:limit_bytes]), True
                raise WebTooLarge(f"the answer is larger than {limit_bytes:,} bytes")
            if unpacker:
                await asyncio.sleep(0)
    if unpacker and not unpacker.is_complete:
        if cut:
            return bytes(body), True
        raise WebError("the answer's packed data ends too early", retryable=True)
    return bytes(body), False


def _unpacker(coding: str) -> Unpacker | None:
    coding = coding.strip().lower()
    if coding in {"", "identity"}:
        return None
    if coding in {"gzip", "x-gzip", "deflate"}:
        return Unpacker(coding)
    raise WebError(f"the answer has the encoding {coding[:40]!a}, which was not asked for")


class Unpacker:
    """Unpacks gzip and deflate step by step, so that a bomb is noticed at the limit and not after it."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._stream: zlib._Decompress | None = None
        self._members = 0
        self.is_complete = True  # an empty body is none of a packed kind either

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what comes out of the next bytes, in pieces of limited size.

        Some are empty, so that none takes long: whoever takes them can let others run in between.

        Raises:
            WebError: the data is damaged.
        """
        for start in range(0, len(data), _FEED_BYTES):
            yield from self._feed(data[start : start + _FEED_BYTES])
            yield b""

    def _feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._stream is None:
                if not data or not self._begins_member(data):
                    return
                self._stream = zlib.decompressobj(self._window_bits(data))
                self.is_complete = False
            try:
                piece = self._stream.decompress(data, _STEP_BYTES)
            except zlib.error as exc:
                raise WebError(f"the answer is not valid {self._coding} data") from exc
            data = self._stream.unconsumed_tail
            if self._stream.eof:
                data, self._stream, self.is_complete = self._stream.unused_data, None, True
                self._members += 1
            if piece:
                yield piece
            if not data and len(piece) < _STEP_BYTES:  # a full piece may not have been all there is
                return

    def _begins_member(self, data: bytes) -> bool:
        """Whether more packed data begins here: gzip may be of several parts, and anything may follow the last."""
        return not self._members or (self._coding != "deflate" and _GZIP_MAGIC.startswith(data[:2]))

    def _window_bits(self, data: bytes) -> int:
        """Return how to read the data: what servers call deflate comes with and without a zlib header."""
        if self._coding != "deflate":
            return _GZIP
        return _ZLIB if data[0] & 0x0F == zlib.DEFLATED else _RAW
