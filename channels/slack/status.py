"""The assistant's status in a thread ("is thinking…"), which stands in for typing where the workspace has it."""

from __future__ import annotations

from collections import OrderedDict

from bot.clock import Clock
from bot.log import get_logger
from bot.messages import Address
from bot.texts import say
from channels.slack.errors import Refused
from channels.slack.extras import Caller

AGAIN_S = 60.0
"""Slack takes a status away after two minutes, or when we write
(https://docs.slack.dev/reference/methods/assistant.threads.setStatus, read 2026-11-30)."""

_NOT_HERE = frozenset(
    {
        *("missing_scope", "unknown_method", "method_deprecated", "feature_not_enabled", "not_allowed"),
        "method_not_supported_for_channel_type",
    }
)
_MOST = 500

_log = get_logger(__name__)


class Status:
    """Shown at most once a minute in a thread, and never again where the workspace does not have it."""

    def __init__(self, api: Caller, clock: Clock, language: str) -> None:
        self._api = api
        self._clock = clock
        self._text = say(language, "status.thinking")
        self._shown: OrderedDict[Address, float] = OrderedDict()
        self._off = False

    async def show(self, address: Address) -> None:
        """Show that an answer is on its way.

        Raises:
            ChannelError: Slack does not take it now.
        """
        if self._off or address.thread_id is None:
            return
        now_s = self._clock.monotonic_s()
        shown_s = self._shown.get(address)
        if shown_s is not None and now_s - shown_s < AGAIN_S:
            return
        self._shown[address] = now_s
        if len(self._shown) > _MOST:
            self._shown.popitem(last=False)
        where = {"channel_id": address.chat_id, "thread_ts": address.thread_id}
        try:
            await self._api.call("assistant.threads.setStatus", {**where, "status": self._text})
        except Refused as exc:
            if exc.code in _NOT_HERE:
                self._off = True
                _log.info("no assistant status in this workspace", error=exc.code)
                return
            raise

    def settled(self, address: Address) -> None:
        """Something was written there, which took the status away."""
        self._shown.pop(address, None)
