"""The client that the factory builds: without network, and what of the SDK's habits it makes up for."""

from __future__ import annotations

import asyncio
from typing import Any

import discord
import pytest
from pydantic import SecretStr

from bot.clock import SystemClock
from bot.errors import ChannelError
from channels.discord.client import GatewayClient
from channels.discord.config import DiscordConfig
from channels.discord.interactions import OpenAnswers
from channels.discord.session import build_session
from tests.channels.harness_discord import QUICK

CONFIG = DiscordConfig(token=SecretStr("x.y.z"))


class Stubborn(GatewayClient):
    """A client whose connection goes on after the first cancellation, as the SDK's does at times."""

    cancelled = 0

    async def connect(self, *, reconnect: bool = True) -> None:
        while self.cancelled < 2:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled += 1
        raise asyncio.CancelledError


def test_the_factory_builds_without_network_and_without_a_running_loop() -> None:
    clock = SystemClock()
    session = build_session(CONFIG, QUICK, clock, OpenAnswers(clock))
    intents = discord.Intents.none()
    intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
    assert session.client.intents == intents
    assert not session.client.is_ready()
    assert session.warning == ""


def test_a_client_without_the_content_intent_says_what_is_missing() -> None:
    clock = SystemClock()
    session = build_session(CONFIG, QUICK, clock, OpenAnswers(clock), content=False)
    assert not session.client.intents.message_content
    assert "Message Content Intent" in session.warning


async def test_what_was_never_opened_can_be_closed_and_cannot_be_used() -> None:
    clock = SystemClock()
    session = build_session(CONFIG, QUICK, clock, OpenAnswers(clock))
    with pytest.raises(ChannelError, match="not connected"):
        await session.api.call("GET", "/users/@me", timeout_s=1)
    await session.client.close()


async def test_a_cancellation_that_the_sdk_drops_is_repeated() -> None:
    client = Stubborn(QUICK, content=True)
    task = asyncio.create_task(client.listen())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()
    assert client.cancelled == 2


async def test_an_event_that_the_sdk_stumbles_over_is_skipped() -> None:
    client = GatewayClient(QUICK, content=True)
    heard: list[tuple[str, Any]] = []
    client.sink = lambda name, data: heard.append((name, data))
    for name in ("CHANNEL_CREATE", "GUILD_DELETE", "THREAD_UPDATE"):
        client._connection.parsers[name]({"odd": True})
    assert heard == [("GUILD_DELETE", {"odd": True})]
