"""An intake and cursors that live in memory: what a channel hands in is kept for the test to look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from bot.clock import Clock
from bot.messages import Address, ButtonPress, InboundMessage, Reaction
from bot.records import Acceptance, PressOutcome
from tests.platforms.loopback import Bell

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsed:
    """An update nobody could read."""

    channel: str
    account: str
    update_id: str
    raw: str
    error: str


class RecordingIntake:
    """Accepts everything once. `failures` are raised first, one a call; nothing is kept then.

    What it holds counts as still queued, so an edit replaces the text.
    """

    def __init__(self) -> None:
        self.bell = Bell()
        self.messages: list[InboundMessage] = []
        self.duplicates: list[InboundMessage] = []
        self.edits: list[InboundMessage] = []
        self.late_edits: list[InboundMessage] = []
        self.unparsed: list[Unparsed] = []
        self.migrations: list[tuple[str, str, str]] = []
        self.closed: list[tuple[Address, str]] = []
        self.reopened: list[Address] = []
        self.refused_senders: set[str] = set()
        self.button_labels: list[str] = []
        self.presses: list[ButtonPress] = []
        self.reactions: list[Reaction] = []
        self.zones: dict[tuple[str, str], str] = {}
        self.failures: list[Exception] = []
        self.before_commit: Callable[[InboundMessage], None] = lambda message: None

    async def publish_inbound(self, message: InboundMessage) -> Acceptance:
        """See `Intake.publish_inbound`."""
        self._fail()
        self.before_commit(message)
        if message.sender_id in self.refused_senders:
            return Acceptance.REFUSED
        kept = self.duplicates if self._find(message) is not None else self.messages
        kept.append(message)
        self.bell.ring()
        return Acceptance.ACCEPTED if kept is self.messages else Acceptance.DUPLICATE

    async def publish_edit(self, message: InboundMessage) -> Acceptance:
        """See `Intake.publish_edit`."""
        self._fail()
        found = self._find(message)
        self.edits.append(message)
        if found is None:
            self.late_edits.append(message)
        else:
            self.messages[found] = replace(self.messages[found], text=message.text)
        self.bell.ring()
        return Acceptance.UPDATED if found is not None else Acceptance.DUPLICATE

    async def publish_press(self, press: ButtonPress) -> PressOutcome:
        """See `Intake.publish_press`; `button_labels` are those of every message, the first press of each counts."""
        self._fail()
        if press.sender_id in self.refused_senders or press.index >= len(self.button_labels):
            return PressOutcome(acceptance=Acceptance.REFUSED)
        earlier = next((known for known in self.presses if known.outbox_id == press.outbox_id), None)
        if earlier is not None:
            return PressOutcome(acceptance=Acceptance.DUPLICATE, label=self.button_labels[earlier.index])
        self.presses.append(press)
        self.bell.ring()
        return PressOutcome(acceptance=Acceptance.ACCEPTED, label=self.button_labels[press.index])

    async def publish_reaction(self, reaction: Reaction) -> Acceptance:
        """See `Intake.publish_reaction`."""
        self._fail()
        kept = reaction not in self.reactions
        if kept:
            self.reactions.append(reaction)
        self.bell.ring()
        return Acceptance.ACCEPTED if kept else Acceptance.DUPLICATE

    async def note_zone(self, channel: str, user_id: str, zone: str) -> None:
        """See `Intake.note_zone`."""
        self.zones[channel, user_id] = zone
        self.bell.ring()

    async def publish_unparsed(self, *, channel: str, account: str, update_id: str, raw: str, error: str) -> None:
        """See `Intake.publish_unparsed`."""
        self._fail()
        self.unparsed.append(Unparsed(channel=channel, account=account, update_id=update_id, raw=raw, error=error))
        self.bell.ring()

    async def migrate_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """See `Intake.migrate_chat`."""
        self.migrations.append((channel, old_chat_id, new_chat_id))
        self.bell.ring()

    async def close_chat(self, address: Address, error: str) -> int:
        """See `Intake.close_chat`."""
        self.closed.append((address, error))
        self.bell.ring()
        return 0

    async def reopen_chat(self, address: Address) -> None:
        """See `Intake.reopen_chat`."""
        self.reopened.append(address)
        self.bell.ring()

    @property
    def texts(self) -> list[str]:
        """The texts that came in, in order."""
        return [message.text for message in self.messages]

    async def wait_for(self, predicate: Callable[[], T], *, timeout_s: float = 10.0) -> T:
        """Return the predicate's first true value, looking again after each event."""
        try:
            return await self.bell.wait_for(predicate, timeout_s=timeout_s)
        except TimeoutError:
            raise TimeoutError(f"not seen; came in: {self.texts}, unparsed: {self.unparsed}") from None

    async def wait_for_texts(self, *texts: str) -> None:
        """Wait until as many messages came in, then compare their texts."""
        await self.wait_for(lambda: len(self.messages) >= len(texts))
        assert self.texts == list(texts)

    def _fail(self) -> None:
        if self.failures:
            failure = self.failures.pop(0)
            self.bell.ring()
            raise failure

    def _find(self, message: InboundMessage) -> int | None:
        for index, known in enumerate(self.messages):
            if _identity(known) == _identity(message):
                return index
        return None


def _identity(message: InboundMessage) -> tuple[str, str, str, str, str]:
    address = message.address
    return address.channel, message.account, address.chat_id, message.message_id, message.variant


class MemoryCursors:
    """Cursors by a given clock. `failures` are raised first, one per write; `written` is every value, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.values: dict[str, tuple[str, int]] = {}
        self.written: list[str] = []
        self.failures: list[Exception] = []

    async def get(self, name: str, *, max_age_us: int | None = None) -> str | None:
        """See `Cursors.get`."""
        value, set_us = self.values.get(name, ("", 0))
        too_old = max_age_us is not None and self._clock.now_us() - set_us > max_age_us
        return None if name not in self.values or too_old else value

    async def set(self, name: str, value: str, *, durable: bool = False) -> None:
        """See `Cursors.set`."""
        if self.failures:
            raise self.failures.pop(0)
        self.values[name] = (value, self._clock.now_us())
        self.written.append(value)

    async def starting_with(self, prefix: str) -> dict[str, str]:
        """See `Cursors.starting_with`."""
        return {name: value for name, (value, _) in sorted(self.values.items()) if name.startswith(prefix)}

    async def remove(self, name: str) -> None:
        """See `Cursors.remove`."""
        self.values.pop(name, None)


class RecordingProgress:
    """The parts of a message that are out."""

    def __init__(self, outbox_id: int = 1, sent_ids: tuple[str, ...] = ()) -> None:
        self.outbox_id = outbox_id
        self.sent_ids = list(sent_ids)

    async def sent(self, platform_id: str, *, more: bool = False) -> None:
        """See `SendProgress.sent`."""
        self.sent_ids.append(platform_id)


class HandClock:
    """A wall clock moved by hand; its monotonic hands move along."""

    def __init__(self, now_us: int = 1_800_000_000_000_000) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        """See `Clock.now_us`."""
        return self._now_us

    def monotonic_s(self) -> float:
        """See `Clock.monotonic_s`."""
        return self._now_us / 1_000_000

    def steady_us(self) -> int:
        """See `Clock.steady_us`."""
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_us += int(seconds * 1_000_000)
