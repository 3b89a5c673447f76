"""Reading a document: hands it to a process of its own, bounds what that may use, and takes the text.

One process per document: what a hostile file does to the parser ends with it, and never meets another chat's
file. The process gets the open file as its stdin, no keys, no path, and limits of its own (`worker.py`); this
side bounds wall time and output, and ends it when the call is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import BinaryIO

import orjson

from bot.documents.contract import (
    MAX_CHARS,
    DocumentError,
    DocumentKind,
    DocumentProblem,
    DocumentText,
    parse_pages,
)
from bot.log import get_logger
from bot.security.confined import end_confined, start_confined

AT_ONCE = 2
WALL_S = 60.0
CPU_S = 30
MEMORY_BYTES = 1 << 30

_OUTPUT_BYTES_PER_CHAR = 8
_OUTPUT_EXTRA_BYTES = 1 << 18
_CHUNK_BYTES = 1 << 16
_WORKER = "bot.documents.worker"

_log = get_logger(__name__)


class Documents:
    """The reader processes of this bot: at most `AT_ONCE` at a time, none while nobody reads."""

    def __init__(self, *, wall_s: float = WALL_S, cpu_s: int = CPU_S, memory_bytes: int = MEMORY_BYTES) -> None:
        self._wall_s = wall_s
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes
        self._places = asyncio.Semaphore(AT_ONCE)
        self._running: set[asyncio.subprocess.Process] = set()

    @property
    def pids(self) -> frozenset[int]:
        """The processes that are reading now."""
        return frozenset(process.pid for process in self._running)

    async def read(
        self,
        source: BinaryIO | bytes,
        kind: DocumentKind,
        *,
        pages: str = "",
        first_line: int = 1,
        max_lines: int | None = None,
        max_chars: int = MAX_CHARS,
    ) -> DocumentText:
        """Return a part of a document's text.

        `source` is an open file, whose position moves and which the caller closes, or the bytes. `kind` may be any
        office format for another one: the file itself decides. `pages` selects pages of a PDF or slides ("1-3,7").
        Waits while `AT_ONCE` other documents are being read.

        Raises:
            DocumentError: there is no text to be had; its `problem` says why.
        """
        order = {
            "kind": kind,
            "pages": [[part.first, part.last] for part in parse_pages(pages)],
            "first_line": first_line,
            "max_lines": max_lines or MAX_CHARS,
            "max_chars": min(max_chars, MAX_CHARS),
            "cpu_s": self._cpu_s,
            "memory_bytes": self._memory_bytes,
        }
        limit_bytes = _OUTPUT_BYTES_PER_CHAR * min(max_chars, MAX_CHARS) + _OUTPUT_EXTRA_BYTES
        async with self._places:
            if isinstance(source, bytes):
                with await asyncio.to_thread(_in_memory, source) as file:
                    answer = await self._run(file, order, limit_bytes)
            else:
                answer = await self._run(source, order, limit_bytes)
        return _document_text(answer)

    async def close(self) -> None:
        """End the processes that still run; idempotent."""
        for process in list(self._running):
            await end_confined(process)

    async def _run(self, file: BinaryIO, order: dict[str, object], limit_bytes: int) -> bytes:
        process = await start_confined(
            _WORKER, orjson.dumps(order).decode(), stdin=file.fileno(), stdout=asyncio.subprocess.PIPE
        )
        self._running.add(process)
        try:
            async with asyncio.timeout(self._wall_s):
                answer = await _all_of(process, limit_bytes)
                status = await process.wait()
        except TimeoutError:
            raise DocumentError(DocumentProblem.TOO_SLOW, _too_slow(f"{self._wall_s:g} s")) from None
        finally:
            await end_confined(process)
            self._running.discard(process)
        if status == 0:
            return answer
        if status == -signal.SIGXCPU:
            raise DocumentError(DocumentProblem.TOO_SLOW, _too_slow(f"{self._cpu_s} s of processor time"))
        _log.warning("document reader failed", status=status, kind=order["kind"])
        raise DocumentError(DocumentProblem.FAILED, "cannot be read: its contents broke the reader")


def _in_memory(data: bytes) -> BinaryIO:
    file = os.fdopen(os.memfd_create("document"), "w+b")
    file.write(data)
    file.flush()
    return file


async def _all_of(process: asyncio.subprocess.Process, limit_bytes: int) -> bytes:
    assert process.stdout is not None
    taken = bytearray()
    while chunk := await process.stdout.read(_CHUNK_BYTES):
        taken += chunk
        if len(taken) > limit_bytes:
            raise DocumentError(DocumentProblem.FAILED, "cannot be read: its text is longer than it may be")
    return bytes(taken)


def _too_slow(limit: str) -> str:
    return f"cannot be read within {limit}; fewer pages at a time may work"


def _document_text(answer: bytes) -> DocumentText:
    try:
        fields = orjson.loads(answer)
        if "problem" in fields:
            _log.info("document gave no text", problem=fields["problem"], detail=fields["detail"])
            raise DocumentError(DocumentProblem(fields["problem"]), fields["message"])
        return DocumentText(
            kind=DocumentKind(fields.pop("kind")),
            lines=tuple(fields.pop("lines")),
            part_titles=tuple(fields.pop("part_titles")),
            **fields,
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise DocumentError(DocumentProblem.FAILED, "cannot be read: its contents broke the reader") from None
