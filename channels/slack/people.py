"""Names and time zones of people: asked of Slack after a message is accepted, kept for a while, bounded."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from bot.clock import Clock
from bot.interfaces import Intake
from bot.messages import clean_text
from channels.slack.extras import Caller

MOST = 1_000
FRESH_S = 24 * 3600.0
"""A profile is asked for again after a day: people travel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What Slack says of a person; `noted`: the engine knows the time zone."""

    name: str = ""
    zone: str = ""
    asked_s: float = 0.0
    noted: bool = False


class People:
    """What profiles say."""

    def __init__(self, api: Caller, intake: Intake, clock: Clock) -> None:
        self._api = api
        self._intake = intake
        self._clock = clock
        self._known: OrderedDict[str, Profile] = OrderedDict()

    def name(self, user_id: str) -> str:
        """Return the shown name of a person if it is known, else ''."""
        known = self._known.get(user_id)
        return "" if known is None else known.name

    async def learn(self, user_id: str) -> None:
        """Ask for the profile of somebody who wrote to us, unless it is fresh; their time zone goes to the engine.

        Raises:
            ChannelError: Slack does not say.
            StoreError: the zone could not be kept.
        """
        profile = await self.ask(user_id)
        if profile.zone and not profile.noted:
            await self._intake.note_zone("slack", user_id, profile.zone)
            self._known[user_id] = replace(profile, noted=True)

    async def ask(self, user_id: str) -> Profile:
        """Return a person's profile, a fresh one; bots that are no users have none.

        Raises:
            ChannelError: Slack does not say.
        """
        known = self._known.get(user_id)
        now_s = self._clock.monotonic_s()
        if known is not None and now_s - known.asked_s < FRESH_S:
            return known
        if not user_id.startswith(("U", "W")):
            return Profile()
        answer = await self._api.call("users.info", {"user": user_id})
        user = _object(answer.get("user"))
        details = _object(user.get("profile"))
        name = details.get("display_name") or user.get("real_name") or details.get("real_name") or user.get("name")
        zone = "" if user.get("is_bot") else str(user.get("tz") or "")
        profile = Profile(name=clean_text(str(name or "")), zone=zone, asked_s=now_s)
        self._known[user_id] = profile
        self._known.move_to_end(user_id)
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return profile


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
