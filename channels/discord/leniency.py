"""What discord.py takes for granted in a server's words, made up for where it is missing.

The SDK ends a connection over a READY without `resume_gateway_url`, and reads JSON only under one exact content
type. Servers that speak the same protocol more sparsely, and proxies that rewrite headers, are understood with this.
Importing this costs 0.25 s (discord.py), hence it happens late and in a thread.
"""

from __future__ import annotations

import json
from typing import Any, Self

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket

from bot.log import get_logger

Json = dict[str, Any]

_DISPATCH, _HELLO = 0, 10
_HEARTBEAT_MS = 41_250
"""What the platform itself asks for (https://docs.discord.com/developers/events/gateway#hello-event, read
2026-11-30)."""

_log = get_logger(__name__)


def parsed(answer: Any) -> Any:
    """Return a call's answer as JSON, also where its content type did not say so; text that is none stays text."""
    if not isinstance(answer, str) or answer.lstrip()[:1] not in ("{", "["):
        return answer
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def whole_user(user: Any) -> Json:
    """Return a User object with the fields that the SDK reads without asking.

    Raises:
        ValueError: it has no id.
    """
    if not isinstance(user, dict) or not str(user.get("id") or "").isdecimal():
        raise ValueError("this is no user")
    return {"username": "", "discriminator": "0", "avatar": None, **user}


class LenientSocket(DiscordWebSocket):
    """The SDK's gateway connection, which does not end over what is missing or cannot be read."""

    @classmethod
    async def from_client(cls, client: discord.Client, *, gateway: yarl.URL | None = None, **options: Any) -> Self:
        """See the SDK. Where the address to resume at cannot be reached, the next try takes the configured one."""
        try:
            return await super().from_client(client, gateway=gateway, **options)
        except (aiohttp.ClientError, OSError):
            if gateway is not None and getattr(client, "ws", None) is not None:
                client.ws.gateway = cls.DEFAULT_GATEWAY
            raise

    async def received_message(self, msg: Any, /) -> None:
        """See the SDK."""
        if isinstance(msg, bytes) and msg[:1] != b"{":
            msg = self._decompressor.decompress(msg)
            if msg is None:
                return  # the rest of it comes
        try:
            event = json.loads(msg)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            _log.warning("frame of the gateway not understood", channel="discord", length=len(msg))
            return
        if self._complete(event):
            msg = json.dumps(event)
        elif isinstance(msg, bytes):
            msg = msg.decode()
        await super().received_message(msg)

    def _complete(self, event: Json) -> bool:
        """Fill in what the SDK would stumble over; say whether anything was changed."""
        if event.get("op") == _HELLO:
            wanted: Json = {"heartbeat_interval": _HEARTBEAT_MS}
        elif event.get("op") != _DISPATCH:
            return False
        elif event.get("t") == "READY":
            wanted = {"resume_gateway_url": str(self.DEFAULT_GATEWAY), "session_id": "", "guilds": []}
            event.setdefault("s", None)
        elif event.get("t") == "RESUMED":
            wanted = {}
        else:
            return False
        data = event["d"] = {**wanted, **_stated(event.get("d"))}
        if event.get("t") == "READY":
            data["user"] = whole_user(data.get("user") or {"id": str(getattr(self._connection.user, "id", 0))})
            if "application" in data:
                data["application"] = {"flags": 0, **_stated(data["application"])}
        return True


def _stated(data: Any) -> Json:
    """Return the fields that are there and not null."""
    return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else {}


def use() -> None:
    """Let the SDK's clients connect this way; it has no other door for it."""
    setattr(discord.client, "DiscordWebSocket", LenientSocket)  # noqa: B010  # a checked assignment refuses a subclass
