"""One chat or topic as a destination of sends; remembers what it turned out not to take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelError, SendRejected
from bot.log import get_logger
from bot.messages import Address
from channels.telegram.config import Timing
from channels.telegram.errors import MethodMissing

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

UNKNOWN_ID = "unknown"
"""Stands for the id of a message that a server took without telling one: sent is sent."""

_THREAD_LOST = ("message thread not found", "topic_deleted", "topic_closed", "topic_id_invalid")

_log = get_logger(__name__)


class Place:
    """Where one message goes, part by part."""

    def __init__(self, api: BotApi, timing: Timing, address: Address) -> None:
        self._api = api
        self._timing = timing
        self.address = address
        self._thread_id = address.thread_id

    def where(self) -> dict[str, Any]:
        """Return the parameters that say where a message goes; General has no thread id."""
        where: dict[str, Any] = {"chat_id": self.address.chat_id}
        if self._thread_id is not None:
            where["message_thread_id"] = self._thread_id
        return where

    async def post(self, method: str, params: dict[str, Any], *, count: int = 1) -> list[str]:
        """Call a sending method and return the ids of the `count` new messages.

        Where the topic is gone it is called once more without one.

        Raises:
            ChannelError: nothing was sent, or `SendUncertain`.
        """
        timeout_s = self._timing.call_s if method == "sendMessage" else self._timing.upload_s
        try:
            sent = await self._api.call(method, params, timeout_s=timeout_s)
        except MethodMissing as exc:
            if method != "sendMessage":
                raise
            # There is nothing in its place, and every server has it: it comes back.
            raise ChannelError(str(exc)) from exc
        except SendRejected as exc:
            if "message_thread_id" not in params or not mentions(exc, _THREAD_LOST):
                raise
            _log.warning("topic is gone, sent to the chat itself", chat=self.address.key, error=str(exc))
            self._thread_id = None
            bare = {key: value for key, value in params.items() if key != "message_thread_id"}
            sent = await self._api.call(method, bare, timeout_s=timeout_s)
        messages = sent if isinstance(sent, list) else [sent]
        ids = [str(item["message_id"]) for item in messages if isinstance(item, dict) and "message_id" in item]
        return (ids + [UNKNOWN_ID] * count)[:count]


def mentions(exc: SendRejected, marks: Sequence[str]) -> bool:
    """Say whether a refusal speaks of one of these, in any letter case."""
    text = str(exc).lower()
    return any(mark in text for mark in marks)


def is_about_markup(exc: SendRejected) -> bool:
    """Say whether a refusal is about the formatting of a text."""
    return mentions(exc, ("parse", "entity", "entities"))
