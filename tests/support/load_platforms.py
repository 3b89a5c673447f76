"""Three platforms as a load run sees them: private chats to speak in, and what goes wrong, by the throw of a die."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import ClassVar, Generic, Protocol, TypeVar

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault as TelegramFault
from tests.platforms.bot_api_faults import bad_gateway as telegram_bad_gateway
from tests.platforms.bot_api_faults import too_many_requests as telegram_too_many
from tests.platforms.discord_api import DiscordApi
from tests.platforms.discord_faults import Fault as DiscordFault
from tests.platforms.discord_faults import Scope, rate_limited
from tests.platforms.discord_faults import bad_gateway as discord_bad_gateway
from tests.platforms.discord_objects import Route
from tests.platforms.slack_api import SlackApi
from tests.platforms.slack_faults import Fault as SlackFault
from tests.platforms.slack_faults import bad_gateway as slack_bad_gateway
from tests.platforms.slack_faults import too_many_requests as slack_too_many

Act = Callable[[], Awaitable[None] | None]
F = TypeVar("F")


class Switches(Protocol[F]):
    """The faults of a loopback platform."""

    def add(self, fault: F) -> F:
        """Switch a fault on."""

    def hits(self, fault: F) -> int:
        """Return how often a fault struck."""

    def clear(self) -> None:
        """Switch all faults off."""


class Platform(ABC, Generic[F]):
    """One platform with private chats, numbered from 0. `struck` counts what was let go wrong, by kind."""

    name: ClassVar[str]

    def __init__(self, faults: Switches[F], chance: random.Random) -> None:
        self.struck: Counter[str] = Counter()
        self._faults = faults
        self._chance = chance
        self._lost: list[F] = []  # faults that lose an answer
        self._lost_before = 0  # how often those struck that are switched off

    @abstractmethod
    def say(self, chat: int, text: str) -> None:
        """Let the person of a chat write."""

    @abstractmethod
    def texts(self, chat: int) -> list[str]:
        """Return what the bot's messages in a chat say, in order."""

    @abstractmethod
    def weather(self) -> dict[str, Act | F]:
        """Return what may go wrong: faults to arm, and acts."""

    @abstractmethod
    def answer_lost(self) -> F:
        """Return the fault of a send that is carried out and never answered."""

    def swallowed(self, chat: int) -> list[str]:
        """Return the texts of sends to a chat whose requests were lost, where the bot cannot ask what arrived."""
        return []

    async def strike(self) -> None:
        """Let one thing go wrong."""
        lost = self.answer_lost()
        trouble: dict[str, Act | F] = {**self.weather(), "answer lost": lost}
        kind = self._chance.choice([*trouble, "answer lost"])  # twice as often: this is what makes copies
        self.struck[kind] += 1
        chosen = trouble[kind]
        if callable(chosen):
            if (done := chosen()) is not None:
                await done
            return
        self._faults.add(chosen)
        if chosen is lost:
            self._lost.append(lost)

    def lost_answers(self) -> int:
        """Return how many sends were carried out and never answered."""
        return self._lost_before + sum(map(self._faults.hits, self._lost))

    def calm(self) -> None:
        """Let nothing more go wrong."""
        self._lost_before = self.lost_answers()
        self._lost.clear()
        self._faults.clear()

    def _slow_s(self) -> float:
        return self._chance.uniform(0.1, 1.0)


class TelegramPlatform(Platform[TelegramFault]):
    """Telegram by polling."""

    name: ClassVar[str] = "telegram"

    def __init__(self, api: BotApi, chance: random.Random) -> None:
        super().__init__(api.faults, chance)
        self._api = api
        self._said: list[int] = []

    def say(self, chat: int, text: str) -> None:
        number = 1_000 + chat
        self._said.append(self._api.user_says(number, text, user_id=number))

    def texts(self, chat: int) -> list[str]:
        return self._api.texts(1_000 + chat)

    def swallowed(self, chat: int) -> list[str]:
        calls = self._api.calls("sendMessage")
        return [call.text for call in calls if call.chat_id == 1_000 + chat and call.error == "dropped"]

    def answer_lost(self) -> TelegramFault:
        return TelegramFault(method="sendMessage", drop_after=True)

    def weather(self) -> dict[str, Act | TelegramFault]:
        return {
            "429": telegram_too_many("sendMessage", 1),
            "request lost": TelegramFault(method="sendMessage", drop_before=True),
            "502": telegram_bad_gateway("sendMessage"),
            "slow send": TelegramFault(method="sendMessage", delay_s=self._slow_s()),
            "poll cut": TelegramFault(method="getUpdates", drop_after=True),
            "poll 502": telegram_bad_gateway("getUpdates"),
            "slow poll": TelegramFault(method="getUpdates", delay_s=self._slow_s()),
            "redelivered": self._redeliver,
            "all redelivered": TelegramFault(method="getUpdates", ignore_offset=True),
        }

    def _redeliver(self) -> None:
        # Only what was confirmed: the platform never hands out a later message before an earlier one.
        if seen := [number for number in self._said if number < self._api.confirmed_offset]:
            self._api.redeliver(self._chance.choice(seen))


class DiscordPlatform(Platform[DiscordFault]):
    """Discord: REST and gateway."""

    name: ClassVar[str] = "discord"

    def __init__(self, api: DiscordApi, chance: random.Random) -> None:
        super().__init__(api.faults, chance)
        self._api = api

    def say(self, chat: int, text: str) -> None:
        channel = self._api.add_dm(5_000 + chat, channel_id=2_000 + chat, name=f"Person {chat}")
        self._api.user_says(channel.id, text)

    def texts(self, chat: int) -> list[str]:
        return self._api.texts(2_000 + chat) if 2_000 + chat in self._api.world.channels else []

    def answer_lost(self) -> DiscordFault:
        return DiscordFault(route=Route.CREATE_MESSAGE, drop_after=True)

    def weather(self) -> dict[str, Act | DiscordFault]:
        gateway = self._api.gateway
        return {
            "429": rate_limited(Route.CREATE_MESSAGE, 1),
            "429 global": rate_limited(Route.CREATE_MESSAGE, 1, scope=Scope.GLOBAL),
            "request lost": DiscordFault(route=Route.CREATE_MESSAGE, drop_before=True),
            "502": discord_bad_gateway(Route.CREATE_MESSAGE),
            "slow send": DiscordFault(route=Route.CREATE_MESSAGE, delay_s=self._slow_s()),
            "gateway cut": gateway.drop,
            "gateway asks to reconnect": gateway.reconnect,
            "session invalid": gateway.invalidate,
            "redelivered": self._redeliver,
        }

    def _redeliver(self) -> None:
        if self._api.gateway.connected:
            self._api.redeliver()


class SlackPlatform(Platform[SlackFault]):
    """Slack: Web API and Socket Mode."""

    name: ClassVar[str] = "slack"

    def __init__(self, api: SlackApi, chance: random.Random) -> None:
        super().__init__(api.faults, chance)
        self._api = api
        self._said: list[str] = []

    def say(self, chat: int, text: str) -> None:
        # The chat comes to be with the first word in it.
        self._said.append(self._api.user_says(f"D0P{chat:08d}", text, user_id=f"U0P{chat:08d}"))

    def texts(self, chat: int) -> list[str]:
        return self._api.texts(f"D0P{chat:08d}")

    def answer_lost(self) -> SlackFault:
        return SlackFault(method="chat.postMessage", drop_after=True)

    def weather(self) -> dict[str, Act | SlackFault]:
        return {
            "429": slack_too_many("chat.postMessage", 1),
            "request lost": SlackFault(method="chat.postMessage", drop_before=True),
            "502": slack_bad_gateway("chat.postMessage"),
            "slow send": SlackFault(method="chat.postMessage", delay_s=self._slow_s()),
            "socket cut": self._api.socket.drop,
            "socket to be refreshed": self._api.socket.disconnect,
            "slow look-up": SlackFault(method="conversations.history", delay_s=self._slow_s()),
            "redelivered": self._redeliver,
        }

    def _redeliver(self) -> None:
        if self._said and self._api.socket.connected:
            self._api.redeliver(self._chance.choice(self._said))
