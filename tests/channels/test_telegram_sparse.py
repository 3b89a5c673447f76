"""Updates of servers that send less than Telegram does, and kinds of updates that nobody asked for."""

from __future__ import annotations

from typing import Any

import pytest

from bot.messages import ChatType
from channels.config import GroupPolicies
from channels.telegram.api import BotApi
from channels.telegram.taps import Pressed, Reacted
from channels.telegram.updates import Received, read_update
from tests.support.telegram_updates import ME

Json = dict[str, Any]

PERSON = {"id": 5, "is_bot": False, "first_name": "Ada"}
WHOLE: Json = {"message_id": 1, "date": 1700000000, "chat": {"id": 5, "type": "private"}, "from": PERSON, "text": "hi"}


def read(update: Json) -> object:
    api = BotApi("123:ABC", "http://127.0.0.1:9")
    return read_update(api.parse_update({"update_id": 1, **update}), ME, GroupPolicies())


def without(*keys: str, **changed: Any) -> Json:
    return {"message": {**{key: value for key, value in WHOLE.items() if key not in keys}, **changed}}


@pytest.mark.parametrize(
    "update",
    [
        {"message": WHOLE},
        without("date"),
        without("from"),
        without(date=0),
        without(**{"from": {"id": 5}}),
        without(chat={"id": 5}),
        without("from", "date", chat={"id": 5, "first_name": "Ada"}),
        without(new_field={"a": 1}),
        without(reply_to_message={"message_id": 7, "text": "before"}),
        without(entities=[{"type": "bold", "offset": 500, "length": 10}]),
    ],
)
def test_a_message_with_little_in_it_is_a_message(update: Json) -> None:
    event = read(update)
    assert isinstance(event, Received)
    assert (event.message.text, event.message.sender_id, event.message.address.chat_id) == ("hi", "5", "5")
    assert event.message.chat_type is ChatType.PRIVATE


def test_a_chat_with_a_negative_id_is_a_group_and_nobody_in_it_is_made_up() -> None:
    event = read(without("from", chat={"id": -7}, text="@MyBot hi", entities=[MENTION]))
    assert isinstance(event, Received)
    assert event.message.chat_type is ChatType.GROUP
    assert event.message.sender_id == ""


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("@mybot hi", "hi"),
        ("\N{GRINNING FACE} hi @MyBot", "\N{GRINNING FACE} hi"),
        ("/help@MyBot", "/help"),
        ("hi @MyBotany", None),
        ("mail x@MyBot", None),
        ("hi @OtherBot", None),
        ("/help@OtherBot", None),
        ("/usr/bin @MyBot", "/usr/bin"),
    ],
)
def test_a_name_that_nobody_marked_is_found(text: str, heard: str | None) -> None:
    event = read(without(text=text, chat={"id": -7, "type": "group"}))
    assert (event.message.text if isinstance(event, Received) else None) == heard


def test_marks_that_came_are_left_alone() -> None:
    chat = {"id": -7, "type": "group"}
    assert read(without(text="use @MyBot", chat=chat, entities=[{"type": "code", "offset": 4, "length": 6}])) is None


MENTION = {"type": "mention", "offset": 0, "length": 6}


def test_a_press_without_an_instance_is_a_press() -> None:
    event = read({"callback_query": {"id": "9", "from": {"id": 5}, "message": WHOLE, "data": "b1.0"}})
    assert isinstance(event, Pressed)
    assert event.press is not None
    assert event.press.outbox_id == 1


def test_a_reaction_with_only_what_is_needed_is_a_reaction() -> None:
    emoji = {"type": "emoji", "emoji": "👍"}
    event = read({"message_reaction": {"chat": {"id": 5}, "message_id": 3, "user": {"id": 5}, "new_reaction": [emoji]}})
    assert isinstance(event, Reacted)
    assert event.reactions[0].emoji == "👍"


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"message": None},
        {"poll": {"id": "1"}},
        {"chat_join_request": {"chat": {"id": 1}}},
        {"channel_post": {"text": "x"}},
        {"made_up_later": {"x": 1}},
    ],
)
def test_what_nobody_asked_for_is_nothing_to_us(update: Json) -> None:
    assert read(update) is None


@pytest.mark.parametrize("update", [{"message": 5}, {"message": {"chat": 5}}, without("message_id")])
def test_what_makes_no_sense_is_still_an_error(update: Json) -> None:
    with pytest.raises((TypeError, AttributeError, KeyError)):
        read(update)
