"""Journeys over Discord: talk, threads, reminders, outages and kills, with the real process on the gateway.

A send with an unknown outcome is repeated with its nonce, so here no kill may show anything twice. A bot cannot
ask for DMs it does not know: whoever is to be caught up with has written before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.journeys.test_kill_points import BEGINNING, GROWN, PLAIN
from tests.platforms.bot_api import BotApi
from tests.platforms.discord_api import DiscordApi
from tests.platforms.discord_faults import answer_lost, rate_limited
from tests.platforms.discord_objects import Route
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service, free_port

ADA, BEN = 80_351_110_224_678_912, 80_351_110_224_678_913
ADA_DM, BEN_DM = 319_674_150_115_610_528, 319_674_150_115_610_529
GUILD, TEAM = 197_038_439_483_310_086, 197_038_439_483_310_087
TELEGRAM_ADA = 111


@pytest.fixture
async def discord() -> AsyncIterator[DiscordApi]:
    """Discord, as one bot sees it."""
    async with DiscordApi() as api:
        api.add_dm(ADA, channel_id=ADA_DM)
        api.add_dm(BEN, channel_id=BEN_DM, name="Ben")
        api.add_channel(TEAM, GUILD, "team")
        yield api


@pytest.fixture
async def service(tmp_path: Path, discord: DiscordApi, model: OpenAIApi) -> AsyncIterator[Service]:
    """An installation on Discord alone, not started yet."""
    async with Service(tmp_path, discord=discord, model=model) as installed:
        yield installed
        assert discord.token not in installed.log_text()


async def connect(discord: DiscordApi, service: Service, *, fault: str = "") -> None:
    """Start the service and wait until it hears what is said."""
    before = discord.gateway.ready_count
    await service.start(fault=fault)
    await discord.wait_for(lambda: discord.gateway.ready_count > before)


async def greet(discord: DiscordApi, channel_id: int, text: str = "before") -> None:
    """Let a talk begin, so that its channel is known."""
    said = text if discord.world.channels[channel_id].guild_id is None else discord.mention(text)
    discord.user_says(channel_id, said, user_id=None if said is text else ADA)
    await discord.wait_for(lambda: discord.texts(channel_id))


async def test_a_conversation_is_answered_in_order(discord: DiscordApi, service: Service) -> None:
    await connect(discord, service)
    discord.user_says(ADA_DM, "one")
    discord.user_says(BEN_DM, "three")
    discord.user_says(ADA_DM, "two")
    await discord.wait_for(lambda: "two" in discord.texts(ADA_DM) and discord.texts(BEN_DM))
    assert discord.texts(ADA_DM) == ["one", "two"]
    assert discord.texts(BEN_DM) == ["three"]
    assert await service.stop() == 0


async def test_in_a_channel_a_mention_and_a_reply_to_the_bot_are_answered_once(
    discord: DiscordApi, model: OpenAIApi, service: Service
) -> None:
    model.when("weather", lambda request: Reply(text="Sunny."))
    await connect(discord, service)
    other = discord.user_says(TEAM, "no business of yours: weather", user_id=BEN)
    discord.user_says(TEAM, "indeed, the weather", user_id=ADA, reply_to=other)
    discord.user_says(TEAM, discord.mention("weather?"), user_id=ADA)
    await discord.wait_for(lambda: discord.texts(TEAM))
    discord.redeliver()
    answer = int(discord.own_messages(TEAM)[0]["id"])
    discord.user_says(TEAM, "weather tomorrow?", user_id=ADA, reply_to=answer, ping=False)
    await discord.wait_for(lambda: len(discord.texts(TEAM)) > 1)
    await greet(discord, ADA_DM)
    assert discord.texts(TEAM) == ["Sunny.", "Sunny."]
    assert model.request_count == 3


async def test_a_reminder_set_in_a_thread_comes_to_that_thread(
    discord: DiscordApi, model: OpenAIApi, service: Service
) -> None:
    call = ("cron", {"action": "add", "in_seconds": 1, "text": "kettle!"})
    model.when("kettle", [Reply(tool_calls=[call]), Reply(text="I will.")])
    thread = discord.add_thread(discord.world.snowflake(), TEAM, "tea for everybody", owner_id=ADA).id
    await connect(discord, service)
    discord.user_says(thread, discord.mention("kettle, please"), user_id=ADA)
    await discord.wait_for(lambda: len(discord.texts(thread)) == 2)
    assert discord.texts(thread) == ["I will.", "kettle!"]
    assert discord.texts(TEAM) == []


async def test_threads_of_a_channel_are_talks_of_their_own(
    discord: DiscordApi, model: OpenAIApi, service: Service
) -> None:
    first, second = (discord.add_thread(discord.world.snowflake(), TEAM, name, owner_id=ADA).id for name in "ab")
    await connect(discord, service)
    discord.user_says(first, discord.mention("the word is aardvark"), user_id=ADA)
    await discord.wait_for(lambda: discord.texts(first))
    discord.user_says(second, discord.mention("what is the word?"), user_id=ADA)
    await discord.wait_for(lambda: discord.texts(second))
    assert "aardvark" not in str(model.requests[-1]["messages"])


async def test_messages_of_an_outage_are_caught_up_from_the_history(
    discord: DiscordApi, model: OpenAIApi, service: Service
) -> None:
    thread = discord.add_thread(discord.world.snowflake(), TEAM, "a thread", owner_id=ADA).id
    await connect(discord, service)
    for channel_id in (ADA_DM, TEAM, thread):
        await greet(discord, channel_id)
    assert await service.stop() == 0
    await discord.go_down()
    discord.user_says(ADA_DM, "first of the outage")
    discord.user_says(TEAM, "for nobody", user_id=ADA)
    discord.user_says(TEAM, discord.mention("in the channel"), user_id=ADA)
    discord.user_says(thread, discord.mention("in the thread"), user_id=ADA)
    discord.user_says(ADA_DM, "second of the outage")
    await service.start()
    await discord.come_up()
    await discord.wait_for(lambda: "second of the outage" in discord.texts(ADA_DM))
    await discord.wait_for(lambda: len(discord.texts(TEAM)) == len(discord.texts(thread)) == 2)
    discord.user_says(ADA_DM, "after")
    await discord.wait_for(lambda: "after" in discord.texts(ADA_DM))
    assert discord.texts(ADA_DM) == ["before", "first of the outage", "second of the outage", "after"]
    assert len(discord.texts(TEAM)) == len(discord.texts(thread)) == 2
    assert model.request_count == 8


async def test_a_cut_connection_takes_no_message_with_it(discord: DiscordApi, service: Service) -> None:
    await connect(discord, service)
    await greet(discord, ADA_DM)
    discord.gateway.drop()
    discord.user_says(ADA_DM, "meanwhile")
    await discord.wait_for(lambda: "meanwhile" in discord.texts(ADA_DM))
    await discord.gateway.reconnect()
    discord.user_says(ADA_DM, "after")
    await discord.wait_for(lambda: "after" in discord.texts(ADA_DM))
    assert discord.texts(ADA_DM) == ["before", "meanwhile", "after"]
    assert len(discord.gateway.identifies) == 1


async def test_events_lost_with_a_session_that_cannot_be_resumed_are_caught_up(
    discord: DiscordApi, service: Service
) -> None:
    await connect(discord, service)
    await greet(discord, ADA_DM)
    await greet(discord, TEAM)
    discord.gateway.forget_sessions()
    discord.gateway.drop()
    await discord.wait_for(lambda: not discord.gateway.connected)
    discord.user_says(ADA_DM, "into the gap")
    discord.user_says(TEAM, discord.mention("the same here"), user_id=ADA)
    await discord.wait_for(lambda: "into the gap" in discord.texts(ADA_DM) and len(discord.texts(TEAM)) == 2)
    discord.user_says(ADA_DM, "after")
    await discord.wait_for(lambda: "after" in discord.texts(ADA_DM))
    assert discord.texts(ADA_DM) == ["before", "into the gap", "after"]
    assert len(discord.gateway.identifies) == 2


async def test_an_answer_whose_connection_broke_is_repeated_with_its_nonce_and_shown_once(
    discord: DiscordApi, service: Service
) -> None:
    discord.faults.add(answer_lost())
    await connect(discord, service)
    await greet(discord, ADA_DM, "hello")
    discord.user_says(ADA_DM, "next")
    await discord.wait_for(lambda: "next" in discord.texts(ADA_DM))
    assert discord.texts(ADA_DM) == ["hello", "next"]


async def test_a_rate_limit_delays_one_channel_and_no_other(discord: DiscordApi, service: Service) -> None:
    fault = discord.faults.add(rate_limited(Route.CREATE_MESSAGE, 2.0, channel_id=ADA_DM))
    await connect(discord, service)
    discord.user_says(ADA_DM, "slow chat")
    await discord.wait_for(lambda: discord.faults.hits(fault))
    discord.user_says(BEN_DM, "fast chat")
    await discord.wait_for(lambda: discord.texts(BEN_DM))
    assert discord.texts(ADA_DM) == []
    await discord.wait_for(lambda: discord.texts(ADA_DM))
    refused, *_, sent = [call for call in discord.calls(Route.CREATE_MESSAGE) if call.channel_id == ADA_DM]
    assert sent.at_monotonic - refused.at_monotonic >= 2
    assert discord.texts(ADA_DM) == ["slow chat"]


async def test_a_chat_that_is_closed_to_the_bot_stops_no_other(discord: DiscordApi, service: Service) -> None:
    await connect(discord, service)
    discord.close_dms(ADA)
    discord.user_says(ADA_DM, "can you hear me?")
    await discord.wait_for(lambda: any(call.code == 50007 for call in discord.calls(Route.CREATE_MESSAGE)))
    await greet(discord, BEN_DM)
    assert discord.texts(BEN_DM) == ["before"]
    assert sum(call.code == 50007 for call in discord.calls(Route.CREATE_MESSAGE)) == 1
    assert service.running


async def test_discord_down_at_the_start_makes_it_unready_until_discord_is_back(
    discord: DiscordApi, service: Service
) -> None:
    service.configure(service.sections, {"server": {"listen": f"127.0.0.1:{free_port()}"}})
    await discord.go_down()
    await service.start()
    assert (await service.health("/healthz"))[0] == 200
    assert (await service.health("/readyz"))[0] == 503
    await discord.come_up()
    await discord.wait_for(lambda: discord.gateway.connected)
    await greet(discord, ADA_DM, "anybody home?")
    assert await service.health("/readyz") == (200, {"ok": True, "channels": {"discord": "ready"}})


async def test_a_refused_token_leaves_the_other_channel_running(
    tmp_path: Path, discord: DiscordApi, telegram: BotApi, model: OpenAIApi
) -> None:
    wrong = "discord-token.refused"
    async with Service(tmp_path, telegram=telegram, discord=discord, model=model) as service:
        service.configure(service.sections, {"channels.discord": {"token": wrong}})
        await service.start()
        telegram.user_says(TELEGRAM_ADA, "hello")
        await telegram.wait_for(lambda: telegram.texts(TELEGRAM_ADA))
        status = await service.status()
        assert status["channels"]["discord"]["state"] == "failed"
        assert "token" in status["channels"]["discord"]["problem"]
        assert status["channels"]["telegram"]["state"] == "ready"
        assert wrong not in service.log_text()
        assert await service.stop() == 0


async def test_a_refused_token_ends_a_service_that_has_nothing_else(discord: DiscordApi, service: Service) -> None:
    service.configure(service.sections, {"channels.discord": {"token": "discord-token.refused"}})
    await service.launch()
    assert await service.wait_exit() == 78
    assert "Discord" in service.log_text()


async def test_both_channels_are_served_side_by_side(
    tmp_path: Path, discord: DiscordApi, telegram: BotApi, model: OpenAIApi
) -> None:
    async with Service(tmp_path, telegram=telegram, discord=discord, model=model) as service:
        await connect(discord, service)
        discord.user_says(ADA_DM, "over Discord")
        telegram.user_says(TELEGRAM_ADA, "over Telegram")
        await discord.wait_for(lambda: discord.texts(ADA_DM))
        await telegram.wait_for(lambda: telegram.texts(TELEGRAM_ADA))
        assert discord.texts(ADA_DM) == ["over Discord"]
        assert telegram.texts(TELEGRAM_ADA) == ["over Telegram"]


@pytest.mark.parametrize("point", PLAIN)
async def test_a_kill_at_any_point_loses_and_doubles_nothing(discord: DiscordApi, service: Service, point: str) -> None:
    await connect(discord, service, fault=f"{point}:3")
    await greet(discord, ADA_DM)
    await greet(discord, BEN_DM)
    discord.user_says(ADA_DM, "one")
    await service.die()
    discord.user_says(ADA_DM, "two")
    discord.user_says(BEN_DM, "three")
    await service.start()
    await discord.wait_for(lambda: "two" in discord.texts(ADA_DM) and "three" in discord.texts(BEN_DM))
    assert discord.texts(ADA_DM) == ["before", "one", "two"]
    assert discord.texts(BEN_DM) == ["before", "three"]


@pytest.mark.parametrize("point", ["sending:2", "sent:2", "settled:2"])
async def test_a_kill_around_a_reminder_in_a_thread_loses_and_doubles_nothing(
    discord: DiscordApi, model: OpenAIApi, service: Service, point: str
) -> None:
    call = ("cron", {"action": "add", "in_seconds": 0.5, "text": "stretch now"})
    model.when("stretch", [Reply(tool_calls=[call]), Reply(text="I will.")])
    thread = discord.add_thread(discord.world.snowflake(), TEAM, "our backs", owner_id=ADA).id
    await connect(discord, service, fault=point)
    discord.user_says(thread, discord.mention("remind us to stretch"), user_id=ADA)
    await service.die()
    await connect(discord, service)
    discord.user_says(ADA_DM, "next")
    await discord.wait_for(lambda: len(discord.texts(thread)) >= 2 and discord.texts(ADA_DM))
    assert discord.texts(thread) == ["I will.", "stretch now"]
    assert discord.texts(TEAM) == []


async def test_a_long_answer_goes_on_with_the_part_at_which_the_process_was_killed(
    discord: DiscordApi, model: OpenAIApi, service: Service
) -> None:
    parts = [letter * 1_900 for letter in "abc"]
    model.when("long", [Reply(text="\n\n".join(parts))])
    await connect(discord, service, fault="sent:2")
    discord.user_says(ADA_DM, "something long")
    await service.die()
    await connect(discord, service)
    await discord.wait_for(lambda: parts[-1] in discord.texts(ADA_DM))
    discord.user_says(BEN_DM, "next")
    await discord.wait_for(lambda: discord.texts(BEN_DM))
    # The draft that the killed process had shown is the affair of drafts; here the parts of the answer count.
    assert [text for text in discord.texts(ADA_DM) if len(text) == len(parts[0])] == parts


@pytest.mark.parametrize("point", ["drafted", "draft-saved", "finished"])
async def test_a_kill_in_mid_stream_leaves_no_beginning_above_the_answer(
    discord: DiscordApi, model: OpenAIApi, service: Service, point: str
) -> None:
    go_on = asyncio.Event()
    chunks = [BEGINNING, GROWN.removeprefix(BEGINNING)]
    model.when("grow", lambda _: Reply(text=GROWN, chunks=chunks, stall_after=2, stall_until=go_on))
    await connect(discord, service, fault=point)
    discord.user_says(ADA_DM, "grow")
    await discord.wait_for(lambda: discord.texts(ADA_DM) == [BEGINNING])
    go_on.set()
    await service.die()
    await connect(discord, service)
    discord.user_says(ADA_DM, "and now?")
    await discord.wait_for(lambda: "and now?" in discord.texts(ADA_DM))
    assert discord.texts(ADA_DM) == [GROWN, "and now?"]
