"""What a chat sees while its turn runs: "typing", and a draft that grows where the platform can show one.

Best effort throughout: a platform that cannot be told is no reason to fail a turn. The draft's id is stored
once, so that the final text replaces the draft, also after a crash.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from bot.errors import DutifulError
from bot.interfaces import Channel, ChannelState, Draft, Turns
from bot.log import get_logger
from bot.messages import Origin
from bot.records import Turn

TYPING_AFTER_S = 0.3  # quick answers need no signal
TYPING_EVERY_S = 4.5  # platforms let it fade after about five seconds

_log = get_logger(__name__)


class Presence:
    """Async context of one turn; `show` takes the growing text, `settle` ends all showing before the answer."""

    def __init__(self, channel: Channel | None, turns: Turns, turn: Turn) -> None:
        talks = turn.origin is Origin.USER
        self._channel = channel if talks and channel is not None else None
        self._turns = turns
        self._turn = turn
        self.draft_id = turn.draft_id
        self._text = ""
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def shows_drafts(self) -> bool:
        """Whether the channel can show unfinished text now."""
        channel = self._channel
        return channel is not None and channel.draft_interval_s is not None and channel.state is ChannelState.READY

    def show(self, text: str) -> None:
        """Take the whole text so far; it is shown at the channel's own pace."""
        self._text = text
        self._changed.set()

    async def __aenter__(self) -> Self:
        if self._channel is not None:
            self._tasks.append(asyncio.create_task(self._type(self._channel), name="typing"))
            if self.shows_drafts:
                self._tasks.append(asyncio.create_task(self._draft(self._channel), name="draft"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.settle()

    async def settle(self) -> None:
        """Stop showing; after this nothing of this turn touches the chat but its outbox rows."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _type(self, channel: Channel) -> None:
        await asyncio.sleep(TYPING_AFTER_S)
        while True:
            if channel.state is ChannelState.READY:
                try:
                    await channel.typing(self._turn.address)
                except DutifulError as exc:
                    _log.debug("typing not shown", error=str(exc))
            await asyncio.sleep(TYPING_EVERY_S)

    def _next_draft(self) -> Draft:
        turn = self._turn
        return Draft(
            address=turn.address,
            text=self._text,
            draft_id=self.draft_id,
            reply_to=turn.messages[0].message.reply_to,
            key=f"turn-{turn.id}",
        )

    async def _draft(self, channel: Channel) -> None:
        assert channel.draft_interval_s is not None
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                draft_id = await channel.show_draft(self._next_draft())
                if draft_id and draft_id != self.draft_id:
                    self.draft_id = draft_id
                    await self._turns.save_draft(self._turn, draft_id)
            except DutifulError as exc:
                _log.debug("draft not shown", error=str(exc))
            await asyncio.sleep(channel.draft_interval_s)
