"""Fetching inbound files into the chat's own folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.errors import RateLimited
from bot.messages import Address, Attachment
from bot.security.workspace import folder_name
from channels.telegram import TelegramChannel
from channels.telegram.config import Timing
from tests.channels.harness_telegram import PRIVATE, TOPIC, TelegramHarness, served
from tests.platforms.bot_api_faults import Fault, too_many_requests

IMPATIENT = Timing(call_s=0.05, upload_s=0.05)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path / "workspace") as made:
        yield made


def impatient(harness: TelegramHarness) -> TelegramChannel:
    section = TelegramChannel.config_cls(token=SecretStr(harness.secret), api_url=harness.api.url)
    channel = TelegramChannel.create(harness.context(section), IMPATIENT)
    harness.replace_channel(channel)
    return channel


async def fetch(harness: TelegramHarness, attachment: Attachment, address: Address = PRIVATE) -> Attachment:
    assert isinstance(harness.channel, TelegramChannel)
    return await harness.channel.fetch(attachment, address)


async def test_a_file_is_stored_in_its_chats_inbox(harness: TelegramHarness) -> None:
    ref = harness.api.add_file(b"%PDF", "bill.pdf")
    got = await fetch(harness, Attachment(kind="document", name="bill.pdf", ref=ref), TOPIC)
    path = Path(got.path)
    assert path.read_bytes() == b"%PDF"
    assert path.parent == harness.workspace / "chats" / folder_name("telegram:-1001") / "inbox"
    assert path.name.endswith("-bill.pdf")
    assert (got.size_bytes, got.error) == (4, "")


async def test_fetching_again_calls_nobody(harness: TelegramHarness) -> None:
    ref = harness.api.add_file(b"%PDF", "bill.pdf")
    wanted = Attachment(kind="document", name="bill.pdf", ref=ref)
    first = await fetch(harness, wanted)
    await fetch(harness, wanted)
    assert await fetch(harness, first) == first
    assert len(harness.api.calls("getFile")) == 1


async def test_two_files_of_one_name_do_not_overwrite_each_other(harness: TelegramHarness) -> None:
    refs = [harness.api.add_file(content, "a.txt") for content in (b"one", b"two")]
    got = [await fetch(harness, Attachment(kind="document", name="a.txt", ref=ref)) for ref in refs]
    assert [Path(item.path).read_bytes() for item in got] == [b"one", b"two"]


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", "a/b\\c.txt", "..", "\x1b[31m", "漢字.txt", "x" * 300])
async def test_a_file_name_cannot_lead_out_of_the_inbox(harness: TelegramHarness, name: str) -> None:
    ref = harness.api.add_file(b"x", "x")
    got = await fetch(harness, Attachment(kind="document", name=name, ref=ref))
    path = Path(got.path)
    assert path.parent == harness.workspace / "chats" / folder_name("telegram:5") / "inbox"
    assert path.read_bytes() == b"x"
    assert len(path.name) <= 100


async def test_an_inbox_that_links_elsewhere_is_not_written_to(harness: TelegramHarness, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = harness.workspace / "chats" / folder_name("telegram:5")
    folder.mkdir(parents=True)
    (folder / "inbox").symlink_to(outside)
    ref = harness.api.add_file(b"x", "x.txt")
    got = await fetch(harness, Attachment(kind="document", name="x.txt", ref=ref))
    assert "leads out of the workspace" in got.error
    assert list(outside.iterdir()) == []


async def test_a_file_known_to_be_too_big_is_not_asked_for(harness: TelegramHarness) -> None:
    """C043: a document of 25 MB."""
    wanted = Attachment(kind="document", name="film.mkv", size_bytes=25_000_000, ref="F")
    got = await fetch(harness, wanted)
    assert got == replace(wanted, error="too big to fetch (25.0 MB): bots may load files of up to 20 MB")
    assert harness.api.calls("getFile") == []


async def test_a_file_the_platform_finds_too_big_says_so(harness: TelegramHarness) -> None:
    """C043: getFile answers 400."""
    ref = harness.api.add_file(b"x", "film.mkv", size_bytes=25_000_000)
    got = await fetch(harness, Attachment(kind="document", name="film.mkv", ref=ref))
    assert got.error == "too big to fetch: bots may load files of up to 20 MB"
    assert got.path == ""


async def test_a_time_out_becomes_the_attachments_error(harness: TelegramHarness) -> None:
    """C043: getFile times out for a voice message."""
    channel = impatient(harness)
    ref = harness.api.add_file(b"ogg", "voice.ogg")
    harness.api.faults.add(Fault(method="getFile", delay_s=1))
    got = await channel.fetch(Attachment(kind="voice", ref=ref), PRIVATE)
    assert got.error.startswith("not fetched: getFile: Timed out")
    again = await channel.fetch(Attachment(kind="voice", ref=ref), PRIVATE)
    assert Path(again.path).read_bytes() == b"ogg"
    assert again.path.endswith("-voice.ogg")


async def test_a_file_the_platform_does_not_know_becomes_the_attachments_error(harness: TelegramHarness) -> None:
    wanted = Attachment(kind="document", name="old.txt", ref="F404")
    assert await fetch(harness, wanted) == replace(wanted, error="not fetched: getFile: Invalid file_id")


async def test_a_file_that_is_gone_when_it_is_loaded_is_no_refused_token(harness: TelegramHarness) -> None:
    named = b'{"ok":true,"result":{"file_id":"F1","file_unique_id":"u","file_path":"documents/gone.txt"}}'
    harness.api.faults.add(Fault(method="getFile", garbage=named))
    wanted = Attachment(kind="document", name="lost.txt", ref="F1")
    assert await fetch(harness, wanted) == replace(wanted, error="not fetched: Not Found")


async def test_a_rate_limit_is_no_failure_of_the_file(harness: TelegramHarness) -> None:
    ref = harness.api.add_file(b"x", "x.txt")
    harness.api.faults.add(too_many_requests("getFile", 3))
    with pytest.raises(RateLimited):
        await fetch(harness, Attachment(kind="document", name="x.txt", ref=ref))


async def test_what_has_no_file_is_left_alone(harness: TelegramHarness) -> None:
    place = Attachment(kind="location", name="52.5,13.4")
    assert await fetch(harness, place) == place


@pytest.mark.parametrize("result", [b"true", b'{"file_id":"x"}'])
async def test_an_answer_without_a_path_is_a_reason_and_no_end_of_the_turn(
    harness: TelegramHarness, result: bytes
) -> None:
    harness.api.faults.add(Fault(method="getFile", garbage=b'{"ok":true,"result":' + result + b"}"))
    got = await fetch(harness, Attachment(kind="document", name="a.txt", ref="x"))
    assert got.path == ""
    assert "without a path" in got.error
