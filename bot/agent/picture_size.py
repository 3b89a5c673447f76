"""Width and height of a picture in a data URL, read from the first bytes of the common formats.

Layouts: PNG (w3.org/TR/png-3), GIF89a, WebP (developers.google.com/speed/webp/docs/riff_container), JPEG
(ITU T.81, start-of-frame segments); read 2026-11-29. Pictures are not decoded and never fetched.
"""
# ruff: noqa: PLR2004 - the numbers are offsets and markers of the file formats

from __future__ import annotations

import base64
import binascii
import struct

_HEADER_CHARS = 65_536  # base64 characters to look at; JPEG hides its size behind metadata


def _png_or_gif_size(head: bytes) -> tuple[int, int] | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return struct.unpack(">II", head[16:24])
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return struct.unpack("<HH", head[6:10])
    return None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP" or len(head) < 30:
        return None
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    width, height = struct.unpack("<HH", head[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    if not head.startswith(b"\xff\xd8"):
        return None
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        if marker == 0xFF:
            at += 1
            continue
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None


def picture_size(url: str) -> tuple[int, int] | None:
    """Return (width, height) in pixels of a base64 data URL, or None when its start does not tell."""
    comma = url.find(",", 0, 256)
    if not url.startswith("data:") or comma < 0 or ";base64" not in url[:comma]:
        return None
    chunk = url[comma + 1 : comma + 1 + _HEADER_CHARS]
    try:
        head = base64.b64decode(chunk[: len(chunk) // 4 * 4])
    except (binascii.Error, ValueError):
        return None
    return _png_or_gif_size(head) or _webp_size(head) or _jpeg_size(head)
