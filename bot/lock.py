"""One engine per data directory: an advisory lock that ends with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self

from bot.errors import AlreadyRunning, ConfigError


class DataLock:
    """Holds `data_dir/lock` from `take` until `release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, data_dir: Path) -> Self:
        """Create the directory if need be and lock it.

        Raises:
            AlreadyRunning: another live process holds it.
            ConfigError: the directory cannot be used.
        """
        path = data_dir / "lock"
        try:
            data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise ConfigError(
                f"[bot] data_dir: {data_dir} cannot be used: {exc.strerror}; "
                "choose a folder this user can write, or repair its permissions"
            ) from exc
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise AlreadyRunning(f"{data_dir} is in use by another dutiful (process {holder})") from exc
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Give the directory free; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
