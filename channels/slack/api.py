"""The Web API over slack_sdk: calls with their refusals mapped, uploads, downloads, and who we are.

The SDK never waits or repeats by itself here: what a failure means is decided by whoever called.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.errors import ChannelAuthError, ChannelError, RateLimited, SendUncertain
from bot.log import get_logger
from channels.slack.config import SlackConfig, Timing
from channels.slack.content import Identity
from channels.slack.errors import NOT_THERE, PageMissing, Refused, ServerTrouble, refusal

NEEDED_SCOPE = "chat:write"
"""Without it nothing can be answered."""

WANTED_SCOPES: Mapping[str, str] = {
    "app_mentions:read": "mentions are not seen",
    "channels:history": "messages of public channels are not seen",
    "groups:history": "messages of private channels are not seen",
    "im:history": "direct messages are not seen",
    "mpim:history": "messages of group conversations are not seen",
    "channels:read": "messages of public channels are not caught up after a gap",
    "groups:read": "messages of private channels are not caught up after a gap",
    "im:read": "direct messages are not caught up after a gap",
    "mpim:read": "messages of group conversations are not caught up after a gap",
    "files:read": "files that people send cannot be read",
    "files:write": "files cannot be sent",
    "reactions:write": "messages are not marked as seen",
    "users:read": "names and time zones of people are not known",
}
"""What does not work without a scope (https://docs.slack.dev/reference/scopes, read 2026-11-30)."""

_CONNECT_S = 5.0
_CHUNK_BYTES = 256 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_LONGEST_WAIT_S = 3600.0  # of what is asked for; more would be no limit of a rate
_ABSENT = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """The content of a file, or why there is none; `too_big_bytes` is the size of one that is over the limit."""

    content: bytes = b""
    error: str = ""
    too_big_bytes: int | None = None


class WebApi:
    """One app's Web API. Built without a connection; needs a running loop at the first call."""

    def __init__(self, section: SlackConfig, timing: Timing) -> None:
        # The SDK's own lines carry request bodies at debug level.
        logging.getLogger("slack_sdk").setLevel(logging.WARNING)
        self._timing = timing
        self._base = section.api_url.rstrip("/") + "/"
        self._bot_token = section.bot_token.get_secret_value()
        self._app_token = section.app_token.get_secret_value()
        self.client = self._client(self._bot_token)
        self._app_client = self._client(self._app_token)
        self.cannot_look: Callable[[str], bool] = _sees  # into this conversation: a 5xx is no doubt there
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def _client(self, token: str) -> AsyncWebClient:
        client = AsyncWebClient(token=token, base_url=self._base, retry_handlers=[])
        client.proxy = None  # the session knows the environment's proxies, exceptions included
        return client

    @property
    def session(self) -> aiohttp.ClientSession:
        """The HTTP session, made at the first use.

        Raises:
            ChannelError: the channel is closed.
        """
        if self._closed:
            raise ChannelError("the channel is closed")
        if self._session is None:
            limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
            self._session = aiohttp.ClientSession(timeout=limits, trust_env=True)
            self.client.session = self._app_client.session = self._session
        return self._session

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, sends: bool = False
    ) -> dict[str, Any]:
        """Call a method with the bot token and return its answer; None values are left out.

        Arguments go as a form, with JSON inside where they are objects: the one way all methods take.
        `sends` says that calling twice could double a message.

        Raises:
            ChannelError: mapped; `SendUncertain` only with `sends`, `Refused` with Slack's error string.
        """
        response = await self._call(self.client, method, params or {}, sends=sends, key="bot_token")
        return _object(response)

    async def _call(
        self, client: AsyncWebClient, method: str, params: Mapping[str, Any], *, sends: bool, key: str
    ) -> AsyncSlackResponse:
        session = self.session
        assert client.session is session
        form = {name: _form_value(value) for name, value in params.items() if value is not None}
        try:
            async with asyncio.timeout(self._timing.call_s):
                return await client.api_call(method, data=form)
        except SlackApiError as exc:
            can_look = not self.cannot_look(str(params.get("channel") or params.get("channel_id") or ""))
            raise _refused(exc, method, sends=sends, can_look=can_look, key=key) from None
        except AttributeError:  # what the SDK says to text that is declared to be text
            raise _unreadable(method, HTTPStatus.OK, sends=sends) from None
        except SlackClientError as exc:
            raise ChannelError(f"{method}: {type(exc).__name__}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise _network_error(exc, method, sends=sends) from None

    async def identify(self) -> Identity:
        """Check the bot token and return who we are.

        Raises:
            ChannelAuthError: the token is refused, of another kind, or lacks the scope to write.
            ChannelError: Slack cannot be reached.
        """
        try:
            response = await self._call(self.client, "auth.test", {}, sends=False, key="bot_token")
        except Refused as exc:
            if exc.code in NOT_THERE:
                raise ChannelError(f"{exc}; is [channels.slack] api_url right?") from exc
            raise ChannelAuthError(f"Slack refuses the bot_token: {exc}") from exc
        me = _object(response)
        if not me.get("user_id"):
            raise ChannelError("auth.test: an answer without ids; is [channels.slack] api_url right?")
        if not me.get("bot_id") and not self._bot_token.startswith("xoxb-"):
            raise ChannelAuthError(
                "[channels.slack] bot_token is no bot's token; take the Bot User OAuth Token (xoxb-…)"
            )
        _check_scopes(response)
        bot_id, team_id = str(me.get("bot_id") or ""), str(me.get("team_id") or "")
        return Identity(user_id=str(me["user_id"]), bot_id=bot_id, team_id=team_id)

    async def socket_url(self) -> str:
        """Return the address of a new Socket Mode connection; it carries a secret ticket.

        Raises:
            ChannelAuthError: the app-level token is refused.
            ChannelError: there is none now.
        """
        try:
            response = await self._call(self._app_client, "apps.connections.open", {}, sends=False, key="app_token")
        except Refused as exc:
            if exc.code != "missing_scope":
                raise ChannelError(str(exc)) from exc
            raise ChannelAuthError("[channels.slack] app_token lacks the scope connections:write") from exc
        url = _object(response).get("url")
        if not isinstance(url, str) or not url:
            raise ChannelError("apps.connections.open: an answer without a url")
        return url

    async def upload(self, url: str, content: bytes) -> None:
        """Put the bytes of a file where Slack asked for them; nobody sees them yet.

        Raises:
            ChannelError: it did not work.
        """
        try:
            async with asyncio.timeout(self._timing.upload_s):
                async with self.session.post(url, data=content) as response:
                    if response.status != HTTPStatus.OK:
                        raise ChannelError(f"upload: Slack answered {response.status}")
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise ChannelError(f"upload: {type(exc).__name__}") from None

    async def respond(self, url: str, text: str) -> None:
        """Tell whoever used a slash command something for themselves, by the command's own address (no token).

        Raises:
            ChannelError: it did not work.
        """
        if not self.is_own_host(url):
            raise ChannelError("response_url: not an address of Slack")
        said = {"response_type": "ephemeral", "text": text}
        try:
            async with asyncio.timeout(self._timing.call_s):
                async with self.session.post(url, json=said, allow_redirects=False) as response:
                    if response.status != HTTPStatus.OK:
                        raise ChannelError(f"response_url: Slack answered {response.status}")
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise ChannelError(f"response_url: {type(exc).__name__}") from None  # the address is a secret

    def is_own_host(self, url: str) -> bool:
        """Say whether our token may be shown to the host of a file's address."""
        try:
            parts, own = urlsplit(url), urlsplit(self._base)
        except ValueError:
            return False
        if (parts.scheme, parts.netloc) == (own.scheme, own.netloc):
            return True
        homes = {"slack.com", own.hostname or "slack.com"}
        host = parts.hostname or ""
        if parts.scheme == own.scheme and host and host == own.hostname:
            return True  # another port of the server that was configured
        return parts.scheme == "https" and any(host == home or host.endswith(f".{home}") for home in homes)

    async def download(self, url: str, *, limit_bytes: int, is_page: bool = False) -> Download:
        """Return what is at a file's private address. `is_page` says that the file itself is HTML.

        Raises:
            RateLimited: ask again later.
        """
        try:
            async with asyncio.timeout(self._timing.upload_s):
                return await self._download(url, limit_bytes, is_page=is_page)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:  # the last: no address at all
            return Download(error=f"the download failed ({type(exc).__name__})")

    async def _download(self, url: str, limit_bytes: int, *, is_page: bool) -> Download:
        headers = {"Authorization": f"Bearer {self._bot_token}"}
        for _ in range(_MOST_REDIRECTS):
            # Redirects are followed by hand: what another host says is no file of Slack's.
            async with self.session.get(url, headers=headers, allow_redirects=False) as response:
                if response.status not in _REDIRECTS:
                    return await self._content(response, limit_bytes, is_page=is_page)
                url = urljoin(url, response.headers.get("Location", ""))
            if not self.is_own_host(url):
                return Download(error="Slack points to another host")
        return Download(error="Slack points from page to page")

    async def _content(self, response: aiohttp.ClientResponse, limit_bytes: int, *, is_page: bool) -> Download:
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise RateLimited("download", retry_after_s=_seconds(response.headers.get("Retry-After")) or 1.0)
        if response.status != HTTPStatus.OK:
            return Download(error=f"Slack answered {response.status}")
        if response.content_type == "text/html" and not is_page:
            # Whoever may not read a file is sent to the page where people sign in, with status 200.
            return Download(error="Slack does not let the bot read the file; does the app have the scope files:read?")
        if response.content_length is not None and response.content_length > limit_bytes:
            return Download(too_big_bytes=response.content_length)
        content = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            content += chunk
            if len(content) > limit_bytes:
                return Download(too_big_bytes=len(content))
        return Download(content=bytes(content))

    async def close(self) -> None:
        """Close the connections; idempotent."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _sees(chat_id: str) -> bool:  # noqa: ARG001  # nothing is known of any conversation
    return False


def _form_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _object(response: AsyncSlackResponse) -> dict[str, Any]:
    """Return the answer's JSON object."""
    return response.data if isinstance(response.data, dict) else {}


def _refused(exc: SlackApiError, method: str, *, sends: bool, can_look: bool, key: str) -> ChannelError:
    """Return the error for an answer that is no success."""
    response: Any = exc.response
    if not isinstance(response, AsyncSlackResponse):  # the SDK could not read the body
        status = getattr(response, "status", 0)
        return _unreadable(method, status, sends=sends, can_look=can_look)
    body = _object(response)
    code = str(body.get("error") or "")
    wait_s = _seconds(response.headers.get("Retry-After") or body.get("retry_after"))
    if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        code = "ratelimited"
    elif not code:
        return _unreadable(method, response.status_code, sends=sends, can_look=can_look)
    mapped = refusal(method, code, sends=sends, retry_after_s=wait_s, needed=str(body.get("needed") or ""), key=key)
    details = (body.get("response_metadata") or {}).get("messages")
    if isinstance(mapped, Refused) and details:
        return Refused(f"{mapped} ({'; '.join(map(str, details))[:300]})", code=mapped.code)
    return mapped


def _unreadable(method: str, status: int, *, sends: bool, can_look: bool = True) -> ChannelError:
    """Return the error for an answer that is not Slack's: a gateway's page, or half of one."""
    text = f"{method}: an answer that is no JSON (status {status})"
    if status in _ABSENT:  # whoever answers so has not done it
        return ChannelError(text) if sends else PageMissing(text, code="unknown_method")
    if not (sends and can_look) and status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServerTrouble(text)
    return SendUncertain(text) if sends else ChannelError(text)


def _network_error(exc: Exception, method: str, *, sends: bool) -> ChannelError:
    """Tell a request that never left from one whose answer is missing."""
    text = f"{method}: {type(exc).__name__}"
    if sends and not isinstance(exc, _NOT_SENT):
        return SendUncertain(text)
    return ChannelError(text)


def _seconds(value: Any) -> float | None:
    try:
        return min(max(0.0, float(value)), _LONGEST_WAIT_S) if value else None
    except (TypeError, ValueError):
        return None


def _check_scopes(response: AsyncSlackResponse) -> None:
    """Refuse a token that cannot write, and say what does not work without the other scopes."""
    header = response.headers.get("X-OAuth-Scopes")
    if not header:
        return
    granted = {scope.strip() for scope in header.split(",")}
    if NEEDED_SCOPE not in granted:
        advice = "add it under OAuth & Permissions and reinstall the app"
        raise ChannelAuthError(f"[channels.slack] bot_token lacks the scope {NEEDED_SCOPE}: {advice}")
    for scope, effect in WANTED_SCOPES.items():
        if scope not in granted:
            _log.warning("the Slack app lacks a scope", scope=scope, effect=effect)
