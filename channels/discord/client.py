"""discord.py's gateway client, made to hand over what it hears as the platform's own JSON.

The SDK connects, beats, resumes and keeps channels and roles in mind. Messages and interactions go past its
objects to `sink`: one that it could not read would end its connection, and nothing that it builds of them is
needed. Importing this costs 0.25 s, hence it happens late and in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from bot.errors import ChannelAuthError, ChannelError
from bot.log import get_logger
from channels.discord.attempt import HttpTrouble, no_repeats
from channels.discord.config import DiscordConfig, Timing
from channels.discord.errors import IntentRefused, SessionLost
from channels.discord.leniency import parsed, use, whole_user
from channels.discord.places import Place

Json = dict[str, Any]
Sink = Callable[[str, Json], None]
"""Takes an event's name and data at once; must not wait. What it raises is logged, and the event skipped."""

UP, DOWN = "UP", "DOWN"
"""Events of the connection itself: it hears again after a resume, it is lost."""

_OURS = frozenset({"MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"})
_BEFORE = frozenset({"GUILD_DELETE", "CHANNEL_DELETE", "THREAD_DELETE"})  # while the SDK still knows what goes
_AFTER = frozenset({"GUILD_CREATE", "READY"})
_SDK = frozenset(
    {"GUILD_UPDATE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE", "CHANNEL_CREATE"}
    | {"CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE", "THREAD_LIST_SYNC", "RESUMED"}
)

_DISALLOWED_INTENTS = 4014
_BAD_TOKEN = 4004
_CANCEL_AGAIN_S = 0.05

INTENT_PROBLEM = (
    "the message content intent is off: in servers the bot reads only messages that mention it. Switch on"
    " Message Content Intent in the Developer Portal (your application, Bot, Privileged Gateway Intents)"
)

_log = get_logger(__name__)

# Its account of every lost connection is a traceback; ours is the channel's state.
logging.getLogger("discord.client").setLevel(logging.CRITICAL)
# At DEBUG it would write down whole messages, and the tokens of interactions.
for _name in ("discord.http", "discord.gateway"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class GatewayClient(discord.Client):
    """One connection to the gateway, with its REST session."""

    def __init__(self, timing: Timing, *, content: bool) -> None:
        """Build without network; `content` asks for the message content intent."""
        self.sink: Sink = _nobody  # who hears; set before `listen`
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = True
        intents.message_content = content
        super().__init__(
            intents=intents,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0.0,
        )
        self._timing = timing
        self.asks_content = content
        self.may_read_content = True  # whether the message content intent is switched on; known for sure only if not
        known = self._connection.parsers
        parsers = {name: self._guarded(name, known[name]) for name in _SDK | _BEFORE | _AFTER}
        parsers.update({name: self._forward(name) for name in _OURS})
        known.clear()
        known.update(parsers)

    def _forward(self, name: str) -> Callable[[Any], None]:
        return lambda data: self._tell(name, data)

    def _guarded(self, name: str, parse: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return the SDK's reading of an event, which must not end the connection when it stumbles."""

        def take(data: Any) -> None:
            if name in _BEFORE:
                self._tell(name, data)
            try:
                parse(data)
            except Exception as exc:  # noqa: BLE001  # part of the channel's supervision: an odd event is skipped
                _log.error("event not understood", channel="discord", name=name, error=f"{type(exc).__name__}: {exc}")
            if name in _AFTER:
                self._tell(name, data)

        return take

    def _tell(self, name: str, data: Any) -> None:
        """Hand an event over; an odd one is skipped as well there."""
        try:
            self.sink(name, data)
        except Exception as exc:  # noqa: BLE001  # as above: it would end the connection
            _log.error("event not taken", channel="discord", name=name, error=f"{type(exc).__name__}: {exc}")

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:  # noqa: ARG002  # the SDK's hook
        """Wait as the platform asks before another IDENTIFY."""
        if not initial:
            await asyncio.sleep(self._timing.identify_s)

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002  # the SDK's hook
        """Hear of the connection; the SDK's other news have no listeners here."""
        if event == "resumed":
            self.sink(UP, {})
        elif event == "disconnect":
            self.sink(DOWN, {})

    async def sign_in(self, token: str, section: DiscordConfig) -> None:
        """Learn who we are; opens the REST session.

        Raises:
            ChannelAuthError: the token is refused.
            ChannelError: Discord did not answer, or not as Discord does.
        """
        # The SDK keeps both addresses per process; there is one Discord channel in it.
        Route.BASE = section.api_url.rstrip("/")
        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(section.gateway_url)
        use()
        try:
            async with asyncio.timeout(self._timing.login_s):
                await self.login(token)
        except discord.LoginFailure as exc:
            raise ChannelAuthError(
                "Discord refuses the token; check [channels.discord] token (Developer Portal, Bot, Reset Token)"
            ) from exc
        except (discord.HTTPException, OSError, TimeoutError) as exc:
            raise ChannelError(f"signing in: {_shown(exc)}") from exc
        except Exception as exc:  # aiohttp's errors, and what the SDK says to an answer that is none of Discord's
            raise ChannelError(f"signing in: {_shown(exc)}; is [channels.discord] api_url right?") from exc

    async def login(self, token: str) -> None:
        """Open the REST session and learn who we are; in place of the SDK's own, which wants all of the application."""
        await self._async_setup_hook()
        user = parsed(await self.http.static_login(token.strip()))
        self._connection.user = discord.ClientUser(state=self._connection, data=cast("Any", whole_user(user)))
        await self._learn_application()

    async def _learn_application(self) -> None:
        """Ask for the application's id and its intents. Without an answer the gateway tells both in its own way."""
        try:
            async with asyncio.timeout(self._timing.application_s):
                route = Route("GET", "/oauth2/applications/@me")
                found = parsed(await self.http.request(route, middlewares=(no_repeats,)))
            if not isinstance(found, dict):
                raise ValueError("the answer is no application")  # noqa: TRY004, TRY301  # one more unreadable answer
            if str(found.get("id") or "").isdecimal():
                self._connection.application_id = int(found["id"])
            if isinstance(found.get("flags"), int):
                flags = discord.ApplicationFlags._from_value(found["flags"])  # noqa: SLF001  # the SDK's way to read it
                self.may_read_content = flags.gateway_message_content or flags.gateway_message_content_limited
        except (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, ValueError, HttpTrouble) as exc:
            _log.info("the application does not tell its intents", channel="discord", error=_shown(exc))

    @property
    def bot_id(self) -> str:
        """Our own user id; known once signed in."""
        assert self.user is not None
        return str(self.user.id)

    async def listen(self) -> None:
        """Stay connected; ends only by an error.

        Raises:
            ChannelAuthError: the token is refused.
            IntentRefused: the message content intent was asked for and is off.
            SessionLost: the connection ended in a way after which the SDK does not resume.
        """
        try:
            await self._stay_connected()
        except discord.PrivilegedIntentsRequired as exc:
            raise IntentRefused(f"the gateway closed with {_DISALLOWED_INTENTS}: {INTENT_PROBLEM}") from exc
        except discord.ConnectionClosed as exc:
            if exc.code == _BAD_TOKEN:
                raise ChannelAuthError(
                    "Discord's gateway refuses the token (4004); check [channels.discord] token"
                ) from exc
            raise SessionLost(f"the gateway closed the connection with {exc.code}") from exc
        except Exception as exc:
            # Before the first connection the SDK stumbles over its own state when the gateway is down.
            if self.ws is not None and not isinstance(exc, discord.DiscordException | OSError):
                raise
            raise SessionLost("the gateway cannot be reached") from exc
        raise SessionLost("the connection was closed")

    async def _stay_connected(self) -> None:
        connection = asyncio.create_task(self.connect(reconnect=True), name="discord.py")
        try:
            await asyncio.wait({connection})
        finally:
            # In Python 3.11 `wait_for` drops a cancellation that meets the end of what it waits for: the SDK goes on.
            while not connection.done():
                connection.cancel()
                await asyncio.wait({connection}, timeout=_CANCEL_AGAIN_S)
            ended = None if connection.cancelled() else connection.exception()
        if ended is not None:
            raise ended

    def place(self, channel_id: str, guild_id: str) -> Place | None:
        """Return where a server's channel or thread stands, None when that is not in the SDK's memory."""
        guild = self.get_guild(int(guild_id))
        channel = None if guild is None else guild.get_channel_or_thread(int(channel_id))
        if channel is None:
            return None
        parent_id = str(channel.parent_id) if isinstance(channel, discord.Thread) else ""
        return Place(channel_id=channel_id, guild_id=guild_id, parent_id=parent_id)

    def guild_of(self, channel_id: str) -> str:
        """Return the id of the server that a channel or thread stands in, '' when none is known."""
        guild = getattr(self.get_channel(int(channel_id)), "guild", None)
        return "" if guild is None else str(guild.id)

    def own_role(self, guild_id: str) -> str:
        """Return the id of the role that the platform made for this bot in a server, '' without one."""
        guild = self.get_guild(int(guild_id)) if guild_id else None
        role = None if guild is None else guild.self_role
        return "" if role is None else str(role.id)

    def channels_of(self, guild_id: str) -> list[Place]:
        """Return the channels and threads of a server."""
        guild = self.get_guild(int(guild_id))
        if guild is None:
            return []
        known = [self.place(str(channel.id), guild_id) for channel in (*guild.channels, *guild.threads)]
        return [place for place in known if place is not None]

    def heard_age_s(self) -> float | None:
        """Return how long ago the gateway last answered a heartbeat, None while not connected."""
        beats = getattr(self.ws, "_keep_alive", None)  # the SDK has no public clock of it
        if beats is None:
            return None
        return max(0.0, time.perf_counter() - float(beats._last_ack))  # noqa: SLF001  # see above

    async def say_goodbye(self) -> None:
        """Close the connection to the gateway and keep the REST session: what waits can still be sent."""
        if self.ws is not None and self.ws.open:
            try:
                async with asyncio.timeout(self._timing.close_s):
                    await self.ws.close(code=1000)
            except (TimeoutError, OSError, RuntimeError) as exc:
                _log.debug("gateway not closed in order", error=str(exc))

    async def close(self) -> None:
        """Close everything; idempotent."""
        await self.say_goodbye()
        await self.http.close()


def _nobody(name: str, data: Json) -> None:
    """Hear nothing."""


def _shown(exc: BaseException) -> str:
    if not isinstance(exc, discord.HTTPException):
        return type(exc).__name__
    lost = "; is [channels.discord] api_url right?" if exc.status == HTTPStatus.NOT_FOUND else ""
    return f"{type(exc).__name__} (HTTP {exc.status}){lost}"
