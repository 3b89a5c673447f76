"""The growing text of one turn, shown as one message of its chat that is edited again and again.

Shown is the text of the model call under way, in its own words only; while tools run, what it said before them
stays. The message's id is committed before anything else is shown, so that delivery edits it into the final
text, also after a crash. When the draft is out of place, because something else stands below it, the store
withdraws it, and what follows is a new one.

The one gap: a process that dies after the platform has the first draft and before its id is committed. Platforms
that know repeated sends by `Draft.key` return the same message to the resumed turn, which therefore shows a draft
even when its answer is quick; on Telegram the beginning of the text stays there as a message of its own. A turn
that is resumed there without a known draft shows none, so that there is one such message at most, however often
the process dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bot.agent.draft_pace import DraftPace
from bot.clock import US_PER_S, Clock
from bot.errors import ChannelError, RateLimited, SendUncertain, StoreError
from bot.faults import fault_point
from bot.interfaces import Channel, ChannelState, Draft, Outbox, Topic, Turns
from bot.log import get_logger
from bot.records import DraftState, Turn

FIRST_AFTER_S = 0.3
"""Answers that take no longer are not shown growing."""

FAILURES_LIMIT = 3
"""Failures in a row after which nothing more of the turn is shown."""

_AFTER_FAILURE_S = 2.0
_NOTHING_YET = "…"
_LOOK_AGAIN_S = 0.5  # while the chat may be shown nothing; clocks may be set, rows delivered
_OUTLAST_S = 30.0
"""How long the end of a turn waits for a call under way, longer than the channels' own limits: what the platform
carries out after the final text would replace it."""

_HURRIED_S = 5.0  # the same when the turn is cancelled

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftParts:
    """What every turn's drafts work with; the same for the life of the process."""

    turns: Turns
    outbox: Outbox
    clock: Clock
    pace: DraftPace
    ring: Callable[[Topic], None]


class Drafting:
    """Shows one turn's text: `show` takes it at any time, the newest is shown at the channel's pace, `end` stops it."""

    def __init__(self, channel: Channel, parts: DraftParts, turn: Turn) -> None:
        self._channel = channel
        self._parts = parts
        self._turn = turn
        self._chat_type = turn.messages[0].message.chat_type
        self._draft_id = turn.draft_id
        self._text = ""
        self._shown = ""
        self._failures = 0
        self._changed = asyncio.Event()
        self._asking = False  # the platform is being asked, or its answer stored
        self._over = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to show."""
        self._task = asyncio.create_task(self._run(), name=f"draft of turn {self._turn.id}")

    def show(self, text: str) -> None:
        """Take the whole text so far."""
        self._text = text
        self._changed.set()

    async def end(self, *, hurried: bool = False) -> None:
        """Stop; after this nothing of the turn touches the chat but its outbox rows. Idempotent.

        A call under way is waited for: given up, it may still put a message there that nobody knows of, or put the
        draft back over the final text.
        """
        task, self._over = self._task, True
        if task is None:
            return
        if self._asking:
            await asyncio.wait([task], timeout=_HURRIED_S if hurried else _OUTLAST_S)
        task.cancel()
        (error,) = await asyncio.gather(task, return_exceptions=True)
        self._task = None
        if isinstance(error, Exception):
            _log.error("drafts failed", error=f"{type(error).__name__}: {error}")
        elif not hurried:
            await self._take_over()

    async def _take_over(self) -> None:
        """Find the draft that a process which died may have left, so that the answer does not stand below it."""
        if self._turn.attempt == 1 or self._draft_id or not self._channel.finds_drafts:
            return
        try:
            state = await self._state()
            if self._may_show(state):
                await self._show(self._text if self._is_enough(self._text) else _NOTHING_YET, state)
        except (ChannelError, StoreError) as exc:
            _log.warning("a draft of before may be left", error=str(exc))

    async def _run(self) -> None:
        try:
            await asyncio.sleep(FIRST_AFTER_S)
            while not self._over:
                await self._changed.wait()
                self._changed.clear()
                await self._parts.pace.wait(self._channel, self._turn.address, self._chat_type)
                state = await self._state()
                if not self._may_show(state):
                    await self._again(_LOOK_AGAIN_S)
                elif self._text != self._shown and self._is_enough(self._text):
                    await self._show(self._text, state)
        except (ChannelError, StoreError) as exc:
            _log.warning("no more drafts in this turn", error=str(exc))

    def _is_enough(self, text: str) -> bool:
        return len(text.strip().encode(errors="replace")) >= self._channel.draft_least_bytes

    async def _again(self, wait_s: float) -> None:
        """Look again after a while, whether there is new text or not."""
        self._changed.set()
        await asyncio.sleep(wait_s)

    async def _state(self) -> DraftState:
        """Return how things stand; takes note of a draft that was withdrawn."""
        state = await self._parts.turns.draft_state(self._turn)
        if state.draft_id != self._draft_id:
            self._draft_id, self._shown = state.draft_id, ""
            self._parts.ring(Topic.OUTBOUND)  # its removal waits to be sent
        return state

    def _may_show(self, state: DraftState) -> bool:
        """Say whether the chat may be shown something now."""
        if self._channel.state is not ChannelState.READY or state.held_until_us > self._parts.clock.steady_us():
            return False
        if not self._draft_id and self._turn.attempt > 1 and not self._channel.finds_drafts:
            return False  # one may stand there already
        return bool(self._draft_id) or state.is_next  # what is new does not stand above what waits to be sent

    async def _show(self, text: str, state: DraftState) -> None:
        """Show a text, as things stood a moment ago; what fails is tried again.

        Raises:
            ChannelError: nothing more of this turn is to be shown.
            StoreError: the draft's id cannot be kept.
        """
        self._asking = True
        try:
            draft_id = await self._channel.show_draft(self._draft(text))
            if draft_id != self._draft_id:
                fault_point("drafted")
                await self._parts.turns.save_draft(self._turn, draft_id, before=state)
                self._draft_id = draft_id
                fault_point("draft-saved")
            self._shown, self._failures = text, 0
        except RateLimited as exc:
            wait_s = exc.retry_after_s or _AFTER_FAILURE_S
            _log.warning("drafts are rate limited", wait_s=wait_s)
            until_us = self._parts.clock.steady_us() + round(wait_s * US_PER_S)
            await self._parts.outbox.delay_chat(self._turn.address, until_us)
            self._changed.set()
        except ChannelError as exc:
            await self._failed(exc)
        finally:
            self._asking = False

    async def _failed(self, exc: ChannelError) -> None:
        """Decide about a failure: raised again when it is the last one."""
        self._failures += 1
        if self._draft_id and not exc.retryable:
            state = await self._parts.turns.draft_state(self._turn)
            is_final = state.draft_id == self._draft_id  # else it was withdrawn meanwhile
        else:
            is_final = not exc.retryable or (isinstance(exc, SendUncertain) and not self._draft_id)
        if is_final or self._failures >= FAILURES_LIMIT:
            raise exc
        _log.debug("draft not shown", error=str(exc))
        self._asking = False  # the end of the turn need not wait for this
        await self._again(exc.retry_after_s or _AFTER_FAILURE_S)

    def _draft(self, text: str) -> Draft:
        turn = self._turn
        may_exist = turn.attempt > 1 and not self._draft_id
        return Draft(
            address=turn.address,
            text=text,
            draft_id=self._draft_id,
            reply_to=turn.messages[0].message.reply_to,
            key=f"turn-{turn.id}-{turn.messages[0].message.message_id}",  # numbers begin anew with a new store
            maybe_since_us=turn.messages[0].received_us if may_exist else 0,
        )
