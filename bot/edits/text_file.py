"""A file's bytes as text and back, with nothing lost: encoding, byte order mark and bytes that fit no encoding."""

from __future__ import annotations

import io
from dataclasses import dataclass

from bot.errors import DutifulError
from bot.toolkit.file_types import file_type


class NotText(DutifulError):
    """The bytes are some binary format; the text says which."""


class NotInEncoding(DutifulError):
    """The new text has a character that the file's encoding does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """The text of a file, without its byte order mark, and how it was written."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> TextFile:
        """Return the bytes as text, such that `encode(text)` gives the same bytes.

        Raises:
            NotText: they are no text.
        """
        kind = file_type(io.BytesIO(data), limit_bytes=len(data))
        if not kind.encoding:
            raise NotText(f"is binary ({kind.mime}) and cannot be changed as text")
        mark, body = data[: kind.mark_bytes], data[kind.mark_bytes :]
        for encoding in (kind.encoding, "latin-1"):  # which knows every byte: for a guess that was wrong
            try:
                text = body.decode(encoding, "surrogateescape")
                if text.encode(encoding, "surrogateescape") == body:
                    return cls(text=text, encoding=encoding, mark=mark)
            except UnicodeError:
                continue
        raise NotText("is no text in any known encoding")

    def encode(self, text: str) -> bytes:
        """Return new text as the file's bytes.

        Raises:
            NotInEncoding: the file's encoding lacks a character.
        """
        try:
            return self.mark + text.encode(self.encoding, "surrogateescape")
        except UnicodeEncodeError as error:
            char = ascii(error.object[error.start])
            raise NotInEncoding(f"is written in {self.encoding}, which has no character {char}") from None
