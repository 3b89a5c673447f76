"""What a Slack message holds: words without Slack's escapes, files, shared messages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.slack.content import Identity, attachments_of, mentions, plain_text, shared_message, words_of
from channels.slack.rendering import escape

ME = Identity(user_id="U0BOT", bot_id="B0BOT", team_id="T0")
NAMES = {"U0ADA": "Ada"}


def name(user_id: str) -> str:
    return NAMES.get(user_id, "")


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("a &lt;b&gt; &amp; c", "a <b> & c"),
        ("&amp;lt; &amp;amp;", "&lt; &amp;"),
        ("ask <@U0ADA>", "ask @Ada"),
        ("ask <@U0NEW>", "ask @U0NEW"),
        ("ask <@U0NEW|ben>", "ask @ben"),
        ("see <#C0TEAM|team> and <#C0X>", "see #team and #C0X"),
        ("<!here> <!channel|channel> <!subteam^S1|@crew>", "@here @channel @crew"),
        ("<!date^1392734382^{date}|Feb 18, 2014>", "Feb 18, 2014"),
        ("<https://x.example/?a=1&amp;b=2>", "https://x.example/?a=1&b=2"),
        ("<https://x.example|the page>", "the page (https://x.example)"),
        ("<http://x.example|x.example>", "http://x.example"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("&lt;@U0ADA&gt; typed by hand", "<@U0ADA> typed by hand"),
        ("1 < 2 > 0 <> <", "1 < 2 > 0 <> <"),
    ],
)
def test_escapes_become_what_people_see(raw: str, plain: str) -> None:
    assert plain_text(raw, name) == plain


@settings(deadline=None, max_examples=100)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_what_people_type_comes_out_as_they_typed_it(text: str) -> None:
    assert plain_text(escape(text), name) == text


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("<@U0BOT> hello", "hello"),
        ("<@U0BOT>, hello", "hello"),
        ("hello <@U0BOT|dutiful>", "hello"),
        ("hey <@U0BOT> and <@U0ADA>", "hey and @Ada"),
        ("is <@U0BOT>?", "is?"),
        ("<@U0BOT> <@U0BOT>", ""),
        ("<@U0BOTX> hello", "@U0BOTX hello"),
    ],
)
def test_the_mention_of_us_does_not_stay_in_the_words(raw: str, words: str) -> None:
    """C041."""
    assert words_of({"text": raw}, ME, name) == words
    assert mentions({"text": raw}, ME) is not raw.startswith("<@U0BOTX>")


def file(**fields: object) -> dict[str, object]:
    base = {
        "id": "F1",
        "name": "a.bin",
        "mimetype": "application/zip",
        "size": 5,
        "url_private": "https://f.slack.com/a",
    }
    return {**base, **fields}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "document"),
        ({"mimetype": "image/png"}, "image"),
        ({"mimetype": "audio/mpeg"}, "audio"),
        ({"mimetype": "video/mp4"}, "video"),
        ({"mimetype": "audio/webm", "subtype": "slack_audio"}, "voice"),
        ({"mimetype": "video/quicktime", "subtype": "slack_video"}, "video"),
    ],
)
def test_files_have_their_kind(fields: dict[str, object], kind: str) -> None:
    (attachment,) = attachments_of({"files": [file(**fields)]})
    assert (attachment.kind, attachment.name, attachment.size_bytes) == (kind, "a.bin", 5)
    assert attachment.ref == "https://f.slack.com/a"
    assert attachment.error == ""


def test_a_file_without_an_address_is_asked_for_by_its_id() -> None:
    (attachment,) = attachments_of({"files": [{"id": "F1", "file_access": "check_file_info"}]})
    assert attachment.ref == "F1"


@pytest.mark.parametrize("fields", [{"mode": "tombstone"}, {"mode": "external", "is_external": True}])
def test_a_file_that_is_not_with_slack_says_so_and_is_not_fetched(fields: dict[str, object]) -> None:
    (attachment,) = attachments_of({"files": [file(**fields)]})
    assert attachment.ref == ""
    assert attachment.error.startswith("not fetched")


def test_what_is_no_list_of_files_is_none() -> None:
    assert attachments_of({"files": "x"}) == ()
    assert attachments_of({}) == ()


def test_a_shared_message_comes_as_a_quote() -> None:
    """C042."""
    shared = {"is_share": True, "text": "rent &amp; <@U0ADA>", "ts": "1.2", "author_id": "U0BEN", "author_name": "ben"}
    quote = shared_message({"user": "U0ADA", "attachments": [{"text": "a preview"}, shared]}, ME, name)
    assert quote is not None
    assert (quote.text, quote.author, quote.name, quote.message_id) == ("rent & @Ada", "other", "ben", "1.2")
    own = shared_message({"user": "U0ADA", "attachments": [{**shared, "author_id": "U0BOT"}]}, ME, name)
    assert own is not None
    assert own.author == "bot"
    assert shared_message({"attachments": [{"text": "a preview"}]}, ME, name) is None
