"""Threads for long answers: opened on the message that is answered, and named after the answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from bot.errors import ChannelError, ChatGone, SendUncertain
from bot.log import get_logger
from bot.messages import Address
from channels.discord.config import Timing
from channels.discord.errors import THREAD_EXISTS, Refused

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

_THREAD_NAME_CHARS = 80  # of at most 100
_THREAD_MINUTES = 1440  # quiet time after which it is put away
_MARKS = re.compile(r"[*_`~#>|\[\]\\]|\(https?://[^)]*\)")

_log = get_logger(__name__)


async def open_thread(call: Caller, timing: Timing, address: Address, message_id: str, name: str) -> bool:
    """Open a thread on a message; False when this channel takes none. One that is there already is as good.

    Raises:
        ChannelError: it may work later.
    """
    try:
        await call(
            "POST",
            "/channels/{channel_id}/messages/{message_id}/threads",
            channel_id=address.chat_id,
            message_id=message_id,
            json={"name": name, "auto_archive_duration": _THREAD_MINUTES},
            timeout_s=timing.call_s,
        )
    except Refused as exc:
        if exc.code == THREAD_EXISTS:
            return True
        _log.info("no thread here, the answer stays in the channel", chat=address.key, error=str(exc))
        return False
    except ChatGone as exc:  # no right to open threads is no reason to give the chat up
        _log.info("no thread here, the answer stays in the channel", chat=address.key, error=str(exc))
        return False
    except SendUncertain as exc:
        # Doing it again finds the thread that the first try made: nothing uncertain here.
        raise ChannelError(str(exc)) from exc
    return True


def thread_name(text: str) -> str:
    """Return a thread's name from the text of an answer: its first words."""
    lines: Iterator[str] = (_MARKS.sub("", line).strip() for line in text.splitlines())
    return next((line[:_THREAD_NAME_CHARS].strip() for line in lines if line), "…")
