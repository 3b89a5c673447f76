"""Socket Mode and what people do, driven by the real bolt app with its aiohttp connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from tests.platforms.slack_api import SlackApi
from tests.platforms.slack_faults import Fault
from tests.platforms.slack_objects import ADA, BOT_USER_ID

TEAM = "C0TEAM00001"
PING_S = 0.2  # how often the SDK looks whether its connection still lives


class Bolt:
    """A bolt app that keeps what it hears."""

    def __init__(self, slack: SlackApi) -> None:
        self.heard: list[dict[str, Any]] = []
        self.slack = slack
        self.app = AsyncApp(
            client=AsyncWebClient(token=slack.token, base_url=slack.url), ignoring_self_events_enabled=False
        )
        for kind in ("message", "app_mention", "member_joined_channel", "app_home_opened", "assistant_thread_started"):
            self.app.event(kind)(self._event)
        for kind in ("reaction_added", "reaction_removed"):
            self.app.event(kind)(self._event)
        self.app.action("go")(self._action)
        self.app.command("/dutiful")(self._command)
        self.handler = AsyncSocketModeHandler(
            self.app,
            slack.app_token,
            web_client=AsyncWebClient(base_url=slack.url),
            ping_interval=PING_S,
        )

    async def _event(self, event: dict[str, Any]) -> None:
        self._keep(event)

    async def _action(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        self._keep(body)

    async def _command(self, ack: Any, body: dict[str, Any]) -> None:
        await ack("on it")
        self._keep(body)

    def _keep(self, what: dict[str, Any]) -> None:
        self.heard.append(what)
        self.slack.bell.ring()

    def kinds(self) -> list[tuple[str, str]]:
        return [(event["type"], event.get("subtype", "")) for event in self.heard]

    async def hears(self, count: int) -> list[dict[str, Any]]:
        await self.slack.wait_for(lambda: len(self.heard) >= count)
        return self.heard


@pytest.fixture
async def slack() -> AsyncIterator[SlackApi]:
    async with SlackApi() as server:
        server.add_channel(TEAM, "team")
        yield server


@asynccontextmanager
async def connected(slack: SlackApi) -> AsyncIterator[Bolt]:
    bolt = Bolt(slack)
    await bolt.handler.connect_async()  # type: ignore[no-untyped-call]  # bolt leaves it bare
    try:
        await slack.wait_for(lambda: slack.socket.connected)
        yield bolt
    finally:
        await bolt.handler.close_async()  # type: ignore[no-untyped-call]  # bolt leaves it bare


@pytest.fixture
async def bolt(slack: SlackApi) -> AsyncIterator[Bolt]:
    async with connected(slack) as app:
        yield app


async def test_a_direct_message_is_heard_acknowledged_and_answered(slack: SlackApi, bolt: Bolt) -> None:
    channel = slack.add_dm()
    ts = slack.user_says(channel, "hello &amp; welcome")
    (event,) = await bolt.hears(1)
    assert (event["type"], event["channel_type"], event["user"], event["ts"]) == ("message", "im", ADA, ts)
    assert event["text"] == "hello &amp; welcome"
    await slack.wait_for(slack.is_acknowledged)
    client = bolt.app.client
    posted = await client.chat_postMessage(channel=channel, text="*hi*", thread_ts=ts)
    assert slack.texts(channel) == ["*hi*"]
    await client.chat_update(channel=channel, ts=str(posted["ts"]), text="changed")
    assert slack.texts(channel, ts) == ["changed"]
    await client.files_upload_v2(channel=channel, filename="a.txt", content="abc", initial_comment="here")
    assert slack.texts(channel, "") == ["here"]
    (shared,) = slack.messages(channel, "")
    assert [file["name"] for file in shared["files"]] == ["a.txt"]
    await slack.wait_for(lambda: not slack.socket.unacknowledged(own=True))
    assert slack.socket.violations == []


async def test_a_mention_comes_as_two_events_with_one_ts(slack: SlackApi, bolt: Bolt) -> None:
    ts = slack.user_says(TEAM, slack.mention("do it"))
    events = await bolt.hears(2)
    assert sorted(event["type"] for event in events) == ["app_mention", "message"]
    assert {event["ts"] for event in events} == {ts}
    assert {event["text"] for event in events} == {f"<@{BOT_USER_ID}> do it"}
    await slack.wait_for(lambda: slack.is_acknowledged(ts))


async def test_what_the_bot_itself_posts_comes_back_as_its_own_event(slack: SlackApi, bolt: Bolt) -> None:
    posted = await bolt.app.client.chat_postMessage(channel=TEAM, text="x")
    (event,) = await bolt.hears(1)
    assert (event["ts"], event["user"], "subtype" in event) == (posted["ts"], BOT_USER_ID, False)
    assert event["bot_id"].startswith("B")
    assert slack.socket.envelopes[-1].own


async def test_replies_edits_deletions_and_files_have_their_documented_shapes(slack: SlackApi, bolt: Bolt) -> None:
    root = slack.user_says(TEAM, "root")
    reply = slack.user_says(TEAM, "reply", thread_ts=root)
    slack.edit(TEAM, reply, "edited")
    slack.delete(TEAM, reply)
    slack.user_says(TEAM, "look", files=[("a.png", b"png")])
    slack.other_bot_says(TEAM, "beep")
    events = await bolt.hears(6)
    by_kind = {event.get("subtype", event.get("text", "")): event for event in events}
    assert by_kind["reply"]["thread_ts"] == root
    assert by_kind["reply"]["parent_user_id"] == ADA
    changed = by_kind["message_changed"]
    assert (changed["message"]["text"], changed["previous_message"]["text"]) == ("edited", "reply")
    assert changed["message"]["edited"]["user"] == ADA
    assert changed["hidden"] is True
    assert by_kind["message_deleted"]["deleted_ts"] == reply
    (file,) = by_kind["file_share"]["files"]
    assert (file["name"], file["mimetype"], file["size"]) == ("a.png", "image/png", 3)
    assert by_kind["bot_message"]["bot_id"] == "B0OTHER0001"
    assert "user" not in by_kind["bot_message"]


async def test_the_preview_of_a_link_is_a_change_without_an_edit(slack: SlackApi, bolt: Bolt) -> None:
    ts = slack.user_says(TEAM, "see <https://example.org/>")
    slack.unfurl(TEAM, ts)
    _, changed = await bolt.hears(2)
    assert changed["subtype"] == "message_changed"
    assert changed["message"]["text"] == changed["previous_message"]["text"]
    assert ("attachments" in changed["message"], "edited" in changed["message"]) == (True, False)


async def test_a_deleted_first_message_leaves_a_tombstone_for_its_thread(slack: SlackApi, bolt: Bolt) -> None:
    root = slack.user_says(TEAM, "root")
    slack.user_says(TEAM, "reply", thread_ts=root)
    slack.delete(TEAM, root)
    events = await bolt.hears(3)
    (changed,) = [event for event in events if event.get("subtype") == "message_changed"]
    assert changed["message"]["subtype"] == "tombstone"
    thread = await bolt.app.client.conversations_replies(channel=TEAM, ts=root)
    assert [message["text"] for message in thread["messages"]] == ["This message was deleted.", "reply"]


async def test_joining_home_assistant_and_reactions_are_told(slack: SlackApi, bolt: Bolt) -> None:
    slack.join(TEAM)
    slack.open_home()
    thread_ts = slack.open_assistant()
    ts = slack.user_says(TEAM, "x")
    slack.react(TEAM, ts, "eyes")
    slack.react(TEAM, ts, "eyes", added=False)
    await bolt.hears(7)
    told = {event["type"]: event for event in bolt.heard if event["type"] != "message"}
    assert told["member_joined_channel"]["user"] == BOT_USER_ID
    assert told["app_home_opened"]["tab"] == "messages"
    assert told["assistant_thread_started"]["assistant_thread"]["thread_ts"] == thread_ts
    assert told["reaction_added"]["item"] == {"type": "message", "channel": TEAM, "ts": ts}
    assert told["reaction_removed"]["reaction"] == "eyes"


async def test_only_events_subscribed_to_and_of_joined_channels_are_told(slack: SlackApi, bolt: Bolt) -> None:
    slack.add_channel("C0OTHER0001", "other", with_bot=False)
    slack.user_says("C0OTHER0001", slack.mention("psst"))
    slack.subscriptions.discard("message.channels")
    slack.user_says(TEAM, slack.mention("only the mention"))
    await slack.wait_for(slack.is_acknowledged)
    await bolt.hears(1)
    assert bolt.kinds() == [("app_mention", "")]


async def test_a_press_and_a_command_reach_the_app_and_can_be_answered(slack: SlackApi, bolt: Bolt) -> None:
    button = {"type": "button", "action_id": "go", "value": "v1", "text": {"type": "plain_text", "text": "Go"}}
    blocks = [{"type": "actions", "block_id": "choice", "elements": [button]}]
    posted = await bolt.app.client.chat_postMessage(channel=TEAM, text="choose", blocks=blocks)
    await bolt.hears(1)
    press = slack.press(TEAM, posted["ts"], "v1")
    (_, pressed) = await bolt.hears(2)
    assert pressed["actions"][0]["block_id"] == "choice"
    assert pressed["container"]["message_ts"] == posted["ts"]
    await slack.wait_for(lambda: press.acknowledged)
    command = slack.command(TEAM, "/dutiful", "status")
    (_, _, commanded) = await bolt.hears(3)
    assert (commanded["command"], commanded["text"], commanded["channel_id"]) == ("/dutiful", "status", TEAM)
    await slack.wait_for(lambda: command.acknowledged)
    assert command.answer == {"text": "on it"}
    async with aiohttp.ClientSession() as session:
        async with session.post(commanded["response_url"], json={"text": "for you"}) as response:
            assert response.status == 200
        async with session.post(pressed["response_url"], json={"text": "gone", "replace_original": True}) as response:
            assert response.status == 200
    assert [(shown.user, shown.text) for shown in slack.ephemerals] == [(ADA, "for you")]
    assert slack.texts(TEAM) == ["gone"]
    with pytest.raises(ValueError, match="no button 'stop'"):
        slack.press(TEAM, posted["ts"], "stop")


async def test_an_event_without_acknowledgement_comes_again_marked_as_a_retry(slack: SlackApi, bolt: Bolt) -> None:
    slack.socket.ack_limit_s = 0.05
    slack.socket.deaf = True
    slack.user_says(TEAM, "x")
    await bolt.hears(2)
    slack.socket.deaf = False
    (envelope,) = slack.socket.envelopes
    slack.redeliver()
    await slack.wait_for(slack.is_acknowledged)
    attempts = [delivery.retry_attempt for delivery in envelope.deliveries]
    assert attempts[:2] == [0, 1]
    assert len({delivery.envelope_id for delivery in envelope.deliveries}) == len(attempts)
    assert {event["ts"] for event in bolt.heard} == {slack.said_last}


async def test_an_event_is_given_up_after_its_retries(slack: SlackApi, bolt: Bolt) -> None:
    slack.socket.ack_limit_s = 0.01
    slack.socket.retries_s = (0.0, 0.0, 0.0)
    slack.socket.deaf = True
    slack.user_says(TEAM, "x")
    (envelope,) = slack.socket.envelopes
    await slack.wait_for(lambda: envelope.lost)
    assert [delivery.retry_attempt for delivery in envelope.deliveries] == [0, 1, 2, 3]


async def test_what_was_acknowledged_can_be_redelivered(slack: SlackApi, bolt: Bolt) -> None:
    ts = slack.user_says(TEAM, slack.mention("x"))
    await bolt.hears(2)
    await slack.wait_for(slack.is_acknowledged)
    slack.redeliver()
    assert not slack.is_acknowledged(ts)
    await bolt.hears(4)
    await slack.wait_for(slack.is_acknowledged)


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "link_disabled"])
async def test_the_app_comes_back_after_a_disconnect_and_misses_nothing(
    slack: SlackApi, bolt: Bolt, reason: str
) -> None:
    slack.socket.disconnect(reason)
    slack.user_says(TEAM, "meanwhile")
    (event,) = await bolt.hears(1)
    assert event["text"] == "meanwhile"
    assert slack.socket.connection_count == 2
    await slack.wait_for(lambda: len(slack.socket.connections) == 1)


async def test_an_event_in_flight_at_a_drop_comes_again_on_the_next_connection(slack: SlackApi, bolt: Bolt) -> None:
    slack.socket.deaf = True
    slack.user_says(TEAM, "x")
    await bolt.hears(1)
    slack.socket.drop()
    await slack.wait_for(lambda: not slack.socket.connections)
    slack.socket.deaf = False
    await bolt.hears(2)
    await slack.wait_for(slack.is_acknowledged)
    (envelope,) = slack.socket.envelopes
    assert [delivery.connection for delivery in envelope.deliveries] == [1, 2]


async def test_a_connection_that_hangs_is_given_up_and_what_it_was_sent_comes_again(
    slack: SlackApi, bolt: Bolt
) -> None:
    slack.socket.freeze()
    slack.user_says(TEAM, "x")
    await bolt.hears(1)
    await slack.wait_for(slack.is_acknowledged)
    (envelope,) = slack.socket.envelopes
    assert [delivery.connection for delivery in envelope.deliveries] == [1, 2]
    assert len(bolt.heard) == 1


async def test_a_thread_can_be_there_before_the_app_hears_of_it(slack: SlackApi, bolt: Bolt) -> None:
    root = slack.add_thread(TEAM, ts="1700000000.000100")
    slack.user_says(TEAM, "reply", thread_ts=root)
    (event,) = await bolt.hears(1)
    assert (event["text"], event["thread_ts"]) == ("reply", "1700000000.000100")
    await bolt.app.client.chat_postMessage(channel=TEAM, text="a", thread_ts=root)
    assert slack.texts(TEAM, root) == ["a"]


async def test_events_can_be_lost_in_a_gap_and_stay_in_the_history(slack: SlackApi, bolt: Bolt) -> None:
    slack.socket.loses_events = True
    refused = slack.faults.add(Fault(method="socket", status=503, times=1))
    slack.socket.drop()
    await slack.wait_for(lambda: not slack.socket.connections)
    lost = slack.user_says(TEAM, "lost")
    await slack.wait_for(lambda: slack.faults.hits(refused))
    await slack.wait_for(lambda: slack.socket.connected)
    seen = slack.user_says(TEAM, "seen")
    (event,) = await bolt.hears(1)
    assert event["ts"] == seen
    history = await bolt.app.client.conversations_history(channel=TEAM)
    assert [message["ts"] for message in history["messages"]] == [seen, lost]


async def test_a_server_that_went_down_comes_back_at_its_address_with_what_waits(slack: SlackApi, bolt: Bolt) -> None:
    url = slack.url
    await slack.go_down()
    slack.user_says(TEAM, "meanwhile")
    await slack.come_up()
    assert slack.url == url
    (event,) = await bolt.hears(1)
    assert event["text"] == "meanwhile"


async def test_two_connections_share_the_events(slack: SlackApi, bolt: Bolt) -> None:
    async with connected(slack) as second:
        await slack.wait_for(lambda: len(slack.socket.connections) == 2)
        for number in range(4):
            slack.user_says(TEAM, str(number))
        await slack.wait_for(lambda: len(bolt.heard) + len(second.heard) == 4)
        assert (len(bolt.heard), len(second.heard)) == (2, 2)


async def test_a_link_works_once_and_protocol_errors_are_noted(slack: SlackApi) -> None:
    client = AsyncWebClient(token=slack.app_token, base_url=slack.url)
    url = (await client.apps_connections_open(app_token=slack.app_token))["url"]
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        hello = await socket.receive_json()
        assert (hello["type"], hello["num_connections"]) == ("hello", 1)
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(url)
        slack.user_says(TEAM, "x")
        envelope = await socket.receive_json()
        assert (envelope["type"], envelope["retry_attempt"], envelope["retry_reason"]) == ("events_api", 0, "")
        await socket.send_json({"envelope_id": envelope["envelope_id"]})
        await slack.wait_for(slack.is_acknowledged)
        await socket.send_str("hello?")
        await socket.send_json({"envelope_id": "other"})
        await socket.send_json({"envelope_id": envelope["envelope_id"], "payload": {"text": "no"}})
        await socket.close()
    await slack.wait_for(lambda: not slack.socket.connections)
    kinds = [violation.partition(":")[0] for violation in slack.socket.violations]
    assert kinds == [
        "not an acknowledgement",
        "acknowledges an unknown envelope",
        "acknowledges an envelope twice",
        "answers an event that takes no payload",
    ]


async def test_an_app_has_ten_connections_at_most(slack: SlackApi) -> None:
    client = AsyncWebClient(base_url=slack.url)
    async with aiohttp.ClientSession() as session:
        sockets = []
        for number in range(1, 12):
            url = (await client.apps_connections_open(app_token=slack.app_token))["url"]
            sockets.append(await session.ws_connect(url))
            first = await sockets[-1].receive_json()
            if number <= 10:
                assert (first["type"], first["num_connections"]) == ("hello", number)
        assert (first["type"], first["reason"]) == ("disconnect", "too_many_websockets")


async def test_commands_without_a_listener_fail_and_do_not_come_again(slack: SlackApi) -> None:
    command = slack.command(TEAM, "/dutiful")
    assert command.lost
    async with connected(slack) as bolt:
        slack.user_says(TEAM, "x")
        await bolt.hears(1)
        assert bolt.kinds() == [("message", "")]
