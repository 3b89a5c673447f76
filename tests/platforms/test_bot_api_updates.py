"""getUpdates, what people do, and the faults, driven by the real python-telegram-bot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import aiohttp
import pytest
from telegram import Bot
from telegram.error import BadRequest, Conflict, Forbidden, NetworkError, RetryAfter, TelegramError, TimedOut

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import (
    Fault,
    bad_gateway,
    blocked,
    cannot_parse,
    conflict,
    too_many_requests,
    upgraded,
)

CHAT = 5


@pytest.fixture(autouse=True)
def durations_are_timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without it the SDK warns wherever it reads a duration, and warnings are errors here.
    monkeypatch.setenv("PTB_TIMEDELTA", "true")


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with BotApi(token="123:ABC") as server:
        yield server


@pytest.fixture
async def bot(api: BotApi) -> AsyncIterator[Bot]:
    async with Bot(api.token, base_url=f"{api.url}/bot", base_file_url=f"{api.url}/file/bot") as sdk:
        yield sdk


async def ids(bot: Bot, *, offset: int | None = None, limit: int = 100, timeout: int = 0) -> list[int]:
    updates = await bot.get_updates(offset=offset, limit=limit, timeout=timeout)
    return [update.update_id for update in updates]


async def test_updates_stay_until_an_offset_confirms_them(api: BotApi, bot: Bot) -> None:
    first, second, third = (api.user_says(CHAT, text) for text in ("a", "b", "c"))
    assert await ids(bot) == [first, second, third]
    assert await ids(bot, limit=2) == [first, second]
    assert api.confirmed_offset == 0
    assert await ids(bot, offset=second) == [second, third]
    assert api.confirmed_offset == second
    assert await ids(bot, offset=0) == [second, third]
    assert await ids(bot, offset=-1) == [third]
    assert await ids(bot, offset=third + 1) == []
    assert api.confirmed_offset == third + 1


async def test_a_long_poll_is_answered_by_the_next_update(api: BotApi, bot: Bot) -> None:
    poll = asyncio.create_task(ids(bot, timeout=30))
    await api.wait_for(lambda: api.poll_count == 1)
    update_id = api.user_says(CHAT, "at last")
    assert await poll == [update_id]


async def test_a_second_poll_ends_the_first_with_a_conflict(api: BotApi, bot: Bot) -> None:
    first = asyncio.create_task(ids(bot, timeout=30))
    await api.wait_for(lambda: api.poll_count == 1)
    async with Bot(api.token, base_url=f"{api.url}/bot") as other:
        second = asyncio.create_task(ids(other, timeout=30))
        with pytest.raises(Conflict, match="terminated by other getUpdates request"):
            await first
        update_id = api.user_says(CHAT, "x")
        assert await second == [update_id]


async def test_a_poll_whose_client_hung_up_uses_nothing_up(api: BotApi, bot: Bot) -> None:
    update_id = api.user_says(CHAT, "x")
    assert await ids(bot, offset=0) == [update_id]
    async with aiohttp.ClientSession() as session:
        url = f"{api.url}/bot123:ABC/getUpdates?timeout=30&offset={update_id + 1}"
        request = asyncio.create_task(session.get(url))
        await api.wait_for(lambda: api.poll_count == 2)
        request.cancel()
    api.redeliver(update_id)
    assert await ids(bot, timeout=5) == [update_id]
    assert not [call for call in api.calls("getUpdates") if not call.ok]


async def test_a_webhook_excludes_polling(api: BotApi, bot: Bot) -> None:
    api.user_says(CHAT, "x")
    await bot.set_webhook("https://bot.example/hook")
    assert (await bot.get_webhook_info()).url == "https://bot.example/hook"
    with pytest.raises(Conflict, match="webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert len(await bot.get_updates()) == 1
    await bot.delete_webhook(drop_pending_updates=True)
    assert await bot.get_updates() == ()
    with pytest.raises(BadRequest, match="an https url must be provided"):
        await bot.set_webhook("http://bot.example/hook")


async def test_only_wanted_kinds_are_delivered_from_then_on(api: BotApi, bot: Bot) -> None:
    await bot.get_updates(allowed_updates=["message"])
    wanted = api.user_says(CHAT, "x")
    api.edit(CHAT, 1, "y")
    assert await ids(bot) == [wanted]


async def test_a_confirmed_update_can_be_redelivered_once(api: BotApi, bot: Bot) -> None:
    update_id = api.user_says(CHAT, "x")
    assert await ids(bot, offset=update_id + 1) == []
    api.redeliver(update_id)
    assert await ids(bot, offset=update_id + 1) == [update_id]
    assert await ids(bot, offset=update_id + 1) == []


async def test_an_offset_can_be_ignored_once(api: BotApi, bot: Bot) -> None:
    update_id = api.user_says(CHAT, "x")
    api.faults.add(Fault(method="getUpdates", ignore_offset=True))
    assert await ids(bot, offset=update_id + 1) == [update_id]
    assert api.confirmed_offset == 0
    assert await ids(bot, offset=update_id + 1) == []


async def test_an_update_the_sdk_cannot_parse_is_passed_on_as_it_is(api: BotApi, bot: Bot) -> None:
    broken = api.push_raw({"message": {"message_id": 1}})
    with pytest.raises(KeyError):
        await bot.get_updates()
    url = f"{api.url}/bot123:ABC/getUpdates"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        result = (await response.json())["result"]
    assert result == [{"update_id": broken, "message": {"message_id": 1}}]
    assert await ids(bot, offset=broken + 1) == []
    assert api.push_raw(b'{"update_id": 5000}', update_id=5000) == 5000
    assert await ids(bot) == [5000]
    assert api.user_says(CHAT, "x") == 5001


async def test_a_person_writes_with_command_mention_and_reply(api: BotApi, bot: Bot) -> None:
    api.user_says(CHAT, "an old thought", user_id=7, first_name="Bo")
    api.user_says(CHAT, f"/new 🙂 {api.mention('do it')}", reply_to=1, quote="thought", username="ada_l")
    update = (await bot.get_updates())[1]
    assert update.message is not None
    assert update.message.from_user is not None
    kinds = {kind.type: text for kind, text in update.message.parse_entities().items()}
    assert kinds == {"bot_command": "/new", "mention": "@dutiful_test_bot"}
    assert update.message.reply_to_message is not None
    assert update.message.reply_to_message.text == "an old thought"
    assert update.message.quote is not None
    assert (update.message.quote.text, update.message.quote.position) == ("thought", 7)
    assert (update.message.from_user.id, update.message.from_user.username) == (111, "ada_l")
    with pytest.raises(ValueError, match="no message 9 in chat 5"):
        api.user_says(CHAT, "x", reply_to=9)


async def test_text_without_a_utf8_form_arrives_escaped(api: BotApi, bot: Bot) -> None:
    api.user_says(CHAT, "a\x00b \ud83d")
    update = (await bot.get_updates())[0]
    assert update.message is not None
    assert update.message.text == "a\x00b \ud83d"
    message = await bot.send_message(CHAT, "x", reply_to_message_id=1)
    assert message.reply_to_message is not None
    assert message.reply_to_message.text == "a\x00b \ud83d"


async def test_a_person_sends_an_album_and_edits_its_caption(api: BotApi, bot: Bot) -> None:
    api.user_says(CHAT, photo=b"1", caption="@dutiful_test_bot look", media_group_id="g", date=1_700_000_000)
    api.user_says(CHAT, photo=b"2", media_group_id="g", message_id=9)
    api.edit(CHAT, 1, "changed")
    first, second, third = await bot.get_updates()
    assert first.message is not None
    assert (first.message.media_group_id, first.message.caption) == ("g", "@dutiful_test_bot look")
    assert [entity.type for entity in first.message.caption_entities] == ["mention"]
    assert first.message.date.timestamp() == 1_700_000_000
    photo = await bot.get_file(first.message.photo[-1].file_id)
    assert bytes(await photo.download_as_bytearray()) == b"1"
    assert second.message is not None
    assert (second.message.message_id, second.message.caption, second.message.text) == (9, None, None)
    assert third.edited_message is not None
    assert (third.edited_message.caption, third.edited_message.edit_date is not None) == ("changed", True)
    api.user_says(CHAT, "next")
    assert sorted(api.messages[CHAT]) == [1, 9, 10]


async def test_groups_topics_and_extra_fields_are_whole_objects(api: BotApi, bot: Bot) -> None:
    api.user_says(-7, "x", chat_type="supergroup", thread_id=42)
    voice = {"file_id": api.add_file(b"ogg", "v.ogg"), "file_unique_id": "u", "duration": 2}
    api.user_says(-8, chat_type="group", extra={"voice": voice})
    topic, spoken = await bot.get_updates()
    assert topic.message is not None
    assert (topic.message.chat.is_forum, topic.message.is_topic_message) == (True, True)
    assert topic.message.message_thread_id == 42
    assert spoken.message is not None
    assert spoken.message.voice is not None
    assert (spoken.message.chat.type, spoken.message.voice.duration) == ("group", timedelta(seconds=2))


async def test_blocking_and_upgrading_are_announced(api: BotApi, bot: Bot) -> None:
    api.add_chat(CHAT)
    api.add_chat(-8, chat_type="group", name="Team")
    api.block(CHAT)
    api.unblock(CHAT)
    api.migrate(-8, -1008)
    left, back, leaving, arriving = await bot.get_updates()
    assert left.my_chat_member is not None
    assert left.my_chat_member.new_chat_member.status == "kicked"
    assert back.my_chat_member is not None
    assert back.my_chat_member.new_chat_member.status == "member"
    assert leaving.message is not None
    assert (leaving.message.chat.id, leaving.message.migrate_to_chat_id) == (-8, -1008)
    assert arriving.message is not None
    assert (arriving.message.chat.id, arriving.message.migrate_from_chat_id) == (-1008, -8)


async def test_a_rate_limit_strikes_its_method_and_chat_as_often_as_it_says(api: BotApi, bot: Bot) -> None:
    api.add_chat(CHAT)
    api.add_chat(6)
    fault = api.faults.add(too_many_requests("sendMessage", 7, chat_id=CHAT, times=2))
    await bot.send_message(6, "other chat")
    for _ in range(2):
        with pytest.raises(RetryAfter) as limited:
            await bot.send_message(CHAT, "x")
        assert limited.value.retry_after == timedelta(seconds=7)
    await bot.send_message(CHAT, "x")
    assert api.faults.hits(fault) == 2
    assert [record.chat_id for record in api.sent] == [6, CHAT]


async def test_refusing_faults_reach_the_sdk_as_their_own_errors(api: BotApi, bot: Bot) -> None:
    api.add_chat(CHAT)
    kinds: list[tuple[Fault, type[TelegramError], str]] = [
        (cannot_parse(), BadRequest, "Can't parse entities"),
        (blocked(CHAT, times=1), Forbidden, "bot was blocked"),
        (upgraded(CHAT, -1005, times=1), TelegramError, "-1005"),
        (bad_gateway(), NetworkError, "Bad Gateway"),
        (Fault(garbage=b'{"ok":tr'), TelegramError, "Invalid server response"),
        (conflict(), Conflict, "terminated by other"),
    ]
    for fault, kind, words in kinds:
        api.faults.add(fault)
        with pytest.raises(kind, match=words):
            await (bot.get_updates() if fault.method == "getUpdates" else bot.send_message(CHAT, "x"))
    assert (await bot.send_message(CHAT, "x")).text == "x"
    assert len(api.sent) == 1


async def test_a_drop_before_does_nothing_and_a_drop_after_has_done_it(api: BotApi, bot: Bot) -> None:
    api.add_chat(CHAT)
    api.faults.add(Fault(method="sendMessage", drop_before=True))
    with pytest.raises(NetworkError):
        await bot.send_message(CHAT, "lost")
    assert api.sent == []
    api.faults.add(Fault(method="sendMessage", drop_after=True))
    with pytest.raises(NetworkError):
        await bot.send_message(CHAT, "arrived")
    assert api.texts(CHAT) == ["arrived"]
    assert [(call.text, call.ok) for call in api.calls("sendMessage")] == [("lost", False), ("arrived", True)]


async def test_a_held_call_waits_while_others_go_on(api: BotApi, bot: Bot) -> None:
    api.add_chat(CHAT)
    api.add_chat(6)
    gate = asyncio.Event()
    fault = api.faults.add(Fault(method="sendMessage", chat_id=CHAT, hold=gate))
    held = asyncio.create_task(bot.send_message(CHAT, "held"))
    await api.wait_for(lambda: api.faults.hits(fault))
    await bot.send_message(6, "free")
    assert api.texts(CHAT) == []
    gate.set()
    assert (await held).text == "held"


async def test_a_slow_call_is_done_after_its_client_gave_up(api: BotApi, bot: Bot) -> None:
    api.add_chat(CHAT)
    gate = asyncio.Event()
    api.faults.add(Fault(method="sendMessage", hold=gate))
    with pytest.raises(TimedOut):
        await bot.send_message(CHAT, "late", read_timeout=0.05)
    gate.set()
    await api.wait_for(lambda: api.texts(CHAT) == ["late"])


async def test_the_download_of_a_file_can_fail(api: BotApi, bot: Bot) -> None:
    file = await bot.get_file(api.add_file(b"content", "a.txt"))
    api.faults.add(bad_gateway("file"))
    with pytest.raises(NetworkError):
        await file.download_as_bytearray()
    assert bytes(await file.download_as_bytearray()) == b"content"
    assert [call.ok for call in api.calls("file")] == [False, True]


async def test_a_lasting_fault_ends_when_it_is_removed(api: BotApi, bot: Bot) -> None:
    api.add_chat(CHAT)
    fault = api.faults.add(bad_gateway(times=None))
    for _ in range(3):
        with pytest.raises(NetworkError):
            await bot.get_updates()
    assert api.faults.hits(fault) == 3
    api.faults.remove(fault)
    assert await bot.get_updates() == ()
    api.faults.add(bad_gateway(times=None))
    api.faults.clear()
    assert await bot.get_updates() == ()


async def test_a_server_that_went_down_comes_back_at_its_address(api: BotApi, bot: Bot) -> None:
    update_id = api.user_says(CHAT, "x")
    url = api.url
    poll = asyncio.create_task(ids(bot, timeout=30, offset=update_id + 1))
    await api.wait_for(lambda: api.poll_count == 1)
    await api.go_down()
    with pytest.raises(NetworkError):
        await poll
    with pytest.raises(NetworkError):
        await bot.get_me()
    await api.come_up()
    assert api.url == url
    assert (await bot.get_me()).id == 123
