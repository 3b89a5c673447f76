"""The Telegram channel's life: open, identify, receive, send, close. Builds without network or SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from bot.errors import ChannelError, ChatMigrated, RateLimited
from bot.interfaces import ChannelContext, Draft, SendProgress
from bot.log import get_logger
from bot.messages import Address, Attachment, OutboundMessage
from bot.records import OutboxRow
from channels.supervision import SupervisedChannel
from channels.telegram import media
from channels.telegram.config import TelegramConfig, Timing
from channels.telegram.content import CHANNEL, BotIdentity
from channels.telegram.courtesies import Courtesies
from channels.telegram.desk import UpdateDesk
from channels.telegram.groups import Groups
from channels.telegram.marks import Pauses, SeenMark
from channels.telegram.menu import publish_menu
from channels.telegram.polling import Poller
from channels.telegram.webhook import WebhookReceiver

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi
    from channels.telegram.drafts import Drafts
    from channels.telegram.sending import Sender

_log = get_logger(__name__)


class TelegramChannel(SupervisedChannel):
    """One bot on Telegram. Receives by long polling, which needs no public address, or by webhook."""

    name: ClassVar[str] = CHANNEL
    config_cls: ClassVar[type[TelegramConfig]] = TelegramConfig
    format_hint: ClassVar[str] = (
        "Telegram: bold, italic, strikethrough, ||spoiler||, links, quotes, lists and code are shown; "
        "tables only as fixed-width text, so prefer lists; keep answers short."
    )
    # About 1 message/s in a chat, 20/min in a group and 30/s over all chats are allowed
    # (https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this, read 2026-11-29). Edits count
    # like messages as far as anybody knows; a part is left for what is really sent.
    draft_interval_s: ClassVar[float | None] = 1.2
    draft_group_interval_s: ClassVar[float | None] = 4.0
    draft_gap_s: ClassVar[float] = 0.05

    def __init__(self, context: ChannelContext, section: TelegramConfig, timing: Timing) -> None:
        super().__init__(context.clock, retry_base_s=timing.retry_base_s, retry_cap_s=timing.retry_cap_s)
        self._context = context
        self._section = section
        self._timing = timing
        self._parts: tuple[BotApi, Sender] | None = None
        self._drafts: Drafts | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._receiver: Poller | WebhookReceiver | None = None
        self._groups = Groups(section.group_policy, context.cursors)
        self._courtesies = Courtesies(timing, context.clock)
        self._seen = SeenMark(section.seen_reaction, self._courtesies, context.clock)
        self._typing_pauses = Pauses(context.clock)

    @classmethod
    def create(cls, context: ChannelContext, timing: Timing | None = None) -> TelegramChannel:
        """See `Channel.create`."""
        section = context.section
        if not isinstance(section, TelegramConfig):
            raise TypeError(f"the section of {cls.name} is a {type(section).__name__}")
        return cls(context, section, timing or Timing())

    async def serve(self) -> None:
        """See `SupervisedChannel.serve`."""
        api, _ = await self._open()
        me = await api.call("getMe", {}, timeout_s=self._timing.call_s)
        identity = _identity(me)
        _log.info("telegram connected", bot=identity.username, bot_id=identity.id)
        desk = UpdateDesk(api=api, me=identity, groups=self._groups, context=self._context, timing=self._timing)
        receiver = self._receiver = self._build_receiver(api, desk, str(identity.id))

        async def receive() -> None:
            desk.beside(publish_menu(api, self._context.menu(), self._timing), "telegram-menu")
            await receiver.run()

        await desk.serve(receive)

    def _build_receiver(self, api: BotApi, desk: UpdateDesk, account: str) -> Poller | WebhookReceiver:
        if self._section.mode == "webhook":
            return WebhookReceiver(
                api=api,
                desk=desk,
                section=self._section,
                account=account,
                cursors=self._context.cursors,
                clock=self._context.clock,
                timing=self._timing,
                report=self.report,
            )
        return Poller(
            api=api,
            desk=desk,
            account=account,
            cursors=self._context.cursors,
            clock=self._context.clock,
            timing=self._timing,
            report=self.report,
        )

    async def _open(self) -> tuple[BotApi, Sender]:
        """Return the client, built at first use and kept."""
        async with self._opening:
            if self._closed:
                raise ChannelError("the channel is closed")
            if self._parts is None:
                # Loading SDK and trust store takes 0.4 s, which must not stall the loop.
                self._parts = await asyncio.to_thread(self._build)
            return self._parts

    def _build(self) -> tuple[BotApi, Sender]:
        from channels.telegram.api import BotApi  # the SDK: 0.3 s
        from channels.telegram.sending import Sender  # the markdown renderer: 80 ms

        api = BotApi(self._section.token.get_secret_value(), self._section.api_url)
        return api, Sender(api, self._timing, self._context.language)

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        """See `Channel.send`."""
        _, sender = await self._open()
        try:
            await sender.send(message, progress)
        except ChatMigrated as exc:
            self._groups.moved(message.address.chat_id, exc.new_chat_id)
            raise

    async def find_sent(self, row: OutboxRow) -> tuple[str, ...] | None:
        """See `Channel.find_sent`: nothing can be looked up, but the edit of a draft can be made again.

        Only where no error is known: it may be of the new message that a draft gone by then was replaced with.
        """
        return () if row.message.draft_id and not row.sent_ids and not row.error else None

    async def show_draft(self, draft: Draft) -> str:
        """See `Channel.show_draft`."""
        return await (await self._open_drafts()).show(draft)

    async def drop_draft(self, address: Address, draft_id: str) -> None:
        """See `Channel.drop_draft`."""
        await (await self._open_drafts()).drop(address, draft_id)

    async def _open_drafts(self) -> Drafts:
        api, _ = await self._open()
        if self._drafts is None:
            from channels.telegram.drafts import Drafts  # the markdown renderer, loaded by now

            self._drafts = Drafts(api, self._timing, self._courtesies)
        return self._drafts

    def private_address(self, user_id: str) -> Address:
        """See `Channel.private_address`: Telegram's private chats have the id of their person."""
        return Address(channel=CHANNEL, chat_id=user_id)

    async def typing(self, address: Address) -> None:
        """See `Channel.typing`."""
        if self._typing_pauses.holds(address):
            return
        params = {"chat_id": address.chat_id, "message_thread_id": self._groups.action_thread(address)}
        try:
            api, _ = await self._open()
            await self._courtesies.call(api, "sendChatAction", {**params, "action": "typing"})
        except ChannelError as exc:
            if isinstance(exc, RateLimited):
                self._typing_pauses.begin(address, exc)
            _log.debug("typing not shown", chat=address.key, error=str(exc))

    async def seen(self, address: Address, message_id: str) -> None:
        """See `Channel.seen`: a reaction, where it is allowed."""
        try:
            api, _ = await self._open()
        except ChannelError:
            return
        await self._seen.put(api, address, message_id)

    async def fetch(self, attachment: Attachment, address: Address) -> Attachment:
        """Return an inbound attachment with its local path, or with the reason why there is none.

        Raises:
            RateLimited: ask again later.
        """
        api, _ = await self._open()
        return await media.fetch(api, self._timing, self._context.workspace, attachment, address)

    def last_poll_age_s(self) -> float | None:
        """See `Channel.last_poll_age_s`."""
        if self._receiver is None or self._receiver.asked_at_s is None:
            return None
        return self._context.clock.monotonic_s() - self._receiver.asked_at_s

    async def close(self) -> None:
        """See `Channel.close`."""
        async with self._opening:
            self._closed = True
            if self._parts is not None:
                await self._parts[0].close()


def _identity(me: Any) -> BotIdentity:
    """Return who we are.

    Raises:
        ChannelError: the answer of getMe does not say it.
    """
    try:
        return BotIdentity(id=int(me["id"]), username=str(me.get("username") or ""))
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise ChannelError("getMe: an answer without the bot's id; is [channels.telegram] api_url right?") from exc
