"""How the channel contract suite drives a platform. One file `tests/channels/harness_NAME.py` adds a channel.

Such a file has one subclass of `ChannelHarness`. Chats and threads are named by what they are for; ids are the
platform's affair.
"""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from asyncio import Task
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, TypeVar

from bot.clock import SystemClock
from bot.interfaces import Channel, ChannelContext, ChannelState
from bot.messages import Address, OutboundMessage
from tests.platforms.loopback import Bell
from tests.support.recording_intake import MemoryCursors, RecordingIntake, RecordingProgress

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message of the bot as the platform holds it.

    `bold` are the passages people see in bold, `buttons` the labels people see, dead ones included; `files` are
    the contents.
    """

    text: str
    id: str = ""
    thread_id: str | None = None
    reply_to: str = ""
    bold: tuple[str, ...] = ()
    buttons: tuple[str, ...] = ()
    files: tuple[bytes, ...] = ()


class Feature(StrEnum):
    """What a platform may lack. A test that needs it runs only for those that have it."""

    THREADS = "threads"  # groups with threads, and replies to a message
    EDITS = "edits"  # people can change a message
    REDELIVERY = "redelivery"  # what was not confirmed comes again
    PARTS = "parts"  # a message has a longest length
    MARKUP = "markup"  # the platform takes formatting from the channel
    RATE_LIMITS = "rate_limits"  # the platform asks to wait
    LOCKS = "locks"  # the bot can be shut out of a chat
    TOKENS = "tokens"  # the platform wants a secret
    FILES_IN = "files_in"  # people can send files
    FILES_OUT = "files_out"  # the bot can send files
    BUTTONS = "buttons"  # messages can have buttons
    DRAFTS = "drafts"  # unfinished text can be shown and edited
    REACTIONS = "reactions"  # people can react to a message
    MENTIONS = "mentions"  # groups, in which only some messages are for the bot
    BOTS = "bots"  # other bots write in the same groups
    QUOTES = "quotes"  # a person can reply to one message
    FRAGMENTS = "fragments"  # ... and highlight a part of it


class ChannelHarness(ABC):
    """A channel beside a loopback platform, with a private chat and a group that has a thread."""

    features: ClassVar[frozenset[Feature]] = frozenset(Feature)
    name: ClassVar[str]
    limit: ClassVar[int]  # length of one message, in the platform's unit
    secret: ClassVar[str]  # the token, which must never be shown
    person_id: ClassVar[str] = "111"

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.clock = SystemClock()
        self.intake = RecordingIntake()
        self.cursors = MemoryCursors(self.clock)
        self.channel = self.build()
        self._states = Bell()
        self.channel.on_state_change(self._states.ring)
        self._task: Task[None] | None = None

    @property
    @abstractmethod
    def private(self) -> Address:
        """A chat of one person with the bot."""

    @property
    @abstractmethod
    def thread(self) -> Address:
        """A thread of a group."""

    @abstractmethod
    def build(self, *, token: str = "") -> Channel:
        """Return the channel, not started; with another token if given. Waits are short."""

    @property
    def group(self) -> Address:
        """A group itself, outside any thread; the bot must be mentioned there."""
        raise self._lacks("groups")

    @abstractmethod
    async def server_up(self) -> None:
        """Let the platform be reachable."""

    @abstractmethod
    async def server_down(self) -> None:
        """Cut every connection and refuse new ones."""

    @abstractmethod
    def person_says(self, address: Address, text: str) -> str:
        """Let the person write to the bot; return the message's id."""

    @abstractmethod
    def person_edits(self, address: Address, message_id: str, text: str) -> None:
        """Let the person change a message."""

    @abstractmethod
    def redeliver(self) -> None:
        """Let the platform hand out the newest message once more."""

    @abstractmethod
    async def until_confirmed(self) -> None:
        """Wait until the platform knows that everything said so far was received."""

    @abstractmethod
    def is_confirmed(self) -> bool:
        """Say whether the platform may forget what was said so far."""

    @abstractmethod
    def shown(self, address: Address) -> list[Shown]:
        """Return the bot's messages in a chat, in order."""

    @abstractmethod
    def typing_at(self) -> list[Address]:
        """Return where the bot was seen typing."""

    @abstractmethod
    def rate_limit(self, address: Address, seconds: int) -> None:
        """Refuse the next send to a chat with a wait."""

    @abstractmethod
    def lock_out(self, address: Address) -> None:
        """Forbid the bot to write in a chat."""

    @abstractmethod
    def lose_answer(self) -> None:
        """Carry out the next send, then drop the connection without answering."""

    def lose_later_answer(self) -> None:
        """Carry out the next two sends, and drop the connection without answering the second."""
        raise self._lacks("messages of several parts")

    # --- acts that only some platforms know; each has its `Feature`

    @asynccontextmanager
    async def gap(self, *, resumable: bool) -> AsyncIterator[None]:
        """Cut the connection that messages come in by, and refuse it until the end of the block.

        `resumable`: the platform offers afterwards what was said meanwhile; else the channel has to ask for it.
        """
        await self.server_down()
        try:
            yield
        finally:
            await self.server_up()

    def lose_request(self) -> None:
        """Cut the connection of the next send before anything is done."""
        raise self._lacks("requests that can be lost")

    def person_mutters(self, address: Address, text: str) -> str:
        """Let the person write in a group without mentioning the bot; return the message's id."""
        raise self._lacks("groups")

    def person_replies(self, address: Address, message_id: str, text: str, *, fragment: str = "") -> str:
        """Let the person reply to a message without mentioning the bot, perhaps to a highlighted part of it."""
        raise self._lacks("replies")

    def bot_says(self, address: Address, text: str, *, mentions: bool) -> str:
        """Let another bot write, with or without a mention of ours; return the message's id."""
        raise self._lacks("other bots")

    def echo(self, address: Address, text: str) -> None:
        """Let the platform hand us a message that we wrote ourselves."""
        raise self._lacks("echoes")

    def person_sends_file(
        self, address: Address, name: str, content: bytes, caption: str = "", *, size_bytes: int | None = None
    ) -> str:
        """Let the person send a file, perhaps one that claims another size; return the message's id.

        In a group the caption mentions the bot, in other letters than its name has where names are used.
        """
        raise self._lacks("files")

    def fail_download(self) -> None:
        """Let the next download of a file fail."""
        raise self._lacks("files")

    def press_button(self, address: Address, message_id: str, label: str) -> None:
        """Let the person press the button with this label, as their client still shows it."""
        raise self._lacks("buttons")

    def press_forged(self, address: Address, message_id: str, data: str) -> None:
        """Let a client claim that a button with this data was pressed."""
        raise self._lacks("buttons")

    def told_presser(self) -> list[str]:
        """Return what pressing people were told for themselves, in order."""
        raise self._lacks("buttons")

    def person_reacts(self, address: Address, message_id: str, emoji: str) -> None:
        """Let the person put a reaction to a message."""
        raise self._lacks("reactions")

    def rate_limit_edits(self, address: Address, seconds: int) -> None:
        """Refuse the next edit in a chat with a wait."""
        raise self._lacks("edits")

    def _lacks(self, what: str) -> AssertionError:
        return AssertionError(f"{self.name} has no {what}; a test that needs them names its feature")

    # --- the channel's life

    def context(self, section: object) -> ChannelContext:
        """Return what a channel is built from."""
        return ChannelContext(
            section=section,  # type: ignore[arg-type]  # the harness knows its own section
            intake=self.intake,
            cursors=self.cursors,
            clock=self.clock,
            workspace=str(self.workspace),
        )

    def replace_channel(self, channel: Channel) -> None:
        """Use another channel than the one built at first."""
        self.channel = channel
        channel.on_state_change(self._states.ring)

    def start(self) -> Task[None]:
        """Run the channel."""
        assert self._task is None
        self._task = asyncio.create_task(self.channel.run(), name=f"{self.name}-run")
        return self._task

    @property
    def task(self) -> Task[None]:
        """The task that runs the channel."""
        assert self._task is not None
        return self._task

    async def stop(self) -> None:
        """Stop the channel as the engine does: cancel, then close."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.channel.close()

    async def until(self, state: ChannelState) -> None:
        """Wait for a state of the channel."""
        try:
            await self._states.wait_for(lambda: self.channel.state is state, timeout_s=15)
        except TimeoutError:
            raise TimeoutError(f"never {state}; is {self.channel.state} because {self.channel.problem!r}") from None

    async def send(self, message: OutboundMessage) -> RecordingProgress:
        """Send a message from its beginning."""
        progress = RecordingProgress()
        await self.channel.send(message, progress)
        return progress

    async def until_true(self, fact: Callable[[], T]) -> T:
        """Wait until something is true at the platform, and return it."""
        async with asyncio.timeout(10):
            while not (value := fact()):
                await asyncio.sleep(0.01)
        return value

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ChannelHarness]:
        """Have platform and channel up and connected."""
        await self.server_up()
        try:
            self.start()
            await self.until(ChannelState.READY)
            yield self
        finally:
            await self.stop()
            await self.server_down()


def discover() -> list[type[ChannelHarness]]:
    """Return the harness of every channel that has one, by name."""
    folder = Path(__file__).parents[1] / "channels"
    found: list[type[ChannelHarness]] = []
    for path in sorted(folder.glob("harness_*.py")):
        module = importlib.import_module(f"tests.channels.{path.stem}")
        found.extend(
            item
            for item in vars(module).values()
            if isinstance(item, type) and issubclass(item, ChannelHarness) and item.__module__ == module.__name__
        )
    return found
