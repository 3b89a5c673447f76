"""Outbox rows as the delivery worker holds them, for tests of channels that have no store."""

from __future__ import annotations

from collections.abc import Sequence

from bot.clock import SystemClock
from bot.messages import OutboundMessage
from bot.records import OutboxRow, SendState


def sending_row(message: OutboundMessage, *, outbox_id: int = 1, sent_ids: Sequence[str] = ()) -> OutboxRow:
    """Return the row of a message whose send has just begun and was cut short."""
    now_us = SystemClock().now_us()
    return OutboxRow(
        id=outbox_id,
        message=message,
        state=SendState.SENDING,
        attempts=1,
        uncertain=0,
        created_us=now_us,
        first_try_us=now_us,
        sent_ids=tuple(sent_ids),
    )
