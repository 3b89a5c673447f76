"""What people see at once of a press or a slash command: the message with the answer, or a word that it was in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.errors import ChatGone
from bot.records import Acceptance, PressOutcome
from bot.texts import say
from channels.slack.rendering import escape

if TYPE_CHECKING:  # importing the SDK costs 0.2 s; here it only names types
    from channels.slack.api import WebApi

CHOSEN_BLOCK = "dutiful_chosen"


def place_of_press(body: dict[str, Any]) -> tuple[str, str]:
    """Return channel and ts of the message whose button was pressed, '' for what is not told."""
    place, message = body.get("container") or {}, body.get("message") or {}
    channel = place.get("channel_id") or (body.get("channel") or {}).get("id")
    return str(channel or ""), str(place.get("message_ts") or message.get("ts") or "")


async def show_outcome(api: WebApi, language: str, body: dict[str, Any], outcome: PressOutcome) -> None:
    """Mark the chosen button in the message and take the others away; tell a person whose press did not count.

    Raises:
        ChannelError: Slack does not take it.
    """
    place = body.get("container") or {}
    message = body.get("message") or {}
    channel, ts = place_of_press(body)
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
    told = {"channel": channel, "user": user, "text": escape(text), "thread_ts": place.get("thread_ts") or None}
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}]
    await api.call("chat.postEphemeral", {**told, "blocks": blocks})


async def check_place(api: WebApi, language: str, body: dict[str, Any]) -> None:
    """Tell whoever used a slash command where we are not that no answer can come there.

    Raises:
        ChannelError: Slack does not say, or cannot be told.
    """
    try:
        answer = await api.call("conversations.info", {"channel": str(body.get("channel_id") or "")})
        place = answer.get("channel")
        if not isinstance(place, dict) or place.get("is_im") or place.get("is_member", True):
            return
    except ChatGone:  # the answer for private conversations of others
        pass
    await api.respond(str(body.get("response_url") or ""), say(language, "command.not_here"))


def _chosen(label: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": f"✓ {label}"[:2_000], "emoji": True}
    return {"type": "context", "block_id": CHOSEN_BLOCK, "elements": [text]}


def _is_outdated(block: Any) -> bool:
    return not isinstance(block, dict) or block.get("type") == "actions" or block.get("block_id") == CHOSEN_BLOCK
