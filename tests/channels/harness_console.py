"""The terminal for the channel contract suite."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from bot.messages import Address, new_id
from channels.console import ADDRESS, USER_ID, ConsoleChannel, ConsoleConfig, Event, Terminal
from tests.support.channel_harness import ChannelHarness, Feature, Shown


class ConsoleHarness(ChannelHarness):
    """The console channel with one attached terminal, which confirms what it shows."""

    features: ClassVar[frozenset[Feature]] = frozenset()
    name: ClassVar[str] = "console"
    limit: ClassVar[int] = 0
    secret: ClassVar[str] = ""
    person_id: ClassVar[str] = USER_ID

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace)
        self.console = self.build()
        self.replace_channel(self.console)
        self._terminal: Terminal | None = None
        self._reader: asyncio.Task[None] | None = None
        self._events: list[Event] = []
        self._unsaid: list[tuple[str, str]] = []  # typed while no terminal was open
        self._speaking: list[asyncio.Task[object]] = []
        self._last = ("", "")
        self._hangs_up = False

    @property
    def private(self) -> Address:
        return ADDRESS

    @property
    def thread(self) -> Address:
        raise AssertionError("a terminal has no threads")

    def build(self, *, token: str = "") -> ConsoleChannel:
        return ConsoleChannel.create(self.context(ConsoleConfig()))

    async def server_up(self) -> None:
        self._terminal = self.console.attach()
        self._reader = asyncio.create_task(self._read(self._terminal), name="terminal")
        for message_id, text in self._unsaid:
            self._say(message_id, text)
        self._unsaid.clear()

    async def server_down(self) -> None:
        if self._terminal is not None and self._reader is not None:
            self.console.detach(self._terminal)
            self._reader.cancel()
            await asyncio.gather(self._reader, *self._speaking, return_exceptions=True)
            self._terminal = None

    def person_says(self, address: Address, text: str) -> str:
        self._last = (new_id("line-", 12), text)
        if self._terminal is None:
            self._unsaid.append(self._last)
        else:
            self._say(*self._last)
        return self._last[0]

    def person_edits(self, address: Address, message_id: str, text: str) -> None:
        raise AssertionError("a sent line cannot be changed")

    def redeliver(self) -> None:
        self._say(*self._last)

    async def until_confirmed(self) -> None:
        await asyncio.gather(*self._speaking)

    def is_confirmed(self) -> bool:
        return all(task.done() for task in self._speaking)

    def shown(self, address: Address) -> list[Shown]:
        return [
            Shown(
                text=event["text"],
                id=str(event["outbox"]),
                buttons=tuple(label for row in event["buttons"] for label in row),
            )
            for event in self._events
            if event["event"] == "message"
        ]

    def typing_at(self) -> list[Address]:
        return [ADDRESS for event in self._events if event["event"] == "typing"]

    def rate_limit(self, address: Address, seconds: int) -> None:
        raise AssertionError("a terminal has no rate limit")

    def lock_out(self, address: Address) -> None:
        raise AssertionError("a terminal cannot be locked")

    def lose_answer(self) -> None:
        self._hangs_up = True

    def _say(self, message_id: str, text: str) -> None:
        self._speaking.append(asyncio.create_task(self.console.say(text, message_id), name="typed"))

    async def _read(self, terminal: Terminal) -> None:
        while True:
            event = await terminal.events.get()
            self._events.append(event)
            if event["event"] != "message":
                continue
            if self._hangs_up:
                self._hangs_up = False
                self.console.detach(terminal)
                return
            self.console.confirm(event["outbox"])
