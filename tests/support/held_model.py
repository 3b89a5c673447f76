"""A model that can be held, and what goes with it."""

from __future__ import annotations

import asyncio

from bot.interfaces import ModelReply, ModelRequest
from tests.support.engine import (
    AnsweringProvider,
    last_user,
    said,
)
from tests.support.providers import ScriptedProvider
from tests.support.strict_provider import violations


class Held:
    """A model that holds the requests whose text is listed until it is let go; it echoes."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)
        self.go = asyncio.Event()
        self.asked: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, request: ModelRequest) -> ModelReply:
        text = last_user(request)
        self.asked.append(text)
        if text in self.held:
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.append(text)
                raise
        return said(f"re: {text}")


def strict(provider: AnsweringProvider | ScriptedProvider) -> None:
    """Hold every request to the strictest provider's rules."""
    for request in provider.requests:
        assert violations(list(request.messages)) == []


async def asked(model: Held, count: int) -> None:
    async with asyncio.timeout(10):
        while len(model.asked) < count:
            await asyncio.sleep(0)
