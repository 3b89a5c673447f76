"""The Bot API server's methods, driven by the real python-telegram-bot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaPhoto,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, TelegramError

from tests.platforms.bot_api import BotApi

CHAT = 5
FORUM = -1007


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with BotApi(token="123:ABC") as server:
        server.user_says(CHAT, "hello")  # message 1
        yield server


@pytest.fixture
async def bot(api: BotApi) -> AsyncIterator[Bot]:
    async with Bot(api.token, base_url=f"{api.url}/bot", base_file_url=f"{api.url}/file/bot") as sdk:
        yield sdk


def keyboard(data: str) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton("Go", callback_data=data)]])


async def refusal_of(call: Any) -> str:
    with pytest.raises(TelegramError) as refused:
        await call
    return str(refused.value.message)


async def test_get_me_names_the_bot_of_the_token(bot: Bot) -> None:
    assert (bot.bot.id, bot.bot.username, bot.bot.is_bot) == (123, "dutiful_test_bot", True)


async def test_another_token_is_unauthorized(api: BotApi) -> None:
    with pytest.raises(InvalidToken):
        async with Bot("123:other", base_url=f"{api.url}/bot"):
            pass


async def test_an_unknown_method_is_not_found_and_methods_ignore_case(api: BotApi) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{api.url}/bot123%3AABC/GETME") as response:
            assert (response.status, (await response.json())["result"]["id"]) == (200, 123)
        async with session.get(f"{api.url}/bot123:ABC/sendGift") as response:
            assert (response.status, (await response.json())["error_code"]) == (404, 404)


async def test_query_form_and_json_are_all_accepted(api: BotApi) -> None:
    sent = {"chat_id": CHAT, "text": "x"}
    async with aiohttp.ClientSession() as session:
        url = f"{api.url}/bot123:ABC/sendMessage"
        for kind in ({"params": sent}, {"data": sent}, {"json": sent}):
            arguments: dict[str, Any] = dict(kind)
            async with session.post(url, **arguments) as response:
                assert (await response.json())["result"]["text"] == "x"
        async with session.post(url, data=b"{", headers={"Content-Type": "application/json"}) as response:
            assert response.status == 400
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        async with session.post(url, data=b"chat_id=5&text=%ED%A0%80", headers=form) as response:
            assert (await response.json())["description"] == "Bad Request: strings must be encoded in UTF-8"
    assert api.texts(CHAT) == ["x", "x", "x"]


async def test_a_sent_message_comes_back_whole_and_is_recorded(api: BotApi, bot: Bot) -> None:
    bold = MessageEntity(MessageEntity.BOLD, 0, 2)
    message = await bot.send_message(CHAT, "hi there", entities=[bold], reply_to_message_id=1)
    assert (message.text, message.entities, message.chat.first_name) == ("hi there", (bold,), "Ada")
    assert message.reply_to_message is not None
    assert message.reply_to_message.text == "hello"
    record = api.sent[0]
    assert (record.method, record.chat_id, record.thread_id) == ("sendMessage", CHAT, None)
    assert (record.text, record.reply_to, record.message_id, record.ok) == ("hi there", 1, 2, True)
    assert record.entities == ({"type": "bold", "offset": 0, "length": 2},)
    assert record.params["chat_id"] == str(CHAT)
    assert api.messages[CHAT] == {1: "hello", 2: "hi there"}
    assert api.texts(CHAT) == ["hi there"]


async def test_length_is_counted_in_utf16_units(api: BotApi, bot: Bot) -> None:
    assert await refusal_of(bot.send_message(CHAT, "x" * 4097)) == "Message is too long"
    assert await refusal_of(bot.send_message(CHAT, "x" * 4095 + "🙂")) == "Message is too long"
    await bot.send_message(CHAT, "x" * 4094 + "🙂")
    assert [len(text) for text in api.texts(CHAT)] == [4095]
    assert [call.ok for call in api.calls("sendMessage")] == [False, False, True]
    assert len(api.sent) == 1


async def test_a_text_of_nothing_is_refused_and_outer_space_is_dropped(api: BotApi, bot: Bot) -> None:
    assert await refusal_of(bot.send_message(CHAT, "")) == "Message text is empty"
    assert await refusal_of(bot.send_message(CHAT, " \n ")) == "Text must be non-empty"
    message = await bot.send_message(CHAT, "  a b \n", entities=[MessageEntity("bold", 0, 7)])
    assert (message.text, message.entities) == ("a b", (MessageEntity("bold", 0, 3),))
    assert api.sent[0].text == "  a b \n"


@pytest.mark.parametrize(
    ("entity", "why"),
    [
        (MessageEntity("bold", 4, 1), "Entity begins after the end of the text at utf-16 offset 4"),
        (
            MessageEntity("bold", 0, 4),
            "Entity beginning at utf-16 offset 0 ends after the end of the text at utf-16 offset 4",
        ),
        (MessageEntity("bold", 2, 1), "Entity begins in a middle of a utf-16 symbol at utf-16 offset 2"),
        (
            MessageEntity("bold", 0, 2),
            "Entity beginning at utf-16 offset 0 ends in a middle of a utf-16 symbol at utf-16 offset 2",
        ),
        (MessageEntity("bold", -1, 1), "Receive an entity with incorrect offset -1"),
        (MessageEntity("sparkling", 0, 1), "Can't parse messageentity: unsupported type specified"),
    ],
)
async def test_entities_that_do_not_fit_the_text_are_refused(
    api: BotApi, bot: Bot, entity: MessageEntity, why: str
) -> None:
    assert (await refusal_of(bot.send_message(CHAT, "a🙂", entities=[entity]))).lower() == why.lower()
    await bot.send_message(CHAT, "a🙂", entities=[MessageEntity("bold", 1, 2)])
    assert len(api.sent) == 1


async def test_markup_is_read_and_malformed_markup_refused(bot: Bot) -> None:
    html = await bot.send_message(CHAT, '<b>a</b> <a href="http://x.example">b</a> &lt;', parse_mode="HTML")
    assert (html.text, [entity.type for entity in html.entities]) == ("a b <", ["bold", "text_link"])
    marked = await bot.send_message(CHAT, "*a* [b](http://x.example) `c.d` 1\\.0", parse_mode="MarkdownV2")
    assert (marked.text, [e.type for e in marked.entities]) == ("a b c.d 1.0", ["bold", "text_link", "code"])
    old = await bot.send_message(CHAT, "_a_ 1.0", parse_mode="Markdown")
    assert (old.text, old.entities) == ("a 1.0", (MessageEntity("italic", 0, 1),))
    for text, mode in (("<b>a", "HTML"), ("a</b>", "HTML"), ("<x>a</x>", "HTML"), ("1.0", "MarkdownV2")):
        why = await refusal_of(bot.send_message(CHAT, text, parse_mode=mode))
        assert why.startswith("Can't parse entities")
    assert (await refusal_of(bot.send_message(CHAT, "*a", parse_mode="Markdown"))) == (
        "Can't parse entities: can't find end of bold entity at byte offset 2"
    )


async def test_an_unknown_chat_is_not_found(bot: Bot) -> None:
    assert await refusal_of(bot.send_message(6, "x")) == "Chat not found"
    assert await refusal_of(bot.send_chat_action(6, "typing")) == "Chat not found"
    assert await refusal_of(bot.send_message("@nobody", "x")) == "Chat not found"


async def test_an_edit_changes_the_message_unless_it_changes_nothing(api: BotApi, bot: Bot) -> None:
    message = await bot.send_message(CHAT, "one", reply_markup=keyboard("go"))
    edited = await bot.edit_message_text("two", CHAT, message.message_id)
    assert not isinstance(edited, bool)
    assert (edited.text, edited.reply_markup) == ("two", None)
    assert api.texts(CHAT) == ["two"]
    why = await refusal_of(bot.edit_message_text("two ", CHAT, message.message_id))
    assert why.startswith("Message is not modified")
    await bot.edit_message_text("two", CHAT, message.message_id, entities=[MessageEntity("bold", 0, 3)])
    await bot.edit_message_reply_markup(CHAT, message.message_id, reply_markup=keyboard("again"))
    assert len(api.sent) == 1
    assert [call.ok for call in api.calls("editMessageText")] == [True, False, True]
    assert await refusal_of(bot.edit_message_text("x", CHAT, 99)) == "Message to edit not found"
    assert await refusal_of(bot.edit_message_text("x", CHAT, 1)) == "Message can't be edited"
    assert await refusal_of(bot.edit_message_text("x" * 4097, CHAT, 2)) == "Message is too long"


async def test_a_deleted_message_is_gone(api: BotApi, bot: Bot) -> None:
    message = await bot.send_message(CHAT, "one")
    assert await bot.delete_message(CHAT, message.message_id)
    assert api.texts(CHAT) == []
    assert await refusal_of(bot.delete_message(CHAT, message.message_id)) == "Message to delete not found"


async def test_topics_must_exist_and_the_general_one_has_no_id_in_sends(api: BotApi, bot: Bot) -> None:
    api.user_says(FORUM, "in a topic", chat_type="supergroup", thread_id=42)
    message = await bot.send_message(FORUM, "answer", message_thread_id=42)
    assert (message.message_thread_id, message.is_topic_message) == (42, True)
    by_reply = await bot.send_message(FORUM, "answer", reply_to_message_id=1)
    assert by_reply.message_thread_id == 42
    assert [record.thread_id for record in api.sent] == [42, None]
    assert await refusal_of(bot.send_message(FORUM, "x", message_thread_id=43)) == "Message thread not found"
    assert await refusal_of(bot.send_message(FORUM, "x", message_thread_id=1)) == "Message thread not found"
    assert await bot.send_chat_action(FORUM, "typing", message_thread_id=1)
    api.delete_topic(FORUM, 42)
    assert await refusal_of(bot.send_message(FORUM, "x", message_thread_id=42)) == "Message thread not found"


async def test_a_thread_of_replies_is_no_topic_to_send_to(api: BotApi, bot: Bot) -> None:
    api.user_says(FORUM, "a reply", chat_type="supergroup", thread_id=7, is_forum=False)
    assert await refusal_of(bot.send_message(FORUM, "x", message_thread_id=7)) == "Message thread not found"


async def test_a_reply_to_a_missing_message_is_refused_unless_it_may_go_without(api: BotApi, bot: Bot) -> None:
    assert await refusal_of(bot.send_message(CHAT, "x", reply_to_message_id=99)) == ("Message to be replied not found")
    lenient = ReplyParameters(message_id=99, allow_sending_without_reply=True)
    message = await bot.send_message(CHAT, "x", reply_parameters=lenient)
    assert message.reply_to_message is None
    wrong = ReplyParameters(message_id=1, quote="not said")
    assert await refusal_of(bot.send_message(CHAT, "x", reply_parameters=wrong)) == "Quote_text_invalid"
    assert api.sent[0].reply_to == 99


async def test_files_are_stored_and_can_be_fetched(api: BotApi, bot: Bot) -> None:
    sent = await bot.send_document(CHAT, b"content", filename="a.txt", caption="a file")
    assert sent.document is not None
    assert (sent.document.file_name, sent.document.file_size, sent.caption) == ("a.txt", 7, "a file")
    fetched = await bot.get_file(sent.document.file_id)
    assert bytes(await fetched.download_as_bytearray()) == b"content"
    photo = await bot.send_photo(CHAT, b"pixels", caption="c" * 1024)
    again = await bot.send_photo(CHAT, photo.photo[-1].file_id)
    assert again.photo[-1].file_id == photo.photo[-1].file_id
    assert [record.method for record in api.sent] == ["sendDocument", "sendPhoto", "sendPhoto"]
    assert await refusal_of(bot.send_photo(CHAT, b"x", caption="c" * 1025)) == "Message caption is too long"
    assert await refusal_of(bot.send_photo(CHAT, b"")) == "File must be non-empty"
    assert await refusal_of(bot.send_photo(CHAT, "nothing")) == "Wrong file identifier/http url specified"
    assert await refusal_of(bot.get_file("nothing")) == "Invalid file_id"
    huge = api.add_file(b"", "huge.bin", size_bytes=25 * 1024 * 1024)
    assert await refusal_of(bot.get_file(huge)) == "File is too big"


async def test_an_album_is_two_to_ten_messages_of_one_group(api: BotApi, bot: Bot) -> None:
    album = await bot.send_media_group(CHAT, [InputMediaPhoto(b"1", caption="both"), InputMediaPhoto(b"2")])
    assert len({message.media_group_id for message in album}) == 1
    assert [record.message_id for record in api.sent] == [2, 3]
    assert api.texts(CHAT) == ["both", ""]
    assert await refusal_of(bot.send_media_group(CHAT, [InputMediaPhoto(b"1")])) == (
        "Media group must include 2-10 items"
    )


async def test_buttons_are_checked_and_their_presses_answered_once(api: BotApi, bot: Bot) -> None:
    too_long = bot.send_message(CHAT, "x", reply_markup=keyboard("d" * 65))
    assert await refusal_of(too_long) == "Button_data_invalid"
    message = await bot.send_message(CHAT, "x", reply_markup=keyboard("d" * 64))
    with pytest.raises(ValueError, match="has no button 'e'"):
        api.press(CHAT, message.message_id, "e")
    api.press(CHAT, message.message_id, "d" * 64, user_id=9)
    update = (await bot.get_updates(offset=-1))[0]
    assert update.callback_query is not None
    assert (update.callback_query.data, update.callback_query.from_user.id) == ("d" * 64, 9)
    assert await bot.answer_callback_query(update.callback_query.id)
    why = await refusal_of(bot.answer_callback_query(update.callback_query.id))
    assert why.startswith("Query is too old")


async def test_small_methods_check_their_parameters(api: BotApi, bot: Bot) -> None:
    assert await bot.set_my_commands([("new", "Start over")])
    assert (await bot.get_my_commands())[0].command == "new"
    assert await refusal_of(bot.set_my_commands([("New", "Start over")])) == "Bot_command_invalid"
    assert await bot.set_message_reaction(CHAT, 1, "👍")
    assert api.world.reactions[CHAT, 1] == [{"type": "emoji", "emoji": "👍"}]
    assert await refusal_of(bot.set_message_reaction(CHAT, 9, "👍")) == "Message to react not found"
    assert await refusal_of(bot.send_chat_action(CHAT, "singing")) == "Wrong parameter action in request"
    assert (await bot.get_chat(CHAT)).first_name == "Ada"
    assert (await bot.get_chat_member(CHAT, 111)).status == "member"
    assert await refusal_of(bot.get_chat_member(CHAT, 112)) == "Member not found"


async def test_an_upgraded_group_and_a_closed_chat_take_no_message(api: BotApi, bot: Bot) -> None:
    api.add_chat(-8, chat_type="group", name="Team")
    api.migrate(-8, -1008)
    with pytest.raises(ChatMigrated) as moved:
        await bot.send_message(-8, "x")
    assert moved.value.new_chat_id == -1008
    assert (await bot.send_message(-1008, "x")).chat.type == "supergroup"
    api.block(CHAT)
    with pytest.raises(Forbidden, match="bot was blocked by the user"):
        await bot.send_message(CHAT, "x")
    api.unblock(CHAT)
    assert (await bot.send_message(CHAT, "x")).text == "x"
    with pytest.raises(BadRequest):
        await bot.send_message(0, "x")
