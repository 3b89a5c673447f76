"""The real discord.py against the loopback Discord: connect, hear, send, resume, and the other things a bot does."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
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
        super().__init__(intents=intents, guild_ready_timeout=0.05)
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


async def test_reconnect_on_request_resumes_and_an_invalid_session_begins_anew(api: DiscordApi, bot: Bot) -> None:
    await api.gateway.reconnect()
    await bot.until(lambda: bot.seen("resumed"))
    assert len(api.gateway.identifies) == 1
    api.gateway.forget_sessions()
    api.gateway.drop()
    await api.wait_for(lambda: not api.gateway.connected)
    api.user_says(CHANNEL, "lost")
    await bot.until(lambda: len(bot.seen("ready")) == 2)
    assert len(api.gateway.identifies) == 2
    assert bot.texts() == []
    channel = bot.get_channel(CHANNEL)
    assert isinstance(channel, discord.TextChannel)
    assert [message.content async for message in channel.history()] == ["lost"]


async def test_a_wrong_token_ends_the_start(api: DiscordApi) -> None:
    async with Bot() as bot:
        with pytest.raises(discord.LoginFailure):
            await bot.start("wrong")
    assert [call.status for call in api.all_calls] == [401]


async def test_a_privileged_intent_that_is_switched_off_ends_the_start(api: DiscordApi) -> None:
    api.disallow(Intent.MESSAGE_CONTENT)
    async with Bot() as bot:
        with pytest.raises(discord.PrivilegedIntentsRequired):
            await bot.start(api.token)
    assert api.gateway.closed == [Close.DISALLOWED_INTENTS]
    assert not discord.ApplicationFlags._from_value(api.gateway.application_flags()).gateway_message_content_limited


async def test_without_the_content_intent_only_dms_mentions_and_own_messages_can_be_read(api: DiscordApi) -> None:
    async with connected(api, Bot(content=False)) as bot:
        said = api.user_says(CHANNEL, "private", files=[("a.txt", b"a", "text/plain")])
        api.user_says(CHANNEL, api.mention("public"))
        api.user_says(5, "hello")
        await bot.until(lambda: len(bot.heard) == 3)
        assert bot.texts() == ["", f"<@{api.bot_id}> public", "hello"]
        assert bot.heard[0].attachments == []
        api.user_says(CHANNEL, "an answer", reply_to=said, ping=False)
        await bot.until(lambda: len(bot.heard) == 4)
        assert bot.heard[3].reference is not None
        resolved = bot.heard[3].reference.resolved
        assert isinstance(resolved, discord.Message)
        assert (resolved.id, resolved.content) == (said, "")


async def test_the_rate_limit_is_waited_for_and_a_bad_gateway_tried_again(api: DiscordApi, bot: Bot) -> None:
    channel = bot.get_partial_messageable(CHANNEL)
    api.faults.add(rate_limited(Route.CREATE_MESSAGE, 0.2, channel_id=CHANNEL))
    await channel.send("one")
    first, second = api.calls(Route.CREATE_MESSAGE)
    assert (first.status, first.ok, second.ok) == (429, False, True)
    assert second.at_monotonic - first.at_monotonic >= 0.2
    api.faults.add(bad_gateway(Route.CREATE_MESSAGE))
    await channel.send("two")
    assert api.texts(CHANNEL) == ["one", "two"]
    api.faults.add(Fault(route=Route.CREATE_MESSAGE, retry_after_s=60.0, via=False))
    with pytest.raises(discord.HTTPException, match="429"):
        await channel.send("three")


async def test_the_client_keeps_within_the_limits_it_is_told(api: DiscordApi, bot: Bot) -> None:
    api.limits.set(Route.CREATE_MESSAGE, calls=2, per_s=0.3)
    channel = bot.get_partial_messageable(CHANNEL)
    for number in range(5):
        await channel.send(str(number))
    calls = api.calls(Route.CREATE_MESSAGE)
    assert all(call.ok for call in calls)
    assert calls[-1].at_monotonic - calls[0].at_monotonic >= 0.5


async def test_a_lost_answer_can_be_asked_for_again_with_the_same_nonce(api: DiscordApi, bot: Bot) -> None:
    channel = bot.get_partial_messageable(CHANNEL)
    fault = api.faults.add(answer_lost(channel_id=CHANNEL))
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await channel.send("once", nonce="outbox-7")
    assert api.faults.hits(fault) == 1
    again = await channel.send("once", nonce="outbox-7")
    assert api.texts(CHANNEL) == ["once"]
    assert again.id == api.sent[0].message_id
    assert [call.nonce for call in api.calls(Route.CREATE_MESSAGE)] == ["outbox-7", "outbox-7"]


async def test_files_go_both_ways(api: DiscordApi, bot: Bot) -> None:
    api.user_says(CHANNEL, "look", files=[("a.txt", b"from Ada", "text/plain")])
    await bot.until(lambda: bot.heard)
    (attachment,) = bot.heard[0].attachments
    assert (attachment.filename, attachment.size, attachment.content_type) == ("a.txt", 8, "text/plain")
    assert await attachment.read() == b"from Ada"
    sent = await bot.heard[0].channel.send("there", file=discord.File(io.BytesIO(b"from the bot"), "b.txt"))
    assert await sent.attachments[0].read() == b"from the bot"
    assert api.sent[0].files == ("b.txt",)
    api.world.clock.advance(100_000)
    with pytest.raises(discord.NotFound):
        await attachment.read()


async def test_edits_deletes_reactions_and_typing_work_and_are_heard(api: DiscordApi, bot: Bot) -> None:
    said = api.user_says(CHANNEL, "helo")
    await bot.until(lambda: bot.heard)
    api.edit(CHANNEL, said, "hello")
    api.react(CHANNEL, said, "👍")
    await bot.until(lambda: bot.seen("message_edit") and bot.seen("raw_reaction_add"))
    assert bot.heard[0].content == "hello"
    await bot.heard[0].add_reaction("👀")
    sent = await bot.heard[0].channel.send("one")
    await sent.edit(content="two")
    assert api.texts(CHANNEL) == ["two"]
    await sent.delete()
    assert api.texts(CHANNEL) == []
    async with bot.heard[0].channel.typing():
        await api.wait_for(lambda: api.typing == [CHANNEL])
    fetched = await bot.heard[0].channel.fetch_message(said)
    assert {str(reaction.emoji): reaction.count for reaction in fetched.reactions} == {"👍": 1, "👀": 1}
    api.delete(CHANNEL, said)
    await bot.until(lambda: bot.seen("message_delete"))


async def test_a_thread_is_made_from_a_message_and_written_in(api: DiscordApi, bot: Bot) -> None:
    said = api.user_says(CHANNEL, "a long question")
    await bot.until(lambda: bot.heard)
    thread = await bot.heard[0].create_thread(name="An answer")
    assert thread.id == said
    await thread.send("inside")
    assert api.texts(said) == ["inside"]
    assert api.texts(CHANNEL) == []
    with pytest.raises(discord.HTTPException) as refused:
        await bot.heard[0].create_thread(name="Another")
    assert refused.value.code == 160004
    api.user_says(THREAD, "in a thread")
    await bot.until(lambda: "in a thread" in bot.texts())
    assert isinstance(bot.heard[-1].channel, discord.Thread)
    assert bot.heard[-1].channel.parent_id == CHANNEL


async def test_commands_are_synced_used_deferred_and_answered(api: DiscordApi, bot: Bot) -> None:
    used: list[tuple[discord.Interaction, str]] = []

    @bot.tree.command(name="ask", description="Ask something")
    async def ask(interaction: discord.Interaction, text: str) -> None:
        used.append((interaction, text))
        await interaction.response.defer(thinking=True)
        bot.bell.ring()

    synced = await bot.tree.sync()
    assert [command.name for command in synced] == ["ask"]
    made = api.slash(CHANNEL, "ask", text="why?")
    await bot.until(lambda: used and api.calls(Route.CALLBACK))
    interaction, text = used[0]
    assert (text, interaction.id, interaction.user.id, interaction.channel_id) == ("why?", made.id, 111, CHANNEL)
    assert api.texts(CHANNEL) == []  # "is thinking"
    await interaction.followup.send("because")
    assert api.texts(CHANNEL) == ["because"]
    await interaction.edit_original_response(content="because of that")
    await interaction.followup.send("and this")
    assert api.texts(CHANNEL) == ["because of that", "and this"]
    api.world.clock.advance(901)
    with pytest.raises(discord.HTTPException) as refused:
        await interaction.followup.send("too late")
    assert refused.value.code == 50027


async def test_a_press_is_heard_acknowledged_once_and_in_time(api: DiscordApi, bot: Bot) -> None:
    pressed: list[discord.Interaction] = []
    view = discord.ui.View(timeout=None)
    button: discord.ui.Button[discord.ui.View] = discord.ui.Button(label="Yes", custom_id="yes")

    async def callback(interaction: discord.Interaction) -> None:
        pressed.append(interaction)
        bot.bell.ring()

    button.callback = callback  # type: ignore[method-assign]  # the SDK's own way
    view.add_item(button)
    sent = await bot.get_partial_messageable(CHANNEL).send("Sure?", view=view)
    made = api.press(CHANNEL, sent.id, "yes")
    await bot.until(lambda: pressed)
    assert pressed[0].message is not None
    assert pressed[0].message.id == sent.id
    await pressed[0].response.edit_message(content="Sure.", view=None)
    assert api.texts(CHANNEL) == ["Sure."]
    assert made.answer is not None
    with pytest.raises(ValueError, match="no button"):
        api.press(CHANNEL, sent.id, "yes")
    sent = await bot.get_partial_messageable(CHANNEL).send("Sure?", view=view)
    api.press(CHANNEL, sent.id, "yes")
    await bot.until(lambda: len(pressed) == 2)
    api.world.clock.advance(3.1)
    with pytest.raises(discord.NotFound) as refused:
        await pressed[1].response.defer()
    assert refused.value.code == 10062


async def test_a_bot_that_is_removed_from_a_guild_is_told_and_shut_out(api: DiscordApi, bot: Bot) -> None:
    api.kick(GUILD)
    await bot.until(lambda: bot.seen("guild_remove"))
    for channel_id in (CHANNEL, THREAD):
        with pytest.raises(discord.Forbidden) as refused:
            await bot.get_partial_messageable(channel_id).send("x")
        assert refused.value.code == 50001
    api.admit(GUILD)
    await bot.until(lambda: len(bot.seen("guild_join")) == 1)
    await bot.get_partial_messageable(CHANNEL).send("x")
    assert api.texts(CHANNEL) == ["x"]


async def test_a_server_that_goes_down_is_found_again_on_its_port(api: DiscordApi, bot: Bot) -> None:
    port = api.port
    await api.go_down()
    assert not api.gateway.connected
    api.user_says(CHANNEL, "while down")
    await api.come_up()
    await bot.until(lambda: "while down" in bot.texts())
    assert api.port == port
