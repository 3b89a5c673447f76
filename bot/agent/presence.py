"""What a chat sees while its turn runs: its messages marked as seen, "typing", and the text as it grows.

Best effort throughout: a platform that cannot be told is no reason to fail a turn, and one that asked to be left
alone is left alone. How the growing text is shown is `drafting`'s part.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from bot.agent.drafting import Drafting, DraftParts
from bot.agent.reactions import is_reaction
from bot.errors import DutifulError
from bot.interfaces import Channel, ChannelState
from bot.log import get_logger
from bot.messages import Origin
from bot.records import Turn

TYPING_AFTER_S = 0.3  # quick answers need no signal
TYPING_EVERY_S = 4.5  # platforms let it fade after about five seconds

_SEEN_LIMIT_S = 2.0  # what a turn's end waits for marks that are still under way

_log = get_logger(__name__)


class Presence:
    """Async context of one turn; `show` takes the growing text, `settle` ends all showing before the answer.

    Turns that nobody wrote to, and those that may end without a word, show nothing.
    """

    def __init__(self, channel: Channel | None, parts: DraftParts, turn: Turn) -> None:
        talks = turn.origin is Origin.USER and not is_reaction(turn.messages[0].message)
        self._channel = channel if talks and channel is not None else None
        self._parts = parts
        self._turn = turn
        self._drafting: Drafting | None = None
        if self._channel is not None and self._channel.draft_interval_s is not None:
            self._drafting = Drafting(self._channel, parts, turn)
        self._typing: asyncio.Task[None] | None = None
        self._marking: asyncio.Task[None] | None = None

    @property
    def shows_drafts(self) -> bool:
        """Whether the growing text is of use here."""
        return self._drafting is not None

    def show(self, text: str) -> None:
        """Take the whole text so far; it is shown at the channel's own pace."""
        if self._drafting is not None:
            self._drafting.show(text)

    async def __aenter__(self) -> Self:
        if self._channel is not None:
            self._marking = asyncio.create_task(self._mark(self._channel), name="mark as seen")
            self._typing = asyncio.create_task(self._type(self._channel), name="typing")
        if self._drafting is not None:
            self._drafting.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._settle(hurried=exc is not None)
        if self._marking is not None and exc is None:
            await asyncio.wait([self._marking], timeout=_SEEN_LIMIT_S)
        await _ended(self._marking)

    async def settle(self) -> None:
        """Stop showing; after this nothing of this turn touches the chat but its outbox rows."""
        await self._settle(hurried=False)

    async def _settle(self, *, hurried: bool) -> None:
        await _ended(self._typing)
        if self._drafting is not None:
            await self._drafting.end(hurried=hurried)

    async def _type(self, channel: Channel) -> None:
        await asyncio.sleep(TYPING_AFTER_S)
        while True:
            try:
                if await self._is_open(channel):
                    await channel.typing(self._turn.address)
            except DutifulError as exc:
                _log.debug("typing not shown", error=str(exc))
            await asyncio.sleep(TYPING_EVERY_S)

    async def _mark(self, channel: Channel) -> None:
        """Mark the turn's messages as seen; a press or an edit has no message of its own."""
        for message in (item.message for item in self._turn.messages):
            try:
                if not message.variant and await self._is_open(channel):
                    await channel.seen(message.address, message.message_id)
            except DutifulError as exc:
                _log.debug("not marked as seen", error=str(exc))

    async def _is_open(self, channel: Channel) -> bool:
        """Say whether the channel can be asked for anything, and the platform did not ask for a pause."""
        if channel.state is not ChannelState.READY:
            return False
        state = await self._parts.turns.draft_state(self._turn)
        return state.held_until_us <= self._parts.clock.steady_us()


async def _ended(task: asyncio.Task[None] | None) -> None:
    """End a task whose outcome does not matter; what it failed with is logged."""
    if task is None:
        return
    task.cancel()
    (error,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(error, Exception):
        _log.error("not shown", what=task.get_name(), error=f"{type(error).__name__}: {error}")
