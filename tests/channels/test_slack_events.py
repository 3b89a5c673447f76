"""From Slack's payloads to messages: who said what, where, and whether it is meant for us."""

from __future__ import annotations

from typing import Any

import pytest

from bot.messages import Address, ChatType
from channels.config import GroupPolicies, GroupPolicy
from channels.slack.content import Identity, Json, instant_us
from channels.slack.events import Reader, command_text, emoji
from channels.slack.threads import Threads

ME = Identity(user_id="U0BOT", bot_id="B0BOT", team_id="T0")


def reader(
    policy: GroupPolicy = GroupPolicy.MENTION, *, threads: Threads | None = None, **chats: GroupPolicy
) -> Reader:
    known = threads or Threads()

    def in_talk(event: Json) -> bool:
        return known.is_to_us(event, ME)

    policies = GroupPolicies(default=policy, chats=chats)
    return Reader(me=ME, policies=policies, names=lambda user: "Ada" if user == "U0ADA" else "", in_talk=in_talk)


def said(text: str = "hello", channel: str = "C0TEAM", **fields: Any) -> dict[str, Any]:
    return {"type": "message", "user": "U0ADA", "text": text, "channel": channel, "ts": "1700000001.000200", **fields}


def test_a_direct_message_has_its_dm_as_address_and_answers_stay_plain() -> None:
    message = reader().message(said(channel="D0ADA", channel_type="im"))
    assert message is not None
    assert message.address == Address(channel="slack", chat_id="D0ADA")
    assert (message.message_id, message.sender_id, message.sender_name) == ("1700000001.000200", "U0ADA", "Ada")
    assert (message.chat_type, message.reply_to, message.variant) == (ChatType.PRIVATE, "", "")
    assert message.account == "U0BOT"
    assert message.sent_us == 1_700_000_001_000_200


def test_a_thread_of_a_dm_is_a_talk_of_its_own() -> None:
    message = reader().message(said(channel="D0ADA", thread_ts="1700000000.000100"))
    assert message is not None
    assert message.address == Address(channel="slack", chat_id="D0ADA", thread_id="1700000000.000100")


def test_a_mention_in_a_channel_begins_a_thread_below_it() -> None:
    message = reader().message(said("<@U0BOT> hello"))
    assert message is not None
    assert message.address == Address(channel="slack", chat_id="C0TEAM", thread_id="1700000001.000200")
    assert (message.text, message.chat_type, message.reply_to) == ("hello", ChatType.GROUP, "1700000001.000200")


def test_a_mention_in_a_thread_stays_there() -> None:
    message = reader().message(said("<@U0BOT> hello", thread_ts="1700000000.000100"))
    assert message is not None
    assert message.address.thread_id == "1700000000.000100"


@pytest.mark.parametrize("channel_type", ["channel", "group", "mpim"])
def test_a_mention_is_the_same_message_in_both_its_events(channel_type: str) -> None:
    """C038: one identity, one text, the same files, whichever event comes first."""
    shared: dict[str, Any] = {
        "files": [{"id": "F1", "name": "a.png", "mimetype": "image/png", "url_private": "https://x.slack.com/a"}]
    }
    event = said("<@U0BOT> look", channel_type=channel_type, subtype="file_share", **shared)
    mention = {"type": "app_mention", **{k: event[k] for k in ("user", "text", "channel", "ts", "files")}}
    assert reader().message(event) == reader().message(mention)


@pytest.mark.parametrize(
    ("policy", "text", "heard"),
    [
        (GroupPolicy.MENTION, "hello", False),
        (GroupPolicy.MENTION, "<@U0BOT> hello", True),
        (GroupPolicy.ALL, "hello", True),
        (GroupPolicy.OFF, "<@U0BOT> hello", False),
    ],
)
def test_the_policy_decides_in_channels(policy: GroupPolicy, text: str, heard: bool) -> None:
    assert (reader(policy).message(said(text)) is not None) is heard
    assert (reader(GroupPolicy.OFF, C0TEAM=policy).message(said(text)) is not None) is heard
    assert reader(policy).message(said(text, channel="D0ADA")) is not None


def test_a_reply_to_the_bot_needs_no_mention_and_one_to_a_person_does() -> None:
    """C040."""
    below_ours = said("yes", thread_ts="1700000000.000100", parent_user_id="U0BOT")
    message = reader().message(below_ours)
    assert message is not None
    assert message.quote is not None
    assert (message.quote.message_id, message.quote.author) == ("1700000000.000100", "bot")
    assert reader().message(said("yes", thread_ts="1700000000.000100", parent_user_id="U0BEN")) is None


def test_a_talk_in_a_thread_goes_on_without_mentions_until_people_talk_to_each_other() -> None:
    threads = Threads()
    read = reader(threads=threads)
    thread = "1700000000.000100"
    ada = said("and then?", thread_ts=thread)
    ben = said("what Ada means", thread_ts=thread, user="U0BEN")
    assert read.message(ada) is None
    threads.spoke_to_us("C0TEAM", thread, "U0ADA", thread)
    assert read.message(ada) is not None  # she goes on before we answered
    assert read.message(ben) is None
    threads.we_spoke("C0TEAM", thread, "1700000000.000200")
    assert read.message(ben) is not None
    assert read.message(said("<@U0BEN> is that so?", thread_ts=thread)) is None
    threads.we_spoke("C0TEAM", thread, "1700000009.000000")
    assert read.message(ben) is None  # it was written before our last words
    threads.spoke_otherwise({**ben, "ts": "1700000010.000000"})
    assert read.message({**ada, "ts": "1700000011.000000"}) is None
    assert read.message(said("<@U0BOT> help", thread_ts=thread)) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "U0BOT"},
        {"user": "U0BOT", "bot_id": "B0BOT"},
        {"user": None, "bot_id": "B0BOT", "subtype": "bot_message"},
        {"user": "USLACKBOT"},
        {"subtype": "channel_join"},
        {"subtype": "message_deleted", "hidden": True},
        {"subtype": "channel_topic"},
        {"user": None},
    ],
)
def test_our_own_words_and_slacks_are_never_handled(fields: dict[str, Any]) -> None:
    """C037: neither in a DM nor with a mention."""
    assert reader(GroupPolicy.ALL).message(said("<@U0BOT> hello", **fields)) is None
    assert reader().message(said("<@U0BOT> hello", channel="D0ADA", **fields)) is None


@pytest.mark.parametrize(
    "fields", [{"user": None, "bot_id": "B0OTHER", "subtype": "bot_message"}, {"user": "U0OTHER", "bot_id": "B0OTHER"}]
)
def test_other_bots_are_heard_only_when_they_mention_us(fields: dict[str, Any]) -> None:
    """C037."""
    read = reader(GroupPolicy.ALL)
    assert read.message(said("beep", **fields)) is None
    message = read.message(said("<@U0BOT> beep", **fields))
    assert message is not None
    assert message.meta == {"from_bot": True}
    assert message.sender_id == (fields["user"] or "B0OTHER")


def changed(before: str, after: str, **fields: Any) -> dict[str, Any]:
    old = {"type": "message", "user": "U0ADA", "text": before, "ts": "1700000001.000200"}
    new = {**old, "text": after, "edited": {"user": "U0ADA", "ts": "1700000009.000000"}, **fields}
    base = {"type": "message", "subtype": "message_changed", "channel": "D0ADA", "ts": "1700000009.000100"}
    return {**base, "message": new, "previous_message": old}


def test_an_edit_has_the_identity_of_its_message_and_the_new_text() -> None:
    message = reader().edit(changed("remind me at nin", "remind me at nine"))
    assert message is not None
    assert (message.message_id, message.text, message.variant) == ("1700000001.000200", "remind me at nine", "")
    assert message.address == Address(channel="slack", chat_id="D0ADA")


def test_a_link_preview_or_our_own_change_is_no_edit() -> None:
    assert reader().edit(changed("see https://x.example", "see https://x.example", attachments=[{"text": "X"}])) is None
    assert reader().edit(changed("a", "b", user="U0BOT", bot_id="B0BOT")) is None
    unedited = changed("a", "b")
    del unedited["message"]["edited"]
    assert reader().edit(unedited) is None
    assert reader().edit({"subtype": "message_changed"}) is None


def test_a_reaction_to_our_message_is_read_and_one_to_others_is_not() -> None:
    item = {"type": "message", "channel": "C0TEAM", "ts": "1700000000.000100"}
    event = {"type": "reaction_added", "user": "U0ADA", "reaction": "+1::skin-tone-2", "item": item}
    event |= {"item_user": "U0BOT", "event_ts": "1700000005.0"}
    reaction = reader().reaction(event)
    assert reaction is not None
    assert (reaction.chat_id, reaction.message_id, reaction.emoji) == ("C0TEAM", "1700000000.000100", "👍")
    assert reader().reaction({**event, "item_user": "U0ADA"}) is None
    assert reader().reaction({**event, "user": "U0BOT"}) is None
    assert reader().reaction({**event, "item": {"type": "file"}}) is None


def test_an_emoji_of_the_workspace_keeps_its_name() -> None:
    assert emoji("white_check_mark") == "✅"
    assert emoji("our-logo") == ":our-logo:"


@pytest.mark.parametrize(
    ("command", "text", "meant"),
    [
        ("/dutiful", "remind in 10 minutes tea", "/remind in 10 minutes tea"),
        ("/dutiful", "help", "/help"),
        ("/dutiful", "", "/help"),
        ("/dutiful", " what is the time? ", "what is the time?"),
        ("/dutiful", "/jobs", "/jobs"),
        ("/remind", "in 10 minutes tea", "/remind in 10 minutes tea"),
        ("/help", "", "/help"),
        ("/dutiful", "helpful words", "helpful words"),
    ],
)
def test_a_slash_command_is_one_of_ours_or_else_a_message(command: str, text: str, meant: str) -> None:
    assert command_text(command, text, {"remind", "help", "jobs"}) == meant


def test_a_slash_command_is_known_by_its_trigger() -> None:
    body = {
        "command": "/dutiful",
        "text": "hi &amp; bye",
        "channel_id": "D0ADA",
        "user_id": "U0NEW",
        "user_name": "new",
    }
    message = reader().command({**body, "trigger_id": "1.2.3"}, {"help"})
    assert message is not None
    assert (message.message_id, message.text, message.sender_name) == ("1.2.3", "hi & bye", "new")
    untold = [reader().command(body, {"help"}) for _ in range(2)]
    assert None not in untold
    assert len({message.message_id for message in untold if message is not None}) == 2  # nothing says it is the same
    off = reader(GroupPolicy.OFF)
    assert off.command({**body, "channel_id": "C0TEAM", "trigger_id": "1"}, set()) is None


@pytest.mark.parametrize(
    ("ts", "us"), [("1700000000.000100", 1_700_000_000_000_100), ("5", 5_000_000), ("", None), ("x.y", None)]
)
def test_a_ts_is_an_instant(ts: str, us: int | None) -> None:
    assert instant_us(ts) == us
