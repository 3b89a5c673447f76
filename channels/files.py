"""Files on their way between a platform and the disk: where inbound ones go, and reading outbound ones.

How a platform is asked for a file, and how large it may be there, is the channel's business.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

from bot.errors import SendRejected
from bot.messages import Address, Attachment
from bot.security.workspace import PathMissing, PathRefused, WorkspaceView, folder_name

_UNSAFE = re.compile(r"[^\w.-]+")
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NAME_LIMIT = 80  # characters
_ENDINGS = {"image": ".jpg", "voice": ".ogg", "video": ".mp4"}  # of files that come without a name


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


def read_outbound(file: Attachment, *, limit_bytes: int) -> bytes:
    """Return the content of a file that is to be sent.

    Raises:
        SendRejected: it is empty, too large for the platform, not in its `root` any more, or cannot be read.
    """
    shown = file.name or os.path.basename(file.path)  # noqa: PTH119  # only the name may be told
    try:
        with _opened(file) as opened:
            info = os.fstat(opened.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise SendRejected(f"{shown} is no ordinary file")
            size = info.st_size  # sizes first: the file may not fit into memory
            if size > limit_bytes:
                raise SendRejected(f"{shown} has {size / 1e6:.0f} MB, a bot may send up to {limit_bytes / 1e6:.0f}")
            if size == 0:
                raise SendRejected(f"{shown} is empty; the platform takes no empty files")
            return opened.read(size)
    except PathMissing as exc:
        raise SendRejected(f"{shown} cannot be read: it is not there any more") from exc
    except PathRefused as exc:
        raise SendRejected(f"{shown} cannot be sent: {exc}") from exc
    except OSError as exc:
        raise SendRejected(f"{shown} cannot be read: {exc.strerror}") from exc


def _opened(file: Attachment) -> BinaryIO:
    """Open a file; one with a root is walked to from there, so that nothing outside of it is ever opened.

    The roots themselves are out of the tools' reach; that of a chat that has moved is a link to the new one.
    """
    if not file.root:
        return open(os.open(file.path, _READ), "rb")  # noqa: PTH123  # a pipe must not be waited for
    inside = os.path.relpath(file.path, file.root)
    root = Path(os.path.realpath(file.root))
    return WorkspaceView(root=root, shared=root, alone=True).open_read(inside)


def too_big(size_bytes: int | None, *, limit_bytes: int) -> str:
    """Return what to tell model and person about an inbound file that the platform or we do not carry."""
    known = f" ({size_bytes / 1e6:.1f} MB)" if size_bytes is not None else ""
    return f"too big to fetch{known}: bots may load files of up to {limit_bytes / (1024 * 1024):.0f} MB"
