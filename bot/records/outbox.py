"""Messages on their way out, and the marks of chats that have another id now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.messages import Address, OutboundMessage

MOVED = "moved:"
"""How the cursors begin that say which chats have another id now: `moved:channel:new id` holds the old one."""


def moved_prefix(channel: str) -> str:
    """Return how the cursors of `MOVED` begin for a channel."""
    return f"{MOVED}{channel}:"


def moved_variant(variant: str, old_chat_id: str) -> str:
    """Return the variant of a message's identity after its chat got another id, where message ids begin anew."""
    return f"{variant}@{old_chat_id}"


class SendState(StrEnum):
    """How far an outbound message has come."""

    QUEUED = "queued"  # waits for its turn, its time or its channel
    SENDING = "sending"  # committed before the platform is called
    SENT = "sent"  # the platform confirmed it
    UNCERTAIN = "uncertain"  # may have arrived; not repeated any more
    DEAD = "dead"  # gave up; listed by `dutiful status`


TRIED_PART = "?"
"""Last in a row's `sent_ids`: the next part was sent once with an unknown outcome, and is sent once more, since an
answer lost is worse than one doubled (design 4)."""


UNKNOWN_PART = "??"
"""In a row's `sent_ids` in place of a platform id: sent twice, nobody knows whether it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A message the delivery worker holds.

    `sent_ids` has one entry for each part that need not be sent any more: its platform id, or a mark when
    its outcome is unknown. The first try is told twice: by the wall clock, to be compared to what platforms say,
    and on the scale of waits (`Clock.steady_us`), to be compared to now; 0 before it.
    """

    id: int
    message: OutboundMessage
    state: SendState
    attempts: int
    uncertain: int
    created_us: int
    first_try_us: int
    tried_us: int = 0
    sent_ids: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A line of the list of messages. `next_us`: when it is tried, or looked into, next; None where it is not."""

    row: OutboxRow
    next_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxPage:
    """A part of the list of messages that are not well sent, of which there are `total`."""

    entries: tuple[OutboxEntry, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxChange:
    """What was changed: `rows`, as they were before; nothing at all if any was `refused`.

    `refused` has the state of each message that cannot be changed so; None: there is no such message.
    """

    rows: tuple[OutboxRow, ...]
    refused: Mapping[int, SendState | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Something that could not be handled or delivered, kept for a human to look at."""

    id: int
    direction: str  # "in" or "out"
    address: Address
    text: str
    error: str
    at_us: int
