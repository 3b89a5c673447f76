"""What is done with each thing Slack tells us: commit it, then acknowledge it, then see to what can wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import orjson

from bot.errors import ChannelError, RateLimited, StoreError
from bot.faults import fault_point
from bot.interfaces import Intake
from bot.log import get_logger
from bot.messages import Address, ButtonPress, ChatType, InboundMessage
from bot.records import Acceptance, PressOutcome
from channels.buttons import read_token
from channels.slack.content import UNREADABLE
from channels.slack.events import CHANNEL, Reader, chat_type, is_own, is_spoken
from channels.slack.feedback import place_of_press
from channels.slack.positions import Positions
from channels.slack.threads import Threads

Errand = Callable[[], Coroutine[Any, Any, None]]

_LEFT = {
    "channel_left": "the bot was removed from the channel",
    "group_left": "the bot was removed from the channel",
    "channel_archive": "the channel was archived",
    "group_archive": "the channel was archived",
    "channel_deleted": "the channel was deleted",
    "group_deleted": "the channel was deleted",
}
_BACK = frozenset({"channel_unarchive", "group_unarchive"})
_ENDED = frozenset({"tokens_revoked", "app_uninstalled"})
_SECRETS = frozenset({"token", "response_url", "trigger_id"})
_WAITING_ERRANDS = 500
_LONGEST_WAIT_S = 60.0

_log = get_logger(__name__)


class Errands:
    """Small calls that can wait until Slack has its acknowledgement, one after the other.

    One that Slack refuses for haste is tried once more, when Slack says; other failures are only logged.
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Errand, bool]] = asyncio.Queue(_WAITING_ERRANDS)

    def add(self, errand: Errand) -> None:
        """Queue one; with too many waiting it is dropped."""
        self._put(errand, is_first=True)

    def _put(self, errand: Errand, *, is_first: bool) -> None:
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait((errand, is_first))

    async def run(self) -> None:
        """Do them until cancelled."""
        while True:
            errand, is_first = await self._queue.get()
            try:
                await errand()
            except RateLimited as exc:
                wait_s = exc.retry_after_s or 1.0
                _log.info("put off", channel=CHANNEL, error=str(exc), wait_s=wait_s)
                if is_first and wait_s <= _LONGEST_WAIT_S:
                    again = partial(self._put, errand, is_first=False)
                    asyncio.get_running_loop().call_later(wait_s, again)
            except (ChannelError, StoreError) as exc:
                _log.info("left undone", channel=CHANNEL, error=str(exc))
            except Exception:  # noqa: BLE001  # one errand's fault must not keep the others from being done
                _log.exception("an errand failed", channel=CHANNEL)


class Receiver:
    """Takes events, presses and commands for one installation.

    `gate` is awaited with a new message before it is looked at, `changed` told of an edit, `failed` of the
    conversation of a message that was not committed.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        intake: Intake,
        positions: Positions,
        threads: Threads,
        errands: Errands,
        menu: Callable[[], Collection[str]],
        learn: Callable[[str], Coroutine[Any, Any, object]],
        show_outcome: Callable[[dict[str, Any], PressOutcome], Coroutine[Any, Any, None]],
        check_place: Callable[[dict[str, Any]], Coroutine[Any, Any, None]],
    ) -> None:
        self._reader = reader
        self._intake = intake
        self._positions = positions
        self._threads = threads
        self._errands = errands
        self._menu = menu
        self._learn = learn
        self._show_outcome = show_outcome
        self._check_place = check_place
        self.gate: Callable[[dict[str, Any]], Coroutine[Any, Any, None]] | None = None
        self.changed: Callable[[dict[str, Any]], None] | None = None
        self.failed: Callable[[str], None] | None = None
        self.ended = ""  # what tells that the app is not wanted any more

    async def event(self, body: dict[str, Any]) -> None:
        """See `dispatch.Listener.event`."""
        fault_point("received")
        event = body.get("event")
        if not isinstance(event, dict):
            return
        kind = str(event.get("type") or "")
        try:
            await self._take(kind, event)
        except UNREADABLE as exc:
            await self.unreadable(body, exc)

    async def missed(self, message: dict[str, Any]) -> None:
        """Take a message out of the history.

        Raises:
            StoreError: it could not be committed.
        """
        try:
            await self.spoken(message)
        except UNREADABLE as exc:
            await self.unreadable({"event": message}, exc)

    async def unreadable(self, body: dict[str, Any], exc: Exception) -> None:
        """Keep what could not be read, without what gives access to anything.

        Raises:
            StoreError: it could not be committed.
        """
        await self._intake.publish_unparsed(
            channel=CHANNEL,
            account=self._reader.me.account,
            update_id=str(body.get("event_id") or ""),
            raw=orjson.dumps({name: value for name, value in body.items() if name not in _SECRETS}).decode(),
            error=f"{type(exc).__name__}: {exc}",
        )

    async def _take(self, kind: str, event: dict[str, Any]) -> None:
        channel = str(event.get("channel") or "")
        if kind in {"message", "app_mention"}:
            if event.get("subtype") == "message_changed":
                if self.changed is not None:
                    self.changed(event)
                await self._edited(event)
            elif event.get("subtype") != "message_deleted":
                if self.gate is not None and not is_own(event, self._reader.me):
                    await self.gate(event)
                await self.spoken(event)
        elif kind == "reaction_added":
            reaction = self._reader.reaction(event)
            if reaction is not None:
                await self._intake.publish_reaction(reaction)
        elif kind in _LEFT or (kind == "member_left_channel" and event.get("user") == self._reader.me.user_id):
            reason = _LEFT.get(kind, _LEFT["channel_left"])
            await self._intake.close_chat(Address(channel=CHANNEL, chat_id=channel), reason)
        elif kind in _BACK or (kind == "member_joined_channel" and event.get("user") == self._reader.me.user_id):
            await self._intake.reopen_chat(Address(channel=CHANNEL, chat_id=channel))
        elif kind == "assistant_thread_started":
            self._assisted(event)
        elif kind in _ENDED:
            self.ended = kind

    async def spoken(self, event: dict[str, Any]) -> None:
        """Take a message, whichever way it came.

        Raises:
            StoreError: it could not be committed.
        """
        me = self._reader.me
        channel, ts = str(event.get("channel") or ""), str(event.get("ts") or "")
        if is_own(event, me):
            self._threads.we_spoke(channel, event.get("thread_ts"), ts)
            return
        message = self._reader.message(event)
        if message is None:
            if is_spoken(event, me):
                self._threads.spoke_otherwise(event)
        else:
            await self._publish(message, ts)
        self._positions.seen(channel, ts)

    async def _publish(self, message: InboundMessage, ts: str) -> None:
        address = message.address
        try:
            acceptance = await self._intake.publish_inbound(message)
        except StoreError:
            self._positions.hold(address.chat_id, ts)
            if self.failed is not None:
                self.failed(address.chat_id)
            raise
        if acceptance is Acceptance.REFUSED:
            return
        self._threads.spoke_to_us(address.chat_id, address.thread_id, message.sender_id, ts)
        if acceptance is Acceptance.ACCEPTED:
            if message.chat_type is ChatType.PRIVATE:
                self._positions.note_dm(message.sender_id, address.chat_id)
            self._accepted(message.sender_id)

    def _accepted(self, sender: str) -> None:

        async def learn() -> None:
            await self._learn(sender)

        self._errands.add(learn)

    async def _edited(self, event: dict[str, Any]) -> None:
        message = self._reader.edit(event)
        if message is not None:
            await self._intake.publish_edit(message)

    def _assisted(self, event: dict[str, Any]) -> None:
        thread = event.get("assistant_thread")
        if isinstance(thread, dict):
            ts = str(thread.get("thread_ts") or "")
            self._threads.we_spoke(str(thread.get("channel_id") or ""), ts, ts)

    async def press(self, body: dict[str, Any]) -> None:
        """See `dispatch.Listener.press`."""
        press = _press(body, self._reader)
        outcome = PressOutcome(acceptance=Acceptance.REFUSED)
        if press is not None:
            outcome = await self._intake.publish_press(press)

        async def show() -> None:
            await self._show_outcome(body, outcome)

        self._errands.add(show)

    async def command(self, body: dict[str, Any]) -> None:
        """See `dispatch.Listener.command`."""
        message = self._reader.command(body, self._menu())
        if message is None or await self._intake.publish_inbound(message) is not Acceptance.ACCEPTED:
            return

        async def check() -> None:
            await self._check_place(body)

        # A command reaches us from anywhere, also from conversations that we are not in: it tells of no DM with us.
        self._errands.add(check)
        self._accepted(message.sender_id)


def _press(body: dict[str, Any], reader: Reader) -> ButtonPress | None:
    """Return the press in a `block_actions` payload, None when its button is none of ours."""
    actions = body.get("actions") or [{}]
    action, user = actions[0], body.get("user") or {}
    token = read_token(str(action.get("value") or action.get("action_id") or ""))
    channel, message_id = place_of_press(body)
    user_id = str(user.get("id") or "")
    if token is None or not channel or not message_id or not user_id:
        return None
    return ButtonPress(
        channel=CHANNEL,
        chat_id=channel,
        message_id=message_id,
        outbox_id=token[0],
        index=token[1],
        press_id=str(action.get("action_ts") or body.get("trigger_id") or ""),
        sender_id=user_id,
        sender_name=reader.names(user_id),
        account=reader.me.account,
        chat_type=chat_type(channel),
    )
