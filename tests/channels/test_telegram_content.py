"""What a message holds besides its words: what it answers, files, marks of somebody else's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bot.messages import Attachment, Quote
from tests.platforms.bot_api import BotApi
from tests.support.telegram_updates import bot_says, group_says, platform, received


@pytest.fixture
def api() -> BotApi:
    return platform()


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


@pytest.mark.parametrize("field", ["document", "voice", "audio", "video", "animation"])
def test_the_caption_of_any_file_is_the_text_that_comes_with_it(api: BotApi, field: str) -> None:
    media = {**FILE, "duration": 3, "width": 1, "height": 1}
    message = received(api, api.user_says(5, caption="what is this?", extra={field: media}))
    assert message.text == "what is this?"
    assert [item.ref for item in message.attachments] == ["X"]
