"""The Slack server's Web API and its faults, driven by the real slack_sdk."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.platforms.slack_api import SlackApi
from tests.platforms.slack_faults import (
    Fault,
    bad_gateway,
    html_page,
    refused,
    too_many_requests,
    unavailable,
)
from tests.platforms.slack_objects import ADA, BOT_ID, BOT_USER_ID

TEAM, SECRET = "C0TEAM00001", "C0SECRET001"


@pytest.fixture
async def slack() -> AsyncIterator[SlackApi]:
    async with SlackApi() as server:
        server.add_channel(TEAM, "team")
        yield server


@pytest.fixture
def client(slack: SlackApi) -> AsyncWebClient:
    return AsyncWebClient(token=slack.token, base_url=slack.url, retry_handlers=[], timeout=5)


async def error_of(call: Awaitable[Any]) -> str:
    """Return the error string a call is refused with."""
    with pytest.raises(SlackApiError) as refusal:
        await call
    return str(refusal.value.response["error"])


async def test_the_app_learns_who_it_is(slack: SlackApi, client: AsyncWebClient) -> None:
    me = await client.auth_test()
    assert (me["user_id"], me["bot_id"], me["user"]) == (BOT_USER_ID, BOT_ID, "dutiful")
    assert (await client.bots_info(bot=BOT_ID))["bot"]["user_id"] == BOT_USER_ID
    assert await error_of(client.bots_info(bot="B0NOBODY")) == "bot_not_found"


async def test_tokens_are_checked_for_each_method(slack: SlackApi, client: AsyncWebClient) -> None:
    def other(token: str) -> AsyncWebClient:
        return AsyncWebClient(token=token, base_url=slack.url, retry_handlers=[])

    assert await error_of(other("xoxb-wrong").auth_test()) == "invalid_auth"
    assert await error_of(other(slack.app_token).auth_test()) == "not_allowed_token_type"
    assert await error_of(client.apps_connections_open(app_token=slack.token)) == "not_allowed_token_type"
    assert await error_of(client.apps_connections_open(app_token="xapp-wrong")) == "invalid_auth"
    assert await error_of(client.api_call("no.such.method")) == "unknown_method"
    slack.token_error = "token_revoked"
    assert await error_of(client.auth_test()) == "token_revoked"
    slack.token_error = "account_inactive"
    assert await error_of(client.chat_postMessage(channel=TEAM, text="x")) == "account_inactive"
    slack.app_token_error = "invalid_auth"
    assert await error_of(client.apps_connections_open(app_token=slack.app_token)) == "invalid_auth"
    async with aiohttp.ClientSession() as session, session.post(f"{slack.url}auth.test") as response:
        assert await response.json() == {"ok": False, "error": "not_authed"}


async def test_a_missing_scope_is_named(slack: SlackApi, client: AsyncWebClient) -> None:
    slack.scopes -= {"channels:history", "users:read"}
    with pytest.raises(SlackApiError) as refusal:
        await client.conversations_history(channel=TEAM)
    assert refusal.value.response["error"] == "missing_scope"
    assert refusal.value.response["needed"] == "channels:history"
    assert "chat:write" in refusal.value.response["provided"]
    await client.conversations_history(channel=slack.add_dm())
    assert await error_of(client.users_info(user=ADA)) == "missing_scope"


async def test_people_have_a_time_zone_and_may_be_gone(slack: SlackApi, client: AsyncWebClient) -> None:
    slack.add_user("U0BEN000001", "ben", tz="Asia/Tokyo")
    slack.add_user("U0GONE00001", "gone", deleted=True)
    slack.add_user("U0ROBOT0001", "robot", is_bot=True)
    ben = (await client.users_info(user="U0BEN000001"))["user"]
    assert (ben["tz"], ben["tz_offset"], ben["is_bot"]) == ("Asia/Tokyo", 9 * 3600, False)
    assert (await client.users_info(user="U0ROBOT0001"))["user"]["is_bot"] is True
    assert "tz" not in (await client.users_info(user="U0GONE00001"))["user"]
    assert await error_of(client.users_info(user="U0NOBODY001")) == "user_not_found"
    assert await error_of(client.conversations_open(users="U0GONE00001")) == "user_disabled"
    assert await error_of(client.conversations_open(users="U0NOBODY001")) == "user_not_found"
    opened = (await client.conversations_open(users="U0BEN000001"))["channel"]["id"]
    await client.chat_postMessage(channel="U0BEN000001", text="to Ben")
    assert slack.texts(opened) == ["to Ben"]


async def test_json_and_forms_are_taken_alike(slack: SlackApi, client: AsyncWebClient) -> None:
    blocks = '[{"type": "section", "text": {"type": "mrkdwn", "text": "*b*"}}]'
    header = {"Authorization": f"Bearer {slack.token}"}
    async with aiohttp.ClientSession(headers=header) as session:
        form = {"channel": TEAM, "text": "form", "blocks": blocks}
        async with session.post(f"{slack.url}chat.postMessage", data=form) as response:
            assert (await response.json())["ok"] is True
        async with session.post(f"{slack.url}chat.postMessage", json={"channel": TEAM, "text": "json"}) as response:
            assert (await response.json())["ok"] is True
        async with session.post(
            f"{slack.url}chat.postMessage", data=b"{", headers={"Content-Type": "application/json"}
        ) as response:
            assert (await response.json())["error"] == "invalid_json"
    assert slack.texts(TEAM) == ["*b*", "json"]
    assert [call.text for call in slack.sent] == ["form", "json"]


async def test_places_that_take_no_message_say_why(slack: SlackApi, client: AsyncWebClient) -> None:
    slack.add_channel("C0OTHER0001", with_bot=False)
    slack.add_channel(SECRET, private=True, with_bot=False)
    slack.add_channel("C0CLOSED001")
    slack.archive("C0CLOSED001")
    slack.add_channel("C0ADMIN0001")
    slack.world.conversations["C0ADMIN0001"].restricted = True

    def post(channel: str, **more: Any) -> Awaitable[Any]:
        return client.chat_postMessage(channel=channel, text="x", **more)

    assert await error_of(post("C0OTHER0001")) == "not_in_channel"
    assert await error_of(post(SECRET)) == "channel_not_found"
    assert await error_of(post("C0NOWHERE01")) == "channel_not_found"
    assert await error_of(post("C0CLOSED001")) == "is_archived"
    assert await error_of(post("C0ADMIN0001")) == "restricted_action"
    assert await error_of(post(TEAM, thread_ts="1.000001")) == "thread_not_found"
    assert slack.sent == []
    assert slack.calls("chat.postMessage")[0].error == "not_in_channel"
    slack.remove_bot(TEAM)
    assert await error_of(post(TEAM)) == "not_in_channel"


async def test_threads_hold_replies_and_broadcasts(slack: SlackApi, client: AsyncWebClient) -> None:
    root = slack.user_says(TEAM, "root")
    reply = (await client.chat_postMessage(channel=TEAM, text="a", thread_ts=root))["ts"]
    assert reply is not None
    await client.chat_postMessage(channel=TEAM, text="b", thread_ts=root, reply_broadcast=True)
    assert await error_of(client.chat_postMessage(channel=TEAM, text="c", thread_ts=reply)) == "cannot_reply_to_message"
    history = (await client.conversations_history(channel=TEAM))["messages"]
    assert [message["text"] for message in history] == ["b", "root"]
    assert (history[1]["reply_count"], history[1]["thread_ts"], "channel" in history[1]) == (2, root, False)
    for ts in (root, reply):
        thread = (await client.conversations_replies(channel=TEAM, ts=ts))["messages"]
        assert [message["text"] for message in thread] == ["root", "a", "b"]
    assert await error_of(client.conversations_replies(channel=TEAM, ts="1.000001")) == "thread_not_found"
    assert slack.texts(TEAM, root) == ["a", "b"]
    assert slack.texts(TEAM, "") == []


async def test_history_is_read_in_pages_between_two_moments(slack: SlackApi, client: AsyncWebClient) -> None:
    said = [slack.user_says(TEAM, str(number)) for number in range(5)]

    async def read(**window: Any) -> list[str]:
        answer = await client.conversations_history(channel=TEAM, **window)
        return [message["text"] for message in answer["messages"]]

    assert await read() == ["4", "3", "2", "1", "0"]
    assert await read(oldest=said[1], latest=said[3]) == ["2"]
    assert await read(oldest=said[1], latest=said[3], inclusive=True) == ["3", "2", "1"]
    assert await read(limit=2) == ["4", "3"]
    seen: list[str] = []
    async for page in await client.conversations_history(channel=TEAM, limit=2, oldest=said[0]):
        seen += [message["text"] for message in page["messages"]]
    assert seen == ["4", "3", "2", "1"]
    assert await error_of(client.conversations_history(channel=TEAM, limit=1000)) == "invalid_limit"
    assert await error_of(client.conversations_history(channel=TEAM, cursor="x")) == "invalid_cursor"
    assert await error_of(client.conversations_history(channel=TEAM, oldest="x")) == "invalid_ts_oldest"


async def test_metadata_is_shown_to_those_who_ask(slack: SlackApi, client: AsyncWebClient) -> None:
    metadata = {"event_type": "reply", "event_payload": {"id": "7"}}
    posted = await client.chat_postMessage(channel=TEAM, text="x", metadata=metadata)
    (plain,) = (await client.conversations_history(channel=TEAM))["messages"]
    assert "metadata" not in plain
    (full,) = (await client.conversations_history(channel=TEAM, include_all_metadata=True))["messages"]
    assert full["metadata"] == metadata
    await client.chat_update(channel=TEAM, ts=str(posted["ts"]), text="y")
    thread = await client.conversations_replies(channel=TEAM, ts=str(posted["ts"]), include_all_metadata=True)
    assert thread["messages"][0]["metadata"] == metadata
    for wrong, error in (
        ("{", "invalid_metadata_format"),
        ({"event_type": "reply"}, "invalid_metadata_schema"),
        ({"event_type": "reply", "event_payload": {"id": "x" * 16 * 1024}}, "metadata_too_large"),
    ):
        assert (
            await error_of(client.api_call("chat.postMessage", json={"channel": TEAM, "text": "x", "metadata": wrong}))
            == error
        )


async def test_only_own_messages_are_changed_and_deleted(slack: SlackApi, client: AsyncWebClient) -> None:
    theirs = slack.user_says(TEAM, "theirs")
    mine = str((await client.chat_postMessage(channel=TEAM, text="mine"))["ts"])
    assert await error_of(client.chat_update(channel=TEAM, ts=theirs, text="x")) == "cant_update_message"
    assert await error_of(client.chat_delete(channel=TEAM, ts=theirs)) == "cant_delete_message"
    assert await error_of(client.chat_update(channel=TEAM, ts="1.000001", text="x")) == "message_not_found"
    assert await error_of(client.api_call("chat.update", json={"channel": TEAM, "ts": mine})) == "no_text"
    assert await error_of(client.chat_update(channel=TEAM, ts=mine, text="ä" * 2_001)) == "msg_too_long"
    block = {"type": "section", "text": {"type": "mrkdwn", "text": "*new*"}}
    await client.chat_update(channel=TEAM, ts=mine, text="new", blocks=[block])
    assert slack.texts(TEAM) == ["*new*"]
    await client.chat_update(channel=TEAM, ts=mine, text="newer")
    (message,) = slack.messages(TEAM)
    assert (message["text"], "blocks" in message, message["edited"]["user"]) == ("newer", False, BOT_USER_ID)
    await client.chat_delete(channel=TEAM, ts=mine)
    assert slack.texts(TEAM) == []
    slack.archive(TEAM)
    assert await error_of(client.chat_delete(channel=TEAM, ts=mine)) == "message_not_found"


async def test_ephemeral_messages_are_in_no_history(slack: SlackApi, client: AsyncWebClient) -> None:
    shown = await client.chat_postEphemeral(channel=TEAM, user=ADA, text="psst")
    assert [(seen.user, seen.text) for seen in slack.ephemerals] == [(ADA, "psst")]
    assert slack.texts(TEAM) == []
    assert await error_of(client.chat_update(channel=TEAM, ts=shown["message_ts"], text="x")) == "message_not_found"
    assert await error_of(client.chat_postEphemeral(channel=TEAM, user="U0X", text="x")) == "user_not_in_channel"


async def test_conversations_are_listed_by_type_and_membership(slack: SlackApi, client: AsyncWebClient) -> None:
    dm = slack.add_dm()
    slack.add_channel("C0OTHER0001", with_bot=False)
    slack.add_channel(SECRET, private=True)

    async def ids(call: Awaitable[Any]) -> list[str]:
        return [channel["id"] for channel in (await call)["channels"]]

    assert await ids(client.conversations_list()) == [TEAM, "C0OTHER0001"]
    assert await ids(client.users_conversations()) == [TEAM]
    assert await ids(client.users_conversations(types="im,private_channel")) == [dm, SECRET]
    assert await error_of(client.users_conversations(types="dm")) == "invalid_types"
    first = await client.conversations_list(limit=1)
    assert await ids(client.conversations_list(cursor=first["response_metadata"]["next_cursor"])) == ["C0OTHER0001"]
    info = (await client.conversations_info(channel=SECRET))["channel"]
    assert (info["is_private"], info["is_group"], info["is_member"]) == (True, True, True)
    assert (await client.conversations_info(channel=dm))["channel"]["user"] == ADA


async def test_a_file_is_uploaded_in_three_steps_into_a_thread(slack: SlackApi, client: AsyncWebClient) -> None:
    root = slack.user_says(TEAM, "root")
    answer = await client.files_upload_v2(
        channel=TEAM, thread_ts=root, filename="a.txt", content=b"abc", title="A", initial_comment="look"
    )
    assert answer["file"]["shares"] == {}
    (message,) = slack.messages(TEAM, root)
    assert (message["subtype"], message["text"], message["files"][0]["title"]) == ("file_share", "look", "A")
    shared = (await client.files_info(file=answer["file"]["id"]))["file"]
    assert shared["shares"] == {"public": {TEAM: [{"ts": message["ts"]}]}}
    assert [(call.method, call.ts) for call in slack.sent] == [("files.completeUploadExternal", message["ts"])]
    assert [call.method for call in slack.all_calls][:3] == [
        "files.getUploadURLExternal",
        "upload",
        "files.completeUploadExternal",
    ]


async def test_an_upload_that_goes_wrong_is_refused_at_its_step(slack: SlackApi, client: AsyncWebClient) -> None:
    assert await error_of(client.files_getUploadURLExternal(filename="a", length=0)) == "missing_argument"
    begun = await client.files_getUploadURLExternal(filename="a.txt", length=3)
    files: list[dict[str, str | None]] = [{"id": str(begun["file_id"])}]
    assert await error_of(client.files_completeUploadExternal(files=files, channel_id=TEAM)) == "file_not_found"
    async with aiohttp.ClientSession() as session:
        async with session.post(begun["upload_url"], data=b"four") as response:
            assert response.status == 400
        async with session.post(begun["upload_url"], data={"file": io.BytesIO(b"abc")}) as response:
            assert response.status == 200
    assert await error_of(client.files_info(file=str(begun["file_id"]))) == "file_not_found"
    blocks = '[{"type": "markdown", "text": "x"}]'  # as JSON: the SDK puts a list into the query, where it fails
    refusal = client.files_completeUploadExternal(files=files, channel_id=TEAM, blocks=blocks)
    assert await error_of(refusal) == "internal_error"
    assert await error_of(client.files_completeUploadExternal(files=files, channel_id="C0X")) == "channel_not_found"
    await client.files_completeUploadExternal(files=files, channel_id=TEAM)
    assert len(slack.messages(TEAM)) == 1


async def test_a_download_without_the_token_is_a_login_page(slack: SlackApi) -> None:
    stored = slack.add_file("a.png", b"\x89PNG")
    slack.user_says(TEAM, files=[stored])
    url = stored.to_json(slack.origin)["url_private"]
    async with aiohttp.ClientSession() as session:
        async with session.get(url, headers={"Authorization": f"Bearer {slack.token}"}) as response:
            assert (response.content_type, await response.read()) == ("image/png", b"\x89PNG")
        for header in ({}, {"Authorization": "Bearer xoxb-wrong"}):
            async with session.get(url, headers=header) as response:
                assert (response.status, response.content_type) == (200, "text/html")
    assert [call.ok for call in slack.calls("file")] == [True, False, False]


async def test_reactions_are_added_and_removed_once(slack: SlackApi, client: AsyncWebClient) -> None:
    ts = slack.user_says(TEAM, "x")
    await client.reactions_add(channel=TEAM, timestamp=ts, name="eyes")
    assert await error_of(client.reactions_add(channel=TEAM, timestamp=ts, name="eyes")) == "already_reacted"
    assert await error_of(client.reactions_add(channel=TEAM, timestamp=ts, name=":eyes:")) == "invalid_name"
    assert await error_of(client.reactions_add(channel=TEAM, timestamp="1.000001", name="eyes")) == "message_not_found"
    await client.reactions_remove(channel=TEAM, timestamp=ts, name="eyes")
    assert await error_of(client.reactions_remove(channel=TEAM, timestamp=ts, name="eyes")) == "no_reaction"


async def test_the_assistant_shows_a_status_until_the_answer(slack: SlackApi, client: AsyncWebClient) -> None:
    thread_ts = slack.open_assistant()
    dm = slack.add_dm()
    await client.assistant_threads_setStatus(channel_id=dm, thread_ts=thread_ts, status="is thinking...")
    assert slack.status(dm, thread_ts) == "is thinking..."
    await client.chat_postMessage(channel=dm, thread_ts=thread_ts, text="done")
    assert slack.status(dm, thread_ts) == ""
    await client.assistant_threads_setTitle(channel_id=dm, thread_ts=thread_ts, title="Talk")
    prompts = [{"title": "Hi", "message": "Say hi"}]
    await client.assistant_threads_setSuggestedPrompts(channel_id=dm, thread_ts=thread_ts, prompts=prompts)
    assert slack.world.titles == {(dm, thread_ts): "Talk"}
    assert slack.world.prompts == {(dm, thread_ts): prompts}
    wrong = client.assistant_threads_setStatus(channel_id=dm, thread_ts="1.000001", status="x")
    assert await error_of(wrong) == "invalid_thread_ts"
    slack.world.assistant = False
    without = client.assistant_threads_setStatus(channel_id=dm, thread_ts=thread_ts, status="x")
    assert await error_of(without) == "method_not_supported_for_channel_type"


async def test_a_rate_limit_strikes_its_method_and_channel_as_often_as_it_says(
    slack: SlackApi, client: AsyncWebClient
) -> None:
    slack.add_channel("C0OTHER0001")
    fault = slack.faults.add(too_many_requests("chat.postMessage", 7, channel=TEAM, times=2))
    await client.chat_postMessage(channel="C0OTHER0001", text="other channel")
    for _ in range(2):
        with pytest.raises(SlackApiError) as limited:
            await client.chat_postMessage(channel=TEAM, text="x")
        assert limited.value.response.status_code == 429
        assert limited.value.response.headers["Retry-After"] == "7"
        assert limited.value.response["error"] == "ratelimited"
    await client.chat_postMessage(channel=TEAM, text="x")
    assert slack.faults.hits(fault) == 2
    assert [record.channel for record in slack.sent] == ["C0OTHER0001", TEAM]


async def test_faults_answer_what_they_stand_for_and_do_nothing(slack: SlackApi, client: AsyncWebClient) -> None:
    for fault, status in (
        (bad_gateway(), 502),
        (html_page(), 200),
        (unavailable(), 503),
        (refused("*", "fatal_error"), 200),
    ):
        slack.faults.add(fault)
        with pytest.raises(SlackApiError) as refusal:
            await client.chat_postMessage(channel=TEAM, text="x")
        assert refusal.value.response.status_code == status
    assert slack.sent == []
    await client.chat_postMessage(channel=TEAM, text="x")
    assert slack.texts(TEAM) == ["x"]


async def test_a_drop_before_does_nothing_and_a_drop_after_has_done_it(slack: SlackApi, client: AsyncWebClient) -> None:
    slack.faults.add(Fault(method="chat.postMessage", drop_before=True))
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel=TEAM, text="lost")
    assert slack.sent == []
    slack.faults.add(Fault(method="chat.postMessage", drop_after=True))
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel=TEAM, text="arrived")
    assert slack.texts(TEAM) == ["arrived"]
    assert [(call.text, call.ok) for call in slack.calls("chat.postMessage")] == [("lost", False), ("arrived", True)]


async def test_a_held_call_waits_while_others_go_on(slack: SlackApi, client: AsyncWebClient) -> None:
    slack.add_channel("C0OTHER0001")
    gate = asyncio.Event()
    fault = slack.faults.add(Fault(method="chat.postMessage", channel=TEAM, hold=gate))
    held = asyncio.create_task(client.chat_postMessage(channel=TEAM, text="held"))
    await slack.wait_for(lambda: slack.faults.hits(fault))
    await client.chat_postMessage(channel="C0OTHER0001", text="free")
    assert slack.texts(TEAM) == []
    gate.set()
    await held
    assert slack.texts(TEAM) == ["held"]


async def test_a_lasting_fault_ends_when_it_is_removed(slack: SlackApi, client: AsyncWebClient) -> None:
    fault = slack.faults.add(refused("auth.test", "internal_error", times=None))
    for _ in range(3):
        assert await error_of(client.auth_test()) == "internal_error"
    assert slack.faults.hits(fault) == 3
    slack.faults.remove(fault)
    await client.auth_test()
    slack.faults.add(refused("auth.test", "internal_error", times=None))
    slack.faults.clear()
    await client.auth_test()
