"""Slash commands and buttons: committed first, then answered within the 3 s the platform allows.

https://docs.discord.com/developers/interactions/receiving-and-responding (read 2026-11-30). The token of a command
lets its answer take the place of "is thinking" for 15 minutes; it is kept in memory only. After that, or after a
restart, the answer is an ordinary message.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from bot.clock import Clock
from bot.errors import ChannelError, StoreError
from bot.faults import fault_point
from bot.interfaces import Intake
from bot.log import get_logger
from bot.messages import ButtonPress, InboundMessage, clean_text
from bot.records import Acceptance, PressOutcome
from bot.texts import say
from channels.buttons import button_token, read_token
from channels.config import GroupPolicies, GroupPolicy
from channels.discord.config import Timing
from channels.discord.content import BotIdentity, shown_name
from channels.discord.events import policy_at
from channels.discord.places import CHANNEL, Place, place_of
from channels.discord.positions import Positions, moment_of

Json = dict[str, Any]
Caller = Callable[..., Awaitable[Any]]
"""`Api.call`."""

TOKEN_LIFE_S = 14 * 60.0  # the platform's 15 minutes, less what a call may take
REPLY_PREFIX = "i"
"""Before the id of an interaction where the id of a message to reply to is expected."""

_REMEMBERED = 1000
_EPHEMERAL = 1 << 6
_COMMAND, _COMPONENT = 2, 3
_SLASH = 1

_log = get_logger(__name__)


class Answer(IntEnum):
    """Types of the first answer."""

    MESSAGE = 4
    DEFERRED = 5  # "is thinking"
    UPDATE = 7  # the message whose button it was


class _Open:
    """A command's answer: not settled before the platform took its deferral; then with a token, or without."""

    def __init__(self) -> None:
        self.settled = asyncio.Event()
        self.token = ""
        self.until_s = 0.0


class OpenAnswers:
    """The deferred answers that still wait for their text."""

    def __init__(self, clock: Clock) -> None:
        self.application_id = ""  # known once signed in
        self._clock = clock
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def begin(self, interaction_id: str) -> None:
        """Expect a deferral. Its text may be ready before the platform has confirmed that."""
        self._open[interaction_id] = _Open()
        if len(self._open) > _REMEMBERED:
            _, oldest = self._open.popitem(last=False)
            oldest.settled.set()

    def settle(self, interaction_id: str, token: str) -> None:
        """Keep a token for as long as it is good; '' when there is none."""
        found = self._open.get(interaction_id)
        if found is None:
            return
        found.token, found.until_s = token, self._clock.monotonic_s() + TOKEN_LIFE_S
        found.settled.set()
        if not token:
            del self._open[interaction_id]

    async def token_for(self, reply_to: str) -> str | None:
        """Return the token with which a reply can be filled in, None when it is to be an ordinary message."""
        found = self._open.get(reply_to.removeprefix(REPLY_PREFIX)) if reply_to.startswith(REPLY_PREFIX) else None
        if found is None:
            return None
        await found.settled.wait()  # no longer than the deferral itself may take
        return found.token if found.token and found.until_s > self._clock.monotonic_s() else None

    def close(self, reply_to: str) -> None:
        """Forget a token: its answer is given, or it is good for nothing."""
        self._open.pop(reply_to.removeprefix(REPLY_PREFIX), None)


class Interactions:
    """Handles the interactions of one connection, each in its own task of the caller's."""

    def __init__(
        self,
        *,
        call: Caller,
        me: BotIdentity,
        intake: Intake,
        answers: OpenAnswers,
        positions: Positions,
        timing: Timing,
        policies: GroupPolicies,
        language: str,
    ) -> None:
        self._call = call
        self._me = me
        self._policies = policies
        self._intake = intake
        self._answers = answers
        self._positions = positions
        self._timing = timing
        self._language = language

    async def handle(self, data: Json) -> None:
        """Commit an interaction and answer it; one that cannot be read is left to the platform's own notice."""
        try:
            kind, place = int(data["type"]), _place(data)
            if kind not in {_COMMAND, _COMPONENT}:
                return
            if place.guild_id and policy_at(self._policies, place) is GroupPolicy.OFF:
                await self._tell(data, "discord_not_allowed")
            elif kind == _COMMAND and int(data["data"].get("type") or _SLASH) == _SLASH:
                await self._command(data, place)
            elif kind == _COMPONENT:
                await self._press(data, place)
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            _log.error("interaction cannot be read", channel=CHANNEL, error=f"{type(exc).__name__}: {exc}")

    # --- slash commands

    async def _command(self, data: Json, place: Place) -> None:
        message = command_message(data, place, self._me)
        token = ""
        self._answers.begin(message.message_id)
        try:
            fault_point("received")
            acceptance = await self._intake.publish_inbound(message)
            if acceptance is Acceptance.REFUSED:
                await self._tell(data, "discord_not_allowed")
                return
            if await self._answer(data, Answer.DEFERRED, {}):
                token = str(data["token"])
        except StoreError as exc:
            _log.warning("command not stored, the person is told", channel=CHANNEL, error=str(exc))
            await self._tell(data, "discord_not_stored")
            return
        finally:
            self._answers.settle(message.message_id, token)
        await self._note_place(message, place)

    async def _note_place(self, message: InboundMessage, place: Place) -> None:
        """Remember where a command was given: what is said there from now on is for us even after a gap."""
        try:
            await self._positions.begin(place, int(message.message_id))
            if not place.guild_id:
                await self._positions.note_dm(message.sender_id, place.channel_id)
        except StoreError as exc:
            _log.warning("place of a command not remembered", chat=place.address.key, error=str(exc))

    # --- buttons

    async def _press(self, data: Json, place: Place) -> None:
        known = read_token(str(data["data"].get("custom_id") or ""))
        source: Json = data["message"]
        if known is None:
            await self._tell(data, "button.unknown")
            return
        user = _user(data)
        press = ButtonPress(
            channel=CHANNEL,
            chat_id=place.address.chat_id,
            message_id=str(source["id"]),
            outbox_id=known[0],
            index=known[1],
            press_id=str(data["id"]),
            sender_id=str(user["id"]),
            sender_name=shown_name(user, data.get("member")),
            account=self._me.id,
            chat_type=place.chat_type,
        )
        try:
            fault_point("received")
            outcome = await self._intake.publish_press(press)
        except StoreError as exc:
            _log.warning("press not stored, the person is told", channel=CHANNEL, error=str(exc))
            await self._tell(data, "discord_not_stored")
            return
        await self._show_outcome(data, press, outcome)

    async def _show_outcome(self, data: Json, press: ButtonPress, outcome: PressOutcome) -> None:
        if outcome.acceptance is Acceptance.REFUSED:
            await self._tell(data, "button.unknown")
            return
        chosen = {"components": chosen_rows(outcome.label, press)}
        if outcome.acceptance is Acceptance.ACCEPTED:
            done = await self._answer(data, Answer.UPDATE, chosen)
        else:
            await self._tell(data, "button.answered", label=outcome.label)
            done = not _has_choice(data["message"])
        if not done:
            await self._change_source(data, chosen)

    async def _change_source(self, data: Json, changes: Json) -> None:
        try:
            await self._call(
                "PATCH",
                "/channels/{channel_id}/messages/{message_id}",
                channel_id=str(data["message"].get("channel_id") or data["channel_id"]),
                message_id=str(data["message"]["id"]),
                json=changes,
                timeout_s=self._timing.call_s,
            )
        except ChannelError as exc:
            _log.info("buttons not taken away", channel=CHANNEL, error=str(exc))

    # --- answers

    async def _tell(self, data: Json, key: str, **values: str) -> None:
        """Tell only the person who acted."""
        text = say(self._language, key, **values)
        await self._answer(
            data,
            Answer.MESSAGE,
            {"content": text, "flags": _EPHEMERAL, "allowed_mentions": {"parse": []}},
        )

    async def _answer(self, data: Json, answer: Answer, body: Mapping[str, Any]) -> bool:
        """Give the first answer; False when the platform did not take it (in time)."""
        try:
            await self._call(
                "POST",
                # By these names the SDK keeps them apart in its rate limits, as they are on the platform.
                "/interactions/{webhook_id}/{webhook_token}/callback",
                webhook_id=str(data["id"]),
                webhook_token=str(data["token"]),
                json={"type": int(answer), "data": dict(body)},
                timeout_s=self._timing.answer_s,
            )
        except ChannelError as exc:
            _log.info("interaction not answered in time", channel=CHANNEL, answer=answer.name, error=str(exc))
            return False
        return True


def command_message(data: Json, place: Place, me: BotIdentity) -> InboundMessage:
    """Return a slash command as if it had been typed."""
    user = _user(data)
    words = [str(option.get("value", "")) for option in data["data"].get("options") or ()]
    interaction_id = str(data["id"])
    return InboundMessage(
        address=place.address,
        message_id=interaction_id,
        text=clean_text(" ".join([f"/{data['data']['name']}", *words])).strip(),
        sender_id=str(user["id"]),
        sender_name=shown_name(user, data.get("member")),
        account=me.id,
        chat_type=place.chat_type,
        sent_us=moment_of(int(interaction_id)),
        reply_to=f"{REPLY_PREFIX}{interaction_id}",
    )


def chosen_rows(label: str, press: ButtonPress) -> Sequence[Json]:
    """Return what stays of a message's buttons: the chosen one, dead."""
    if not label:
        return []
    button = {
        "type": 2,
        "style": 2,
        "label": f"✓ {label}"[:80],
        "custom_id": button_token(press.outbox_id, press.index),
        "disabled": True,
    }
    return [{"type": 1, "components": [button]}]


def _has_choice(message: Json) -> bool:
    return any(not part.get("disabled") for row in message.get("components") or () for part in row["components"])


def _place(data: Json) -> Place:
    guild_id = str(data.get("guild_id") or "")
    channel = data.get("channel")
    if isinstance(channel, dict) and "id" in channel:
        return place_of(channel, guild_id)
    return Place(channel_id=str(data["channel_id"]), guild_id=guild_id, is_guess=True)


def _user(data: Json) -> Json:
    user: Json = data["member"]["user"] if "member" in data else data["user"]
    return user
