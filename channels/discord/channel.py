"""The Discord channel's life: sign in, listen, send, close. Builds without network or SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from bot.errors import ChannelError, ChatGone, StoreError
from bot.interfaces import ChannelContext, Draft, SendProgress
from bot.log import get_logger
from bot.messages import Address, Attachment, InboundMessage, OutboundMessage, Quote
from bot.records import OutboxRow
from channels.discord.config import DiscordConfig, Timing
from channels.discord.connection import Connection
from channels.discord.content import BotIdentity
from channels.discord.earlier import earlier
from channels.discord.interactions import OpenAnswers
from channels.discord.media import fetch
from channels.discord.places import CHANNEL, target_id
from channels.discord.positions import Positions
from channels.supervision import SupervisedChannel

if TYPE_CHECKING:  # importing the SDK costs 0.25 s; here it only names types
    from channels.discord.session import Session

_log = get_logger(__name__)


class DiscordChannel(SupervisedChannel):
    """One bot on Discord. Receives through the gateway, so it needs no public address."""

    name: ClassVar[str] = CHANNEL
    config_cls: ClassVar[type[DiscordConfig]] = DiscordConfig
    format_hint: ClassVar[str] = (
        "Discord: bold, italic, strikethrough, ||spoiler||, headings, links, quotes, lists and code blocks are shown; "
        "tables only as fixed-width text, so prefer lists; keep answers short."
    )
    # Five edits in five seconds are what one chat takes, and answers need room as well.
    draft_interval_s: ClassVar[float | None] = 1.5
    finds_drafts: ClassVar[bool] = True  # by their nonce, for some minutes

    def __init__(self, context: ChannelContext, section: DiscordConfig, timing: Timing) -> None:
        super().__init__(context.clock, retry_base_s=timing.retry_base_s, retry_cap_s=timing.retry_cap_s)
        self._context = context
        self._section = section
        self._timing = timing
        self._answers = OpenAnswers(context.clock)
        self._open_chats: set[str] = set()
        self._session: Session | None = None
        self._positions: Positions | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    @classmethod
    def create(cls, context: ChannelContext, timing: Timing | None = None) -> DiscordChannel:
        """See `Channel.create`."""
        section = context.section
        if not isinstance(section, DiscordConfig):
            raise TypeError(f"the section of {cls.name} is a {type(section).__name__}")
        return cls(context, section, timing or Timing())

    # --- receiving

    async def serve(self) -> None:
        """See `SupervisedChannel.serve`."""
        session = await self._sign_in()
        positions = Positions(self._context.cursors, self._context.clock, session.bot_id)
        await positions.load()
        self._positions = positions
        connection = Connection(
            session=session,
            context=self._context,
            section=self._section,
            timing=self._timing,
            positions=positions,
            answers=self._answers,
            open_chats=self._open_chats,
            report=self.report,
        )
        try:
            await connection.run()
        finally:
            await asyncio.shield(_part(session, positions))

    async def _sign_in(self) -> Session:
        """Return a session that is signed in and not yet connected to the gateway; it replaces the one before."""
        async with self._opening:
            if self._closed:
                raise ChannelError("the channel is closed")
            session = await self._signed_in(content=True)
            if not session.client.may_read_content:
                # What is asked for is fixed when a client is built; asking for what is off closes the connection.
                await session.client.close()
                session = await self._signed_in(content=False)
            old, self._session = self._session, session
        self._answers.application_id = session.application_id
        if session.warning:
            _log.warning("discord hears not everything", problem=session.warning)
        if old is not None:
            await old.client.close()
        return session

    async def _signed_in(self, *, content: bool) -> Session:
        session = await asyncio.to_thread(self._build, content=content)
        try:
            await session.client.sign_in(self._section.token.get_secret_value(), self._section)
        except BaseException:
            await session.client.close()
            raise
        return session

    def _build(self, *, content: bool) -> Session:
        from channels.discord.session import build_session  # the SDK: 0.25 s, which must not stall the loop

        return build_session(
            self._section,
            self._timing,
            self._context.clock,
            self._answers,
            language=self._context.language,
            content=content,
        )

    def last_poll_age_s(self) -> float | None:
        """See `Channel.last_poll_age_s`: since the gateway last answered a heartbeat, one every 41 s."""
        return None if self._session is None else self._session.client.heard_age_s()

    # --- sending

    def _open(self) -> Session:
        """Return the session.

        Raises:
            ChannelError: there is none yet, or none any more.
        """
        if self._closed:
            raise ChannelError("the channel is closed")
        if self._session is None:
            raise ChannelError("not signed in to Discord yet")
        return self._session

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        try:
            await self._open().sender.send(message, progress)
        except ChatGone:
            self._open_chats.discard(message.address.rate_key)
            raise

    async def find_sent(self, row: OutboxRow) -> tuple[str, ...] | None:
        """See `Channel.find_sent`."""
        session = self._open()
        from channels.discord.tracing import find_sent  # the markdown parser, loaded with the session

        return await find_sent(
            session.api.call,
            self._timing,
            self._context.clock,
            session.bot_id,
            row,
            threads=self._section.long_answers_in_threads,
        )

    async def show_draft(self, draft: Draft) -> str:
        """See `Channel.show_draft`."""
        return await self._open().drafts.show(draft)

    async def drop_draft(self, address: Address, draft_id: str) -> None:
        """See `Channel.drop_draft`."""
        if self._session is not None and not self._closed:
            await self._session.drafts.drop(address, draft_id)

    async def typing(self, address: Address) -> None:
        """See `Channel.typing`."""
        try:
            await self._open().api.call(
                "POST",
                "/channels/{channel_id}/typing",
                channel_id=target_id(address),
                timeout_s=self._timing.call_s,
            )
        except ChannelError as exc:
            _log.debug("typing not shown", chat=address.key, error=str(exc))

    def private_address(self, user_id: str) -> Address | None:
        """See `Channel.private_address`: known once the person has written in private."""
        channel_id = None if self._positions is None else self._positions.dm_of(user_id)
        return None if channel_id is None else Address(channel=CHANNEL, chat_id=channel_id)

    # --- reading back

    async def fetch(self, attachment: Attachment, address: Address) -> Attachment:
        """Return an inbound attachment with its local path, or with the reason why there is none.

        Raises:
            RateLimited: ask again later.
        """
        api = self._open().api
        return await fetch(
            attachment,
            address,
            call=api.call,
            download=api.download,
            timing=self._timing,
            workspace=self._context.workspace,
        )

    async def earlier(self, message: InboundMessage) -> tuple[Quote, ...]:
        """See `Channel.earlier`."""
        session = self._open()
        return await earlier(session.api.call, self._timing, BotIdentity(id=session.bot_id), message)

    async def close(self) -> None:
        """See `Channel.close`."""
        async with self._opening:
            self._closed = True
            if self._session is not None:
                await self._session.client.close()


async def _part(session: Session, positions: Positions) -> None:
    """End the connection in order; what is lost of the positions here is only read once more."""
    await session.client.say_goodbye()
    try:
        await positions.save()
    except StoreError as exc:
        _log.warning("positions not saved", channel=CHANNEL, error=str(exc))
