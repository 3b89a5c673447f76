"""Requests to a server, each in a task of its own: who cancels one waits only a moment for the server to be told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

CANCEL_S = 0.5
"""How long a cancelled request may take to tell the server before nobody waits for it any more."""

T = TypeVar("T")


class Requests:
    """Those of one connection; holds the cancelled ones that still tell the server."""

    def __init__(self) -> None:
        self._left: set[asyncio.Task[Any]] = set()

    async def run(self, request: Awaitable[T]) -> T:
        """Await a request. Cancelling this cancels the request, and returns within `CANCEL_S` seconds."""
        task = asyncio.create_task(_awaited(request), name="request to an mcp server")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            self._left.add(task)
            task.add_done_callback(self._forget)
            await asyncio.wait({task}, timeout=CANCEL_S)
            raise

    def close(self) -> None:
        """End what is left."""
        for task in self._left:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # nobody waits for it any more


async def _awaited(request: Awaitable[T]) -> T:
    return await request
