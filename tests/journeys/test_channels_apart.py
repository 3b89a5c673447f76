"""Journeys: what befalls one channel is no matter of the others, at the start and while it runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault as TelegramFault
from tests.platforms.discord_api import DiscordApi
from tests.platforms.discord_faults import Fault as DiscordFault
from tests.platforms.discord_objects import Route
from tests.platforms.loopback import LoopbackServer
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.slack_api import SlackApi
from tests.platforms.slack_faults import Fault as SlackFault
from tests.support.load_platforms import DiscordPlatform, Platform, SlackPlatform, TelegramPlatform
from tests.support.service import Service, free_port

NAMES = ("telegram", "discord", "slack")
REFUSED = {
    "telegram": {"token": "999:refused"},
    "discord": {"token": "refused.token.of-discord"},
    "slack": {"bot_token": "xoxb-refused"},
}
CROWD = 40  # more chats than one channel sends to at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Three platforms and an installation that talks to all of them."""

    service: Service
    servers: dict[str, LoopbackServer]
    people: dict[str, Platform[Any]]

    def configure(self, **sections: Mapping[str, object]) -> None:
        """Change sections of channels; health is served too."""
        listen = {"server": {"listen": f"127.0.0.1:{free_port()}"}}
        changes = {f"channels.{name}": values for name, values in sections.items()}
        self.service.configure(self.service.sections, listen, changes)

    async def answers(self, name: str, chat: int, text: str) -> None:
        """Let a person write and wait for the echo."""
        self.people[name].say(chat, text)
        await self.arrived(name, chat, text)

    async def arrived(self, name: str, chat: int, text: str) -> None:
        """Wait for the bot's message."""
        await self.servers[name].wait_for(lambda: text in self.people[name].texts(chat) or not self.service.running)
        assert text in self.people[name].texts(chat), self.service.tail()

    async def until_state(self, name: str, state: str) -> None:
        """Wait until the status shows a channel like this."""
        async with asyncio.timeout(60):
            while (await self.service.status())["channels"][name]["state"] != state:
                await asyncio.sleep(0.5)


@pytest.fixture
async def stage(tmp_path: Path, telegram: BotApi, model: OpenAIApi) -> AsyncIterator[Stage]:
    async with (
        DiscordApi() as discord,
        SlackApi() as slack,
        Service(tmp_path, telegram=telegram, discord=discord, slack=slack, model=model) as service,
    ):
        yield Stage(
            service=service,
            servers={"telegram": telegram, "discord": discord, "slack": slack},
            people={
                "telegram": TelegramPlatform(telegram, random.Random(1)),
                "discord": DiscordPlatform(discord, random.Random(1)),
                "slack": SlackPlatform(slack, random.Random(1)),
            },
        )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("bad", NAMES)
async def test_of_three_channels_the_good_one_answers_whatever_is_wrong_with_the_others(stage: Stage, bad: str) -> None:
    down, good = [name for name in NAMES if name != bad]
    if bad == "discord":
        down, good = good, down  # so that each of the three is once the good one, and once the one that is down
    stage.configure(**{bad: REFUSED[bad]})
    await stage.servers[down].go_down()
    await stage.service.start()
    await stage.until_state(good, "ready")  # Discord does not hand out what was said before anybody ever listened
    await stage.answers(good, 0, "hello")
    await stage.until_state(bad, "failed")
    await stage.until_state(down, "offline")
    channels = (await stage.service.status())["channels"]
    assert channels[good]["state"] == "ready"
    assert channels[bad]["problem"]
    assert channels[down]["problem"]
    assert (await stage.service.health("/readyz"))[0] == 503
    assert (await stage.service.health("/healthz"))[0] == 200

    await stage.servers[down].come_up()
    await stage.until_state(down, "ready")
    await stage.answers(down, 0, "are you back?")
    await stage.answers(good, 0, "and you?")
    assert (await stage.service.health("/readyz"))[0] == 503  # one is still off
    assert stage.people[bad].texts(0) == []
    assert await stage.service.stop() == 0
    assert "Traceback" not in stage.service.log_text()
    assert not any(secret in stage.service.log_text() for secret in REFUSED[bad].values())


@pytest.mark.timeout(120)
async def test_only_a_service_whose_every_channel_is_refused_gives_up(stage: Stage) -> None:
    stage.configure(**REFUSED)
    await stage.service.launch()
    assert await stage.service.wait_exit() == 78
    assert "Traceback" not in stage.service.log_text()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("down", NAMES)
async def test_a_server_that_is_down_is_waited_for_when_all_others_are_refused(stage: Stage, down: str) -> None:
    stage.configure(**{name: values for name, values in REFUSED.items() if name != down})
    await stage.servers[down].go_down()
    await stage.service.start()
    for name in REFUSED:
        await stage.until_state(name, "offline" if name == down else "failed")
    assert (await stage.service.health("/readyz"))[0] == 503
    await stage.servers[down].come_up()
    await stage.until_state(down, "ready")
    await stage.answers(down, 0, "hello")
    assert await stage.service.stop() == 0


@pytest.mark.timeout(240)
@pytest.mark.parametrize("slow", NAMES)
async def test_a_platform_that_does_not_take_messages_holds_up_no_other(stage: Stage, slow: str) -> None:
    gate = asyncio.Event()
    await stage.service.start()
    for name in NAMES:
        await stage.until_state(name, "ready")
    holds: dict[str, Any] = {
        "telegram": TelegramFault(method="sendMessage", hold=gate, times=None),
        "discord": DiscordFault(route=Route.CREATE_MESSAGE, hold=gate, times=None),
        "slack": SlackFault(method="chat.postMessage", hold=gate, times=None),
    }
    server: Any = stage.servers[slow]
    hold = server.faults.add(holds[slow])
    for chat in range(CROWD):
        stage.people[slow].say(chat, f"held {chat}")
    await server.wait_for(lambda: server.faults.hits(hold))
    for name in NAMES:
        if name != slow:
            for chat in range(5):
                await stage.answers(name, chat, f"first {chat}")
                await stage.answers(name, chat, f"second {chat}")
    assert not gate.is_set()
    assert [stage.people[slow].texts(chat) for chat in range(CROWD)] == [[]] * CROWD
    gate.set()
    for chat in range(CROWD):
        await stage.arrived(slow, chat, f"held {chat}")
    assert [stage.people[slow].texts(chat) for chat in range(CROWD)] == [[f"held {chat}"] for chat in range(CROWD)]
    assert await stage.service.stop() == 0
