"""What an update means, without any network: the platform's JSON in, an event out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from telegram import Update

from bot.clock import to_us
from bot.messages import Address, ButtonPress, ChatType, InboundMessage, Reaction
from channels.config import GroupPolicies, GroupPolicy
from channels.telegram.taps import Pressed, Reacted
from channels.telegram.updates import ALLOWED_UPDATES, Closed, Edited, Migrated, Received, Reopened, read_update
from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_objects import Json
from tests.support.telegram_updates import BOT, GROUP, ME, bot_says, group_says, platform, read, received


@pytest.fixture
def api() -> BotApi:
    return platform()


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
    event = read_update(Update.de_json(raw, BOT), ME, GroupPolicies())
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
    heard = received(api, group_says(api, "@MyBot beep", user_id=999, is_bot=True), policy)
    assert (heard.text, heard.meta) == ("beep", {"from_bot": True})


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


def press_of(data: str, **query: Any) -> Json:
    """Return the press of a button under a message too old to be shown."""
    return {
        "callback_query": {
            "id": "q1",
            "from": {"id": 111, "is_bot": False, "first_name": "Ada"},
            "chat_instance": "c",
            "data": data,
            "message": {"chat": {"id": 5, "type": "private", "first_name": "Ada"}, "message_id": 4, "date": 0},
            **query,
        }
    }


def test_a_press_names_row_and_button_and_says_nothing_by_itself(api: BotApi) -> None:
    chat = api.world.chats[GROUP]
    sender = {"id": 123, "is_bot": True, "first_name": "Dutiful", "username": "MyBot"}
    markup = {"inline_keyboard": [[{"text": "Approve", "callback_data": "b17.2"}]]}
    api.world.new_message(chat, sender, {"text": "?", "reply_markup": markup}, thread_id=42, message_id=9)
    event = read(api, api.press(GROUP, 9, "b17.2", user_id=222, first_name="Bob"))
    assert isinstance(event, Pressed)
    assert event.press == ButtonPress(
        channel="telegram",
        chat_id=str(GROUP),
        message_id="9",
        outbox_id=17,
        index=2,
        press_id=event.query_id,
        sender_id="222",
        sender_name="Bob",
        account="123",
        chat_type=ChatType.GROUP,
    )


def test_a_press_under_a_message_too_old_to_see_still_counts(api: BotApi) -> None:
    event = read(api, api.push_raw(press_of("b17.0")))
    assert isinstance(event, Pressed)
    assert event.press is not None
    assert (event.press.chat_id, event.press.message_id, event.press.outbox_id) == ("5", "4", 17)


@pytest.mark.parametrize("data", ["/approve A12", "yes", "b17", "b17.0 ", "b-1.0", "B17.0"])
def test_data_that_is_none_of_our_tokens_is_no_press_of_anything(api: BotApi, data: str) -> None:
    event = read(api, api.push_raw(press_of(data)))
    assert event == Pressed(query_id="q1", chat_id="5", message_id="4")


def test_presses_and_reactions_in_groups_that_are_off_are_nothing(api: BotApi) -> None:
    ours = bot_says(api, GROUP, "Shall I?")
    update = api.push_raw(
        press_of("b1.0", message={"chat": {"id": GROUP, "type": "group"}, "message_id": 4, "date": 0})
    )
    assert read(api, update, GroupPolicy.OFF) is None
    api.updates.allowed = list(ALLOWED_UPDATES)
    assert read(api, api.react(GROUP, ours, "👍"), GroupPolicy.OFF) is None


# --- reactions -------------------------------------------------------------------------------------------


def test_an_added_emoji_is_a_reaction_of_who_put_it(api: BotApi) -> None:
    api.updates.allowed = list(ALLOWED_UPDATES)
    ours = bot_says(api, GROUP, "Shall I?")
    update = api.react(GROUP, ours, "👍", "🎉", user_id=222, before=("👍",))
    event = read(api, update)
    assert isinstance(event, Reacted)
    assert event.reactions == (
        Reaction(
            channel="telegram",
            chat_id=str(GROUP),
            message_id=str(ours),
            emoji="🎉",
            sender_id="222",
            stamp=str(update),
            sender_name="Ada",
            account="123",
            chat_type=ChatType.GROUP,
        ),
    )


@pytest.mark.parametrize(
    "reaction",
    [
        {"emojis": ("👍",), "before": ("👍", "🎉")},  # one was taken away
        {"custom": ("5368324170671202286",)},
        {"emojis": ("👍",), "anonymous": True},
        {"emojis": ("👍",), "is_bot": True},
        {"emojis": ()},
    ],
)
def test_what_is_no_new_emoji_of_a_person_is_no_reaction(api: BotApi, reaction: Mapping[str, Any]) -> None:
    api.updates.allowed = list(ALLOWED_UPDATES)
    ours = bot_says(api, GROUP, "Shall I?")
    rest = {key: value for key, value in reaction.items() if key != "emojis"}
    assert read(api, api.react(GROUP, ours, *reaction.get("emojis", ()), **rest)) is None


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
