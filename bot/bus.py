"""The message bus: store verb first, doorbell second.

The rows are the truth; a signal only shortens the wait and may be lost, so whoever consumes also sweeps.
What a message means is the loop's business, how it is sent the delivery's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

from bot.access.policy import AccessPolicy
from bot.clock import US_PER_S, Clock
from bot.errors import ScheduleError
from bot.faults import fault_point
from bot.interfaces import Signal, Store, Topic
from bot.log import get_logger
from bot.messages import (
    Address,
    ButtonPress,
    ChatType,
    InboundMessage,
    Origin,
    OutboundMessage,
    Quote,
    Reaction,
    Role,
)
from bot.records import MOVED, Acceptance, OutboxRow, PressOutcome, Turn, moved_variant
from bot.zones import load_zone

SWEEP_S = 10.0
"""How long a lost doorbell can delay work. Also the longest sleep while nothing happens."""

BOT_CHAIN_LIMIT = 5
"""How many messages of other bots a chat may send in a row; then a person has to speak first."""

_BOT_CHAINS = 1_000
"""Chats in which bots are counted; of more, the one longest in the count begins anew."""

_IMMEDIATE_AT_ONCE = 8

_log = get_logger(__name__)


class LocalSignal:
    """Doorbells inside one process, one bell and one listener for each topic."""

    def __init__(self) -> None:
        self._bells = {topic: asyncio.Event() for topic in Topic}

    def notify(self, topic: Topic) -> None:
        """See `Signal.notify`."""
        self._bells[topic].set()

    async def wait(self, topic: Topic, timeout_s: float | None) -> bool:
        """See `Signal.wait`."""
        bell = self._bells[topic]
        if not bell.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await bell.wait()
            except TimeoutError:
                return False
        bell.clear()
        return True


ChatMoved = Callable[[str, str, str], Awaitable[None]]
"""Takes (channel, old chat id, new chat id); called again if the move was cut short, and must not raise."""


class MessageBus:
    """Publishes into the store and hands out what waits there. Implements `Intake` for the channels.

    `is_immediate` says whether a text is a command that acts at once; it gets a lane of its own beside the
    chat's, so that it never waits behind the turn it is about.
    """

    def __init__(
        self, store: Store, signal: Signal, clock: Clock, policy: AccessPolicy, is_immediate: Callable[[str], bool]
    ) -> None:
        self._store = store
        self._signal = signal
        self._clock = clock
        self._policy = policy
        self._is_immediate = is_immediate
        self._moved: dict[tuple[str, str], str] = {}  # (channel, old chat id): new chat id
        self._bot_chains: Counter[Address] = Counter()  # chats in which only bots spoke lately
        self._inbound_empty = False
        self._outbound_due_us: int | None = 0  # look at once: rows may be left from before
        self.before_migration: ChatMoved | None = None  # set by whoever keeps more of a chat than rows
        self.words_of: Callable[[InboundMessage], str] = _own_words  # set by whoever reads replies as commands

    async def publish_inbound(self, message: InboundMessage) -> Acceptance:
        """See `Intake.publish_inbound`. Strangers, and bots among themselves, are refused with one log line."""
        if message.origin is Origin.USER:
            message = self._following(message)
            channel = message.address.channel
            if self._policy.role_of(channel, message.sender_id) is Role.STRANGER:
                _log.info("stranger ignored", channel=channel, sender=message.sender_id, chat=message.address.chat_id)
                return Acceptance.REFUSED
            if self._ends_a_chain(message):
                _log.warning("bot ignored until a person speaks", chat=message.address.key, sender=message.sender_id)
                return Acceptance.REFUSED
            message = replace(message, text=self.words_of(message))
            if not message.lane and self._is_immediate(message.text):
                message = replace(message, lane=f"now:{message.address.key}")
        acceptance = await self._store.inbox.accept(message)
        fault_point("accepted")
        if acceptance is Acceptance.DUPLICATE:
            _log.info("repeated message ignored", chat=message.address.key, message_id=message.message_id)
        else:
            self._signal.notify(Topic.INBOUND)
        return acceptance

    async def publish_press(self, press: ButtonPress) -> PressOutcome:
        """See `Intake.publish_press`."""
        refused = PressOutcome(acceptance=Acceptance.REFUSED)
        if self._policy.role_of(press.channel, press.sender_id) is Role.STRANGER:
            _log.info("press of a stranger ignored", channel=press.channel, sender=press.sender_id)
            return refused
        press = replace(press, chat_id=self._moved.get((press.channel, press.chat_id), press.chat_id))
        row = await self._store.outbox.get(press.outbox_id)
        buttons = [] if row is None else [button for line in row.message.buttons for button in line]
        if row is None or not 0 <= press.index < len(buttons) or not _is_of(row, press):
            _log.info("press of an unknown button", channel=press.channel, chat=press.chat_id, outbox=press.outbox_id)
            return refused
        data = buttons[press.index].data
        message = InboundMessage(
            address=row.message.address,
            message_id=press.message_id,
            variant=press.press_id,
            text=data,
            sender_id=press.sender_id,
            sender_name=press.sender_name,
            account=press.account,
            chat_type=press.chat_type,
            sent_us=self._clock.now_us(),
            reply_to=press.message_id if press.chat_type is ChatType.GROUP else "",
            lane=f"now:{row.message.address.key}" if self._is_immediate(data) else "",
        )
        outcome = await self._store.inbox.accept_press(message, press.outbox_id, press.index)
        fault_point("accepted")
        if outcome.acceptance is Acceptance.ACCEPTED:
            self._signal.notify(Topic.INBOUND)
        return outcome

    async def publish_reaction(self, reaction: Reaction) -> Acceptance:
        """See `Intake.publish_reaction`."""
        if self._policy.role_of(reaction.channel, reaction.sender_id) is Role.STRANGER:
            return Acceptance.REFUSED
        row = await self._store.outbox.sent_as(reaction.channel, reaction.chat_id, reaction.message_id)
        if row is None:
            return Acceptance.REFUSED
        return await self.publish_inbound(
            InboundMessage(
                address=row.message.address,
                message_id=reaction.message_id,
                variant=f"reaction:{reaction.sender_id}:{reaction.emoji}:{reaction.stamp}",
                text=reaction.emoji,
                sender_id=reaction.sender_id,
                sender_name=reaction.sender_name,
                account=reaction.account,
                chat_type=reaction.chat_type,
                quote=Quote(message_id=reaction.message_id, author="bot", text=row.message.text),
                sent_us=self._clock.now_us(),
                meta={"reaction": True},
            )
        )

    async def note_zone(self, channel: str, user_id: str, zone: str) -> None:
        """See `Intake.note_zone`. A zone nobody knows is left out."""
        try:
            name = load_zone(zone).key
        except ScheduleError:
            _log.info("unknown time zone in a profile", channel=channel, user=user_id, zone=zone[:64])
            return
        await self._store.people.note_zone(channel, user_id, name)

    def _ends_a_chain(self, message: InboundMessage) -> bool:
        """Say whether bots, marked by their channel, have talked to us long enough: two may never stop."""
        if "from_bot" not in message.meta:
            self._bot_chains.pop(message.address, None)
            return False
        if len(self._bot_chains) >= _BOT_CHAINS and message.address not in self._bot_chains:
            self._bot_chains.pop(next(iter(self._bot_chains)))
        self._bot_chains[message.address] += 1
        return self._bot_chains[message.address] > BOT_CHAIN_LIMIT

    async def publish_edit(self, message: InboundMessage) -> Acceptance:
        """See `Intake.publish_edit`."""
        if self._policy.role_of(message.address.channel, message.sender_id) is Role.STRANGER:
            return Acceptance.REFUSED
        replaced = await self._store.inbox.replace_queued(self._following(message))
        return Acceptance.UPDATED if replaced else Acceptance.DUPLICATE

    async def publish_unparsed(self, *, channel: str, account: str, update_id: str, raw: str, error: str) -> None:
        """See `Intake.publish_unparsed`."""
        _log.warning("update could not be parsed", channel=channel, update_id=update_id, error=error)
        await self._store.inbox.accept_unparsed(
            channel=channel, account=account, update_id=update_id, raw=raw, error=error
        )

    async def migrate_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """See `Intake.migrate_chat`."""
        _log.info("chat migrated", channel=channel, old=old_chat_id, new=new_chat_id)
        if self.before_migration is not None:
            await self.before_migration(channel, old_chat_id, new_chat_id)
        await self._store.outbox.migrate_chat(channel, old_chat_id, new_chat_id)
        self._note_move(channel, old_chat_id, new_chat_id)
        self._signal.notify(Topic.OUTBOUND)

    async def restore_moves(self) -> None:
        """Let what the configuration says of chats' old ids hold for the new ones; before anything comes in."""
        for name, old_chat_id in (await self._store.cursors.starting_with(MOVED)).items():
            channel, _, new_chat_id = name.removeprefix(MOVED).partition(":")
            self._note_move(channel, old_chat_id, new_chat_id)

    def _following(self, message: InboundMessage) -> InboundMessage:
        """Return a message of a chat that has another id by now as one of the new chat; known, if it was before."""
        old = message.address
        new_chat_id = self._moved.get((old.channel, old.chat_id))
        if new_chat_id is None:
            return message
        variant = moved_variant(message.variant, old.chat_id)
        return replace(message, address=replace(old, chat_id=new_chat_id), variant=variant, reply_to="")

    def _note_move(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        if old_chat_id == new_chat_id:
            return
        self._moved[channel, old_chat_id] = new_chat_id
        self._moved.pop((channel, new_chat_id), None)  # a way back would lead in circles
        if self._policy.moved(channel, old_chat_id, new_chat_id):
            _log.warning(
                "the configuration lets a chat in by an id it does not have any more; write the new one",
                channel=channel,
                old=old_chat_id,
                new=new_chat_id,
            )

    async def close_chat(self, address: Address, error: str) -> int:
        """See `Intake.close_chat`."""
        paused = await self._store.outbox.close_chat(address, error)
        _log.warning("chat closed to us", chat=address.rate_key, error=error, jobs_paused=paused)
        self._signal.notify(Topic.JOBS)
        return paused

    async def reopen_chat(self, address: Address) -> None:
        """See `Intake.reopen_chat`."""
        resumed = await self._store.outbox.reopen_chat(address)
        if resumed:
            _log.info("chat open again", chat=address.rate_key, jobs_resumed=resumed)
            self._signal.notify(Topic.JOBS)

    async def publish_outbound(self, message: OutboundMessage) -> int:
        """Queue a message that belongs to no turn; returns its outbox id."""
        outbox_id = await self._store.outbox.put(message)
        self._signal.notify(Topic.OUTBOUND)
        return outbox_id

    async def consume_inbound(self, room: Callable[[], int], channels: Collection[str] | None = None) -> list[Turn]:
        """Wait for work and claim up to `room()` turns; never returns an empty list.

        Without room only commands that act at once are claimed, since they may be about what takes the room.
        """
        while True:
            if self._inbound_empty:
                await self._signal.wait(Topic.INBOUND, SWEEP_S)
            limit, full = room(), False
            if limit <= 0:
                limit, full = _IMMEDIATE_AT_ONCE, True
            turns = await self._store.turns.claim(limit=limit, channels=channels, immediate_only=full)
            # Fewer than asked for: whatever comes later rings, so that the next look can wait for the bell.
            self._inbound_empty = len(turns) < limit
            if turns:
                return turns

    async def consume_outbound(self, limit: int, channels: Callable[[], Collection[str]]) -> list[OutboxRow]:
        """Wait until messages of the channels may be sent and claim up to `limit`, one of each order key."""
        while True:
            await self._signal.wait(Topic.OUTBOUND, self._outbound_wait_s())
            names = channels()
            if not names:
                self._outbound_due_us = None
                continue
            rows, self._outbound_due_us = await self._store.outbox.claim(limit=limit, channels=names)
            if rows:
                return rows

    def _outbound_wait_s(self) -> float:
        """Return how long nothing can be due: until the next row's time, or the next sweep."""
        if self._outbound_due_us is None:
            return SWEEP_S
        return min(SWEEP_S, max(0.0, (self._outbound_due_us - self._clock.steady_us()) / US_PER_S))

    def ring(self, topic: Topic) -> None:
        """Say that a row for the topic was committed by other means."""
        self._signal.notify(topic)


def _own_words(message: InboundMessage) -> str:
    return message.text


def _is_of(row: OutboxRow, press: ButtonPress) -> bool:
    """Say whether a press comes from the chat that the message went to: ids of rows are easy to guess."""
    return row.message.address.channel == press.channel and row.message.address.chat_id == press.chat_id
