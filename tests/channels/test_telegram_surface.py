"""What people see beside messages: the command menu and the mark on what was seen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.interfaces import ChannelContext, MenuCommand
from channels.telegram import TelegramChannel
from channels.telegram.menu import menu_entries
from tests.channels.harness_telegram import PRIVATE, QUICK, TOPIC, TelegramHarness, running, served
from tests.platforms.bot_api_faults import Fault, bad_gateway

MENU = (MenuCommand(name="help", description="what I can do"), MenuCommand(name="stop", description="stop now"))


class MenuHarness(TelegramHarness):
    """A bot that has slash commands."""

    menu: tuple[MenuCommand, ...] = MENU

    def context(self, section: object) -> ChannelContext:
        return replace(super().context(section), menu=lambda: self.menu)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path, MenuHarness) as made:
        yield made


# --- menu ------------------------------------------------------------------------------------------------


async def test_the_menu_is_set_once(harness: TelegramHarness) -> None:
    wanted = [{"command": "help", "description": "what I can do"}, {"command": "stop", "description": "stop now"}]
    async with running(harness):
        await harness.api.wait_for(lambda: harness.api.world.commands == wanted)
    await harness.stop()
    harness.replace_channel(harness.build())
    async with running(harness):
        await harness.api.wait_for(lambda: len(harness.api.calls("getMyCommands")) == 2)
        harness.api.user_says(5, "x")
        await harness.intake.wait_for_texts("x")
    assert len(harness.api.calls("setMyCommands")) == 1


async def test_a_menu_that_cannot_be_set_is_only_a_warning(
    harness: TelegramHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.api.faults.add(bad_gateway("setMyCommands"))
    async with running(harness):
        await harness.api.wait_for(lambda: harness.api.calls("setMyCommands"))
        harness.api.user_says(5, "x")
        await harness.intake.wait_for_texts("x")
    said = capsys.readouterr()
    assert "command menu not set" in said.out + said.err


def test_a_menu_holds_what_telegram_takes() -> None:
    odd = [
        MenuCommand(name="with-dash", description="x"),
        MenuCommand(name="Loud", description="x"),
        MenuCommand(name="blank", description=" "),
        MenuCommand(name="long", description="w" * 300),
    ]
    many = [MenuCommand(name=f"c{number}", description="x") for number in range(120)]
    assert menu_entries(odd) == [{"command": "long", "description": "w" * 256}]
    assert len(menu_entries(many)) == 100


# --- the mark --------------------------------------------------------------------------------------------


def marks(harness: TelegramHarness) -> list[object]:
    return [call.params["reaction"] for call in harness.api.calls("setMessageReaction")]


async def test_a_seen_message_gets_a_reaction(harness: TelegramHarness) -> None:
    message_id = harness.person_says(TOPIC, "hello")
    await harness.channel.seen(TOPIC, message_id)
    assert harness.api.world.reactions[-1001, int(message_id)] == [{"type": "emoji", "emoji": "👀"}]


async def test_without_an_emoji_nothing_is_marked(harness: TelegramHarness) -> None:
    harness.replace_channel(harness.build(seen_reaction=""))
    await harness.channel.seen(PRIVATE, harness.person_says(PRIVATE, "hello"))
    assert marks(harness) == []


async def test_an_emoji_that_is_no_reaction_is_switched_off_with_one_warning(
    harness: TelegramHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.replace_channel(harness.build(seen_reaction="🦜"))
    refused = Fault(method="setMessageReaction", status=400, description="Bad Request: REACTION_INVALID", times=None)
    harness.api.faults.add(refused)
    for _ in range(3):
        await harness.channel.seen(PRIVATE, harness.person_says(PRIVATE, "hello"))
    said = capsys.readouterr()
    assert (said.out + said.err).count("none of Telegram's reactions") == 1
    assert harness.api.faults.hits(refused) == 1


async def test_a_group_that_forbids_reactions_is_left_alone_and_others_are_not(harness: TelegramHarness) -> None:
    refused = Fault(
        method="setMessageReaction", chat_id=-1001, status=400, description="Bad Request: REACTION_INVALID", times=None
    )
    harness.api.faults.add(refused)
    for _ in range(2):
        await harness.channel.seen(TOPIC, harness.person_says(TOPIC, "hello"))
    await harness.channel.seen(PRIVATE, harness.person_says(PRIVATE, "hello"))
    assert harness.api.faults.hits(refused) == 1
    assert len(harness.api.world.reactions) == 1


@pytest.mark.parametrize(
    "fault",
    [
        bad_gateway("setMessageReaction"),
        Fault(method="setMessageReaction", status=400, description="Bad Request: message to react not found"),
    ],
)
async def test_a_failed_mark_is_tried_again_with_the_next_message(harness: TelegramHarness, fault: Fault) -> None:
    harness.api.faults.add(fault)
    for _ in range(2):
        await harness.channel.seen(PRIVATE, harness.person_says(PRIVATE, "hello"))
    assert len(harness.api.world.reactions) == 1


async def test_a_closed_channel_marks_nothing_and_says_nothing(harness: TelegramHarness) -> None:
    channel = TelegramChannel.create(harness.context(harness.build()._section), QUICK)
    await channel.close()
    await channel.seen(PRIVATE, "1")
    assert marks(harness) == []
