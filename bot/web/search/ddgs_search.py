"""Search without a key: the `ddgs` library, which asks several public engines and reads their pages.

The library is synchronous, does not limit what it reads into memory, and waits for its own threads at the end. So
each search is a process of its own (`ddgs_process.py`): it is killed when it is too slow or nobody waits for it any
more, it has a memory limit, and no thread of this process is used.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from bot.security.confined import end_confined, start_confined
from bot.web.search.engine import ENGINE_LIMIT_S, EngineFailed, Found

AT_ONCE = 3
"""Processes at the same time, about 40 MB each; who comes later waits, within the time of one search."""

MEMORY_BYTES = 1 << 30

_ANSWER_BYTES = 1 << 20
_PROCESS = "bot.web.search.ddgs_process"
# Where operators tell OpenSSL about their own certificate authority. Nothing else of the environment is passed on.
_PASSED_ON = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class DdgsSearch:
    """Public engines without a key. With `base_url` DuckDuckGo's engine alone, at that address."""

    name = "ddgs"

    def __init__(
        self, *, base_url: str | None = None, proxy: str | None = None, limit_s: float = ENGINE_LIMIT_S
    ) -> None:
        self._base_url = base_url
        self._proxy = proxy
        self._limit_s = limit_s
        self._places = asyncio.Semaphore(AT_ONCE)

    async def search(self, query: str, count: int) -> list[Found]:
        """See `SearchEngine.search`."""
        order = {
            "query": query,
            "count": count,
            "base_url": self._base_url,
            "proxy": self._proxy,
            "limit_s": self._limit_s,
            "memory_bytes": MEMORY_BYTES,
        }
        try:
            async with asyncio.timeout(self._limit_s), self._places:
                answer = await _run(orjson.dumps(order))
        except TimeoutError:
            raise EngineFailed(f"no answer within {self._limit_s:g} s") from None
        return _found(answer)


async def _run(order: bytes) -> bytes:
    """Return what the process answers, b'' if it fails; it has ended when this returns or raises."""
    try:
        process = await start_confined(
            _PROCESS, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, environment=_PASSED_ON
        )
    except OSError as exc:
        raise EngineFailed("its process cannot be started") from exc
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(order)
        process.stdin.close()
        try:
            await process.stdout.readexactly(_ANSWER_BYTES)  # so much is never an answer
        except asyncio.IncompleteReadError as end:
            await process.wait()
            return end.partial
        return b""
    finally:
        await end_confined(process)


def _found(answer: bytes) -> list[Found]:
    try:
        value: Any = orjson.loads(answer)
        if "failed" in value:
            raise EngineFailed(str(value["failed"]))
        return [Found(title=title, url=url, snippet=snippet) for title, url, snippet in value["found"]]
    except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as exc:
        raise EngineFailed("what the engines answered cannot be read") from exc
