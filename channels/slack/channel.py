"""The Slack channel's life: open, identify, receive, send, close. Builds without network or SDK."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bot.errors import ChannelError
from bot.interfaces import ChannelContext, ChannelState, Draft, SendProgress
from bot.log import get_logger
from bot.messages import Address, Attachment, InboundMessage, OutboundMessage, Quote
from bot.records import OutboxRow
from channels.slack import media
from channels.slack.blindness import Blindness
from channels.slack.config import SlackConfig, Timing
from channels.slack.content import Identity
from channels.slack.events import CHANNEL
from channels.slack.extras import Extras
from channels.slack.people import People
from channels.slack.positions import Positions
from channels.slack.status import Status
from channels.slack.threads import Threads
from channels.supervision import SupervisedChannel

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.slack.api import WebApi
    from channels.slack.connection import Connection
    from channels.slack.drafts import Drafts
    from channels.slack.sending import Sender

SEEN_MARK = "eyes"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What is built with the SDK, once."""

    api: WebApi
    extras: Extras
    sender: Sender
    drafts: Drafts
    people: People
    status: Status


class SlackChannel(SupervisedChannel):
    """One app in one Slack workspace. Receives by Socket Mode, so it needs no public address.

    In channels each question is answered in the thread below it, and that thread is a talk of its own; direct
    messages are one talk, with threads of their own where the person begins one.
    """

    name: ClassVar[str] = CHANNEL
    config_cls: ClassVar[type[SlackConfig]] = SlackConfig
    format_hint: ClassVar[str] = (
        "Slack: bold, italic, strikethrough, links, quotes, lists and code are shown; headings as bold lines; "
        "tables only as fixed-width text, so keep them narrow; keep answers short."
    )
    draft_interval_s: ClassVar[float | None] = 1.2
    finds_drafts: ClassVar[bool] = True  # by the mark in their metadata

    def __init__(self, context: ChannelContext, section: SlackConfig, timing: Timing) -> None:
        super().__init__(context.clock, retry_base_s=timing.retry_base_s, retry_cap_s=timing.retry_cap_s)
        self._context = context
        self._section = section
        self._timing = timing
        self._parts: _Parts | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._threads = Threads()
        self._blindness = Blindness(context.clock)
        self._me: Identity | None = None
        self._positions: Positions | None = None
        self._connection: Connection | None = None

    @classmethod
    def create(cls, context: ChannelContext, timing: Timing | None = None) -> SlackChannel:
        """See `Channel.create`."""
        section = context.section
        if not isinstance(section, SlackConfig):
            raise TypeError(f"the section of {cls.name} is a {type(section).__name__}")
        return cls(context, section, timing or Timing())

    async def serve(self) -> None:
        """See `SupervisedChannel.serve`."""
        parts = await self._open()
        me = self._me = await parts.api.identify()
        await self._known(me)
        connection = await self.connection()

        def connected() -> None:
            self.report(ChannelState.READY, "")
            _log.info("slack connected", bot=me.user_id, team=me.team_id)

        await connection.run(connected)

    async def connection(self) -> Connection:
        """Return a new connection with its Bolt app, wired but not started.

        Raises:
            ChannelError: we do not know who we are yet.
        """
        from channels.slack.connection import Connection  # Bolt: 0.2 s, loaded by `_open` already

        parts, me, positions = await self._open(), self._me, self._positions
        if me is None or positions is None:
            raise ChannelError("not identified yet")
        self._connection = Connection(
            api=parts.api,
            me=me,
            context=self._context,
            policies=self._section.group_policy,
            positions=positions,
            threads=self._threads,
            people=parts.people,
            timing=self._timing,
        )
        return self._connection

    async def _known(self, me: Identity) -> None:
        """Take up what earlier runs saw."""
        if self._positions is None:
            context = self._context
            positions = Positions(
                context.cursors, context.clock, self._threads, account=me.account, flush_s=self._timing.flush_s
            )
            await positions.load()
            self._positions = positions

    async def _open(self) -> _Parts:
        """Return the client and what uses it, built at first use and kept."""
        async with self._opening:
            if self._closed:
                raise ChannelError("the channel is closed")
            if self._parts is None:
                # Loading the SDK takes 0.4 s, which must not stall the loop.
                self._parts = await asyncio.to_thread(self._build)
            return self._parts

    def _build(self) -> _Parts:
        import channels.slack.connection  # noqa: F401  # Bolt: 0.2 s, wanted as soon as we are connected
        from channels.slack.api import WebApi  # the SDK: 0.2 s
        from channels.slack.drafts import Drafts  # the markdown parser: 30 ms
        from channels.slack.sending import Sender

        api = WebApi(self._section, self._timing)
        api.cannot_look = self._blindness.holds
        extras = Extras(api, self._context.clock)
        return _Parts(
            api=api,
            extras=extras,
            sender=Sender(api, self._threads, self._context.language),
            drafts=Drafts(api, self._context.clock),
            people=People(extras, self._context.intake, self._context.clock),
            status=Status(extras, self._context.clock, self._context.language),
        )

    async def _identity(self, parts: _Parts) -> Identity:
        if self._me is None:
            self._me = await parts.api.identify()
        return self._me

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        parts = await self._open()
        await parts.sender.send(message, progress)
        parts.status.settled(message.address)

    async def find_sent(self, row: OutboxRow) -> tuple[str, ...] | None:
        """See `Channel.find_sent`."""
        parts = await self._open()
        from channels.slack.lookup import find_sent  # the markdown parser: 30 ms

        found = await find_sent(parts.api, await self._identity(parts), row)
        self._blindness.note(row.message.address.chat_id, could_look=found is not None)
        return found

    async def earlier(self, message: InboundMessage) -> tuple[Quote, ...]:
        """See `Channel.earlier`: the thread's first message and the last ones before this."""
        parts = await self._open()
        from channels.slack.lookup import earlier  # the markdown parser: 30 ms

        return await earlier(parts.extras, await self._identity(parts), message, parts.people)

    async def show_draft(self, draft: Draft) -> str:
        """See `Channel.show_draft`."""
        parts = await self._open()
        return await parts.drafts.show(await self._identity(parts), draft)

    async def drop_draft(self, address: Address, draft_id: str) -> None:
        """See `Channel.drop_draft`."""
        parts = await self._open()
        await parts.drafts.drop(address, draft_id)

    async def typing(self, address: Address) -> None:
        """See `Channel.typing`: the assistant's status in a thread; Slack has nothing like it elsewhere."""
        try:
            parts = await self._open()
            await parts.status.show(address)
        except ChannelError as exc:
            _log.debug("status not shown", chat=address.key, error=str(exc))

    async def seen(self, address: Address, message_id: str) -> None:
        """See `Channel.seen`: a reaction."""
        params = {"channel": address.chat_id, "timestamp": message_id, "name": SEEN_MARK}
        try:
            parts = await self._open()
            await parts.extras.call("reactions.add", params)
        except ChannelError as exc:
            _log.debug("not marked as seen", chat=address.key, error=str(exc))

    async def fetch(self, attachment: Attachment, address: Address) -> Attachment:
        """Return an inbound attachment with its local path, or with the reason why there is none.

        Raises:
            RateLimited: ask again later.
        """
        parts = await self._open()
        return await media.fetch(parts.api, self._context.workspace, attachment, address)

    def private_address(self, user_id: str) -> Address | None:
        """See `Channel.private_address`: known once the person has written to us in private."""
        dm = "" if self._positions is None else self._positions.dm_of(user_id)
        return Address(channel=CHANNEL, chat_id=dm) if dm else None

    def last_poll_age_s(self) -> float | None:
        """See `Channel.last_poll_age_s`: since Slack was last heard, if only by its heartbeat."""
        if self._connection is None or self._connection.socket.heard_at_s is None:
            return None
        return self._context.clock.monotonic_s() - self._connection.socket.heard_at_s

    async def close(self) -> None:
        """See `Channel.close`."""
        async with self._opening:
            self._closed = True
            if self._parts is not None:
                await self._parts.api.close()
