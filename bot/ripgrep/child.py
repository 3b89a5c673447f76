"""One run of ripgrep: started behind a wall, read within bounds, and gone afterwards whatever happens.

Everything here blocks; `in_own_thread` is the way in from the loop. The program's life is bound to the call
that started it: it is killed and reaped before that call returns. Should this process be killed meanwhile, the
program ends by its limit of CPU time or at its next output.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import selectors
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bot.ripgrep.program import Program, load_program
from bot.security.landlock import Access, Grant, abi_version, move_thread, restrict_thread

T = TypeVar("T")

# Ripgrep writes file by file, and being woken for each takes longer than reading: after the first ones come pauses.
_CHUNK_BYTES = 1 << 20  # also of the pipe: what an unprivileged process may have (/proc/sys/fs/pipe-max-size)
_EAGER_READS = 8
_PAUSE_S = 0.001
_ERRORS_BYTES = 16 * 1024
_ADDRESS_BYTES = 4 << 30  # most of it is never touched
_MEMORY_BYTES = 1 << 30  # the longest line of a tree decides what it wants
_NICENESS = 5  # many searches at once must leave the loop its share of the processor
_LOOK_S = 0.5
_STUCK_LOOKS = 4  # in a row at which nothing of it moved
_SAMPLES = 8  # of a look
_SAMPLE_PAUSE_S = 0.003  # longer than a thread without work sleeps
_LOOK = os.O_PATH | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run and what it may read. Descriptors belong to the caller and must stay open during the run."""

    arguments: Sequence[str | bytes]
    folders: tuple[int, ...] = ()  # may be listed, and everything in and below read
    files: tuple[int, ...] = ()  # may be read; the program has them under the same numbers
    others: tuple[int, ...] = ()  # it has them under the same numbers, without a grant of their own
    start_in: int | None = None  # the folder it runs in
    ends_when_stuck: bool = False  # when all of its threads only wait: for the other end of a named pipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a run ended. `code` means nothing when it was cut short."""

    code: int
    errors: str
    is_cut: bool  # ended by us: time was up or the taker had enough
    is_stuck: bool = False  # ended by us: it waited for what does not come

    @property
    def is_broken(self) -> bool:
        """Whether something that it read held it up, or was more than its memory holds."""
        return self.is_stuck or (not self.is_cut and self.code in {-signal.SIGABRT, -signal.SIGSEGV})


class Halt:
    """Ends a search from another thread: the program that runs is killed, and no other one starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self.is_set = False

    def set(self) -> None:
        """End the search; returns at once."""
        with self._lock:
            self.is_set = True
            if self._child is not None:
                self._child.kill()

    def watch(self, child: _Child | None) -> None:
        """Remember the program that runs now."""
        with self._lock:
            self._child = child
            if self.is_set and child is not None:
                child.kill()


async def in_own_thread(work: Callable[[Halt], T], *, name: str) -> T:
    """Return what `work` returns or raises; cancelling ends its program and waits for the thread.

    A thread of its own: the loop's pool is small, and a few long searches would hold up everybody's file access.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    halt = Halt()

    def settle(outcome: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(outcome)

    def body() -> None:
        try:
            result = work(halt)
        except BaseException as error:  # noqa: BLE001 - handed to the waiter
            failure = error
            settle(lambda: done.set_exception(failure))
        else:
            settle(lambda: done.set_result(result))

    threading.Thread(target=body, name=name, daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        halt.set()
        await asyncio.wait([done])
        done.exception()  # seen: nobody else will ask
        raise


def run(command: Command, halt: Halt, *, until_s: float, take: Callable[[bytes], bool]) -> Exit:
    """Run ripgrep until it ends, `take` returns False, the halt is set or the clock reaches `until_s` (monotonic).

    `take` gets the output in pieces as it comes.

    Raises:
        RipgrepMissing: there is no program.
        LandlockError, OSError: it could not be started.
    """
    child = _Child(command, cpu_s=max(1, int(until_s - time.monotonic()) + 1))
    try:
        halt.watch(child)
        is_cut = not all(take(chunk) for chunk in child.chunks(until_s))
    finally:
        child.end()
        halt.watch(None)
    errors = bytes(child.errors).decode(errors="replace")
    is_cut = is_cut or child.is_late or child.is_stuck or halt.is_set
    return Exit(code=child.code, errors=errors, is_cut=is_cut, is_stuck=child.is_stuck and not halt.is_set)


class _Child:
    """The process: its pipes, and killing it without hitting a later process of the same number."""

    def __init__(self, command: Command, *, cpu_s: int) -> None:
        self._lock = threading.Lock()
        self._is_reaped = False
        self.errors = bytearray()
        self.is_late = False
        self.is_stuck = False
        self.code = 0
        self._ends_when_stuck = command.ends_when_stuck
        self._output, output = os.pipe2(os.O_CLOEXEC)
        self._errors, errors = os.pipe2(os.O_CLOEXEC)
        with suppress(OSError):  # a smaller one works as well
            fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _CHUNK_BYTES)
        try:
            self._pid = _start(command, output=output, errors=errors)
        except BaseException:
            self._close()
            raise
        finally:
            os.close(output)
            os.close(errors)
        with suppress(ProcessLookupError):  # over already
            os.setpriority(os.PRIO_PGRP, self._pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
        limits = {
            resource.RLIMIT_CPU: cpu_s * (os.cpu_count() or 1),
            resource.RLIMIT_AS: _ADDRESS_BYTES,
            resource.RLIMIT_DATA: _MEMORY_BYTES,
            resource.RLIMIT_CORE: 0,
        }
        for which, limit in limits.items():
            with suppress(ProcessLookupError, PermissionError, ValueError):  # over already; or a stricter limit holds
                resource.prlimit(self._pid, which, (limit, limit))

    def chunks(self, until_s: float) -> Iterator[bytes]:
        """Yield the output until its end or the time is up; keep the beginning of what it says of errors."""
        reads = idle_looks = 0
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            selector.register(self._errors, selectors.EVENT_READ)
            while selector.get_map():
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    self.is_late = True
                    return
                reads += 1
                if reads > _EAGER_READS:
                    time.sleep(_PAUSE_S)
                ready = selector.select(min(left_s, _LOOK_S))
                if not ready and self._ends_when_stuck:
                    idle_looks = idle_looks + 1 if self._waits() else 0
                    self.is_stuck = idle_looks >= _STUCK_LOOKS
                    if self.is_stuck:
                        return
                for key, _ in ready:
                    data = os.read(key.fd, _CHUNK_BYTES)
                    if not data:
                        selector.unregister(key.fd)
                    elif key.fd == self._output:
                        yield data
                    elif len(self.errors) < _ERRORS_BYTES:
                        self.errors += data

    def _waits(self) -> bool:
        """Whether none of its threads has anything to do, nor waits for a disk.

        What they used does not tell: one without work looks for some a thousand times a second. Where processors are
        few it may be caught at that; one with work would be caught at every sample.
        """
        try:
            busy = os.listdir(f"/proc/{self._pid}/task")  # noqa: PTH208 - names only
            for _ in range(_SAMPLES):
                busy = [thread for thread in busy if not self._sleeps(thread)]
                if not busy:
                    return True
                time.sleep(_SAMPLE_PAUSE_S)
        except OSError:  # a thread ended meanwhile
            return False
        return False

    def _sleeps(self, thread: str) -> bool:
        stat = Path(f"/proc/{self._pid}/task/{thread}/stat").read_bytes()
        # (2) the name in brackets, (3) the state: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
        return stat[stat.rindex(b")") + 1 :].startswith(b" S ")

    def kill(self) -> None:
        """Kill the process group, unless the process was reaped and its number may be another's."""
        with self._lock:
            if not self._is_reaped:
                with suppress(ProcessLookupError):
                    os.killpg(self._pid, signal.SIGKILL)

    def end(self) -> None:
        """Leave no process, zombie or descriptor behind.

        One that closed its pipes by ending is not changed by the signal: its exit code stands.
        """
        self.kill()
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)  # without the lock: it may take a while
        with self._lock:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            self._is_reaped = True
        self._close()

    def _close(self) -> None:
        os.close(self._output)
        os.close(self._errors)


def _start(command: Command, *, output: int, errors: int) -> int:
    """Start the program from a thread that is restricted first: the process inherits it, this thread stays free.

    Returns the process's number.
    """
    program = load_program()
    started: list[int] = []
    failed: list[BaseException] = []
    with ExitStack() as opened:

        def hold(path: str | os.PathLike[str], flags: int) -> int:
            descriptor = os.open(path, flags)
            opened.callback(os.close, descriptor)
            return descriptor

        nothing = hold(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # here: the restricted thread can open no file
        grants = _grants(command, [hold(path, _LOOK) for path in program.files]) if abi_version() else None

        strays = _inheritable()

        def body() -> None:
            try:
                if command.start_in is not None:
                    move_thread(command.start_in)
                if grants is not None:
                    restrict_thread(grants)
                started.append(_spawn(program, command, (nothing, output, errors), strays))
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                failed.append(error)

        thread = threading.Thread(target=body, name="start ripgrep")
        thread.start()
        thread.join()
    if failed:
        raise failed[0]
    return started[0]


def _grants(command: Command, needed: Sequence[int]) -> list[Grant]:
    return [
        *(Grant(descriptor=file, access=Access.READ_FILE | Access.EXECUTE) for file in needed),
        *(Grant(descriptor=folder, access=Access.READ_FILE | Access.READ_DIR) for folder in command.folders),
        *(Grant(descriptor=file, access=Access.READ_FILE) for file in command.files),
    ]


def _inheritable() -> list[int]:
    """Return what every process we start would inherit: descriptors that this one got from its own starter."""
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - names only
        with suppress(OSError):  # closed meanwhile, as the folder itself
            if number > 2 and os.get_inheritable(number):  # noqa: PLR2004 - standard input, output, errors
                found.append(number)
    return found


def _spawn(program: Program, command: Command, pipes: tuple[int, int, int], strays: Sequence[int]) -> int:
    """Start the process with the descriptors that are named and no other.

    Not by `subprocess`: in a thread that may not list /proc/self/fd it closes every possible descriptor number,
    5 ms for a limit of 20,000; and it makes passed ones inheritable by whatever else is started meanwhile.
    """
    kept = [*zip(pipes, (0, 1, 2), strict=True), *((file, file) for file in (*command.files, *command.others))]
    closing = [(os.POSIX_SPAWN_CLOSE, number) for number in strays]
    return os.posix_spawn(
        program.path,
        [os.fsencode(program.path), *map(os.fsencode, command.arguments)],
        {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        file_actions=[*closing, *((os.POSIX_SPAWN_DUP2, ours, theirs) for ours, theirs in kept)],
        setpgroup=0,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them; the program shall not
    )
