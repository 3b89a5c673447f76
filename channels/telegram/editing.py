"""Whether messages can be edited: Telegram can, other servers that speak the Bot API need not.

A draft that cannot be edited into the answer would stay there beside it, so this is found out before the first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bot.errors import ChannelError, RateLimited, SendUncertain
from bot.log import get_logger
from channels.telegram.config import Timing
from channels.telegram.errors import MethodMissing, NoSuchPage

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

_TELEGRAM = "api.telegram.org"
_TRIES_AFTER_S = (0.0, 2.0, 30.0)

_log = get_logger(__name__)


class Editing:
    """What is known of one server."""

    def __init__(self, api_url: str, timing: Timing) -> None:
        self._timing = timing
        self.works = urlsplit(api_url).hostname == _TELEGRAM
        self.known = asyncio.Event()
        if self.works:
            self.known.set()

    def is_missing(self, error: str) -> None:
        """Take note that a server, against expectation, does not have the method."""
        self.works = False
        self.known.set()
        _log.warning("messages cannot be edited here: no drafts", error=error)

    async def find_out(self, api: BotApi, bot_id: int) -> None:
        """Ask once, with an edit of no message in a chat that a bot cannot have: with itself."""
        params = {"chat_id": bot_id, "message_id": 0, "text": "…"}
        error = ""
        for wait_s in _TRIES_AFTER_S:
            if self.known.is_set():
                return
            await asyncio.sleep(wait_s)
            try:
                await api.call("editMessageText", params, timeout_s=self._timing.call_s)
            except (MethodMissing, NoSuchPage) as exc:
                self.is_missing(str(exc))
                return
            except RateLimited as exc:
                await asyncio.sleep(exc.retry_after_s or 0.0)
                continue
            except SendUncertain as exc:  # it hangs, hangs up, or answers nothing
                error = str(exc)
                continue
            except ChannelError as exc:
                # The refusal that was asked for, or a server that trips over it.
                _log.debug("messages can be edited", answer=str(exc))
            self.works = True
            self.known.set()
            return
        self.is_missing(error)
