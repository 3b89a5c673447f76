"""Small files that only this user may read: written whole or not at all, and found whole after a crash."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

FOLDER_MODE = 0o700


def write_private(path: Path, content: bytes) -> None:
    """Replace a file's content atomically and durably; mode 0600, in a folder of mode 0700. Blocks.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600, whatever the umask
    made = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
