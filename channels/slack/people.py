"""Names and time zones of people: asked of Slack after a message is accepted, kept for a while, bounded."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from bot.clock import Clock
from bot.interfaces import Intake
from bot.messages import clean_text

if TYPE_CHECKING:  # importing the SDK costs 0.2 s; here it only names types
    from channels.slack.api import WebApi

MOST = 1_000
FRESH_S = 24 * 3600.0
"""A profile is asked for again after a day: people travel."""


class People:
    """What profiles say."""

    def __init__(self, api: WebApi, intake: Intake, clock: Clock) -> None:
        self._api = api
        self._intake = intake
        self._clock = clock
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()  # id -> name, when it was asked

    def name(self, user_id: str) -> str:
        """Return the shown name of a person if it is known, else ''."""
        known = self._known.get(user_id)
        return "" if known is None else known[0]

    async def learn(self, user_id: str) -> str:
        """Ask for a person's profile unless it is fresh; their time zone goes to the engine. Returns the name.

        Raises:
            ChannelError: Slack does not say.
        """
        known = self._known.get(user_id)
        now_s = self._clock.monotonic_s()
        if known is not None and now_s - known[1] < FRESH_S:
            return known[0]
        if not user_id.startswith(("U", "W")):
            return ""
        answer = await self._api.call("users.info", {"user": user_id})
        user = _object(answer.get("user"))
        profile = _object(user.get("profile"))
        name = profile.get("display_name") or user.get("real_name") or profile.get("real_name") or user.get("name")
        self._keep(user_id, clean_text(str(name or "")), now_s)
        zone = user.get("tz")
        if isinstance(zone, str) and zone and not user.get("is_bot"):
            await self._intake.note_zone("slack", user_id, zone)
        return self.name(user_id)

    def _keep(self, user_id: str, name: str, now_s: float) -> None:
        self._known[user_id] = (name, now_s)
        self._known.move_to_end(user_id)
        if len(self._known) > MOST:
            self._known.popitem(last=False)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
