"""What every channel must do, whatever its platform. A new channel is added by its harness file alone."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from bot.errors import (
    ChannelAuthError,
    ChannelError,
    ChatGone,
    QueueFull,
    RateLimited,
    SendRejected,
    SendUncertain,
    StoreUnavailable,
)
from bot.interfaces import ChannelState
from bot.messages import Button, ChatType, OutboundKind, OutboundMessage
from tests.support.channel_harness import ChannelHarness, Feature, discover
from tests.support.recording_intake import RecordingProgress


async def test_a_message_comes_in_with_its_chat_sender_and_identity(live: ChannelHarness) -> None:
    message_id = live.person_says(live.private, "hello there")
    await live.intake.wait_for_texts("hello there")
    message = live.intake.messages[0]
    assert message.address == live.private
    assert message.message_id == message_id
    assert message.sender_id == live.person_id
    assert message.chat_type is ChatType.PRIVATE
    assert message.variant == ""
    assert message.account != ""
    assert message.sent_us is not None


@pytest.mark.needs(Feature.THREADS)
async def test_a_message_in_a_thread_carries_the_thread_and_is_a_group_message(live: ChannelHarness) -> None:
    message_id = live.person_says(live.thread, "hello")
    await live.intake.wait_for_texts("hello")
    message = live.intake.messages[0]
    assert message.address == live.thread
    assert message.chat_type is ChatType.GROUP
    assert message.reply_to == message_id


async def test_a_redelivered_message_has_the_same_identity(live: ChannelHarness) -> None:
    live.person_says(live.private, "once")
    await live.until_confirmed()
    live.redeliver()
    await live.intake.wait_for(lambda: live.intake.duplicates)
    assert live.intake.texts == ["once"]


async def test_messages_come_in_in_the_order_they_were_written(live: ChannelHarness) -> None:
    texts = [f"line {number}" for number in range(20)]
    for text in texts:
        live.person_says(live.private, text)
    await live.intake.wait_for_texts(*texts)


@pytest.mark.needs(Feature.EDITS)
async def test_an_edit_of_a_queued_message_replaces_its_text(live: ChannelHarness) -> None:
    message_id = live.person_says(live.private, "remind me at nin")
    live.person_edits(live.private, message_id, "remind me at nine")
    await live.intake.wait_for(lambda: live.intake.texts == ["remind me at nine"])
    await live.until_confirmed()
    assert live.intake.late_edits == []


@pytest.mark.needs(Feature.EDITS)
async def test_an_edit_of_an_unknown_message_is_no_new_message(live: ChannelHarness) -> None:
    message_id = live.person_says(live.private, "first")
    await live.intake.wait_for_texts("first")
    live.intake.messages.clear()  # handled by now
    live.person_edits(live.private, message_id, "second")
    await live.intake.wait_for(lambda: live.intake.late_edits)
    assert live.intake.messages == []


async def test_what_was_said_while_the_bot_was_down_comes_in_in_order(harness: ChannelHarness) -> None:
    """C031: nothing that waited at the platform is thrown away at start."""
    await harness.server_up()
    for text in ("one", "two", "three"):
        harness.person_says(harness.private, text)
    harness.start()
    await harness.intake.wait_for_texts("one", "two", "three")


@pytest.mark.needs(Feature.REDELIVERY)
@pytest.mark.parametrize("failure", [StoreUnavailable("disk full"), QueueFull("10000 wait")])
async def test_what_cannot_be_stored_is_not_confirmed_and_comes_again(live: ChannelHarness, failure: Exception) -> None:
    confirmed_while_failing: list[bool] = []
    live.intake.failures.append(failure)
    live.intake.before_commit = lambda message: confirmed_while_failing.append(live.is_confirmed())
    live.person_says(live.private, "keep me")
    await live.intake.wait_for_texts("keep me")
    assert confirmed_while_failing == [False]
    await live.until_confirmed()
    assert live.channel.state is ChannelState.READY


@pytest.mark.needs(Feature.THREADS)
async def test_an_answer_replies_to_the_message_it_answers(live: ChannelHarness) -> None:
    message_id = live.person_says(live.thread, "question")
    await live.intake.wait_for_texts("question")
    await live.send(OutboundMessage(address=live.thread, text="answer", reply_to=message_id))
    (shown,) = live.shown(live.thread)
    assert (shown.text, shown.reply_to) == ("answer", message_id)


@pytest.mark.needs(Feature.THREADS)
async def test_a_message_for_a_thread_goes_to_that_thread(live: ChannelHarness) -> None:
    for kind in OutboundKind:
        await live.send(OutboundMessage(address=live.thread, text=f"about {kind}", kind=kind))
    assert [shown.thread_id for shown in live.shown(live.thread)] == [live.thread.thread_id] * len(OutboundKind)


@pytest.mark.needs(Feature.PARTS)
async def test_a_long_answer_arrives_whole_in_order_and_within_the_limit(live: ChannelHarness) -> None:
    """C022: 9,000 characters are delivered; the parts together are the original."""
    text = " ".join(f"word{number}" for number in range(2000))[: 2 * live.limit + 800]
    button = Button(label="More", data="more")
    progress = await live.send(OutboundMessage(address=live.private, text=text, buttons=((button,),)))
    shown = live.shown(live.private)
    assert len(progress.sent_ids) == len(shown) == 3
    assert " ".join(part.text.strip() for part in shown) == text.strip()
    assert [part.buttons for part in shown] == [(), (), ("More",)]


@pytest.mark.needs(Feature.PARTS)
async def test_parts_that_are_out_already_are_not_sent_again(live: ChannelHarness) -> None:
    text = " ".join(f"word{number}" for number in range(2000))[: 2 * live.limit + 800]
    message = OutboundMessage(address=live.private, text=text)
    whole = await live.send(message)
    before = live.shown(live.private)
    rest = RecordingProgress(sent_ids=tuple(whole.sent_ids[:2]))
    await live.channel.send(message, rest)
    assert [part.text for part in live.shown(live.private)[3:]] == [before[2].text]
    assert len(rest.sent_ids) == 3


@pytest.mark.needs(Feature.MARKUP)
async def test_markdown_of_an_answer_is_shown_as_formatting(live: ChannelHarness) -> None:
    await live.send(OutboundMessage(address=live.private, text="this is **important** 😀 and **so is this**"))
    (shown,) = live.shown(live.private)
    assert shown.text == "this is important 😀 and so is this"
    assert shown.bold == ("important", "so is this")


@pytest.mark.parametrize("kind", [OutboundKind.REMINDER, OutboundKind.NOTICE])
async def test_reminders_and_notices_are_sent_word_for_word(live: ChannelHarness, kind: OutboundKind) -> None:
    text = "buy **2** _eggs_ & <milk> [now](https://x.example) \\* `done`"
    await live.send(OutboundMessage(address=live.private, text=text, kind=kind))
    (shown,) = live.shown(live.private)
    assert (shown.text, shown.bold) == (text, ())


async def test_a_blank_message_is_refused_instead_of_lost(live: ChannelHarness) -> None:
    with pytest.raises(SendRejected):
        await live.send(OutboundMessage(address=live.private, text=" \n "))


@pytest.mark.needs(Feature.THREADS)
async def test_typing_is_shown_where_the_answer_will_be(live: ChannelHarness) -> None:
    await live.channel.typing(live.thread)
    assert live.typing_at() == [live.thread]


@pytest.mark.needs(Feature.LOCKS)
async def test_typing_where_the_bot_may_not_write_raises_nothing(live: ChannelHarness) -> None:
    live.lock_out(live.private)
    await live.channel.typing(live.private)
    assert live.shown(live.private) == []


@pytest.mark.needs(Feature.RATE_LIMITS)
async def test_a_rate_limit_says_how_long_to_wait(live: ChannelHarness) -> None:
    live.rate_limit(live.private, 17)
    with pytest.raises(RateLimited) as caught:
        await live.send(OutboundMessage(address=live.private, text="too fast"))
    assert caught.value.retry_after_s == 17
    assert caught.value.retryable
    await live.send(OutboundMessage(address=live.private, text="later"))
    assert [shown.text for shown in live.shown(live.private)] == ["later"]


@pytest.mark.needs(Feature.LOCKS)
async def test_a_chat_the_bot_may_not_write_in_is_gone_for_good(live: ChannelHarness) -> None:
    live.lock_out(live.private)
    with pytest.raises(ChatGone) as caught:
        await live.send(OutboundMessage(address=live.private, text="anybody?"))
    assert not caught.value.retryable


async def test_a_send_whose_answer_is_lost_is_uncertain(live: ChannelHarness) -> None:
    """C027: what may have arrived is told apart from what cannot have arrived."""
    live.lose_answer()
    with pytest.raises(SendUncertain):
        await live.send(OutboundMessage(address=live.private, text="did it arrive?"))
    assert [shown.text for shown in live.shown(live.private)] == ["did it arrive?"]


async def test_a_send_that_cannot_connect_may_simply_be_repeated(live: ChannelHarness) -> None:
    """C027: a connection that was never made carried nothing."""
    await live.server_down()
    with pytest.raises(ChannelError) as caught:
        await live.send(OutboundMessage(address=live.private, text="hello?"))
    assert type(caught.value) is ChannelError
    assert caught.value.retryable


async def test_a_lost_platform_is_found_again(live: ChannelHarness) -> None:
    """C032: an outage never ends receiving."""
    await live.server_down()
    await live.until(ChannelState.OFFLINE)
    assert live.channel.problem != ""
    await live.server_up()
    await live.until(ChannelState.READY)
    assert live.channel.problem == ""
    live.person_says(live.private, "back again")
    await live.intake.wait_for_texts("back again")


async def test_a_platform_that_is_down_at_start_is_waited_for(harness: ChannelHarness) -> None:
    await harness.server_up()
    await harness.server_down()
    harness.start()
    await harness.until(ChannelState.OFFLINE)
    harness.person_says(harness.private, "early")
    await harness.server_up()
    await harness.until(ChannelState.READY)
    await harness.intake.wait_for_texts("early")


@pytest.mark.needs(Feature.TOKENS)
async def test_a_refused_token_ends_the_channel_with_a_clear_error(harness: ChannelHarness) -> None:
    await harness.server_up()
    wrong = "999:not-the-right-Token"
    harness.replace_channel(harness.build(token=wrong))
    with pytest.raises(ChannelAuthError) as caught:
        await asyncio.wait_for(harness.start(), 10)
    assert harness.channel.state is ChannelState.FAILED
    assert harness.channel.problem != ""
    assert wrong not in f"{harness.channel.problem} {caught.value} {caught.value.__cause__!r}"


async def test_shutdown_is_prompt_and_closing_twice_is_fine(live: ChannelHarness) -> None:
    live.task.cancel()
    await asyncio.wait({live.task}, timeout=5)
    assert live.task.cancelled()
    await live.channel.close()
    await live.channel.close()


async def test_a_closed_channel_refuses_to_send_in_a_way_that_can_be_retried(live: ChannelHarness) -> None:
    await live.stop()
    with pytest.raises(ChannelError) as caught:
        await live.send(OutboundMessage(address=live.private, text="too late"))
    assert caught.value.retryable
    assert live.shown(live.private) == []


@pytest.mark.needs(Feature.TOKENS)
async def test_nothing_the_channel_says_contains_its_secret(
    live: ChannelHarness, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    said: list[str] = []
    live.person_says(live.private, "hello")
    await live.intake.wait_for_texts("hello")
    live.lose_answer()
    for _ in range(2):
        try:
            await live.send(OutboundMessage(address=live.private, text="x"))
        except ChannelError as exc:
            said.append(f"{exc} {exc.__cause__!r}")
        await live.server_down()
    await live.until(ChannelState.OFFLINE)
    said.append(live.channel.problem)
    captured = capsys.readouterr()
    assert len(said) == 3
    assert live.secret not in "\n".join([*said, caplog.text, captured.out, captured.err])


def test_a_channel_is_built_without_network_and_without_a_running_loop(tmp_path: Path) -> None:
    for make in discover():
        harness = make(tmp_path)
        assert harness.channel.state is ChannelState.STARTING
        assert harness.channel.name == harness.name
