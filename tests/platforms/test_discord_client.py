"""The real discord.py against the loopback Discord: connect, hear, send, resume, and the other things a bot does."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import discord
import pytest
import yarl
from discord import app_commands
from discord.gateway import DiscordWebSocket
from discord.http import Route as SdkRoute

from tests.platforms.discord_api import DiscordApi
from tests.platforms.discord_faults import Fault, answer_lost, bad_gateway, rate_limited
from tests.platforms.discord_gateway import Close
from tests.platforms.discord_objects import Intent, Route
from tests.platforms.loopback import Bell

GUILD, CHANNEL, THREAD = 1, 10, 20


class Bot(discord.Client):
    """A client that writes down what it hears."""

    def __init__(self, *, content: bool = True) -> None:
        intents = discord.Intents.default()
        intents.message_content = content
        super().__init__(intents=intents)
        self.bell = Bell()
        self.heard: list[discord.Message] = []
        self.events: list[tuple[str, Any]] = []
        self.tree = app_commands.CommandTree(self)

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        self.events.append((event, args[0] if args else None))
        if event == "message" and args[0].author.id != self.application_id:
            self.heard.append(args[0])
        super().dispatch(event, *args, **kwargs)
        self.bell.ring()

    async def until(self, predicate: Callable[[], Any]) -> Any:
        return await self.bell.wait_for(predicate, timeout_s=15)

    def seen(self, event: str) -> list[Any]:
        return [value for name, value in self.events if name == event]

    def texts(self) -> list[str]:
        return [message.content for message in self.heard]


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DiscordApi]:
    async with DiscordApi() as server:
        server.add_dm(channel_id=5)
        server.add_channel(CHANNEL, GUILD)
        server.add_thread(THREAD, CHANNEL)
        monkeypatch.setattr(SdkRoute, "BASE", server.url)
        monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(server.gateway_url))
        yield server


@asynccontextmanager
async def connected(api: DiscordApi, bot: Bot) -> AsyncIterator[Bot]:
    async with bot:
        task = asyncio.create_task(bot.start(api.token), name="discord.py")
        try:
            await bot.until(lambda: bot.seen("ready") or task.done())
            yield bot
        finally:
            await bot.close()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bot(api: DiscordApi) -> AsyncIterator[Bot]:
    async with connected(api, Bot()) as client:
        yield client


async def test_a_client_connects_sees_its_guild_hears_and_answers(api: DiscordApi, bot: Bot) -> None:
    assert bot.user is not None
    assert (bot.user.id, bot.user.name, bot.application_id) == (api.bot_id, api.username, api.bot_id)
    guild = bot.get_guild(GUILD)
    assert guild is not None
    assert [thread.id for thread in guild.threads] == [THREAD]
    said = api.user_says(CHANNEL, api.mention("hello"))
    await bot.until(lambda: bot.heard)
    message = bot.heard[0]
    assert (message.id, message.content, message.mentions) == (said, f"<@{api.bot_id}> hello", [guild.me])
    answer = await message.reply("hi")
    assert api.texts(CHANNEL) == ["hi"]
    assert answer.reference is not None
    assert answer.reference.message_id == said
    assert api.sent[0].reply_to == said


async def test_a_dm_is_heard_and_answered_and_one_is_opened(api: DiscordApi, bot: Bot) -> None:
    api.user_says(5, "hello")
    await bot.until(lambda: bot.heard)
    await bot.heard[0].channel.send("hi")
    assert api.texts(5) == ["hi"]
    api.add_user(222, "Ben")
    ben = await bot.fetch_user(222)
    sent = await ben.send("hello Ben")
    assert api.texts(sent.channel.id) == ["hello Ben"]


async def test_a_cut_connection_is_resumed_and_what_was_missed_is_replayed_in_order(api: DiscordApi, bot: Bot) -> None:
    api.user_says(CHANNEL, "one")
    await bot.until(lambda: bot.texts() == ["one"])
    api.gateway.drop()
    await api.wait_for(lambda: not api.gateway.connected)
    api.user_says(CHANNEL, "two")
    api.user_says(CHANNEL, "three")
    await bot.until(lambda: bot.seen("resumed") and bot.texts() == ["one", "two", "three"])
    assert len(api.gateway.identifies) == len(api.gateway.resumes) == 1
