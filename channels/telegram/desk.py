"""Taking updates in, however they come: one is done once what it says is committed, not earlier.

What an update means is read in `updates`; polling and webhook only hand updates in and tell the platform.
"""

from __future__ import annotations

import hashlib
import json
from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelError, StoreError
from bot.faults import fault_point
from bot.interfaces import ChannelContext
from bot.log import get_logger
from bot.messages import InboundMessage
from channels.telegram.albums import AlbumDesk
from channels.telegram.config import Timing
from channels.telegram.content import CHANNEL, BotIdentity
from channels.telegram.groups import Groups
from channels.telegram.presses import PressDesk
from channels.telegram.taps import Pressed, Reacted
from channels.telegram.updates import (
    Closed,
    Edited,
    Event,
    Migrated,
    Received,
    Reopened,
    read_update,
)

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

_RAW_LIMIT = 100_000  # characters kept of an update nobody could read

# What the SDK and the reading of its objects stumble over when an update has an unexpected shape.
_UNREADABLE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, OSError, RecursionError)

_log = get_logger(__name__)


class UpdateDesk:
    """Where updates are handed in, one by one or those of several chats at once. Works while `serve` runs."""

    def __init__(
        self, *, api: BotApi, me: BotIdentity, groups: Groups, context: ChannelContext, timing: Timing
    ) -> None:
        self._api = api
        self._me = me
        self._groups = groups
        self._intake = context.intake
        self._presses = PressDesk(api, context.intake, timing, language=context.language)
        self._albums = AlbumDesk(
            account=str(me.id),
            publish=self._publish,
            beside=self.beside,
            cursors=context.cursors,
            clock=context.clock,
            timing=timing,
        )
        self._tasks: TaskGroup | None = None

    async def serve(self, receive: Callable[[], Awaitable[None]]) -> None:
        """Run `receive`, which hands updates to `take`, with all that goes on beside it; ends as it does.

        Raises:
            ChannelError: from `receive`, or since what was left from before cannot be read.
        """
        failures: list[Exception] = []
        try:
            async with TaskGroup() as tasks:
                self._tasks = tasks
                await self._restore()
                await receive()
        except* ChannelError as group:  # the group's wrapping would say nothing to whoever catches it
            failures.extend(group.exceptions)
        finally:
            self._tasks = None
        if failures:
            raise failures[0]

    async def _restore(self) -> None:
        try:
            await self._groups.restore()
            await self._albums.restore(self._read_part)
        except StoreError as exc:
            raise ChannelError(f"the database cannot be read now: {exc}") from exc

    def beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let something go on beside receiving that must not hold it up; it handles its own errors.

        While the desk is closing it is left out: an update that came just then is committed all the same.
        """
        try:
            self._open_tasks().create_task(work, name=name)
        except RuntimeError as exc:  # none, or the group is shutting down
            work.close()
            _log.debug("left out at the end", task=name, error=str(exc))

    def _open_tasks(self) -> TaskGroup:
        if self._tasks is None:
            raise RuntimeError("the desk is closed")
        return self._tasks

    async def take(self, raw: Any) -> None:
        """Commit what an update says; returns once the platform may forget it.

        Raises:
            StoreError: it was not committed; the platform must hand it out again.
        """
        update_id = raw.get("update_id") if isinstance(raw, dict) else None
        try:
            if not isinstance(update_id, int) or isinstance(update_id, bool):
                raise TypeError("no update_id")
            event = self._read(raw)
        except _UNREADABLE as exc:
            await self._keep_unreadable(raw, update_id, exc)
            return
        if isinstance(event, Received) and event.album_id:
            event = await self._albums.hold(update_id, event, raw)
        if event is not None:
            await self._handle(event, raw)

    def _read(self, raw: Any) -> Event | None:
        update = self._api.parse_update(raw)
        if update.message is not None and update.message.chat.type == "supergroup":
            self._groups.note_forum(str(update.message.chat.id), is_forum=bool(update.message.chat.is_forum))
        return read_update(update, self._me, self._groups.policies)

    def _read_part(self, raw: Any) -> Received | None:
        """Return a parked part; it was readable once, and is left out should it not be any more."""
        try:
            event = self._read(raw)
        except _UNREADABLE as exc:
            _log.error("parked part of an album cannot be read", error=f"{type(exc).__name__}: {exc}")
            return None
        return event if isinstance(event, Received) else None

    async def _keep_unreadable(self, raw: Any, update_id: object, exc: Exception) -> None:
        text = json.dumps(raw, ensure_ascii=True, default=str)[:_RAW_LIMIT]
        name = str(update_id) if isinstance(update_id, int) else hashlib.sha256(text.encode()).hexdigest()
        error = f"{type(exc).__name__}: {exc}"
        _log.error("update cannot be read, kept as it is", update_id=name, error=error)
        await self._intake.publish_unparsed(
            channel=CHANNEL, account=str(self._me.id), update_id=name, raw=text, error=error
        )

    async def _handle(self, event: Event, raw: Any) -> None:
        match event:
            case Received():
                await self._albums.publish_of(event.message.address)
                if event.addressed:
                    await self._publish(event.message)
            case Pressed():
                self.beside(await self._presses.take(event), "telegram-answer-press")
            case Reacted():
                for reaction in event.reactions:
                    await self._intake.publish_reaction(reaction)
            case Edited():
                edited = await self._albums.edit(event, raw) if event.album_id else event.message
                if edited is not None:
                    await self._intake.publish_edit(edited)
            case Migrated():
                self._groups.moved(event.old_chat_id, event.new_chat_id)
                await self._intake.migrate_chat(CHANNEL, event.old_chat_id, event.new_chat_id)
            case Closed():
                paused = await self._intake.close_chat(event.address, event.reason)
                _log.warning("chat closed", chat=event.address.key, reason=event.reason, jobs_paused=paused)
            case Reopened():
                await self._intake.reopen_chat(event.address)

    async def _publish(self, message: InboundMessage) -> None:
        fault_point("received")
        await self._intake.publish_inbound(message)
