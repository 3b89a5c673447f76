"""What a message of Discord's says to the bot: a pure function of its JSON."""

from __future__ import annotations

from typing import Any

import pytest

from bot.messages import Address, Attachment, ChatType, InboundMessage, Quote
from channels.config import GroupPolicies, GroupPolicy
from channels.discord.content import BotIdentity, text_of
from channels.discord.events import Reader
from channels.discord.places import Place, place_of

ME, ADA, BEN, ROLE = "900", "111", "222", "700"

DM = Place(channel_id="5")
CHANNEL = Place(channel_id="10", guild_id="1")
THREAD = Place(channel_id="42", guild_id="1", parent_id="10")

Json = dict[str, Any]


def person(user_id: str, name: str = "Ada", **more: Any) -> Json:
    return {"id": user_id, "username": name.lower(), "global_name": name, **more}


def message(content: str = "", *, place: Place = CHANNEL, author: Json | None = None, **more: Any) -> Json:
    return {
        "id": "1000",
        "channel_id": place.channel_id,
        "type": 0,
        "author": author or person(ADA),
        "content": content,
        "timestamp": "2026-11-30T10:00:00.250000+00:00",
        "edited_timestamp": None,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "flags": 0,
        **more,
    }


def reader(policy: GroupPolicy = GroupPolicy.MENTION, **chats: GroupPolicy) -> Reader:
    named = {key.removeprefix("c"): value for key, value in chats.items()}
    return Reader(me=BotIdentity(id=ME), policies=GroupPolicies(default=policy, chats=named))


def read(data: Json, place: Place = CHANNEL, policy: GroupPolicy = GroupPolicy.MENTION) -> InboundMessage | None:
    return reader(policy).message(data, place, role_id=ROLE)


def text(data: Json, place: Place = CHANNEL) -> str:
    found = read(data, place)
    assert found is not None
    return found.text


# --- who is meant


def test_everything_said_in_private_is_for_the_bot() -> None:
    found = read(message("hi", place=DM), DM)
    assert found is not None
    assert found.address == Address(channel="discord", chat_id="5")
    assert (found.chat_type, found.reply_to) == (ChatType.PRIVATE, "")
    assert (found.sender_id, found.sender_name, found.account) == (ADA, "Ada", ME)
    assert found.sent_us == 1_796_032_800_250_000


def test_a_thread_is_addressed_by_its_channel_and_itself() -> None:
    found = read(message(f"<@{ME}> hi", place=THREAD), THREAD)
    assert found is not None
    assert found.address == Address(channel="discord", chat_id="10", thread_id="42")
    assert found.address.rate_key == "discord:10"
    assert (found.chat_type, found.reply_to) == (ChatType.GROUP, "1000")


def test_a_channel_object_tells_its_place() -> None:
    assert place_of({"id": "42", "type": 11, "parent_id": "10", "guild_id": "1"}) == THREAD
    assert place_of({"id": "10", "type": 0, "parent_id": "99"}, "1") == CHANNEL  # a text channel's parent is a category
    assert place_of({"id": "5", "type": 1}) == DM


@pytest.mark.parametrize("mention", [f"<@{ME}>", f"<@!{ME}>", f"<@&{ROLE}>"])
def test_a_mention_of_the_bot_or_of_its_own_role_counts_and_is_removed(mention: str) -> None:
    roles = [ROLE] if "&" in mention else []
    assert text(message(f"{mention}, what is this?", mention_roles=roles)) == "what is this?"
    assert text(message(f"well {mention} what is this", mention_roles=roles)) == "well what is this"
    assert text(message(f"what is this, {mention}?", mention_roles=roles)) == "what is this,?"


@pytest.mark.parametrize(
    "data",
    [
        message("hello all"),
        message("@everyone look", mention_everyone=True),
        message(f"<@{BEN}> hi", mentions=[person(BEN, "Ben")]),
        message("<@&701> hi", mention_roles=["701"]),
    ],
    ids=["nobody", "everyone", "another person", "another role"],
)
def test_what_names_somebody_else_is_not_for_the_bot(data: Json) -> None:
    assert read(data) is None


def test_a_reply_to_the_bot_counts_as_a_mention_and_one_to_a_person_does_not() -> None:
    """C040"""
    to_us = message("and you?", type=19, referenced_message=message("hello", author=person(ME, "Bot", bot=True)))
    to_ben = message("and you?", type=19, referenced_message=message("hello", author=person(BEN, "Ben")))
    assert read(to_us) is not None
    assert read(to_ben) is None


def test_a_mention_beside_a_picture_brings_the_picture() -> None:
    """C041, as far as it is Discord's: a caption is the message's text."""
    picture = {"id": "7", "filename": "a.png", "content_type": "image/png", "size": 12}
    found = read(message(f"<@{ME}> what is this", attachments=[picture]))
    assert found is not None
    assert found.text == "what is this"
    assert found.attachments == (
        Attachment(kind="image", name="a.png", mime="image/png", size_bytes=12, ref="10/1000/7"),
    )


def test_only_our_name_is_still_something_said() -> None:
    assert text(message(f"<@{ME}>")) == f"<@{ME}>"


def test_the_policy_of_a_place_decides() -> None:
    said = message("hello")
    assert reader(GroupPolicy.ALL).message(said, CHANNEL) is not None
    assert reader(GroupPolicy.OFF).message(message(f"<@{ME}> hello"), CHANNEL) is None
    assert reader(GroupPolicy.OFF, c1=GroupPolicy.ALL).message(said, THREAD) is not None
    assert reader(GroupPolicy.ALL, c42=GroupPolicy.OFF).message(said, THREAD) is None
    assert reader(GroupPolicy.OFF).message(message("hi", place=DM), DM) is not None


def test_own_messages_are_never_handled_and_other_bots_only_when_they_mention_us() -> None:
    """C037"""
    other = person("333", "Other", bot=True)
    reply = message("I agree", author=other, type=19, mentions=[person(ME, bot=True)])
    reply["referenced_message"] = message("hello", author=person(ME, bot=True))
    assert read(message(f"<@{ME}> echo", author=person(ME, bot=True))) is None
    assert read(message("just talking", author=other), policy=GroupPolicy.ALL) is None
    assert read(reply, policy=GroupPolicy.ALL) is None
    assert read(message("by a webhook", webhook_id="5"), policy=GroupPolicy.ALL) is None
    found = read(message(f"<@{ME}> hi", author=other))
    assert found is not None
    assert found.meta == {"from_bot": True}


@pytest.mark.parametrize("kind", [6, 7, 18, 20, 21])
def test_notices_of_the_platform_are_nothing_said(kind: int) -> None:
    assert read(message("pinned", place=DM, type=kind), DM) is None


# --- what is said


def test_other_people_and_emoji_read_as_people_see_them() -> None:
    data = message(f"<@{ME}> ask <@{BEN}> <:party:123456> <#10>", mentions=[person(BEN, "Ben")])
    assert text(data) == "ask @Ben :party: <#10>"


def test_a_name_chosen_for_the_server_is_the_shown_one() -> None:
    found = read(message(f"<@{ME}> hi", member={"nick": "Countess"}))
    assert found is not None
    assert found.sender_name == "Countess"


def test_kinds_of_files_and_a_voice_message() -> None:
    files = [
        {"id": "1", "filename": "a.mp4", "content_type": "video/mp4", "size": 1},
        {"id": "2", "filename": "b.pdf", "content_type": "application/pdf; charset=x", "size": 2},
        {"id": "3", "filename": "c", "size": 3},
    ]
    found = read(message(place=DM, attachments=files), DM)
    voice = read(message(place=DM, attachments=[{"id": "4", "content_type": "audio/ogg"}], flags=1 << 13), DM)
    assert found is not None
    assert voice is not None
    assert [(file.kind, file.mime) for file in found.attachments] == [
        ("video", "video/mp4"),
        ("document", "application/pdf"),
        ("document", ""),
    ]
    assert [(file.kind, file.mime, file.size_bytes) for file in voice.attachments] == [("voice", "audio/ogg", None)]


def test_a_sticker_and_a_poll_are_said_in_words() -> None:
    sticker = read(message(place=DM, sticker_items=[{"id": "1", "name": "Wave"}]), DM)
    assert sticker is not None
    assert sticker.attachments == (Attachment(kind="sticker", name="Wave"),)
    poll = {"question": {"text": "Tea?"}, "answers": [{"poll_media": {"text": t}} for t in ("yes", "no")]}
    assert text(message(place=DM, poll=poll), DM) == "[poll] Tea? (yes, no)"


def test_a_forwarded_message_is_marked_as_not_the_senders_own_words() -> None:
    shot = {"message": {"content": "wire me money", "attachments": [{"id": "9", "filename": "x.pdf"}]}}
    data = message(place=DM, message_reference={"type": 1, "message_id": "1"}, message_snapshots=[shot])
    found = read(data, DM)
    assert found is not None
    assert (found.text, found.quote) == ("wire me money", None)
    assert found.meta == {"forwarded_from": "message"}
    assert [file.ref for file in found.attachments] == ["5/1000/9"]


def test_a_reply_carries_what_it_answers_with_the_authors_role() -> None:
    """C042"""
    reminder = message("Pay rent", place=DM, author=person(ME, "Bot", bot=True), id="900")
    found = read(message("done, ask again tomorrow", place=DM, type=19, referenced_message=reminder), DM)
    assert found is not None
    assert found.quote == Quote(message_id="900", author="bot", text="Pay rent", name="Bot")
    own = read(message("x", place=DM, type=19, referenced_message=message("mine", place=DM)), DM)
    other = read(message("x", place=DM, type=19, referenced_message=message("his", author=person(BEN, "Ben"))), DM)
    assert own is not None
    assert other is not None
    assert [quote.author for quote in (own.quote, other.quote) if quote is not None] == ["sender", "other"]


def test_a_question_under_a_picture_means_the_picture() -> None:
    picture = message(attachments=[{"id": "7", "filename": "a.png", "content_type": "image/png"}], id="900")
    found = read(message(f"<@{ME}> what is this", type=19, referenced_message=picture))
    assert found is not None
    assert [file.ref for file in found.attachments] == ["10/900/7"]
    assert found.quote is not None
    assert found.quote.text == "[a.png]"


def test_a_reply_to_a_deleted_message_is_a_message() -> None:
    found = read(message("what?", place=DM, type=19, referenced_message=None), DM)
    assert found is not None
    assert found.quote is None


# --- edits


def test_an_edit_has_the_identity_of_the_original() -> None:
    data = message("at nine", place=DM, edited_timestamp="2026-11-30T10:01:00+00:00")
    found = reader().edit(data, DM)
    assert found is not None
    assert (found.message_id, found.variant, found.text) == ("1000", "", "at nine")


def test_a_link_preview_is_no_edit() -> None:
    assert reader().edit(message("https://x.example", place=DM, embeds=[{"type": "link"}]), DM) is None
    assert reader().edit({"id": "1000", "channel_id": "5", "embeds": []}, DM) is None


def test_an_edit_without_a_mention_still_edits_what_waits() -> None:
    data = message("no name here", edited_timestamp="2026-11-30T10:01:00+00:00")
    assert reader().edit(data, CHANNEL) is not None
    assert reader(GroupPolicy.OFF).edit(data, CHANNEL) is None


def test_text_without_people_is_left_alone() -> None:
    assert text_of(message("a <@5> b")) == "a <@5> b"
