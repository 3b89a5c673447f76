"""Files on their way between a platform and the disk: where inbound ones go, reading outbound ones, and leaving out.

A file that cannot go leaves a line in its place; the text and the other files of its message go all the same.

How a platform is asked for a file, and how large it may be there, is the channel's business.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from bot.errors import SendRejected
from bot.log import get_logger
from bot.messages import Address, Attachment, OutboundMessage
from bot.security.workspace import PathMissing, PathRefused, WorkspaceView, folder_name
from bot.texts import say
from channels.text import utf16_length

LEFT_OUT_UNITS = 400
"""Most that stands in a message for files that could not go, in UTF-16 units; so much room it must have."""

_UNSAFE = re.compile(r"[^\w.-]+")
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NAME_LIMIT = 80  # characters
_SHOWN_NAME = 60  # characters
_REST_UNITS = 20  # of the end that says how many more there are
_ENDINGS = {"image": ".jpg", "voice": ".ogg", "video": ".mp4"}  # of files that come without a name

_log = get_logger(__name__)


def inbox_path(workspace: str, address: Address, attachment: Attachment) -> Path:
    """Return where an inbound file goes; the same reference always gives the same path."""
    name = _UNSAFE.sub("_", attachment.name).strip("._")[-_NAME_LIMIT:]
    if not name:
        name = attachment.kind + _ENDINGS.get(attachment.kind, "")
    digest = hashlib.sha256(attachment.ref.encode()).hexdigest()[:12]
    return Path(workspace).absolute() / "chats" / folder_name(address.rate_key) / "inbox" / f"{digest}-{name}"


def store_inbound(workspace: Path, target: Path, content: bytes) -> None:
    """Write a file whole or not at all, and only inside the workspace.

    Raises:
        OSError: it could not be written, or the chat's folder leads elsewhere.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # The folder belongs to the chat's tools, which may have put a link in its place.
    if not target.parent.resolve().is_relative_to(workspace.resolve()):
        raise PermissionError(1, "the chat's inbox folder leads out of the workspace")
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(partial).replace(target)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise


class FileLeftOut(SendRejected):
    """One file of a message cannot go out. What else there is of the message goes, with a line in this one's place."""

    def __init__(self, text: str, *, name: str, reason: str, **values: object) -> None:
        """`text` is for the log; `reason` and `values` name the sentence for people (`bot.texts`)."""
        super().__init__(text)
        self._name = name
        self._reason = reason
        self._values = values

    def words(self, language: str) -> str:
        """Return the line that the chat reads."""
        name = self._name if len(self._name) <= _SHOWN_NAME else f"{self._name[: _SHOWN_NAME - 1]}…"
        return say(language, "file.left_out", name=name, why=say(language, self._reason, **self._values))


def refused_there(file: Attachment, exc: SendRejected) -> FileLeftOut:
    """Return what the platform's refusal of one file means for its message."""
    name = _shown(file)
    return FileLeftOut(f"{name} is refused: {exc}", name=name, reason="file.refused")


def words_for(left_out: Sequence[FileLeftOut], language: str) -> str:
    """Return the lines that stand for files that could not go, in at most `LEFT_OUT_UNITS`."""
    lines: list[str] = []
    for number, one in enumerate(left_out):
        line = one.words(language)
        if utf16_length("\n".join([*lines, line])) > LEFT_OUT_UNITS - _REST_UNITS:
            lines.append(f"… (+{len(left_out) - number})")
            break
        lines.append(line)
    return "\n".join(lines)


def with_words(text: str, left_out: Sequence[FileLeftOut], language: str) -> str:
    """Return a text with the lines for what could not go behind it."""
    return "\n\n".join(part for part in (text, words_for(left_out, language)) if part)


def is_all_there_is(message: OutboundMessage, file: Attachment) -> bool:
    """Say whether a message is nothing without this file: then it fails as a whole, to be seen and sent again."""
    return not message.text.strip() and message.attachments == (file,)


async def require_something_to_send(message: OutboundMessage, *, limit_bytes: int) -> None:
    """Let a message go that has words, or one file at least that can go.

    Raises:
        FileLeftOut: why the first of its files cannot.
    """

    def check() -> FileLeftOut | None:
        first = None
        for file in message.attachments:
            try:
                with _checked(file, limit_bytes=limit_bytes):
                    return None
            except FileLeftOut as exc:
                first = first or exc
        return first

    if message.attachments and not message.text.strip() and (problem := await asyncio.to_thread(check)) is not None:
        raise problem


async def read_files(
    files: Sequence[Attachment], *, limit_bytes: int
) -> tuple[list[tuple[Attachment, bytes]], list[FileLeftOut]]:
    """Return the files that can go, with their contents, and why the others cannot."""

    def read() -> tuple[list[tuple[Attachment, bytes]], list[FileLeftOut]]:
        contents: list[tuple[Attachment, bytes]] = []
        left_out: list[FileLeftOut] = []
        for file in files:
            try:
                contents.append((file, read_outbound(file, limit_bytes=limit_bytes)))
            except FileLeftOut as exc:
                _log.warning("file left out of a message", error=str(exc))
                left_out.append(exc)
        return contents, left_out

    return await asyncio.to_thread(read) if files else ([], [])


def size_to_send(file: Attachment, *, limit_bytes: int) -> int | None:
    """Return how large a file is that can go out; None when it cannot. Blocks."""
    try:
        with _checked(file, limit_bytes=limit_bytes) as (_, size):
            return size
    except FileLeftOut:
        return None


def read_outbound(file: Attachment, *, limit_bytes: int) -> bytes:
    """Return the content of a file that is to be sent. Blocks.

    Raises:
        FileLeftOut: it is empty, too large for the platform, not in its `root` any more, or cannot be read.
    """
    with _checked(file, limit_bytes=limit_bytes) as (opened, size):
        try:
            return opened.read(size)
        except OSError as exc:
            name = _shown(file)
            raise FileLeftOut(f"{name} cannot be read: {exc.strerror}", name=name, reason="file.unreadable") from exc


@contextmanager
def _checked(file: Attachment, *, limit_bytes: int) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file that can go out, and give its size in bytes: looked at first, it may not fit into memory.

    Raises:
        FileLeftOut: see `read_outbound`.
    """
    name = _shown(file)
    left_out = partial(FileLeftOut, name=name)
    try:
        opened = _opened(file)
    except PathMissing as exc:
        raise left_out(f"{name} cannot be read: it is not there any more", reason="file.gone") from exc
    except PathRefused as exc:
        raise left_out(f"{name} cannot be sent: {exc}", reason="file.unreadable") from exc
    except OSError as exc:
        reason = "file.gone" if isinstance(exc, FileNotFoundError) else "file.unreadable"
        raise left_out(f"{name} cannot be read: {exc.strerror}", reason=reason) from exc
    with opened:
        info = os.fstat(opened.fileno())
        size = info.st_size
        if not stat.S_ISREG(info.st_mode):
            raise left_out(f"{name} is no ordinary file", reason="file.unreadable")
        if size > limit_bytes:
            sizes = {"size": f"{size / 1e6:.0f}", "limit": f"{limit_bytes / 1e6:.0f}"}
            text = f"{name} has {sizes['size']} MB, a bot may send up to {sizes['limit']}"
            raise left_out(text, reason="file.too_large", **sizes)
        if size == 0:
            raise left_out(f"{name} is empty; the platform takes no empty files", reason="file.empty")
        yield opened, size


def _shown(file: Attachment) -> str:
    return file.name or os.path.basename(file.path)  # noqa: PTH119  # only the name may be told


def _opened(file: Attachment) -> BinaryIO:
    """Open a file; one with a root is walked to from there, so that nothing outside of it is ever opened.

    Of one that was copied when its message was accepted the copy is opened, and nothing else. The roots themselves are
    out of the tools' reach; that of a chat that has moved is a link to the new one.
    """
    if file.copy:
        folder, name = os.path.split(file.copy)
        root = Path(os.path.realpath(folder))
        return WorkspaceView(root=root, shared=root, alone=True).open_read(name)
    if not file.root:
        return open(os.open(file.path, _READ), "rb")  # noqa: PTH123  # a pipe must not be waited for
    inside = os.path.relpath(file.path, file.root)
    root = Path(os.path.realpath(file.root))
    return WorkspaceView(root=root, shared=root, alone=True).open_read(inside)


def too_big(size_bytes: int | None, *, limit_bytes: int) -> str:
    """Return what to tell model and person about an inbound file that the platform or we do not carry."""
    known = f" ({size_bytes / 1e6:.1f} MB)" if size_bytes is not None else ""
    return f"too big to fetch{known}: bots may load files of up to {limit_bytes / (1024 * 1024):.0f} MB"
