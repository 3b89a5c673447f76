"""What goes out to Discord: parts, files, replies, threads, and what each refusal means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import ChannelError, ChatGone, RateLimited, SendRejected, SendUncertain
from bot.messages import Attachment, Button, OutboundKind, OutboundMessage
from tests.channels.harness_discord import (
    CHANNEL,
    DM,
    IN_CHANNEL,
    IN_THREAD,
    PRIVATE,
    THREAD,
    DiscordHarness,
    running,
    served,
)
from tests.platforms.discord_faults import Fault, Scope, answer_lost, bad_gateway, rate_limited
from tests.platforms.discord_objects import Route
from tests.support.recording_intake import RecordingProgress

LONG = " ".join(f"word{number}" for number in range(2000))[:9000]


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[DiscordHarness]:
    async with served(tmp_path) as harness, running(harness) as up:
        yield up


def reply(text: str = "answer", **more: object) -> OutboundMessage:
    return OutboundMessage(address=PRIVATE, text=text, **more)  # type: ignore[arg-type]


async def test_each_part_carries_a_nonce_of_its_own_and_mentions_nobody(live: DiscordHarness) -> None:
    progress = RecordingProgress(outbox_id=77)
    await live.channel.send(reply(f"@everyone <@111> {LONG[:3000]}"), progress)
    assert [call.nonce.rpartition("-")[0] for call in live.api.sent] == ["77-0", "77-1"]
    assert all(call.params["enforce_nonce"] is True for call in live.api.sent)
    assert all(call.params["allowed_mentions"] == {"parse": []} for call in live.api.sent)
    assert live.api.own_messages(DM)[0]["mentions"] == []
    assert progress.sent_ids == [str(call.message_id) for call in live.api.sent]


async def test_a_send_whose_answer_was_lost_is_known_again_by_its_nonce(live: DiscordHarness) -> None:
    """C027: nothing is doubled while Discord remembers the nonce."""
    live.api.faults.add(answer_lost())
    with pytest.raises(SendUncertain):
        await live.channel.send(reply(), RecordingProgress(outbox_id=5))
    again = RecordingProgress(outbox_id=5)
    await live.channel.send(reply(), again)
    assert live.api.texts(DM) == ["answer"]
    assert again.sent_ids == [str(next(iter(live.api.own_messages(DM)))["id"])]


async def test_a_server_error_is_not_repeated_by_the_sdk_and_can_be_tried_again(live: DiscordHarness) -> None:
    live.api.faults.add(bad_gateway(Route.CREATE_MESSAGE))
    with pytest.raises(ChannelError) as caught:
        await live.send(reply())
    assert type(caught.value) is ChannelError
    assert caught.value.retryable
    assert len(live.api.calls(Route.CREATE_MESSAGE)) == 1
    await live.send(reply())
    assert live.api.texts(DM) == ["answer"]


async def test_a_limit_for_the_whole_bot_holds_every_call_back(live: DiscordHarness) -> None:
    live.api.faults.add(rate_limited(Route.CREATE_MESSAGE, 30, scope=Scope.GLOBAL))
    with pytest.raises(RateLimited):
        await live.send(reply())
    with pytest.raises(RateLimited) as caught:
        await live.send(OutboundMessage(address=IN_CHANNEL, text="elsewhere"))
    assert 29 < (caught.value.retry_after_s or 0) <= 30
    assert len(live.api.calls(Route.CREATE_MESSAGE)) == 1


async def test_a_limit_of_one_chat_holds_no_other_back(live: DiscordHarness) -> None:
    live.api.faults.add(rate_limited(Route.CREATE_MESSAGE, 30, channel_id=DM))
    with pytest.raises(RateLimited):
        await live.send(reply())
    await live.send(OutboundMessage(address=IN_CHANNEL, text="elsewhere"))
    assert live.api.texts(CHANNEL) == ["elsewhere"]


async def test_a_ban_by_the_proxy_before_discord_is_a_wait_as_well(live: DiscordHarness) -> None:
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, retry_after_s=40, via=False, garbage=b"<html>", status=429))
    with pytest.raises(RateLimited) as caught:
        await live.send(reply())
    assert (caught.value.retry_after_s or 0) >= 40


async def test_an_answer_that_is_no_message_counts_as_sent(live: DiscordHarness) -> None:
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, garbage=b"{}"))
    progress = await live.send(reply())
    assert progress.sent_ids == ["unknown"]


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (404, 10003, "does not exist any more"),
        (403, 50001, "may not see this channel"),
        (403, 50007, "takes no direct messages"),
        (403, 50013, "Send Messages"),
    ],
)
async def test_a_chat_that_is_closed_says_why(live: DiscordHarness, status: int, code: int, reason: str) -> None:
    """C036"""
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, status=status, code=code, message="No"))
    with pytest.raises(ChatGone, match=reason):
        await live.send(reply())


async def test_a_message_that_discord_will_never_take_is_rejected(live: DiscordHarness) -> None:
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, status=400, code=50035, message="Invalid Form Body"))
    with pytest.raises(SendRejected, match="50035"):
        await live.send(reply())


async def test_a_block_by_the_proxy_before_discord_closes_no_chat(live: DiscordHarness) -> None:
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, status=403, garbage=b"<html>blocked</html>"))
    with pytest.raises(ChannelError) as caught:
        await live.send(reply())
    assert type(caught.value) is ChannelError
    assert caught.value.retryable


async def test_a_thread_that_is_gone_does_not_spill_into_its_channel(live: DiscordHarness) -> None:
    live.api.delete_channel(THREAD)
    with pytest.raises(SendRejected, match="does not exist any more"):
        await live.send(OutboundMessage(address=IN_THREAD, text="for the thread only"))
    assert live.api.texts(CHANNEL) == []


async def test_a_thread_whose_channel_is_gone_as_well_is_a_chat_that_is_gone(live: DiscordHarness) -> None:
    live.api.delete_channel(THREAD)
    live.api.delete_channel(CHANNEL)
    with pytest.raises(ChatGone):
        await live.send(OutboundMessage(address=IN_THREAD, text="anybody?"))


# --- replies


async def test_a_reply_to_a_deleted_message_is_an_ordinary_one(live: DiscordHarness) -> None:
    await live.send(OutboundMessage(address=IN_CHANNEL, text="answer", reply_to="12345"))
    (shown,) = live.shown(IN_CHANNEL)
    assert (shown.text, shown.reply_to) == ("answer", "")


async def test_where_the_history_is_closed_an_answer_comes_without_its_reply_mark(live: DiscordHarness) -> None:
    live.api.world.channels[CHANNEL].no_history = True
    question = live.person_says(IN_CHANNEL, "hello")
    await live.send(OutboundMessage(address=IN_CHANNEL, text="answer", reply_to=question))
    assert [shown.reply_to for shown in live.shown(IN_CHANNEL)] == [""]


# --- long answers


async def test_a_long_answer_in_a_channel_goes_on_in_a_thread_on_the_question(live: DiscordHarness) -> None:
    question = live.person_says(IN_CHANNEL, "tell me everything")
    progress = await live.send(OutboundMessage(address=IN_CHANNEL, text=LONG, reply_to=question))
    (first,) = live.shown(IN_CHANNEL)
    rest = live.api.texts(int(question))
    assert first.reply_to == question
    assert " ".join([first.text, *rest]) == LONG.strip()
    assert len(progress.sent_ids) == 1 + len(rest) == 5
    assert live.api.world.channels[int(question)].name.startswith("word0 word1")


async def test_a_long_answer_resumed_or_repeated_finds_its_thread_again(live: DiscordHarness) -> None:
    question = live.person_says(IN_CHANNEL, "tell me everything")
    message = OutboundMessage(address=IN_CHANNEL, text=LONG, reply_to=question)
    live.api.faults.add(answer_lost(Route.START_THREAD))
    progress = RecordingProgress(outbox_id=9)
    with pytest.raises(ChannelError) as caught:
        await live.channel.send(message, progress)
    assert type(caught.value) is ChannelError
    await live.channel.send(message, progress)
    assert len(live.api.texts(CHANNEL)) == 1
    assert len(live.api.texts(int(question))) == 4


async def test_where_no_thread_may_be_opened_a_long_answer_stays_in_the_channel(live: DiscordHarness) -> None:
    question = live.person_says(IN_CHANNEL, "tell me everything")
    live.api.faults.add(Fault(route=Route.START_THREAD, status=403, code=50013, message="Missing Permissions"))
    await live.send(OutboundMessage(address=IN_CHANNEL, text=LONG, reply_to=question))
    assert len(live.api.texts(CHANNEL)) == 5


@pytest.mark.parametrize("address", [PRIVATE, IN_THREAD], ids=["private", "thread"])
async def test_private_chats_and_threads_have_no_threads(live: DiscordHarness, address: object) -> None:
    place = PRIVATE if address is PRIVATE else IN_THREAD
    question = live.person_says(place, "tell me everything")
    await live.send(OutboundMessage(address=place, text=LONG, reply_to="" if place is PRIVATE else question))
    assert len(live.shown(place)) == 5
    assert live.api.calls(Route.START_THREAD) == []


async def test_threads_for_long_answers_can_be_switched_off(tmp_path: Path) -> None:
    async with served(tmp_path) as harness:
        harness.replace_channel(harness.build(long_answers_in_threads=False))
        async with running(harness) as live:
            question = live.person_says(IN_CHANNEL, "tell me everything")
            await live.send(OutboundMessage(address=IN_CHANNEL, text=LONG, reply_to=question))
            assert len(live.api.texts(CHANNEL)) == 5


# --- files


def _file(folder: Path, name: str, content: bytes = b"content", kind: str = "document") -> Attachment:
    path = folder / name
    path.write_bytes(content)
    return Attachment(kind=kind, name=name, path=str(path))


async def test_text_that_fits_goes_with_the_files_ten_to_a_message(live: DiscordHarness, tmp_path: Path) -> None:
    files = tuple(_file(tmp_path, f"{number}.txt") for number in range(12))
    button = Button(label="Fine", data="fine")
    progress = await live.send(reply("here they are", attachments=files, buttons=((button,),)))
    first, second = live.api.sent
    assert (first.text, len(first.files)) == ("here they are", 10)
    assert (second.text, second.files) == ("", ("10.txt", "11.txt"))
    assert len(progress.sent_ids) == 2
    assert [shown.buttons for shown in live.shown(PRIVATE)] == [(), ("Fine",)]
    assert next(iter(live.api.world.files.values())).content == b"content"


async def test_text_goes_before_a_voice_and_long_text_before_files(live: DiscordHarness, tmp_path: Path) -> None:
    await live.send(reply("spoken", attachments=(_file(tmp_path, "a.ogg", kind="voice"),)))
    await live.send(reply(LONG[:3000], attachments=(_file(tmp_path, "b.txt"),)))
    assert [(call.text[:6], call.files) for call in live.api.sent] == [
        ("spoken", ()),
        ("", ("a.ogg",)),
        ("word0 ", ()),
        (live.api.sent[3].text[:6], ()),
        ("", ("b.txt",)),
    ]


@pytest.mark.parametrize(("content", "reason"), [(b"", "empty"), (b"x" * (20 * 1024 * 1024 + 1), "up to 21")])
async def test_a_file_that_cannot_go_is_said_before_anything_is_sent(
    live: DiscordHarness, tmp_path: Path, content: bytes, reason: str
) -> None:
    with pytest.raises(SendRejected, match=reason):
        await live.send(reply("", attachments=(_file(tmp_path, "big.bin", content),)))
    assert live.api.sent == []


async def test_what_is_too_large_together_goes_without_the_largest(live: DiscordHarness, tmp_path: Path) -> None:
    """How much a server takes depends on the server."""
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, status=413, code=40005, message="Request entity too large"))
    files = tuple(_file(tmp_path, f"{size}.bin", b"x" * size) for size in (10, 30, 20))
    await live.send(reply("here", attachments=files))
    (call,) = live.api.sent
    assert call.files == ("10.bin", "20.bin")
    assert call.text == "here\n\n⚠️ Not sent: 30.bin (it was not accepted here)"


async def test_a_file_that_is_too_large_alone_fails_its_message(live: DiscordHarness, tmp_path: Path) -> None:
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, status=413, code=40005, message="Request entity too large"))
    with pytest.raises(SendRejected, match="too large"):
        await live.send(reply("", attachments=(_file(tmp_path, "a.bin"),)))


async def test_too_many_buttons_are_rejected_and_long_rows_broken(live: DiscordHarness) -> None:
    many = tuple(Button(label=f"{number}" * 50, data="x") for number in range(7))
    await live.send(reply(buttons=(many,)))
    assert [len(row["components"]) for row in live.api.own_messages(DM)[0]["components"]] == [5, 2]
    with pytest.raises(SendRejected, match="rows of buttons"):
        await live.send(reply(buttons=(many,) * 3))


@pytest.mark.parametrize("kind", list(OutboundKind))
async def test_a_part_keeps_its_place_when_a_send_is_resumed(live: DiscordHarness, kind: OutboundKind) -> None:
    message = reply("\n".join(f"line_{number}" for number in range(700)), kind=kind)
    whole = await live.send(message)
    before = [shown.text for shown in live.shown(PRIVATE)]
    rest = RecordingProgress(outbox_id=50, sent_ids=tuple(whole.sent_ids[:-1]))
    await live.channel.send(message, rest)
    assert [shown.text for shown in live.shown(PRIVATE)] == [*before, before[-1]]


async def test_sends_before_the_first_sign_in_can_be_retried(tmp_path: Path) -> None:
    async with served(tmp_path) as harness:
        with pytest.raises(ChannelError, match="not signed in"):
            await harness.send(reply())


async def test_what_waits_can_still_be_sent_once_receiving_has_stopped(live: DiscordHarness) -> None:
    live.task.cancel()
    await asyncio.wait({live.task}, timeout=5)
    await live.send(reply("last words"))
    assert live.api.texts(DM) == ["last words"]
