"""What the engine asks of a store for messages on their way out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from bot.messages import Address, OutboundMessage
from bot.records import OutboxRow


class Outbox(Protocol):
    """Messages on their way out, ordered per (channel, chat, thread).

    Waits and leases are on the scale of `Clock.steady_us`: setting the wall clock moves none of them. A wait that
    another process left lasts no longer than it was to last in all.
    """

    async def put(self, message: OutboundMessage) -> int:
        """Commit one message that belongs to no turn; returns its outbox id."""

    async def claim(self, *, limit: int, channels: Collection[str]) -> tuple[list[OutboxRow], int | None]:
        """Mark the sendable heads of up to `limit` order keys as sending, and return them.

        A row that comes in state `sending` is one whose send was cut short: its fate is unknown. The second
        value is when the next row may be sent, None when none waits; after `limit` rows it is now.
        """

    async def next_due_us(self, channels: Collection[str]) -> int | None:
        """Return when the next queued row may be sent, None when nothing is queued."""

    async def part_sent(self, outbox_id: int, sent_ids: Sequence[str]) -> None:
        """Store the platform ids of the parts sent so far; the next part has a whole lease again."""

    async def settle(self, outbox_id: int, sent_ids: Sequence[str], *, uncertain: bool = False) -> bool:
        """End a row well: sent, or uncertain when nobody can say. True when another row of its key waits."""

    async def retry(
        self,
        outbox_id: int,
        *,
        not_before_us: int,
        error: str,
        uncertain: bool = False,
        sent_ids: Sequence[str] | None = None,
        counts: bool = True,
    ) -> None:
        """Queue a row again for later; `uncertain` counts a send that may have arrived. None keeps the parts.

        `counts`: whether this claim was a try; being asked to wait, or looking what arrived, is none.
        """

    async def doubt(self, outbox_id: int, *, look_at_us: int, error: str, sent_ids: Sequence[str]) -> None:
        """Keep a row in state sending, its fate unknown: at `look_at_us` it is claimed to be looked into."""

    async def delay_chat(self, address: Address, until_us: int) -> None:
        """Hold back everything for a chat until then (rate limit)."""

    async def bury(self, outbox_id: int, error: str, *, uncertain: bool = False) -> None:
        """Make a row a dead letter, so that the next of its key can go; `uncertain`: it may have arrived after all."""

    async def close_chat(self, address: Address, error: str) -> int:
        """Bury what is queued for a chat that is gone, pause its jobs and goals; returns the number of jobs paused."""

    async def reopen_chat(self, address: Address) -> int:
        """Note that the chat speaks to us again; jobs that its closing paused go on. Returns how many."""

    async def migrate_chat(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        """Move keys, sessions, jobs and queued rows of a chat to its new id, in one transaction.

        A cursor `moved_prefix(channel)` + new id keeps the old one, for what the configuration says of it.
        """

    async def job_of(self, address: Address, platform_id: str) -> str:
        """Return the id of the job whose reminder was sent as this platform message, or ''."""

    async def get(self, outbox_id: int) -> OutboxRow | None:
        """Return a message by its id, None when there is none (any more)."""

    async def copied_files(self) -> set[str]:
        """Return the paths of the copies (`Attachment.copy`) that messages name which may still be sent."""

    async def sent_as(self, channel: str, chat_id: str, platform_id: str) -> OutboxRow | None:
        """Return the message of a chat of which a part has this platform id; of the newest thousand of the chat."""
