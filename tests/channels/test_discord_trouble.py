"""What goes wrong on Discord's side while something is sent or read, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.errors import ChannelAuthError, ChannelError, RateLimited, SendRejected, SendUncertain
from bot.interfaces import ChannelState, Draft
from bot.messages import Attachment, OutboundMessage
from channels.discord.sending import Step, nonce
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
from tests.platforms.discord_faults import Fault, Scope, answer_lost
from tests.platforms.discord_objects import Route
from tests.support.recording_intake import RecordingProgress

DRAFT = Draft(address=PRIVATE, text="Let me", key="turn-7")
LONG = " ".join(f"word{number}" for number in range(2000))[:9000]


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[DiscordHarness]:
    async with served(tmp_path) as harness, running(harness) as up:
        yield up


# --- threads that are put away in mid-answer


async def test_an_answer_in_a_thread_that_was_put_away_meanwhile_opens_it_again(live: DiscordHarness) -> None:
    question = live.person_says(IN_THREAD, "well?")
    draft_id = await live.channel.show_draft(replace(DRAFT, address=IN_THREAD, reply_to=question))
    live.api.archive(THREAD)
    await live.send(OutboundMessage(address=IN_THREAD, text="answer", reply_to=question, draft_id=draft_id))
    assert live.api.texts(THREAD) == ["answer"]


async def test_an_answer_in_a_thread_that_was_locked_meanwhile_closes_no_channel(live: DiscordHarness) -> None:
    question = live.person_says(IN_THREAD, "well?")
    draft_id = await live.channel.show_draft(replace(DRAFT, address=IN_THREAD, reply_to=question))
    live.api.archive(THREAD, locked=True)
    with pytest.raises(SendRejected):
        await live.send(OutboundMessage(address=IN_THREAD, text="answer", reply_to=question, draft_id=draft_id))


# --- answers that make no sense


@pytest.mark.parametrize("answer", [b"", b"{", b"\xff\xfe"])
async def test_a_send_answered_with_nonsense_is_uncertain(live: DiscordHarness, answer: bytes) -> None:
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, garbage=answer))
    with pytest.raises(SendUncertain):
        await live.send(OutboundMessage(address=PRIVATE, text="hello"))


@pytest.mark.parametrize("answer", [b"", b"null", b"[]", b"\xff\xfe"])
async def test_a_draft_answered_with_nonsense_is_shown_once_by_the_next(live: DiscordHarness, answer: bytes) -> None:
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, garbage=answer))
    with pytest.raises(ChannelError) as caught:
        await live.channel.show_draft(DRAFT)
    assert type(caught.value) is ChannelError
    assert (await live.channel.show_draft(DRAFT)).isdecimal()
    assert live.api.texts(DM) == ["Let me"]


@pytest.mark.parametrize(
    ("told", "kept"),
    [(float("nan"), 2.0), (float("inf"), 2.0), (-5.0, 0.0), (1e300, 86_400.0), ("soon", 2.0), ("1.5", 1.5)],
)
async def test_an_odd_wait_is_made_one_that_can_be_kept(live: DiscordHarness, told: object, kept: float) -> None:
    body = json.dumps({"retry_after": told, "global": False}).encode()
    live.api.faults.add(Fault(route=Route.CREATE_MESSAGE, status=429, garbage=body))
    with pytest.raises(RateLimited) as caught:
        await live.send(OutboundMessage(address=PRIVATE, text="hello"))
    assert caught.value.retry_after_s == kept


async def test_a_history_that_makes_no_sense_is_read_again(live: DiscordHarness) -> None:
    live.person_says(PRIVATE, "one")
    await live.intake.wait_for(lambda: live.intake.messages)
    fault = live.api.faults.add(Fault(route=Route.GET_MESSAGES, garbage=b'[{"foo": 1}, 5]'))
    async with live.gap(resumable=False):
        live.person_says(PRIVATE, "two")
    await live.intake.wait_for(lambda: [m.text for m in live.intake.messages] == ["one", "two"])
    assert live.api.faults.hits(fault) == 1
    assert len(live.api.gateway.identifies) == 2


# --- drafts, threads and files around a failure


async def test_a_draft_that_could_not_be_removed_is_to_be_removed_later(live: DiscordHarness) -> None:
    draft_id = await live.channel.show_draft(DRAFT)
    live.api.faults.add(Fault(route=Route.DELETE_MESSAGE, status=500))
    with pytest.raises(ChannelError):
        await live.channel.drop_draft(PRIVATE, draft_id)
    await live.channel.drop_draft(PRIVATE, draft_id)
    assert live.api.texts(DM) == []


async def test_a_draft_in_a_thread_that_is_gone_needs_no_removal(live: DiscordHarness) -> None:
    draft_id = await live.channel.show_draft(replace(DRAFT, address=IN_THREAD))
    live.api.delete_channel(THREAD)
    await live.channel.drop_draft(IN_THREAD, draft_id)
    (asked,) = live.api.calls(Route.DELETE_MESSAGE)
    assert not asked.ok  # it was refused, and nobody need ask again


async def test_a_limit_for_the_whole_bot_met_while_opening_a_thread_stays_one(live: DiscordHarness) -> None:
    question = live.person_says(IN_CHANNEL, "everything, please")
    live.api.faults.add(Fault(route=Route.START_THREAD, retry_after_s=5.0, scope=Scope.GLOBAL))
    with pytest.raises(RateLimited) as caught:
        await live.send(OutboundMessage(address=IN_CHANNEL, text=LONG, reply_to=question))
    assert caught.value.everywhere


async def test_a_token_refused_while_opening_a_thread_is_told_as_that(live: DiscordHarness) -> None:
    question = live.person_says(IN_CHANNEL, "everything, please")
    live.api.faults.add(Fault(route=Route.START_THREAD, status=401))
    with pytest.raises(ChannelAuthError):
        await live.send(OutboundMessage(address=IN_CHANNEL, text=LONG, reply_to=question))


async def test_a_file_put_twice_where_a_command_waits_is_there_once(live: DiscordHarness, tmp_path: Path) -> None:
    live.api.rest.commands.append({"id": "7", "name": "draw", "type": 1, "options": []})
    interaction = live.api.slash(DM, "draw")
    await live.api.wait_for(lambda: interaction.answer is not None)
    (tmp_path / "a.txt").write_bytes(b"content")
    file = Attachment(kind="document", name="a.txt", path=str(tmp_path / "a.txt"))
    answer = OutboundMessage(address=PRIVATE, text="here", reply_to=f"i{interaction.id}", attachments=(file,))
    live.api.faults.add(answer_lost(Route.EDIT_RESPONSE))
    progress = RecordingProgress(outbox_id=55)
    with pytest.raises(ChannelError):
        await live.channel.send(answer, progress)
    await live.channel.send(answer, progress)
    assert [len(message["attachments"]) for message in interaction.messages.values()] == [1]


async def test_an_installation_begun_anew_is_heard_although_its_numbers_were_used(live: DiscordHarness) -> None:
    for text in ("of the old one", "of the new one"):
        await live.channel.send(OutboundMessage(address=PRIVATE, text=text), RecordingProgress(outbox_id=1))
    assert live.api.texts(DM) == ["of the old one", "of the new one"]


def test_a_nonce_is_never_too_long() -> None:
    assert len(nonce(10**18, 10**4, PRIVATE, Step(text="x"))) == 25


# --- servers


async def test_what_was_said_while_a_server_was_out_is_caught_up(live: DiscordHarness) -> None:
    live.person_says(IN_CHANNEL, "before")
    await live.intake.wait_for(lambda: live.intake.messages)
    live.api.take_out(1001)
    live.person_says(IN_CHANNEL, "unheard")
    live.api.bring_back(1001)
    await live.intake.wait_for(lambda: len(live.intake.messages) > 1)
    assert [message.text for message in live.intake.messages] == ["before", "unheard"]


@pytest.mark.parametrize("what", ["slash", "press"])
async def test_where_the_bot_is_to_be_off_commands_and_buttons_are_as_well(tmp_path: Path, what: str) -> None:
    async with served(tmp_path) as harness:
        harness.replace_channel(harness.build(group_policy={"default": "mention", str(CHANNEL): "off"}))
        harness.intake.button_labels = ["Yes"]
        harness.api.rest.commands.append({"id": "7", "name": "draw", "type": 1, "options": []})
        async with running(harness):
            if what == "slash":
                interaction = harness.api.slash(CHANNEL, "draw")
                await harness.api.wait_for(lambda: interaction.answer is not None)
                assert interaction.ephemeral
            else:
                button = {"type": 2, "style": 2, "label": "Yes", "custom_id": "b1.0"}
                rows = [{"type": 1, "components": [button]}]
                api = harness.api
                own = api.world.new_message(api.world.channels[CHANNEL], api.world.bot, "?", components=rows)
                harness.press_forged(IN_CHANNEL, str(own["id"]), "b1.0")
                await harness.api.wait_for(harness.told_presser)
            assert harness.intake.messages == []
            assert harness.intake.presses == []
            assert harness.channel.state is ChannelState.READY
