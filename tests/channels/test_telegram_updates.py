"""What an update means, without any network: the platform's JSON in, an event out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from telegram import Bot, Update

from bot.clock import to_us
from bot.messages import Address, Attachment, ChatType, InboundMessage, Quote
from channels.telegram.config import GroupPolicy
from channels.telegram.content import BotIdentity
from channels.telegram.updates import (
    Closed,
    Edited,
    Event,
    Migrated,
    Received,
    Reopened,
    read_update,
)
from tests.platforms.bot_api import BotApi

ME = BotIdentity(id=123, username="MyBot")
BOT = Bot("123:ABC")
GROUP = -1001


@pytest.fixture
def api() -> BotApi:
    made = BotApi("123:ABC", username="MyBot")
    made.add_chat(GROUP, chat_type="supergroup", is_forum=True, topics=(42,))
    return made


def read(api: BotApi, update_id: int, policy: GroupPolicy = GroupPolicy.MENTION) -> Event | None:
    raw = orjson.loads(api.updates._published[update_id])
    return read_update(Update.de_json(raw, BOT), ME, policy)


def received(api: BotApi, update_id: int, policy: GroupPolicy = GroupPolicy.MENTION) -> InboundMessage:
    event = read(api, update_id, policy)
    assert isinstance(event, Received)
    assert event.addressed
    return event.message


def bot_says(api: BotApi, chat_id: int, text: str, *, thread_id: int | None = None) -> int:
    sender = {"id": 123, "is_bot": True, "first_name": "Dutiful", "username": "MyBot"}
    chat = api.world.chats[chat_id]
    return int(api.world.new_message(chat, sender, {"text": text}, thread_id=thread_id)["message_id"])


def group_says(api: BotApi, text: str, **more: Any) -> int:
    return api.user_says(GROUP, text, chat_type="supergroup", **more)


# --- private chats and identity --------------------------------------------------------------------------


def test_a_private_message_is_taken_as_it_is(api: BotApi) -> None:
    message = received(api, api.user_says(5, "/start", user_id=111, first_name="Ada", date=1_700_000_000))
    assert message == InboundMessage(
        address=Address(channel="telegram", chat_id="5"),
        message_id="1",
        text="/start",
        sender_id="111",
        sender_name="Ada",
        account="123",
        chat_type=ChatType.PRIVATE,
        sent_us=1_700_000_000_000_000,
    )


def test_nul_characters_and_lone_surrogates_do_not_come_in(api: BotApi) -> None:
    raw = orjson.loads(api.updates._published[api.user_says(5, "text")])
    raw["message"]["text"] = "a\x00b\ud83dc"
    event = read_update(Update.de_json(raw, BOT), ME, GroupPolicy.MENTION)
    assert isinstance(event, Received)
    assert event.message.text == "ab\ufffdc"


def test_an_anonymous_admin_speaks_as_the_group(api: BotApi) -> None:
    extra = {"sender_chat": {"id": GROUP, "type": "supergroup", "title": "Team"}}
    update = group_says(api, "@MyBot hi", user_id=1087968824, is_bot=True, extra=extra)
    message = received(api, update)
    assert (message.sender_id, message.sender_name) == ("-1001", "Team")


def test_somebody_who_writes_as_a_channel_has_the_channels_id(api: BotApi) -> None:
    extra = {"sender_chat": {"id": -1009, "type": "channel", "title": "News"}}
    message = received(api, group_says(api, "@MyBot hi", user_id=136817688, is_bot=True, extra=extra))
    assert message.sender_id == "-1009"


def test_channel_posts_and_their_copies_in_the_discussion_group_are_ignored(api: BotApi) -> None:
    post = {"message_id": 3, "date": 1, "chat": {"id": -1009, "type": "channel", "title": "N"}, "text": "@MyBot"}
    assert read(api, api.push_raw({"channel_post": post})) is None
    copied = group_says(api, "@MyBot", extra={"is_automatic_forward": True})
    assert read(api, copied) is None


@pytest.mark.parametrize("extra", [{"new_chat_title": "New"}, {"pinned_message": None}, {"left_chat_member": None}])
def test_service_messages_without_words_are_ignored(api: BotApi, extra: Mapping[str, Any]) -> None:
    assert read(api, api.user_says(5, "", extra={k: v for k, v in extra.items() if v})) is None


def test_updates_of_other_kinds_are_ignored(api: BotApi) -> None:
    assert read(api, api.push_raw({"poll": None, "something_new": {"a": 1}})) is None


# --- groups ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("@MyBot what is this", "what is this"),
        ("@mybot what is this", "what is this"),
        ("@MYBOT, what is this", "what is this"),
        ("what is this, @MyBot?", "what is this,?"),
        ("hey @MyBot what is this", "hey what is this"),
        ("😀 漢 @MyBot what", "😀 漢 what"),
        ("/remind@MyBot in 5 minutes", "/remind in 5 minutes"),
        ("/status@mybot", "/status"),
        ("@MyBot", "@MyBot"),
    ],
)
def test_a_mention_is_heard_in_any_case_and_left_out_of_the_text(api: BotApi, said: str, heard: str) -> None:
    assert received(api, group_says(api, said)).text == heard


def test_a_mention_by_name_without_username_is_heard(api: BotApi) -> None:
    bot_user = {"id": 123, "is_bot": True, "first_name": "Dutiful"}
    entities = [{"type": "text_mention", "offset": 0, "length": 7, "user": bot_user}]
    assert received(api, group_says(api, "Dutiful, help", entities=entities)).text == "help"


def test_a_mention_in_a_caption_is_heard_with_its_photo(api: BotApi) -> None:
    """C041: photo with '@MyBot what is this' in the caption, in another letter case."""
    update = group_says(api, "", photo=b"jpeg", caption="@mYbOt what is this")
    message = received(api, update)
    assert message.text == "what is this"
    assert [item.kind for item in message.attachments] == ["image"]


@pytest.mark.parametrize(
    "said",
    ["hello all", "@MyBotter hi", "mail me@MyBot.example", "@OtherBot hi", "/status@OtherBot", "/status", "MyBot hi"],
)
def test_what_does_not_mention_the_bot_is_not_for_it(api: BotApi, said: str) -> None:
    assert read(api, group_says(api, said)) is None


def test_a_reply_to_the_bot_is_heard_and_one_to_a_person_is_not(api: BotApi) -> None:
    """C040"""
    ours = bot_says(api, GROUP, "Shall I?")
    human = api.world.chats[GROUP].last_message_id + 1
    group_says(api, "I think so", user_id=222)
    assert received(api, group_says(api, "yes", reply_to=ours)).text == "yes"
    assert read(api, group_says(api, "no", reply_to=human)) is None


def test_a_message_in_a_topic_the_bot_opened_is_no_reply_to_it(api: BotApi) -> None:
    sender = {"id": 123, "is_bot": True, "first_name": "Dutiful", "username": "MyBot"}
    chat = api.world.chats[GROUP]
    opened = api.world.new_message(chat, sender, {"forum_topic_created": {"name": "T", "icon_color": 1}}, message_id=42)
    update = group_says(api, "talking among ourselves", thread_id=42, reply_to=opened["message_id"])
    assert read(api, update) is None
    message = received(api, group_says(api, "@MyBot hi", thread_id=42, reply_to=opened["message_id"]))
    assert message.quote is None


def test_with_policy_all_everything_is_heard_but_commands_for_other_bots(api: BotApi) -> None:
    assert received(api, group_says(api, "hello all"), GroupPolicy.ALL).text == "hello all"
    assert received(api, group_says(api, "/status"), GroupPolicy.ALL).text == "/status"
    assert read(api, group_says(api, "/status@OtherBot now"), GroupPolicy.ALL) is None


def test_with_policy_off_no_group_is_heard_but_private_chats_are(api: BotApi) -> None:
    assert read(api, group_says(api, "@MyBot hi"), GroupPolicy.OFF) is None
    assert received(api, api.user_says(5, "hi"), GroupPolicy.OFF).text == "hi"


@pytest.mark.parametrize("policy", [GroupPolicy.MENTION, GroupPolicy.ALL])
def test_other_bots_are_heard_only_when_they_mention_the_bot(api: BotApi, policy: GroupPolicy) -> None:
    """C037"""
    ours = bot_says(api, GROUP, "hello")
    assert read(api, group_says(api, "beep", user_id=999, is_bot=True), policy) is None
    assert read(api, group_says(api, "beep", user_id=999, is_bot=True, reply_to=ours), policy) is None
    assert received(api, group_says(api, "@MyBot beep", user_id=999, is_bot=True), policy).text == "beep"


def test_the_bots_own_messages_are_never_heard(api: BotApi) -> None:
    """C037"""
    update = group_says(api, "@MyBot talking to myself", user_id=123, is_bot=True)
    assert read(api, update, GroupPolicy.ALL) is None


def test_a_group_answer_replies_and_a_private_one_does_not(api: BotApi) -> None:
    assert received(api, group_says(api, "@MyBot hi", message_id=77)).reply_to == "77"
    assert received(api, api.user_says(5, "hi")).reply_to == ""


# --- topics ----------------------------------------------------------------------------------------------


def test_a_topic_is_a_thread_and_general_and_reply_threads_are_not(api: BotApi) -> None:
    """C034: the place of a message decides where everything about it goes."""
    assert received(api, group_says(api, "@MyBot hi", thread_id=42)).address.thread_id == "42"
    assert received(api, group_says(api, "@MyBot hi")).address.thread_id is None
    api.add_chat(-1002, chat_type="supergroup")
    update = api.user_says(-1002, "@MyBot hi", chat_type="supergroup", thread_id=9, is_forum=False)
    assert received(api, update).address == Address(channel="telegram", chat_id="-1002")


# --- quotes ----------------------------------------------------------------------------------------------


def test_a_reply_brings_the_whole_quoted_text_with_the_authors_role(api: BotApi) -> None:
    """C042: 'done, ask again tomorrow' under an old reminder."""
    api.user_says(5, "I said this")
    reminder = bot_says(api, 5, "Pay rent")
    update = api.user_says(5, "done, ask again tomorrow", reply_to=reminder)
    assert received(api, update).quote == Quote(message_id="2", author="bot", text="Pay rent")
    own = received(api, api.user_says(5, "as I said", reply_to=1)).quote
    assert own == Quote(message_id="1", author="sender", text="I said this")


def test_a_highlighted_fragment_replaces_the_quoted_text(api: BotApi) -> None:
    """C042"""
    api.user_says(5, "hi")
    reminder = bot_says(api, 5, "Pay rent and call Bob")
    quote = received(api, api.user_says(5, "who?", reply_to=reminder, quote="call Bob")).quote
    assert quote == Quote(message_id="2", author="bot", text="call Bob", is_fragment=True)


def test_a_quote_of_somebody_else_is_marked_so_and_brings_its_photo(api: BotApi) -> None:
    group_says(api, "", photo=b"jpeg", caption="my cat", user_id=222, message_id=7)
    message = received(api, group_says(api, "@MyBot what is this", reply_to=7))
    assert message.quote == Quote(message_id="7", author="other", text="my cat")
    assert [item.kind for item in message.attachments] == ["image"]


def test_a_quoted_message_without_words_is_described(api: BotApi) -> None:
    voice = {"voice": {"file_id": "V", "file_unique_id": "u", "duration": 3}}
    api.user_says(5, "", extra=voice)
    quote = received(api, api.user_says(5, "what did I say", reply_to=1)).quote
    assert quote == Quote(message_id="1", author="sender", text="[voice]")


def test_a_quote_from_another_chat_is_marked(api: BotApi) -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Bob", "date": 1_700_000_000}
    extra = {"external_reply": {"origin": origin}, "quote": {"text": "the secret", "position": 0}}
    message = received(api, api.user_says(5, "look", extra=extra))
    assert message.quote == Quote(message_id="", author="other", text="the secret", is_fragment=True)
    assert message.meta == {"external_reply": True}


def test_a_forwarded_message_is_marked(api: BotApi) -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Bob", "date": 1_700_000_000}
    message = received(api, api.user_says(5, "do evil", extra={"forward_origin": origin}))
    assert message.meta == {"forwarded_from": "hidden_user"}


# --- files -----------------------------------------------------------------------------------------------


def test_of_a_photo_the_largest_size_is_taken_with_its_caption(api: BotApi) -> None:
    message = received(api, api.user_says(5, photo=b"12345", caption="look"))
    assert message.text == "look"
    assert message.attachments == (Attachment(kind="image", mime="image/jpeg", size_bytes=5, ref="F1"),)


FILE = {"file_id": "X", "file_unique_id": "u", "file_size": 9}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (
            {"document": {**FILE, "file_name": "a.pdf", "mime_type": "application/pdf"}},
            Attachment(kind="document", name="a.pdf", mime="application/pdf", size_bytes=9, ref="X"),
        ),
        (
            {"document": {**FILE, "file_name": "a.png", "mime_type": "image/png"}},
            Attachment(kind="image", name="a.png", mime="image/png", size_bytes=9, ref="X"),
        ),
        (
            {"voice": {**FILE, "duration": 3, "mime_type": "audio/ogg"}},
            Attachment(kind="voice", mime="audio/ogg", size_bytes=9, ref="X"),
        ),
        (
            {"audio": {**FILE, "duration": 3, "file_name": "song.mp3"}},
            Attachment(kind="audio", name="song.mp3", size_bytes=9, ref="X"),
        ),
        (
            {"video_note": {**FILE, "duration": 3, "length": 240}},
            Attachment(kind="video", size_bytes=9, ref="X"),
        ),
        (
            {
                "animation": {**FILE, "duration": 3, "width": 1, "height": 1, "mime_type": "video/mp4"},
                "document": FILE,
            },
            Attachment(kind="video", mime="video/mp4", size_bytes=9, ref="X"),
        ),
        (
            {
                "sticker": {
                    **FILE, "emoji": "😀", "type": "regular", "width": 1, "height": 1,
                    "is_animated": False, "is_video": False,
                }
            },
            Attachment(kind="sticker", name="😀", size_bytes=9, ref="X"),
        ),
        ({"location": {"latitude": 52.5, "longitude": 13.4}}, Attachment(kind="location", name="52.5,13.4")),
        (
            {"contact": {"phone_number": "+49", "first_name": "Bob"}},
            Attachment(kind="contact", name="Bob +49"),
        ),
    ],
)  # fmt: skip
def test_files_places_and_contacts_come_in_without_words(
    api: BotApi, extra: Mapping[str, Any], expected: Attachment
) -> None:
    message = received(api, api.user_says(5, "", extra=extra))
    assert (message.text, message.attachments) == ("", (expected,))


def test_a_poll_is_put_into_words(api: BotApi) -> None:
    options = [{"text": text, "voter_count": 0, "persistent_id": text} for text in ("yes", "no")]
    poll = {
        "id": "1", "question": "Lunch?", "options": options, "total_voter_count": 0, "is_closed": False,
        "is_anonymous": True, "type": "regular", "allows_multiple_answers": False, "allows_revoting": False,
        "members_only": False,
    }  # fmt: skip
    assert received(api, api.user_says(5, "", extra={"poll": poll})).text == "[poll] Lunch? (yes, no)"


# --- edits, buttons, membership --------------------------------------------------------------------------


def test_an_edit_has_the_identity_of_the_original(api: BotApi) -> None:
    original = received(api, api.user_says(5, "nin"))
    event = read(api, api.edit(5, 1, "nine"))
    assert isinstance(event, Edited)
    assert event.message.text == "nine"
    assert (event.message.message_id, event.message.variant) == (original.message_id, "")


def test_an_edit_in_a_group_loses_the_mention_as_the_original_did(api: BotApi) -> None:
    group_says(api, "@MyBot nin", message_id=7)
    event = read(api, api.edit(GROUP, 7, "@MyBot nine"))
    assert isinstance(event, Edited)
    assert event.message.text == "nine"


def test_a_button_press_comes_in_as_if_typed_by_who_pressed_it(api: BotApi) -> None:
    chat = api.world.chats[GROUP]
    sender = {"id": 123, "is_bot": True, "first_name": "Dutiful", "username": "MyBot"}
    markup = {"inline_keyboard": [[{"text": "Approve", "callback_data": "/approve A12"}]]}
    api.world.new_message(chat, sender, {"text": "?", "reply_markup": markup}, thread_id=42, message_id=9)
    event = read(api, api.press(GROUP, 9, "/approve A12", user_id=222, first_name="Bob"))
    assert isinstance(event, Received)
    assert event.callback_id != ""
    message = event.message
    assert message.address == Address(channel="telegram", chat_id=str(GROUP), thread_id="42")
    assert (message.text, message.sender_id, message.message_id) == ("/approve A12", "222", "9")
    assert message.variant == event.callback_id


def test_a_press_under_a_message_too_old_to_see_still_counts(api: BotApi) -> None:
    query = {
        "id": "q1",
        "from": {"id": 111, "is_bot": False, "first_name": "Ada"},
        "chat_instance": "c",
        "data": "yes",
        "message": {"chat": {"id": 5, "type": "private", "first_name": "Ada"}, "message_id": 4, "date": 0},
    }
    message = received(api, api.push_raw({"callback_query": query}))
    assert (message.address.chat_id, message.message_id, message.text) == ("5", "4", "yes")


def test_an_upgraded_group_reports_its_new_id_from_both_sides(api: BotApi) -> None:
    """C035"""
    api.add_chat(-5, chat_type="group")
    leaving, arriving = api.migrate(-5, -1009)
    moved = Migrated(old_chat_id="-5", new_chat_id="-1009")
    assert [read(api, leaving), read(api, arriving)] == [moved, moved]


def test_being_blocked_closes_the_chat_and_being_unblocked_opens_it(api: BotApi) -> None:
    """C036"""
    api.add_chat(5)
    address = Address(channel="telegram", chat_id="5")
    closed = read(api, api.block(5))
    assert isinstance(closed, Closed)
    assert closed.address == address
    assert "kicked" in closed.reason
    assert read(api, api.unblock(5)) == Reopened(address=address)


def test_a_promotion_opens_and_closes_nothing(api: BotApi) -> None:
    bot = {"id": 123, "is_bot": True, "first_name": "Dutiful"}
    change = {
        "chat": {"id": GROUP, "type": "supergroup", "title": "T"},
        "from": {"id": 1, "is_bot": False, "first_name": "A"},
        "date": 1,
        "old_chat_member": {"status": "member", "user": bot},
        "new_chat_member": {"status": "member", "user": bot},
    }
    assert read(api, api.push_raw({"my_chat_member": change})) is None


def test_the_time_of_writing_is_kept() -> None:
    api = BotApi("123:ABC", username="MyBot")
    raw = orjson.loads(api.updates._published[api.user_says(5, "x", date=1_700_000_123)])
    update = Update.de_json(raw, BOT)
    assert update.message is not None
    assert received(api, 1000).sent_us == to_us(update.message.date) == 1_700_000_123_000_000
