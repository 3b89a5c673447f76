"""Slash commands and buttons on Discord: committed, then answered within 3 s."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.errors import ChannelError, StoreUnavailable
from bot.interfaces import ChannelContext, Draft, MenuCommand
from bot.messages import Address, Button, ChatType, OutboundMessage
from channels.discord.commands import same, wanted
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
from tests.platforms.discord_faults import Fault
from tests.platforms.discord_interactions import EPHEMERAL_FLAG, LOADING_FLAG, Answer, Interaction
from tests.platforms.discord_objects import Route, buttons_of
from tests.support.recording_intake import RecordingProgress

MENU = (
    MenuCommand(name="remind", description="set a reminder"),
    MenuCommand(name="help", description="this list " + "x" * 200),
    MenuCommand(name="Not A Name", description="left out"),
)


class MenuHarness(DiscordHarness):
    """The Discord channel with a menu of commands."""

    menu: Sequence[MenuCommand] = MENU

    def context(self, section: object) -> ChannelContext:
        return replace(super().context(section), menu=lambda: self.menu)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MenuHarness]:
    async with served(tmp_path, MenuHarness) as made:
        assert isinstance(made, MenuHarness)
        yield made


@pytest.fixture
async def live(harness: MenuHarness) -> AsyncIterator[MenuHarness]:
    async with running(harness):
        await harness.api.wait_for(lambda: harness.api.rest.commands)
        yield harness


async def answered(live: DiscordHarness, interaction: Interaction) -> Interaction:
    await live.api.wait_for(lambda: interaction.answer is not None)
    return interaction


async def command(live: DiscordHarness, name: str = "remind", *, channel_id: int = DM, **options: Any) -> Interaction:
    interaction = live.api.slash(channel_id, name, **options)
    await live.intake.wait_for(lambda: any(m.message_id == str(interaction.id) for m in live.intake.messages))
    return await answered(live, interaction)


# --- the menu


async def test_commands_are_registered_with_one_text_each(live: MenuHarness) -> None:
    registered = live.api.rest.commands
    assert [one["name"] for one in registered] == ["remind", "help"]
    assert len(registered[1]["description"]) == 100
    assert [(o["type"], o["name"], o["required"]) for o in registered[0]["options"]] == [(3, "text", False)]


async def test_what_is_registered_already_is_not_written_again(live: MenuHarness) -> None:
    await live.stop()
    live.replace_channel(live.build())
    async with running(live):
        await live.api.wait_for(lambda: len(live.api.calls(Route.GET_COMMANDS)) == 2)
        live.person_says(PRIVATE, "hello")
        await live.intake.wait_for_texts("hello")
        assert len(live.api.calls(Route.SYNC_COMMANDS)) == 1


async def test_a_changed_menu_is_written_at_the_next_start(live: MenuHarness) -> None:
    await live.stop()
    live.menu = MENU[:1]
    live.replace_channel(live.build())
    async with running(live):
        await live.api.wait_for(lambda: [one["name"] for one in live.api.rest.commands] == ["remind"])


async def test_commands_can_be_switched_off(harness: MenuHarness) -> None:
    harness.replace_channel(harness.build(commands=False))
    async with running(harness) as live:
        live.person_says(PRIVATE, "hello")
        await live.intake.wait_for_texts("hello")
        assert live.api.calls(Route.GET_COMMANDS) == []


async def test_a_menu_that_cannot_be_registered_stops_nothing(harness: MenuHarness) -> None:
    harness.api.faults.add(Fault(route=Route.SYNC_COMMANDS, status=403, code=20012, message="No"))
    async with running(harness) as live:
        live.person_says(PRIVATE, "hello")
        await live.intake.wait_for_texts("hello")


def test_the_order_and_what_the_platform_adds_make_no_difference() -> None:
    ours = wanted(MENU, "en")
    theirs = [{**one, "id": "1", "version": "2"} for one in reversed(ours)]
    assert same(theirs, ours)
    assert not same(theirs[:1], ours)
    assert not same([{**theirs[0], "description": "else"}, theirs[1]], ours)
    assert not same(None, ours)


# --- slash commands


async def test_a_command_comes_in_as_if_typed_and_is_deferred_after_the_commit(live: MenuHarness) -> None:
    states: list[bool] = []
    live.intake.before_commit = lambda message: states.append(not live.api.calls(Route.CALLBACK))
    interaction = await command(live, text="in 10 minutes stretch")
    (message,) = live.intake.messages
    assert (message.text, message.address) == ("/remind in 10 minutes stretch", PRIVATE)
    assert (message.sender_id, message.sender_name, message.chat_type) == ("111", "Ada", ChatType.PRIVATE)
    assert message.sent_us is not None
    assert states == [True]
    assert interaction.answer == Answer.DEFERRED_MESSAGE


@pytest.mark.parametrize(
    ("channel_id", "address"),
    [(DM, PRIVATE), (CHANNEL, IN_CHANNEL), (THREAD, IN_THREAD)],
    ids=["dm", "channel", "thread"],
)
async def test_an_answer_takes_the_place_of_is_thinking(live: MenuHarness, channel_id: int, address: Address) -> None:
    interaction = await command(live, channel_id=channel_id)
    (message,) = live.intake.messages
    assert message.address == address
    sent = await live.send(OutboundMessage(address=address, text="**done**", reply_to=message.reply_to))
    assert live.api.texts(channel_id) == ["**done**"]
    assert interaction.original is not None
    assert sent.sent_ids == [interaction.original["id"]]
    assert not interaction.original["flags"] & LOADING_FLAG
    assert live.api.calls(Route.CREATE_MESSAGE) == []


async def test_the_parts_after_the_first_are_ordinary_messages(live: MenuHarness) -> None:
    await command(live)
    (message,) = live.intake.messages
    text = " ".join(f"word{number}" for number in range(500))
    await live.send(OutboundMessage(address=PRIVATE, text=text, reply_to=message.reply_to))
    assert " ".join(live.api.texts(DM)) == text
    assert len(live.api.calls(Route.CREATE_MESSAGE)) == 1


async def test_an_expired_token_makes_an_ordinary_message(live: MenuHarness) -> None:
    await command(live)
    (message,) = live.intake.messages
    live.api.world.clock.advance(16 * 60)
    await live.send(OutboundMessage(address=PRIVATE, text="late", reply_to=message.reply_to))
    assert live.api.texts(DM) == ["late"]
    assert len(live.api.calls(Route.CREATE_MESSAGE)) == 1


async def test_after_a_restart_the_answer_is_an_ordinary_message(live: MenuHarness) -> None:
    await command(live)
    (message,) = live.intake.messages
    await live.stop()
    live.replace_channel(live.build())
    async with running(live):
        await live.send(OutboundMessage(address=PRIVATE, text="back", reply_to=message.reply_to))
        assert live.api.calls(Route.EDIT_RESPONSE) == []
        assert live.api.texts(DM) == ["back"]


async def test_an_answer_lost_on_the_way_is_given_again_into_the_same_place(live: MenuHarness) -> None:
    await command(live)
    (message,) = live.intake.messages
    live.api.faults.add(Fault(route=Route.EDIT_RESPONSE, drop_after=True))
    outbound = OutboundMessage(address=PRIVATE, text="done", reply_to=message.reply_to)
    with pytest.raises(ChannelError) as caught:
        await live.send(outbound)
    assert type(caught.value) is ChannelError
    await live.send(outbound)
    assert live.api.texts(DM) == ["done"]


async def test_a_draft_begins_where_is_thinking_stands_and_the_answer_ends_there(live: MenuHarness) -> None:
    interaction = await command(live)
    (message,) = live.intake.messages
    draft = Draft(address=PRIVATE, text="do", reply_to=message.reply_to, key="turn-1")
    draft_id = await live.channel.show_draft(draft)
    assert interaction.original is not None
    assert draft_id == interaction.original["id"]
    await live.channel.show_draft(replace(draft, text="don", draft_id=draft_id))
    await live.send(OutboundMessage(address=PRIVATE, text="done", reply_to=message.reply_to, draft_id=draft_id))
    assert live.api.texts(DM) == ["done"]


async def test_a_command_that_cannot_be_stored_is_told_to_the_person_alone(live: MenuHarness) -> None:
    live.intake.failures.append(StoreUnavailable("disk full"))
    interaction = await answered(live, live.api.slash(CHANNEL, "help"))
    assert interaction.original is not None
    assert interaction.original["flags"] & EPHEMERAL_FLAG
    assert "try again" in interaction.original["content"]
    assert live.intake.messages == []


async def test_somebody_who_may_not_speak_here_is_told_so_alone(live: MenuHarness) -> None:
    live.intake.refused_senders.add("111")
    interaction = await answered(live, live.api.slash(CHANNEL, "help"))
    assert interaction.original is not None
    assert interaction.original["flags"] & EPHEMERAL_FLAG
    assert live.api.texts(CHANNEL) == []


async def test_a_command_answered_too_late_for_the_platform_is_still_handled(live: MenuHarness) -> None:
    live.api.faults.add(Fault(route=Route.CALLBACK, status=404, code=10062, message="Unknown interaction"))
    interaction = live.api.slash(DM, "help")
    await live.intake.wait_for_texts("/help")
    await live.api.wait_for(lambda: live.api.calls(Route.CALLBACK))
    await live.send(OutboundMessage(address=PRIVATE, text="help", reply_to=f"i{interaction.id}"))
    assert live.api.texts(DM) == ["help"]


async def test_a_command_that_is_no_more_comes_in_by_its_name(live: MenuHarness) -> None:
    live.api.rest.commands.append({"id": "1", "name": "gone", "description": "x", "options": []})
    await command(live, "gone")
    assert live.intake.texts == ["/gone"]


async def test_a_place_where_a_command_was_given_is_caught_up_with_after_a_gap(live: MenuHarness) -> None:
    dm = live.api.add_dm(222, name="Ben").id
    live.api.slash(dm, "help")
    await live.cursors.bell.wait_for(lambda: live.channel.private_address("222"), timeout_s=5)
    await live.stop()
    live.api.user_says(dm, "are you there?")
    live.replace_channel(live.build())
    async with running(live):
        await live.intake.wait_for_texts("/help", "are you there?")


async def test_an_odd_interaction_ends_nothing(live: MenuHarness) -> None:
    live.api.interactions.begin(2, live.api.world.channels[DM], live.api.world.users[111], {}, name="x")
    live.person_says(PRIVATE, "hello")
    await live.intake.wait_for_texts("hello")


# --- buttons


async def question(live: DiscordHarness, address: Address = PRIVATE, outbox_id: int = 7) -> int:
    """Send a question with two buttons; return its message's id."""
    live.intake.button_labels = ["Yes", "No"]
    progress = RecordingProgress(outbox_id=outbox_id)
    buttons = ((Button(label="Yes", data="/approve A1"), Button(label="No", data="/deny A1")),)
    await live.channel.send(OutboundMessage(address=address, text="Really?", buttons=buttons), progress)
    return int(progress.sent_ids[-1])


def labels(live: DiscordHarness, channel_id: int) -> list[tuple[str, bool]]:
    return [
        (str(button["label"]), bool(button.get("disabled")))
        for message in live.api.own_messages(channel_id)
        for button in buttons_of(message)
    ]


@pytest.mark.parametrize(("channel_id", "address"), [(DM, PRIVATE), (THREAD, IN_THREAD)], ids=["private", "thread"])
async def test_a_press_is_committed_and_the_chosen_button_stays(
    live: MenuHarness, channel_id: int, address: Address
) -> None:
    number = await question(live, address)
    interaction = await answered(live, live.api.press(channel_id, number, "b7.1"))
    (press,) = live.intake.presses
    assert (press.chat_id, press.message_id, press.outbox_id, press.index) == (address.chat_id, str(number), 7, 1)
    assert (press.press_id, press.sender_id) == (str(interaction.id), "111")
    assert interaction.answer == Answer.UPDATE_MESSAGE
    assert labels(live, channel_id) == [("✓ No", True)]
    assert live.api.texts(channel_id) == ["Really?"]


async def test_the_data_of_a_button_never_leaves_us(live: MenuHarness) -> None:
    await question(live)
    assert "/approve" not in str(live.api.sent[-1].params)


async def test_a_second_press_is_told_that_it_is_answered(live: MenuHarness) -> None:
    number = await question(live)
    first = live.api.press(DM, number, "b7.0")
    second = live.api.press(DM, number, "b7.1")
    await answered(live, first)
    await answered(live, second)
    assert second.original is not None
    assert "already" in second.original["content"]
    assert second.original["flags"] & EPHEMERAL_FLAG
    await live.api.wait_for(lambda: labels(live, DM) == [("✓ Yes", True)])
    assert len(live.intake.presses) == 1


async def test_an_old_or_foreign_button_is_told_to_be_dead(live: MenuHarness) -> None:
    live.intake.button_labels = []
    number = await question(live)
    live.intake.button_labels = []
    old = await answered(live, live.api.press(DM, number, "b7.0"))
    channel = live.api.world.channels[DM]
    channel.messages[number]["components"] = [
        {"type": 1, "components": [{"type": 2, "style": 1, "label": "x", "custom_id": "/approve A1"}]}
    ]
    foreign = await answered(live, live.api.press(DM, number, "/approve A1"))
    for interaction in (old, foreign):
        assert interaction.original is not None
        assert "not valid" in interaction.original["content"]
        assert interaction.original["flags"] & EPHEMERAL_FLAG
    assert live.intake.presses == []
    assert live.intake.messages == []


async def test_a_press_answered_too_late_still_changes_the_message(live: MenuHarness) -> None:
    number = await question(live)
    live.api.faults.add(Fault(route=Route.CALLBACK, status=404, code=10062, message="Unknown interaction"))
    live.api.press(DM, number, "b7.0")
    await live.api.wait_for(lambda: labels(live, DM) == [("✓ Yes", True)])


async def test_a_press_that_cannot_be_stored_can_be_made_again(live: MenuHarness) -> None:
    number = await question(live)
    live.intake.failures.append(StoreUnavailable("disk full"))
    first = await answered(live, live.api.press(DM, number, "b7.0"))
    assert first.original is not None
    assert "try again" in first.original["content"]
    await answered(live, live.api.press(DM, number, "b7.0"))
    assert len(live.intake.presses) == 1


async def test_interactions_do_not_wait_for_each_other(live: MenuHarness) -> None:
    held = asyncio.Event()
    live.api.faults.add(Fault(route=Route.CALLBACK, hold=held))
    first = live.api.slash(DM, "help")
    second = live.api.slash(CHANNEL, "remind")
    await answered(live, second)
    assert first.answer is None
    held.set()
