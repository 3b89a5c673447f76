"""Reading pages without letting them near: the bot's side of the process in `reader_process.py`.

Finding the article of a page takes libraries that are slow to load and that hostile markup can hold for minutes.
"""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass

import orjson

from bot.security.confined import end_confined, start_confined
from bot.web.errors import WebError

MAX_CHARS = 1_000_000
"""The most text that one page gives."""

AT_ONCE = 4
CPU_S = 8
"""Processor time for finding the article; a page that needs more is given as all its text, within the same again."""

MEMORY_BYTES = 1 << 30
IDLE_S = 300.0
"""How long the process waits for another page before it ends."""

_ANSWER_BYTES = 12 * MAX_CHARS + 64 * 1024  # JSON writes the longest characters as two escapes
_WALL_FACTOR = 4  # of the processor time; the child itself ends at twice that
_CHUNK_BYTES = 256 * 1024
_PROCESS = "bot.web.reader_process"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """What there is to read: the page's `article`, or else all its text; `total_chars` before it was cut."""

    title: str
    text: str
    article: bool
    total_chars: int


class PageReader:
    """Has one process as long as pages are read; none before the first page."""

    def __init__(self, *, cpu_s: int = CPU_S, memory_bytes: int = MEMORY_BYTES, idle_s: float = IDLE_S) -> None:
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes
        self._idle_s = idle_s
        self._is_closed = False
        self._places = asyncio.Semaphore(AT_ONCE)
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The process that is there now."""
        return self._process.pid if self._process is not None else None

    async def _ensure_process(self) -> None:
        async with self._starting:
            if self._is_closed:
                raise WebError("pages are no longer read: the bot is ending")
            if self._process is not None and self._process.returncode is None:
                return
            await self._end()
            control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                with theirs:
                    control.setblocking(False)
                    process = await self._start(theirs.fileno())
            except BaseException:
                control.close()
                raise
            self._control, self._process = control, process  # both or none: others look meanwhile

    async def _start(self, control_fd: int) -> asyncio.subprocess.Process:
        return await start_confined(_PROCESS, str(control_fd), str(self._idle_s), descriptors=(control_fd,))

    async def read(self, markup: str, url: str, *, markdown: bool) -> PageText:
        """Return what there is to read on a page; `url` makes its links absolute.

        Raises:
            WebError: it cannot be read within the limits.
        """
        async with self._places:
            for plain in (False, True):
                answer = await self._ask(markup, url, markdown=markdown, plain=plain)
                if answer:
                    try:
                        return PageText(**orjson.loads(answer))
                    except (orjson.JSONDecodeError, TypeError):  # whatever the markup made of the child
                        break
        raise WebError("the page's markup cannot be read within the limits")

    async def close(self) -> None:
        """End the process and with it the pages being read; idempotent, and nothing is read any more."""
        self._is_closed = True
        async with self._starting:  # one that is just being started would be left behind
            await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        control, self._control = self._control, None
        if control is not None:
            control.close()
        if process is not None:
            await end_confined(process)

    async def _ask(self, markup: str, url: str, *, markdown: bool, plain: bool) -> bytes:
        """Have a page read; b'' if the child ended without an answer."""
        order = {
            "url": url,
            "markdown": markdown,
            "plain": plain,
            "max_chars": MAX_CHARS,
            "cpu_s": self._cpu_s,
            "memory_bytes": self._memory_bytes,
        }
        page = await asyncio.to_thread(_in_memory, markup)
        try:
            ours = await self._send(orjson.dumps(order), page) or await self._send(orjson.dumps(order), page)
        finally:
            os.close(page)
        if ours is None:
            return b""
        asked = self._control
        try:
            async with asyncio.timeout(_WALL_FACTOR * self._cpu_s):
                return await _all_of(ours)
        except TimeoutError:
            if self._control is asked:  # else another page has found out before
                await self._end()
            return b""

    async def _send(self, order: bytes, page: int) -> int | None:
        """Send an order and return the pipe its answer comes through; None if the process has just ended."""
        await self._ensure_process()
        if self._control is None:  # another page has just found out that the process hangs
            return None
        ours, theirs = os.pipe()
        try:
            socket.send_fds(self._control, [order], [page, theirs])
        except OSError:
            os.close(ours)
            await self._end()
            return None
        finally:
            os.close(theirs)
        return ours


def _in_memory(markup: str) -> int:
    descriptor = os.memfd_create("page")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(markup.encode("utf-8", "replace"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def _all_of(descriptor: int) -> bytes:
    """Return all that comes out of a pipe until its other end is closed, b'' if it is too much; closes it."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    taken = bytearray()
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            taken += chunk
            if len(taken) > _ANSWER_BYTES:
                return b""
    finally:
        transport.close()
    return bytes(taken)
