"""Landlock: a thread gives up, for itself and for the processes it starts, all files but those it names.

The kernel's wall for programs that open files by path: what such a program opens is checked by where the file
lies, not by the path that led there, so a folder swapped for a link leads nowhere. Which program needs which
files is its starter's knowledge. A restriction cannot be lifted again: use a thread that ends with the start.

Not covered by Landlock: looking at a file's metadata (stat), changing directory, and descriptors that were
opened before. Source of all numbers and rules: https://docs.kernel.org/userspace-api/landlock.html and
https://man7.org/linux/man-pages/man7/landlock.7.html (read 2026-11-30).
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from typing import Any

from bot.errors import DutifulError

# The same on every architecture but alpha: syscalls added since Linux 5.0 share their numbers.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_CLONE_FS = 0x200  # linux/sched.h

# Rights that a ruleset denies unless a rule grants them, by the ABI version that brought them.
_FS_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # …, refer, truncate, ioctl on devices
_NET_RIGHTS = {4: 0b11}  # bind and connect TCP
_SCOPES = {6: 0b11}  # abstract unix sockets, signals to processes outside


class LandlockError(DutifulError):
    """The thread could not be restricted; it must not start what was to be confined."""


class Access(IntFlag):
    """What may be done with a file, or with all files in and below a folder."""

    EXECUTE = 1 << 0
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Access to the file or folder behind a descriptor (O_PATH is enough), wherever it is moved or linked.

    READ_DIR has a meaning for folders only; the kernel refuses it for a file.
    """

    descriptor: int
    access: Access


@cache
def abi_version() -> int:
    """Return the ABI version of this kernel, 0 where Landlock is absent, switched off or forbidden."""
    try:
        return _syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:  # ENOSYS: not built in; EOPNOTSUPP: not enabled at boot; EPERM: a filter of system calls
        return 0


def restrict_thread(grants: Sequence[Grant]) -> None:
    """Deny this thread, for good, every access to files but the granted; also TCP and signals where known.

    Processes started by this thread from now on are under the same restriction and cannot gain privileges by
    running a set-user-id program. Other threads are not touched.

    Raises:
        LandlockError: the kernel has no Landlock, or refused a rule.
    """
    version = abi_version()
    if not version:
        raise LandlockError("this kernel has no Landlock")
    handled = struct.pack("=QQQ", *(_up_to(version, rights) for rights in (_FS_RIGHTS, _NET_RIGHTS, _SCOPES)))
    try:
        ruleset = _syscall(_CREATE_RULESET, handled, len(handled), 0)
        try:
            for grant in grants:
                rule = struct.pack("=Qi", grant.access, grant.descriptor)  # packed: no padding at its end
                _syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
            _forbid_new_privileges()
            _syscall(_RESTRICT_SELF, ruleset, 0)
        finally:
            os.close(ruleset)
    except OSError as error:
        raise LandlockError(f"Landlock refused: {errno.errorcode.get(error.errno or 0, error.errno)}") from error


def move_thread(folder: int) -> None:
    """Make the folder behind a descriptor the current one of this thread alone, and of processes it starts.

    The others keep theirs: the thread leaves what they share (https://man7.org/linux/man-pages/man2/unshare.2.html,
    CLONE_FS, read 2026-11-30; no privilege needed).

    Raises:
        OSError: the folder cannot be entered.
    """
    if _libc().unshare(_CLONE_FS):
        raise OSError(_errno(), "unshare failed")
    os.fchdir(folder)


def _up_to(version: int, rights: dict[int, int]) -> int:
    return sum(bits for since, bits in rights.items() if since <= version)


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    # Whole machine words: a variadic C function takes a narrower integer with an undefined upper half.
    result = int(_libc().syscall(*(_word(argument) for argument in (number, *arguments))))
    if result < 0:
        raise OSError(_errno(), "system call failed")
    return result


def _forbid_new_privileges() -> None:
    if _libc().prctl(*map(_word, (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))):
        raise OSError(_errno(), "prctl failed")


@cache
def _libc() -> Any:
    import ctypes  # 3 ms and 1 MB that a process without a search does not need

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _word(argument: int | bytes | None) -> object:
    import ctypes  # see above

    return ctypes.c_long(argument) if isinstance(argument, int) else ctypes.c_char_p(argument)


def _errno() -> int:
    import ctypes  # see above

    return ctypes.get_errno()
