"""What was said in a thread before the bot was spoken to there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bot.errors import ChannelError
from bot.log import get_logger
from bot.messages import InboundMessage, Quote
from channels.discord.config import Timing
from channels.discord.content import BotIdentity, Json, as_quote, replied_message

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

MESSAGES = 20
_STARTER = 21  # type of the mark at a thread's beginning, which refers to the message it was opened on
_SAID = frozenset({0, 19, 20})  # what people and programs say; all else are notices of the platform

_log = get_logger(__name__)


async def earlier(call: Caller, timing: Timing, me: BotIdentity, message: InboundMessage) -> tuple[Quote, ...]:
    """Return up to `MESSAGES` messages of a thread from before one, oldest first.

    The message that the thread was opened on is one of them, if the thread is not longer. () outside of threads, and
    where nothing can be read.
    """
    thread_id = message.address.thread_id
    if thread_id is None:
        return ()
    query = {"limit": str(MESSAGES), **({"before": message.message_id} if message.message_id.isdecimal() else {})}
    try:
        page = await call(
            "GET", "/channels/{channel_id}/messages", channel_id=thread_id, query=query, timeout_s=timing.call_s
        )
        said = sorted(page, key=lambda one: int(one["id"]))
        quotes = [as_quote(one, me, sender_id=message.sender_id) for one in _spoken(said)]
    except ChannelError as exc:
        _log.info("earlier messages not read", chat=message.address.key, error=str(exc))
        return ()
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        _log.warning("earlier messages not understood", chat=message.address.key, error=f"{type(exc).__name__}: {exc}")
        return ()
    return tuple(quote for quote in quotes if quote.text)[-MESSAGES:]


def _spoken(messages: list[Json]) -> list[Json]:
    """Return what was said, the starter's mark replaced by what it refers to."""
    found: list[Json] = []
    for message in messages:
        if message.get("type") == _STARTER:
            starter = replied_message(message)
            if starter is not None:
                found.append(starter)
        elif message.get("type", 0) in _SAID:
            found.append(message)
    return found
