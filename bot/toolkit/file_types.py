"""What a file is by its bytes: a picture, some other binary format, or text in which encoding.

The name is never asked: it is chosen by whoever wrote the file. Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

CHUNK_BYTES = 1 << 20
_HEAD_BYTES = 64 * 1024
_SAMPLE_BYTES = 64 * 1024
_NUL_BYTES = 8_000  # git looks for a NUL in as many bytes to tell binary from text (its buffer_is_binary)

# Signatures: the registrations at https://www.iana.org/assignments/media-types and, for formats without one,
# https://www.garykessler.net/library/file_sigs.html (read 2026-11-29).
_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"PK\x05\x06", "application/zip"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (0, b"\x1f\x8b", "application/gzip"),
    (4, b"1AY&SY", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (257, b"ustar", "application/x-tar"),
    (0, b"\x7fELF", "application/x-elf"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (0, b"OggS\x00", "audio/ogg"),
    (0, b"ID3\x03", "audio/mpeg"),
    (0, b"ID3\x04", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1a\x45\xdf\xa3", "video/webm"),
)
_BEFORE = {"image/webp": b"RIFF", "audio/wav": b"RIFF", "video/mp4": b"\x00\x00"}  # what such a file begins with
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_OFFICE_FOLDERS = {b"word/": DOCX, b"xl/": XLSX, b"ppt/": PPTX}
_CONTENT_TYPES = b"[Content_Types].xml"  # every package has it: ECMA-376 part 2, 10.1.2.2

DOC, XLS, PPT = "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint"
ENCRYPTED_OFFICE = "application/x-ole-encrypted-package"
"""An office file with a password: [MS-OFFCRYPTO] 2.3.4.4 puts it into an OLE container; it has no registered type."""

# Streams of an OLE container by their names in its directory: [MS-DOC] 2.1.1, [MS-XLS] 2.1.2, [MS-PPT] 2.1.2.
_OLE = "application/x-ole-storage"
_OLE_STREAMS = {
    "EncryptedPackage": ENCRYPTED_OFFICE,
    "WordDocument": DOC,
    "Workbook": XLS,
    "PowerPoint Document": PPT,
}
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The pictures that every vision model takes."""

UNKNOWN_BINARY = "application/octet-stream"

# UTF-32 before UTF-16: the little-endian mark of the one begins with that of the other.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# The legacy encodings that browsers know, https://encoding.spec.whatwg.org/#names-and-labels (read 2026-11-29):
# among all that Python knows, a few bytes always fit some forgotten one. Western Europe first: it wins a tie.
_CANDIDATES = (
    "cp1252", "gb18030", "cp932", "big5", "euc_jp", "euc_kr", "cp949", "cp1251", "koi8_r", "koi8_u",
    "cp1250", "iso8859_2", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "iso8859_5", "iso8859_15",
    "cp866", "cp874",
)  # fmt: skip
_TEXT_CONTROLS = b"\t\n\x0b\x0c\r\x08\x1b\x07"  # as in logs of terminals
_CONTROLS = bytes(sorted(set(range(0x20)) - set(_TEXT_CONTROLS)))
_CONTROL_SHARE = 0.05

# An accent, a sign or a quote here and there is too little to tell encodings by statistics, which then make
# Hebrew or Chinese of it. Other scripts have their letters in rows of bytes, so single ones are Western.
_WESTERN = "cp1252"
_FEW = 8
_ROW_OF_HIGH = re.compile(rb"[\x80-\xff]{2}")
_HIGH = re.compile(rb"[\x80-\xff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileType:
    """What the bytes are. `encoding` is a codec's name, empty for what is no text.

    `is_guess`: the encoding was inferred from the look of the text. `is_valid`: every byte fits it; False
    also when that was not checked. `mark_bytes`: the length of the byte order mark, no part of the text.
    """

    mime: str
    encoding: str = ""
    is_guess: bool = False
    is_valid: bool = False
    mark_bytes: int = 0


def file_type(file: BinaryIO, *, limit_bytes: int) -> FileType:
    """Return what an open file is, looking at no more than `limit_bytes`; moves the position."""
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    mime = _signature(head)
    if mime == "application/zip":
        return FileType(mime=_package(file, head, limit_bytes))
    if mime == _OLE:
        return FileType(mime=_ole_content(file, limit_bytes))
    if mime:
        return FileType(mime=mime)
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return FileType(mime="text/plain", encoding=encoding, mark_bytes=len(mark))
    if b"\x00" in head[:_NUL_BYTES]:
        encoding = _unmarked_utf16(head)
        return FileType(mime="text/plain" if encoding else UNKNOWN_BINARY, encoding=encoding, is_guess=True)
    if _is_control_data(head):
        return FileType(mime=UNKNOWN_BINARY)
    position = _first_not_utf8(file, limit_bytes)
    if position is None:
        return FileType(mime="text/plain", encoding="utf-8", is_valid=True)
    sample = _sample(file, position)
    if _is_mostly_utf8(sample):
        return FileType(mime="text/plain", encoding="utf-8")
    encoding = _guess(sample)
    return FileType(mime="text/plain" if encoding else UNKNOWN_BINARY, encoding=encoding, is_guess=True)


def chunks(file: BinaryIO, start: int, *, limit_bytes: int) -> Iterator[bytes]:
    """Yield a file's bytes from `start`, at most `limit_bytes` of them even if it grows meanwhile."""
    file.seek(start)
    left = limit_bytes
    while left > 0:
        chunk = file.read(min(CHUNK_BYTES, left))
        if not chunk:
            return
        left -= len(chunk)
        yield chunk


def is_whole_image(data: bytes, mime: str) -> bool:
    """Whether a picture of one of `IMAGES` has its end: a provider refuses a cut one, and the request with it."""
    if mime == "image/png":
        return b"IHDR" in data[:32] and b"IEND" in data
    if mime == "image/jpeg":
        return b"\xff\xd9" in data
    if mime == "image/gif":
        return b"\x00\x3b" in data
    return len(data) >= int.from_bytes(data[4:8], "little") + 8  # RIFF: the size of what follows


def _signature(head: bytes) -> str:
    for start, signature, mime in _SIGNATURES:
        if head.startswith(signature, start) and head.startswith(_BEFORE.get(mime, b"")):
            return mime
    return ""


def _package(file: BinaryIO, head: bytes, limit_bytes: int) -> str:
    """Return which office format a zip container looks like, by the names at its beginning and its end.

    Only a look: the names could be content of other entries. Whoever reads the file finds out.
    """
    size = min(file.seek(0, os.SEEK_END), limit_bytes)
    file.seek(max(0, size - _HEAD_BYTES))
    names = head + file.read(_HEAD_BYTES)
    if _CONTENT_TYPES not in names:
        return "application/zip"
    found = {names.find(folder): kind for folder, kind in _OFFICE_FOLDERS.items() if folder in names}
    return found[min(found)] if found else "application/zip"


def _ole_content(file: BinaryIO, limit_bytes: int) -> str:
    """Return what an OLE container holds; its directory may be anywhere in it, in pieces."""
    before = b""
    for chunk in chunks(file, 0, limit_bytes=limit_bytes):
        text = before + chunk
        for name, kind in _OLE_STREAMS.items():
            if name.encode("utf-16-le") in text:
                return kind
        before = chunk[-64:]
    return _OLE


def _unmarked_utf16(head: bytes) -> str:
    """Return the byte order of text whose every second byte is mostly NUL, or ''."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if even and odd:
        return ""
    encoding = "utf-16-le" if odd else "utf-16-be"
    try:
        codecs.getincrementaldecoder(encoding)("strict").decode(head)
    except UnicodeDecodeError:
        return ""
    return encoding if max(even, odd) * 2 > half else ""


def _is_control_data(data: bytes) -> bool:
    return len(data) - len(data.translate(None, _CONTROLS)) > len(data) * _CONTROL_SHARE


def _first_not_utf8(file: BinaryIO, limit_bytes: int) -> int | None:
    """Return about where the first byte stands that is no UTF-8, or None."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    position = 0
    for chunk in chunks(file, 0, limit_bytes=limit_bytes):
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            return position + error.start
        position += len(chunk)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return position
    return None


def _sample(file: BinaryIO, position: int) -> bytes:
    """Return whole lines around a position, as far as there are any."""
    start = max(0, position - _SAMPLE_BYTES // 2)
    file.seek(start)
    sample = file.read(_SAMPLE_BYTES)
    if start:
        sample = sample[sample.find(b"\n", 0, _SAMPLE_BYTES // 2) + 1 :]
    end = sample.rfind(b"\n", _SAMPLE_BYTES // 2)
    return sample[: end + 1] if end > 0 else sample


def _is_mostly_utf8(sample: bytes) -> bool:
    """Whether it is UTF-8 with some damage: other encodings look like its longer sequences only by chance."""
    text = sample.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    longer = len(text) - len(text.encode("ascii", "ignore")) - damaged
    return longer > damaged


def _guess(sample: bytes) -> str:
    from charset_normalizer import from_bytes  # 65 ms, and most files are UTF-8

    if b"\x00" in sample or _is_control_data(sample):
        return ""
    # Without the lines that are the same in every encoding: they would outvote the few that tell.
    telling = b"\n".join(line for line in sample.split(b"\n") if not line.isascii())
    is_western = _ROW_OF_HIGH.search(telling) is None and _fits(telling, _WESTERN)
    if is_western and len(_HIGH.findall(telling)) <= _FEW:
        return _WESTERN
    matches = from_bytes(telling, cp_isolation=list(_CANDIDATES), enable_fallback=False)
    best = matches.best()
    if best is None:
        return _WESTERN if is_western else ""
    equal = [match.encoding for match in matches if match.chaos <= best.chaos and match.coherence >= best.coherence]
    return min(equal, key=_CANDIDATES.index, default=best.encoding) if best.encoding in _CANDIDATES else best.encoding


def _fits(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
