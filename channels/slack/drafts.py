"""Unfinished text as one message that is changed as it grows."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from bot.clock import Clock
from bot.errors import ChannelError, ChatGone, RateLimited, SendUncertain
from bot.interfaces import Draft
from bot.log import get_logger
from bot.messages import Address, OutboundKind
from channels.slack.content import Identity
from channels.slack.errors import Refused
from channels.slack.lookup import find_marked
from channels.slack.positions import MARGIN_US
from channels.slack.rendering import PART_UNITS, QUICK_CHARS, Part, render
from channels.slack.sending import content, plain_content

if TYPE_CHECKING:  # importing the SDK costs 0.2 s; here it only names types
    from channels.slack.api import WebApi

INTERVAL_S = 1.2
"""Between two changes in one channel. Slack takes about 50 a minute
(https://docs.slack.dev/apis/web-api/rate-limits, read 2026-11-30)."""

DRAFT_EVENT = "dutiful_draft"

_MOST_CHANNELS = 500
_SHOWN_CHARS = 2 * PART_UNITS  # of the text: more than its first message holds

_log = get_logger(__name__)


class Drafts:
    """Shows drafts; several in one channel share its rate."""

    def __init__(self, api: WebApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._changed: OrderedDict[str, tuple[str, float]] = OrderedDict()  # channel -> key, when
        self._in_doubt: dict[str, int] = {}  # key -> when its first post was tried
        self._paused_until_s = 0.0

    async def show(self, me: Identity, draft: Draft) -> str:
        """See `Channel.show_draft`: what fits into one message, the one that the answer will begin in."""
        text = draft.text[:_SHOWN_CHARS]
        if len(text) > QUICK_CHARS:
            parts = await asyncio.to_thread(render, text, OutboundKind.REPLY)
        else:
            parts = render(text, OutboundKind.REPLY)
        if not parts:
            return draft.draft_id
        self._take_turn(draft)
        draft_id = draft.draft_id
        if not draft_id and draft.maybe_since_us:
            self._in_doubt.setdefault(draft.key, draft.maybe_since_us)
        if not draft_id and draft.key in self._in_doubt:
            draft_id = await self._look(me, draft)
        if not draft_id:
            return await self._post(me, draft, parts[0])
        await self._change(draft.address, draft_id, parts[0])
        return draft_id

    async def drop(self, address: Address, draft_id: str) -> None:
        """See `Channel.drop_draft`."""
        try:
            await self._api.call("chat.delete", {"channel": address.chat_id, "ts": draft_id})
        except ChatGone as exc:  # where nobody can be written to, there is nothing more to do about it
            _log.info("draft not taken away", chat=address.key, error=str(exc))
        except Refused as exc:
            if exc.code != "message_not_found":
                raise

    def _take_turn(self, draft: Draft) -> None:
        """Keep the channel's rate over all its drafts; one draft's own pace is its turn's affair.

        Raises:
            RateLimited: another draft of the channel has just changed, or Slack wants no changes for now.
        """
        channel, now_s = draft.address.chat_id, self._clock.monotonic_s()
        if now_s < self._paused_until_s:
            raise RateLimited("Slack takes no changes for now", retry_after_s=self._paused_until_s - now_s)
        key, changed_s = self._changed.get(channel, (draft.key, 0.0))
        wait_s = changed_s + INTERVAL_S - now_s
        if key != draft.key and wait_s > 0:
            raise RateLimited("another draft of this channel has just changed", retry_after_s=wait_s)
        self._changed[channel] = (draft.key, now_s)
        self._changed.move_to_end(channel)
        if len(self._changed) > _MOST_CHANNELS:
            self._changed.popitem(last=False)

    async def _post(self, me: Identity, draft: Draft, part: Part) -> str:
        since_us = self._clock.now_us()
        metadata = _mark(draft)
        where: dict[str, Any] = {"channel": draft.address.chat_id, "thread_ts": draft.address.thread_id}
        where |= {"unfurl_links": False, "unfurl_media": False, "metadata": metadata}
        try:
            answer = await self._api.call("chat.postMessage", {**where, **content(part)}, sends=True)
        except SendUncertain:
            if not draft.key:
                raise
            self._in_doubt[draft.key] = since_us
            found = await self._look(me, draft)
            if not found:
                raise
            return found
        return str(answer.get("ts") or "")

    async def _look(self, me: Identity, draft: Draft) -> str:
        """Return the id of a draft whose post was in doubt, '' when it did not arrive."""
        since_us = self._in_doubt[draft.key] - MARGIN_US
        found = await find_marked(self._api, me, draft.address, _mark(draft), since_us=since_us)
        del self._in_doubt[draft.key]
        return found

    async def _change(self, address: Address, draft_id: str, part: Part) -> None:
        where = {"channel": address.chat_id, "ts": draft_id}
        try:
            await self._api.call("chat.update", {**where, **content(part)})
        except RateLimited as exc:
            # The limit is the workspace's: other drafts would only take from what the answers need.
            self._paused_until_s = self._clock.monotonic_s() + (exc.retry_after_s or 0.0)
            raise
        except Refused as exc:
            if exc.code == "message_not_found":
                raise ChannelError(str(exc)) from exc
            await self._api.call("chat.update", {**where, **plain_content(part)})


def _mark(draft: Draft) -> dict[str, Any]:
    """Return the metadata by which a draft is found again."""
    return {"event_type": DRAFT_EVENT, "event_payload": {"key": draft.key}}
