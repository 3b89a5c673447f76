"""Checks an office file's zip container before a library sees it, and tells which format it is.

A small container can unpack to terabytes, name the same bytes in a million entries, or hold XML that grows when
its entities are replaced. Runs in the worker process only: looking takes time and memory, too.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, BinaryIO
from xml.parsers import expat

from bot.documents.contract import DocumentError, DocumentKind, DocumentProblem

MAX_ENTRIES = 10_000
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
"""What all entries together may unpack to."""

_CHUNK_BYTES = 1 << 20
_LOCAL_HEADER_BYTES = 30  # of an entry, before its name: APPNOTE.TXT 4.3.7, https://pkware.cachefly.net/webdocs/APPNOTE
_ENCRYPTED_FLAG = 0x1  # APPNOTE.TXT 4.4.4
_CONTENT_TYPES = "[Content_Types].xml"
_CONTENT_TYPES_BYTES = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # ECMA-376 part 2, annex B: the only ones of such a package

# Content types of the main part; those with macros and the templates are read like the plain ones.
_MAIN_TYPES = (
    (b"wordprocessingml.document.main+xml", DocumentKind.DOCX),
    (b"wordprocessingml.template.main+xml", DocumentKind.DOCX),
    (b"ms-word.document.macroEnabled.main+xml", DocumentKind.DOCX),
    (b"spreadsheetml.sheet.main+xml", DocumentKind.XLSX),
    (b"spreadsheetml.template.main+xml", DocumentKind.XLSX),
    (b"ms-excel.sheet.macroEnabled.main+xml", DocumentKind.XLSX),
    (b"presentationml.presentation.main+xml", DocumentKind.PPTX),
    (b"ms-powerpoint.presentation.macroEnabled.main+xml", DocumentKind.PPTX),
)


def checked_kind(file: BinaryIO) -> DocumentKind:
    """Return which office format an open file has, after all checks; moves the position.

    Raises:
        DocumentError: it is none, is encrypted, damaged, or would unpack to too much.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            _check_declared(entries, _size(file))
            kind = _kind(archive)
            _check_actual(archive, entries)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, zlib.error):
        raise DocumentError(DocumentProblem.DAMAGED, "is damaged: its zip container cannot be read") from None
    file.seek(0)
    return kind


def _size(file: BinaryIO) -> int:
    return file.seek(0, 2)


def _check_declared(entries: Sequence[zipfile.ZipInfo], size_bytes: int) -> None:
    if len(entries) > MAX_ENTRIES:
        raise _too_large(f"has {len(entries):,} entries in its zip container; at most {MAX_ENTRIES:,} are read")
    if any(entry.flag_bits & _ENCRYPTED_FLAG for entry in entries):
        raise DocumentError(DocumentProblem.PASSWORD, "is encrypted and cannot be read; a copy without a password can")
    if any(entry.compress_type not in _METHODS for entry in entries):
        raise DocumentError(DocumentProblem.UNSUPPORTED, "is packed in a way that office files never are")
    if sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES:
        raise _bomb()
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            raise DocumentError(DocumentProblem.DAMAGED, "is damaged: entries of its zip container overlap")
        end = entry.header_offset + _LOCAL_HEADER_BYTES + entry.compress_size
    if end > size_bytes:
        raise DocumentError(DocumentProblem.DAMAGED, "is damaged: its end is missing")


def _kind(archive: zipfile.ZipFile) -> DocumentKind:
    try:
        with archive.open(_CONTENT_TYPES) as entry:
            types = entry.read(_CONTENT_TYPES_BYTES)
    except KeyError:
        types = b""
    for mark, kind in _MAIN_TYPES:
        if mark in types:
            return kind
    raise DocumentError(
        DocumentProblem.UNSUPPORTED, "is a zip container, but no Word, Excel or PowerPoint file that can be read"
    )


def _check_actual(archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Unpack everything once, bit by bit: what was declared may be a lie, and damage is told before it is read."""
    left = MAX_UNPACKED_BYTES
    for entry in entries:
        with archive.open(entry) as opened:
            left -= _unpacked_bytes(opened, left)
        if left < 0:
            raise _bomb()


def _unpacked_bytes(opened: IO[bytes], limit_bytes: int) -> int:
    """Return an entry's size, or something over the limit.

    Raises:
        DocumentError: it is XML with a document type declaration.
    """
    prolog = _Prolog()
    size = 0
    while size <= limit_bytes and (chunk := opened.read(_CHUNK_BYTES)):
        size += len(chunk)
        prolog.feed(chunk)
    return size


class _Prolog:
    """Looks at what stands before the first element of XML; anything else is passed over.

    Office files have no document type declaration (ECMA-376 part 2, 8.1.4: "DTD declarations shall not be used");
    without one there are no entities to be expanded and none to be fetched.
    """

    def __init__(self) -> None:
        self._done = False
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._on_element
        self._parser.StartDoctypeDeclHandler = self._on_doctype

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the entry."""
        if self._done:
            return
        try:
            self._parser.Parse(chunk, False)
        except (expat.ExpatError, _Element, ValueError):
            self._done = True

    def _on_element(self, *_: object) -> None:
        raise _Element

    def _on_doctype(self, *_: object) -> None:
        raise DocumentError(
            DocumentProblem.UNSUPPORTED, "contains a document type declaration, which office files never do"
        )


class _Element(Exception):
    """The first element begins: nothing that matters follows."""


def _bomb() -> DocumentError:
    return _too_large(f"would unpack to more than {MAX_UNPACKED_BYTES >> 20} MiB and is not read")


def _too_large(message: str) -> DocumentError:
    return DocumentError(DocumentProblem.TOO_LARGE, message)
