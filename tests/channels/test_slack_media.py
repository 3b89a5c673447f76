"""Files that people send: fetched with our token, from Slack only, never a login page, never too big."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from bot.messages import Attachment
from channels.slack import media
from channels.slack.api import WebApi
from channels.slack.config import SlackConfig
from tests.channels.harness_slack import DM, PRIVATE, QUICK, SlackHarness, running, served
from tests.platforms.slack_faults import Fault, html_page


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[SlackHarness]:
    async with served(tmp_path) as harness, running(harness):
        yield harness


async def sent(live: SlackHarness, name: str, content: bytes, text: str = "read this") -> Attachment:
    live.api.user_says(DM, text, files=[(name, content)])
    await live.intake.wait_for_texts(text)
    (attachment,) = live.intake.messages[0].attachments
    return attachment


async def test_a_file_is_fetched_once_into_the_chats_folder(live: SlackHarness) -> None:
    attachment = await sent(live, "notes.txt", b"buy eggs")
    assert (attachment.name, attachment.kind, attachment.size_bytes, attachment.path) == (
        "notes.txt",
        "document",
        8,
        "",
    )
    for _ in range(2):
        fetched = await live.channel.fetch(attachment, PRIVATE)
        assert Path(fetched.path).read_bytes() == b"buy eggs"
        assert Path(fetched.path).is_relative_to(live.workspace)
    assert len(live.api.calls("file")) == 1


async def test_several_files_are_one_message(live: SlackHarness) -> None:
    live.api.user_says(DM, "both", files=[("a.png", b"a"), ("b.mp3", b"b")])
    await live.intake.wait_for_texts("both")
    assert [file.kind for file in live.intake.messages[0].attachments] == ["image", "audio"]


async def test_a_login_page_is_no_file(live: SlackHarness) -> None:
    attachment = await sent(live, "notes.txt", b"buy eggs")
    live.api.scopes.discard("files:read")
    fetched = await live.channel.fetch(attachment, PRIVATE)
    assert fetched.path == ""
    assert "files:read" in fetched.error
    assert not list(live.workspace.rglob("*notes.txt"))


async def test_a_page_that_somebody_sends_is_a_file_and_a_login_page_in_its_place_is_not(live: SlackHarness) -> None:
    attachment = await sent(live, "page.html", b"<html>mine</html>")
    live.api.faults.add(html_page("file"))
    assert "another page" in (await live.channel.fetch(attachment, PRIVATE)).error
    fetched = await live.channel.fetch(attachment, PRIVATE)
    assert Path(fetched.path).read_bytes() == b"<html>mine</html>"


@pytest.mark.parametrize("fault", [Fault(method="file", drop_before=True, times=2), Fault(method="file", status=500)])
async def test_a_download_that_fails_is_told_and_the_words_stay(live: SlackHarness, fault: Fault) -> None:
    """C043."""
    attachment = await sent(live, "voice.m4a", b"sound", "listen")
    live.api.faults.add(fault)
    fetched = await live.channel.fetch(attachment, PRIVATE)
    assert fetched.error.startswith("not fetched")
    assert (fetched.name, fetched.path) == ("voice.m4a", "")
    assert live.secret not in fetched.error


async def test_a_file_that_is_too_big_is_not_loaded(live: SlackHarness) -> None:
    """C043: known from its size, or found out while loading."""
    stored = live.api.add_file("film.bin", b"x", size_bytes=25_000_000_000)
    live.api.user_says(DM, "watch", files=[stored])
    await live.intake.wait_for_texts("watch")
    fetched = await live.channel.fetch(live.intake.messages[0].attachments[0], PRIVATE)
    assert "too big" in fetched.error
    assert live.api.calls("file") == []


async def test_a_file_that_is_bigger_than_it_says_is_left(live: SlackHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "DOWNLOAD_BYTES", 10)
    attachment = await sent(live, "a.bin", b"x" * 10)
    live.api.world.files[attachment.ref.split("-")[-1].split("/")[0]].content = b"x" * 1_000
    assert "too big" in (await live.channel.fetch(attachment, PRIVATE)).error


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://files.slack.com/a", True),
        ("https://slack.com/a", True),
        ("https://files.slack-gov.com/a", True),
        ("http://files.slack.com/a", False),
        ("https://notslack.com/a", False),
        ("https://files.slack.com.evil.example/a", False),
        ("https://evil.example/files.slack.com", False),
        ("F123", False),
    ],
)
def test_which_hosts_are_slacks(url: str, shown: bool) -> None:
    tokens = {"bot_token": "xoxb-1", "app_token": "xapp-1", "api_url": "https://slack-gov.com/api/"}
    api = WebApi(SlackConfig.model_validate(tokens), QUICK)
    assert api.is_own_host(url) is shown


async def test_our_token_is_shown_to_slack_only(live: SlackHarness) -> None:
    other = Attachment(kind="document", name="a", ref="https://files.slack.com.evil.example/a")
    fetched = await live.channel.fetch(other, PRIVATE)
    assert fetched.error == "not fetched: it is not kept by Slack itself"
    assert live.api.calls("file") == []


async def test_a_file_of_another_workspace_is_looked_up_by_its_id(live: SlackHarness) -> None:
    attachment = await sent(live, "notes.txt", b"buy eggs")
    file_id = next(iter(live.api.world.files))
    fetched = await live.channel.fetch(Attachment(kind="document", name=attachment.name, ref=file_id), PRIVATE)
    assert Path(fetched.path).read_bytes() == b"buy eggs"


def redirect(headers: dict[str, str], *ignored: object) -> web.Response:
    del ignored
    return web.Response(status=302, headers=headers)


async def test_no_other_host_is_asked_when_slack_points_to_one(
    live: SlackHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    attachment = await sent(live, "notes.txt", b"buy eggs")
    own = f"{live.api.origin}/files-pri/moved"
    for target, reason in (("http://localhost:9/x", "another host"), ("//[", "failed"), (own, "page to page")):
        headers = {"Location": target}
        monkeypatch.setattr(live.api, "_download", partial(redirect, headers))
        fetched = await live.channel.fetch(attachment, PRIVATE)
        assert reason in fetched.error
        assert fetched.path == ""
    monkeypatch.undo()
    fetched = await live.channel.fetch(attachment, PRIVATE)
    assert Path(fetched.path).read_bytes() == b"buy eggs"


async def test_an_address_that_is_none_is_told(live: SlackHarness) -> None:
    bad = Attachment(kind="document", name="x.txt", mime="", size_bytes=1, ref="https://[::1/x")
    assert (await live.channel.fetch(bad, PRIVATE)).error.startswith("not fetched")
