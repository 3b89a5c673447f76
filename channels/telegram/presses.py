"""After the press of a button: the person's app is told, and the keyboard shows what was chosen."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelError
from bot.interfaces import Intake
from bot.log import get_logger
from bot.messages import Button
from bot.records import Acceptance, PressOutcome
from bot.texts import say
from channels.buttons import button_token, numbered
from channels.telegram.config import Timing
from channels.telegram.taps import Pressed

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from channels.telegram.api import BotApi

TOAST_CHARS = 200
"""Longest text of a toast (https://core.telegram.org/bots/api#answercallbackquery, read 2026-11-30)."""

_log = get_logger(__name__)


def keyboard(rows: Sequence[Sequence[Button]], outbox_id: int) -> dict[str, Any] | None:
    """Return the inline keyboard for the buttons of an outbox row, None without any. It carries tokens only."""
    made = [
        [{"text": button.label, "callback_data": button_token(outbox_id, index)} for index, button in row]
        for row in numbered(rows)
    ]
    return {"inline_keyboard": made} if made else None


class PressDesk:
    """Hands presses in and answers them."""

    def __init__(self, api: BotApi, intake: Intake, timing: Timing, *, language: str) -> None:
        self._api = api
        self._intake = intake
        self._timing = timing
        self._language = language

    async def take(self, pressed: Pressed) -> Coroutine[Any, Any, None]:
        """Commit a press and return what is left to do, which may be done later or never.

        Raises:
            StoreError: it was not committed.
        """
        outcome = PressOutcome(acceptance=Acceptance.REFUSED)
        if pressed.press is not None:
            outcome = await self._intake.publish_press(pressed.press)
        return self._answer(pressed, outcome)

    async def _answer(self, pressed: Pressed, outcome: PressOutcome) -> None:
        text = ""
        if outcome.acceptance is Acceptance.REFUSED:
            text = say(self._language, "button.unknown")
        elif outcome.acceptance is Acceptance.DUPLICATE:
            text = say(self._language, "button.answered", label=outcome.label)
        await self._call(
            "answerCallbackQuery",
            {"callback_query_id": pressed.query_id, "text": text[:TOAST_CHARS] or None},
        )
        if pressed.press is not None and outcome.label:
            # Also after a second press: that of the first may not have got this far.
            token = button_token(pressed.press.outbox_id, pressed.press.index)
            chosen = {"text": f"✓ {outcome.label}", "callback_data": token}
            await self._call(
                "editMessageReplyMarkup",
                {
                    "chat_id": pressed.chat_id,
                    "message_id": pressed.message_id,
                    "reply_markup": {"inline_keyboard": [[chosen]]},
                },
            )

    async def _call(self, method: str, params: dict[str, Any]) -> None:
        """Make a call that nothing depends on: a toast comes too late after a while, a keyboard may be gone."""
        try:
            await self._api.call(method, params, timeout_s=self._timing.call_s)
        except ChannelError as exc:
            if "message is not modified" not in str(exc).lower():
                _log.info("button press not answered", method=method, error=str(exc))
