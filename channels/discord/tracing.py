"""Finding out what became of a send that was cut short: by its nonce while that is fresh, else in the history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from bot.clock import US_PER_S, Clock
from bot.errors import ChannelError, ChatGone
from bot.log import get_logger
from bot.records import OutboxRow
from channels.discord.config import Timing
from channels.discord.interactions import REPLY_PREFIX
from channels.discord.places import target_id
from channels.discord.positions import id_at
from channels.discord.sending import Step, goes_on_in_thread, nonce, planned

NONCE_FRESH_S = 120.0
"""How long the same nonce is trusted to be recognised. The documentation promises "the past few minutes" of
`enforce_nonce` (https://docs.discord.com/developers/resources/message#create-message, read 2026-11-30)."""

_CLOCKS_APART_S = 5.0  # ours may be a little ahead of the platform's
_PAGE = 100
_PAGES = 10

Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

Json = dict[str, Any]

_log = get_logger(__name__)


async def find_sent(
    call: Caller, timing: Timing, clock: Clock, bot_id: str, row: OutboxRow, *, threads: bool
) -> tuple[str, ...] | None:
    """See `Channel.find_sent`. `threads` as for `Sender`."""
    known = tuple(part for part in row.sent_ids if part.strip("?"))
    if len(known) < len([part for part in row.sent_ids if part != "?"]):
        return None  # parts of unknown outcome are passed over already: the places of later ones cannot be told
    if row.message.draft_id and not known:
        return known  # the same edit doubles nothing
    after = id_at(row.first_try_us - int(_CLOCKS_APART_S * US_PER_S))
    command_id = row.message.reply_to.removeprefix(REPLY_PREFIX)
    if not known and row.message.reply_to.startswith(REPLY_PREFIX) and command_id.isdecimal():
        # The first part may stand where a command's "is thinking" stood: without a nonce, and with that one's id.
        after = min(after, int(command_id))
    elif clock.now_us() - row.first_try_us < NONCE_FRESH_S * US_PER_S:
        return known  # the same nonce doubles nothing
    steps = await planned(row.message)
    channels = [target_id(row.message.address)]
    if threads and goes_on_in_thread(row.message, steps):
        channels.append(row.message.reply_to)
    own: list[Json] = []
    try:
        for channel_id in channels:
            own += [one for one in await _history(call, timing, channel_id, after) if one["author"]["id"] == bot_id]
    except ChatGone as exc:
        # No such thread: nothing is in it. No such chat: the next send will say so.
        _log.info("no history to look for a message in", outbox=row.id, error=str(exc))
    except ChannelError as exc:
        _log.warning("history cannot be read to look for a message", outbox=row.id, error=str(exc))
        return None
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        _log.warning("history cannot be understood", outbox=row.id, error=f"{type(exc).__name__}: {exc}")
        return None
    return known + tuple(_recognised(own, row, steps, known))


def _recognised(own: Sequence[Json], row: OutboxRow, steps: Sequence[Step], known: Sequence[str]) -> Iterator[str]:
    """Yield the ids of the parts after the known ones that are out, in order, up to the first that is not."""
    used = set(known)
    for number in range(len(known), len(steps)):
        found = next((one for one in own if str(one["id"]) not in used and _is_part(one, row, steps, number)), None)
        if found is None:
            return
        used.add(str(found["id"]))
        yield str(found["id"])


def _is_part(message: Json, row: OutboxRow, steps: Sequence[Step], number: int) -> bool:
    step = steps[number]
    if message.get("nonce"):
        return str(message["nonce"]) == nonce(row.id, number, row.message.address, step)
    content, files = str(message.get("content") or ""), len(message.get("attachments") or ())
    if files < len(step.files):  # lines that stand for the others are behind the text
        return content.startswith(step.text.strip()) and len(content) > len(step.text.strip())
    return content == step.text.strip() and files == len(step.files)


async def _history(call: Caller, timing: Timing, channel_id: str, after: int) -> list[Json]:
    """Return what was said in a channel after an id, oldest first."""
    found: list[Json] = []
    for _ in range(_PAGES):
        page = await call(
            "GET",
            "/channels/{channel_id}/messages",
            channel_id=channel_id,
            query={"after": str(after), "limit": str(_PAGE)},
            timeout_s=timing.call_s,
        )
        found += sorted(page, key=lambda one: int(one["id"]))
        if len(page) < _PAGE:
            break
        after = int(found[-1]["id"])
    return found
