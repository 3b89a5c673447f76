"""The process between a command and the bot: it sees to it that nothing of the command outlives either.

Started as a script of its own with `python -I -S`: it imports nothing of the project, and little else, since every
command waits for it. Its one argument is the descriptor of a socket to the bot. There it reads one line of JSON (see
`Launch.order`), and writes one when all is over:

    {"code": exit code, 128 + signal as shells say it, "why": "", "asked" or "processes", "left": count}

The end of the socket's input means: end everything. That is also what the death of the bot, however sudden, looks
like. As a "child subreaper" it becomes the parent of every descendant whose own parent dies, so a descendant
that left the group or the session is found all the same. In a sandbox the kernel ends all of them with the first.

If somebody kills the warden itself, the kernel kills its direct child (PR_SET_PDEATHSIG): all of a sandbox; without one
only the command's own process.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# include/uapi/linux/prctl.h of Linux 6.1
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# include/uapi/linux/keyctl.h and the system call's numbers by machine, of Linux 6.1; 64-bit programs only
_KEYCTL_JOIN_SESSION_KEYRING = 1
_KEYCTL = {
    "x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "ppc64le": 271, "s390x": 280,
}  # fmt: skip

_TICK_S = 0.05
_END_LIMIT_S = 5.0
_MAX_ORDER_BYTES = 4 * 1024 * 1024
_NOT_FOUND, _NOT_STARTED = 127, 126  # POSIX, "Exit Status for Commands"


def main() -> None:
    """Carry out one order."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    order = _read_order(control)
    if order is None:
        return
    # The bot ends a warden by its socket. A signal meant for the bot's group or session must not leave orphans.
    stop_read, stop_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(stop_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = _start(order)
    # Whoever reads the output waits until the last writer is gone: that is never the warden.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    watched = _Watched(child, limit=order["processes"])
    why = _wait(watched, control, stop_read)
    left = watched.end_all()
    report = {"code": watched.code, "why": why, "left": left}
    with suppress(OSError):
        control.sendall(json.dumps(report).encode() + b"\n")


def _read_order(control: socket.socket) -> dict[str, Any] | None:
    data = bytearray()
    while not data.endswith(b"\n"):
        chunk = control.recv(65536)
        if not chunk or len(data) > _MAX_ORDER_BYTES:
            return None
        data += chunk
    order: dict[str, Any] = json.loads(data)
    return order


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


_LIBC = ctypes.CDLL(None, use_errno=True)


# --- the command's process


def _start(order: dict[str, Any]) -> int:
    warden = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        _become(order, warden)
    except FileNotFoundError as error:
        _say(f"cannot be started: {error.filename or order['argv'][0]}: not found\n")
        os._exit(_NOT_FOUND)
    except BaseException as error:  # noqa: BLE001 - a forked copy of the warden must not go on as a warden
        _say(f"cannot be started: {error}\n")
    os._exit(_NOT_STARTED)


def _say(text: str) -> None:
    with suppress(OSError):
        os.write(2, text.encode("utf-8", "replace"))


def _become(order: dict[str, Any], warden: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != warden:
        os._exit(_NOT_STARTED)
    signal.set_wakeup_fd(-1)
    for number in (
        signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ,
    ):  # fmt: skip
        signal.signal(number, signal.SIG_DFL)  # Python ignores the last two, and a command would inherit that
    os.setsid()
    if order["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for limit, wanted in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, order["data_bytes"]),
        (resource.RLIMIT_FSIZE, order["file_bytes"]),
        (resource.RLIMIT_NOFILE, order["open_files"]),
    ):
        _, hard = resource.getrlimit(limit)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(limit, (value, value))
    os.nice(order["nice"])
    if order["own_keyring"]:
        _leave_keyring()
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 - pathlib costs start-up time
        file.write("900")  # before the bot, should memory run out
    for fd, text in order["data"].items():
        _deliver(int(fd), text)
    os.chdir(order["cwd"])
    os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - that is the duty


def _leave_keyring() -> None:
    """Leave the keys of the bot's session (Kerberos tickets, for example): no namespace keeps them from a command."""
    number = _KEYCTL.get(os.uname().machine) if sys.maxsize > 2**32 else None
    if number is None or _LIBC.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None) >= 0:
        return
    code = ctypes.get_errno()
    if code not in (errno.ENOSYS, errno.EPERM):  # no keys here, or not for this container: not inside either
        raise OSError(code, os.strerror(code))


def _deliver(fd: int, text: str) -> None:
    """Make `fd` a file in memory with this text, for bubblewrap to read."""
    file = os.memfd_create("data")
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, fd)
    os.close(file)


# --- watching and ending


def _wait(watched: _Watched, control: socket.socket, stop_read: int) -> str:
    """Return when it is time to end everything, and why."""
    while True:
        ready, _, _ = select.select([control.fileno(), stop_read], [], [], _TICK_S)
        if stop_read in ready:
            numbers = os.read(stop_read, 512)
            if any(number != signal.SIGCHLD for number in numbers):
                return "asked"
        watched.reap()
        if watched.code is not None:
            return ""
        if control.fileno() in ready and not control.recv(64):
            return "asked"
        if watched.has_too_many():
            return "processes"


class _Watched:
    """The command's process and everything that came of it."""

    def __init__(self, child: int, *, limit: int) -> None:
        self.child = child
        self.code: int | None = None
        self._limit = limit
        self._threads_before = _threads_of_all()

    def reap(self) -> bool:
        """Take note of the dead; False when no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self.child:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code

    def has_too_many(self) -> bool:
        """Whether there are more processes than allowed. Looks closely only if the machine's total has grown."""
        total = _threads_of_all()
        self._threads_before = min(self._threads_before, total)
        if total and total - self._threads_before < self._limit:
            return False
        return len(_descendants(self._limit + 1)) > self._limit

    def end_all(self) -> int:
        """Kill until no child is left; return how many did not die (uninterruptible sleep)."""
        until_s = time.monotonic() + _END_LIMIT_S
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)  # in a sandbox that is all: the kernel does the rest
        pause_s = 0.001
        while self.reap():
            found = _descendants()
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > until_s:
                return len(found)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
        return 0


def _threads_of_all() -> int:
    """Return the number of threads on this machine, 0 if it cannot be told; proc(5), /proc/loadavg."""
    try:
        with open("/proc/loadavg") as file:  # noqa: PTH123 - see above
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _descendants(enough: int = sys.maxsize) -> list[int]:
    """Return the ids of all processes below this one, at most about `enough`."""
    children: Callable[[int], list[int]] = _children
    try:
        children(os.getpid())
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        children = _parents_table().__getitem__
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting and len(found) < enough:
        with suppress(OSError, KeyError):
            below = children(waiting.pop())
            found += below
            waiting += below
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - see above
        with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123 - see above
            found += map(int, file.read().split())
    return found


def _parents_table() -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - see above
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The name in parentheses may contain anything; fields after it: state, parent (proc(5)).
                parent = int(file.read().rpartition(b")")[2].split()[1])
                table.setdefault(parent, []).append(int(name))
    return table


if __name__ == "__main__":
    main()
