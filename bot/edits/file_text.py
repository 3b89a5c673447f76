"""A text file's bytes and its text side by side, so that a change of the text touches no other byte.

What the bytes are is found out by `bot/toolkit/file_types.py`. Pure, but long for large files: use a thread.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bot.errors import DutifulError
from bot.toolkit.file_types import FileType, file_type

_WIDE = ("utf-16", "utf-32")


class NotText(DutifulError):
    """The bytes are no text; `kind` says what else."""

    def __init__(self, kind: FileType) -> None:
        super().__init__(kind.mime)
        self.kind = kind


class NotEncodable(DutifulError):
    """The file's encoding has no bytes for a character of the new text."""

    def __init__(self, char: str, encoding: str) -> None:
        super().__init__(f"{char!r} (U+{ord(char):04X}) cannot be written in the file's encoding, {encoding}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """`text` in place of the characters from `start` to before `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, kw_only=True)  # no slots: the text is made once, when it is needed
class FileText:
    """Bytes of a text file, its kind, and its text: without the byte order mark, line ends as they are.

    Bytes that do not fit the encoding are lone surrogates in the text, and stay what they are.
    """

    data: bytes
    kind: FileType

    @classmethod
    def of(cls, data: bytes) -> FileText:
        """Return the text of these bytes.

        Raises:
            NotText: they are none, by their look or because they do not fit the encoding they claim.
        """
        kind = file_type(io.BytesIO(data), limit_bytes=len(data))
        if not kind.encoding:
            raise NotText(kind)
        made = cls(data=data, kind=kind)
        try:
            _ = made.text
        except UnicodeDecodeError:
            raise NotText(kind) from None
        return made

    @cached_property
    def text(self) -> str:
        """The text."""
        data = self.data[self.kind.mark_bytes :]
        if self.kind.encoding.startswith("utf-16") and len(data) % 2:
            data = data[:-1]  # half a character at the end stays where it is
        return data.decode(self.kind.encoding, self._errors)

    @property
    def _errors(self) -> str:
        return "surrogatepass" if self.kind.encoding.startswith(_WIDE) else "surrogateescape"

    def spliced(self, replacements: Sequence[Replacement]) -> bytes:
        """Return the bytes with these replacements, which stand in order and do not overlap.

        Raises:
            NotEncodable: the encoding has no bytes for a character of a replacement.
        """
        pieces: list[bytes] = []
        done, at = 0, self.kind.mark_bytes  # in characters, in bytes
        for replacement in replacements:
            start = self._advance(at, done, replacement.start)
            pieces += (self.data[at:start], self._encoded(replacement.text))
            at = self._advance(start, replacement.start, replacement.end)
            done = replacement.end
        mark = self.data[: self.kind.mark_bytes]
        return b"".join((mark, *pieces, self.data[at:]))

    def _advance(self, at: int, start: int, end: int) -> int:
        """Return where in the bytes the character `end` stands when character `start` stands at byte `at`."""
        passed = self.text[start:end]
        try:
            encoded = passed.encode(self.kind.encoding, self._errors)
            if self.data.startswith(encoded, at):
                return at + len(encoded)
        except UnicodeEncodeError:
            pass
        # Some old encodings have two byte sequences for one character, so that encoding does not give the file's.
        # In all of them a line feed is one byte that is part of no other character.
        for _ in range(passed.count("\n")):
            at = self.data.index(b"\n", at) + 1
        left = len(passed) - (passed.rfind("\n") + 1)
        decoder = codecs.getincrementaldecoder(self.kind.encoding)(self._errors)
        while left > 0 and at < len(self.data):
            left -= len(decoder.decode(self.data[at : at + 1]))
            at += 1
        return at

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode(self.kind.encoding, self._errors)
        except UnicodeEncodeError as error:
            raise NotEncodable(text[error.start], self.kind.encoding) from None
