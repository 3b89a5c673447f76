"""Journeys over Slack: talk, threads, reminders, outages and kills, with the real process on Socket Mode.

A send with an unknown outcome is looked up by its metadata, so here no kill may show anything twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.journeys.test_kill_points import PLAIN
from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.platforms.slack_api import SlackApi
from tests.platforms.slack_faults import Fault, too_many_requests
from tests.support.service import Service, free_port

TEAM = "C0TEAM00001"
ADA_DM, BEN_DM = "D0ADA000001", "D0BEN000001"
BEN = "U0BEN000001"
TELEGRAM_ADA = 111


@pytest.fixture
async def slack() -> AsyncIterator[SlackApi]:
    """Slack, as one app sees it."""
    async with SlackApi() as api:
        api.add_dm(channel_id=ADA_DM)
        api.add_user(BEN, "ben", tz="Asia/Tokyo")
        api.add_dm(BEN, BEN_DM)
        api.add_channel(TEAM, "team", members=["U0ADA000001", BEN])
        yield api
        assert api.socket.violations == []


@pytest.fixture
async def service(tmp_path: Path, slack: SlackApi, model: OpenAIApi) -> AsyncIterator[Service]:
    """An installation on Slack alone, not started yet."""
    async with Service(tmp_path, slack=slack, model=model) as installed:
        yield installed
        for secret in (slack.token, slack.app_token):
            assert secret not in installed.log_text()


async def test_a_conversation_is_answered_in_order(slack: SlackApi, service: Service) -> None:
    await service.start()
    slack.user_says(ADA_DM, "one")
    slack.user_says(BEN_DM, "three", user_id=BEN)
    slack.user_says(ADA_DM, "two")
    await slack.wait_for(lambda: "two" in slack.texts(ADA_DM) and slack.texts(BEN_DM))
    assert slack.texts(ADA_DM) == ["one", "two"]
    assert slack.texts(BEN_DM) == ["three"]
    await slack.wait_for(lambda: not slack.socket.unacknowledged(own=True))
    assert await service.stop() == 0


async def test_help_says_first_how_a_command_is_written_on_slack(slack: SlackApi, service: Service) -> None:
    await service.start()
    await slack.wait_for(lambda: slack.socket.connected)
    slack.command(ADA_DM, "/dutiful", "help")
    root = slack.user_says(TEAM, slack.mention("/help"))  # as in threads, where Slack takes no commands
    await slack.wait_for(lambda: slack.texts(ADA_DM) and slack.texts(TEAM, root))
    for (told,) in (slack.texts(ADA_DM), slack.texts(TEAM, root)):
        first, second, *_ = told.splitlines()
        assert first == "I answer messages and keep reminders."
        assert "/dutiful new" in second
        assert "@dutiful /new" in second


async def test_a_mention_that_comes_as_two_events_is_answered_once(
    slack: SlackApi, model: OpenAIApi, service: Service
) -> None:
    """C038: app_mention and message events for the same ts, and both once more."""
    model.when("weather", lambda request: Reply(text="Sunny."))
    await service.start()
    slack.user_says(TEAM, "no business of yours: weather")
    slack.user_says(TEAM, slack.mention("weather?"))
    await slack.wait_for(lambda: slack.texts(TEAM))
    slack.redeliver()
    slack.user_says(ADA_DM, "next")
    await slack.wait_for(lambda: slack.texts(ADA_DM) and slack.is_acknowledged())
    assert slack.texts(TEAM) == ["Sunny."]
    assert model.request_count == 2


async def test_an_event_is_acknowledged_while_the_model_still_thinks(
    slack: SlackApi, model: OpenAIApi, service: Service
) -> None:
    # C038: the acknowledgement waits for the commit, not for the model.
    released = asyncio.Event()
    slow = model.when("think", lambda request: Reply(text="thought", hold=released))
    await service.start()
    ts = slack.user_says(ADA_DM, "think")
    await slack.wait_for(lambda: slack.is_acknowledged(ts))
    await model.wait_for(lambda: slow.hits)
    assert "thought" not in slack.texts(ADA_DM)
    slack.redeliver(ts)
    await slack.wait_for(lambda: slack.is_acknowledged(ts))
    released.set()
    await slack.wait_for(lambda: "thought" in slack.texts(ADA_DM))
    slack.user_says(ADA_DM, "next")
    await slack.wait_for(lambda: "next" in slack.texts(ADA_DM))
    assert slack.texts(ADA_DM) == ["thought", "next"]


async def test_a_reminder_set_in_a_thread_comes_to_that_thread(
    slack: SlackApi, model: OpenAIApi, service: Service
) -> None:
    call = ("cron", {"action": "add", "in_seconds": 1, "text": "kettle!"})
    model.when("kettle", [Reply(tool_calls=[call]), Reply(text="I will.")])
    root = slack.add_thread(TEAM, "tea for everybody")
    await service.start()
    slack.user_says(TEAM, slack.mention("kettle, please"), thread_ts=root)
    await slack.wait_for(lambda: len(slack.texts(TEAM)) == 2)
    assert slack.texts(TEAM, root) == ["I will.", "kettle!"]


async def test_threads_of_a_channel_are_talks_of_their_own(slack: SlackApi, model: OpenAIApi, service: Service) -> None:
    first, second = slack.add_thread(TEAM, "first"), slack.add_thread(TEAM, "second")
    await service.start()
    slack.user_says(TEAM, slack.mention("the word is aardvark"), thread_ts=first)
    await slack.wait_for(lambda: slack.texts(TEAM, first))
    slack.user_says(TEAM, slack.mention("what is the word?"), thread_ts=second)
    await slack.wait_for(lambda: slack.texts(TEAM, second))
    assert "aardvark" not in str(model.requests[-1]["messages"])


async def test_messages_of_an_outage_are_caught_up_from_the_history(
    slack: SlackApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    slack.user_says(ADA_DM, "before")
    root = slack.user_says(TEAM, slack.mention("also before"))
    await slack.wait_for(lambda: slack.texts(ADA_DM) and slack.texts(TEAM) and slack.is_acknowledged())
    assert await service.stop() == 0
    await slack.go_down()
    slack.socket.loses_events = True  # only the history knows what comes now
    slack.user_says(ADA_DM, "first of the outage")
    slack.user_says(TEAM, slack.mention("in the channel"))
    slack.user_says(TEAM, slack.mention("in the thread"), thread_ts=root)
    slack.user_says(ADA_DM, "second of the outage")
    await service.start()
    await slack.come_up()
    await slack.wait_for(lambda: "second of the outage" in slack.texts(ADA_DM))
    await slack.wait_for(lambda: len(slack.texts(TEAM)) == 3)
    slack.user_says(ADA_DM, "after")
    await slack.wait_for(lambda: "after" in slack.texts(ADA_DM))
    assert slack.texts(ADA_DM) == ["before", "first of the outage", "second of the outage", "after"]
    assert len(slack.texts(TEAM)) == 3
    assert model.request_count == 7


@pytest.mark.parametrize("trouble", ["drop", "warning", "refresh_requested"])
async def test_a_connection_that_ends_takes_no_message_with_it(slack: SlackApi, service: Service, trouble: str) -> None:
    await service.start()
    slack.user_says(ADA_DM, "before")
    await slack.wait_for(lambda: slack.texts(ADA_DM))
    if trouble == "drop":
        slack.socket.drop()
    else:
        slack.socket.disconnect(trouble)
    slack.user_says(ADA_DM, "meanwhile")
    await slack.wait_for(lambda: "meanwhile" in slack.texts(ADA_DM))
    slack.user_says(ADA_DM, "after")
    await slack.wait_for(lambda: "after" in slack.texts(ADA_DM))
    assert slack.texts(ADA_DM) == ["before", "meanwhile", "after"]


async def test_events_lost_in_a_gap_of_the_running_service_are_caught_up(slack: SlackApi, service: Service) -> None:
    await service.start()
    slack.user_says(ADA_DM, "before")
    await slack.wait_for(lambda: slack.texts(ADA_DM) and slack.is_acknowledged())
    slack.socket.loses_events = True
    refused = slack.faults.add(Fault(method="socket", status=503))
    slack.socket.drop()
    await slack.wait_for(lambda: not slack.socket.connections)
    slack.user_says(ADA_DM, "into the gap")
    await slack.wait_for(lambda: slack.faults.hits(refused) or slack.socket.connected)
    await slack.wait_for(lambda: "into the gap" in slack.texts(ADA_DM))
    assert slack.texts(ADA_DM) == ["before", "into the gap"]


async def test_an_answer_whose_connection_broke_is_found_and_not_repeated(slack: SlackApi, service: Service) -> None:
    slack.faults.add(Fault(method="chat.postMessage", drop_after=True))
    await service.start()
    slack.user_says(ADA_DM, "hello")
    await slack.wait_for(lambda: slack.texts(ADA_DM))
    slack.user_says(ADA_DM, "next")
    await slack.wait_for(lambda: "next" in slack.texts(ADA_DM))
    assert slack.texts(ADA_DM) == ["hello", "next"]


async def test_a_rate_limit_delays_one_channel_and_no_other(slack: SlackApi, service: Service) -> None:
    fault = slack.faults.add(too_many_requests("chat.postMessage", 2, channel=ADA_DM))
    await service.start()
    slack.user_says(ADA_DM, "slow chat")
    await slack.wait_for(lambda: slack.faults.hits(fault))
    slack.user_says(BEN_DM, "fast chat", user_id=BEN)
    await slack.wait_for(lambda: slack.texts(BEN_DM))
    assert slack.texts(ADA_DM) == []
    await slack.wait_for(lambda: slack.texts(ADA_DM))
    refused, *_, sent = [call for call in slack.calls("chat.postMessage") if call.channel == ADA_DM]
    assert sent.at_monotonic - refused.at_monotonic >= 2
    assert slack.texts(ADA_DM) == ["slow chat"]


async def test_slack_down_at_the_start_makes_it_unready_until_slack_is_back(slack: SlackApi, service: Service) -> None:
    service.configure(service.sections, {"server": {"listen": f"127.0.0.1:{free_port()}"}})
    await slack.go_down()
    await service.start()
    assert (await service.health("/healthz"))[0] == 200
    assert (await service.health("/readyz"))[0] == 503
    await slack.come_up()
    await slack.wait_for(lambda: slack.socket.connected)
    slack.user_says(ADA_DM, "anybody home?")
    await slack.wait_for(lambda: slack.texts(ADA_DM))
    assert await service.health("/readyz") == (200, {"ok": True, "channels": {"slack": "ready"}})


@pytest.mark.parametrize("key", ["bot_token", "app_token"])
async def test_a_refused_token_leaves_the_other_channel_running(
    tmp_path: Path, slack: SlackApi, telegram: BotApi, model: OpenAIApi, key: str
) -> None:
    wrong = {"bot_token": "xoxb-9-refused", "app_token": "xapp-9-refused"}[key]
    async with Service(tmp_path, telegram=telegram, slack=slack, model=model) as service:
        service.configure(service.sections, {"channels.slack": {key: wrong}})
        await service.start()
        telegram.user_says(TELEGRAM_ADA, "hello")
        await telegram.wait_for(lambda: telegram.texts(TELEGRAM_ADA))
        status = await service.status()
        assert status["channels"]["slack"]["state"] == "failed"
        assert key in status["channels"]["slack"]["problem"]
        assert status["channels"]["telegram"]["state"] == "ready"
        assert wrong not in service.log_text()
        assert await service.stop() == 0


async def test_a_refused_token_ends_a_service_that_has_nothing_else(slack: SlackApi, service: Service) -> None:
    slack.token_error = "invalid_auth"
    await service.launch()
    assert await service.wait_exit() == 78
    assert "Slack" in service.log_text()


async def test_both_channels_are_served_side_by_side(
    tmp_path: Path, slack: SlackApi, telegram: BotApi, model: OpenAIApi
) -> None:
    async with Service(tmp_path, telegram=telegram, slack=slack, model=model) as service:
        await service.start()
        slack.user_says(ADA_DM, "over Slack")
        telegram.user_says(TELEGRAM_ADA, "over Telegram")
        await slack.wait_for(lambda: slack.texts(ADA_DM))
        await telegram.wait_for(lambda: telegram.texts(TELEGRAM_ADA))
        assert slack.texts(ADA_DM) == ["over Slack"]
        assert telegram.texts(TELEGRAM_ADA) == ["over Telegram"]


@pytest.mark.parametrize("point", PLAIN)
async def test_a_kill_at_any_point_loses_and_doubles_nothing(slack: SlackApi, service: Service, point: str) -> None:
    await service.start(fault=point)
    slack.user_says(ADA_DM, "one")
    await service.die()
    slack.user_says(ADA_DM, "two")
    slack.user_says(BEN_DM, "three", user_id=BEN)
    await service.start()
    await slack.wait_for(lambda: "two" in slack.texts(ADA_DM) and slack.texts(BEN_DM))
    await slack.wait_for(slack.is_acknowledged)
    assert slack.texts(ADA_DM) == ["one", "two"]
    assert slack.texts(BEN_DM) == ["three"]


@pytest.mark.parametrize("point", ["sending:2", "sent:2", "settled:2"])
async def test_a_kill_around_a_reminder_in_a_thread_loses_and_doubles_nothing(
    slack: SlackApi, model: OpenAIApi, service: Service, point: str
) -> None:
    call = ("cron", {"action": "add", "in_seconds": 0.5, "text": "stretch now"})
    model.when("stretch", [Reply(tool_calls=[call]), Reply(text="I will.")])
    root = slack.add_thread(TEAM, "our backs")
    await service.start(fault=point)
    slack.user_says(TEAM, slack.mention("remind us to stretch"), thread_ts=root)
    await service.die()
    await service.start()
    slack.user_says(ADA_DM, "next")
    await slack.wait_for(lambda: len(slack.texts(TEAM, root)) >= 2 and slack.texts(ADA_DM))
    assert slack.texts(TEAM) == slack.texts(TEAM, root) == ["I will.", "stretch now"]
