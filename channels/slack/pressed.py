"""What people see of a pressed button: the message with the answer, or a word for whoever pressed in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.log import get_logger
from bot.records import Acceptance, PressOutcome
from bot.texts import say

if TYPE_CHECKING:  # importing the SDK costs 0.2 s; here it only names types
    from channels.slack.api import WebApi

CHOSEN_BLOCK = "dutiful_chosen"

_log = get_logger(__name__)


async def show_outcome(api: WebApi, language: str, body: dict[str, Any], outcome: PressOutcome) -> None:
    """Mark the chosen button in the message and take the others away; tell a person whose press did not count.

    Raises:
        ChannelError: Slack does not take it.
    """
    place = body.get("container") or {}
    message = body.get("message") or {}
    channel, ts = str(place.get("channel_id") or ""), str(place.get("message_ts") or "")
    if outcome.acceptance is not Acceptance.REFUSED:
        blocks = [block for block in message.get("blocks") or [] if not _is_outdated(block)]
        await api.call(
            "chat.update",
            {
                "channel": channel,
                "ts": ts,
                "text": str(message.get("text") or ""),
                "blocks": [*blocks, _chosen(outcome.label)],
            },
        )
    if outcome.acceptance is Acceptance.ACCEPTED:
        return
    text = (
        say(language, "button.unknown")
        if outcome.acceptance is Acceptance.REFUSED
        else say(language, "button.answered", label=outcome.label)
    )
    user = str((body.get("user") or {}).get("id") or "")
    told = {"channel": channel, "user": user, "text": text, "thread_ts": place.get("thread_ts") or None}
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}]
    await api.call("chat.postEphemeral", {**told, "blocks": blocks})


def _chosen(label: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": f"✓ {label}"[:2_000], "emoji": True}
    return {"type": "context", "block_id": CHOSEN_BLOCK, "elements": [text]}


def _is_outdated(block: Any) -> bool:
    return not isinstance(block, dict) or block.get("type") == "actions" or block.get("block_id") == CHOSEN_BLOCK
