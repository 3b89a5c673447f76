"""Logins at servers by OAuth: what `dutiful mcp login` obtained, and how a service lives on it without a person.

A login is a file in the data directory, readable for this user alone. Obtaining one is `login`'s part, by the SDK's
provider. That provider is not used to live on it: it holds its lock for as long as a call takes, forgets when tokens
end and where they are refreshed as soon as the process ends, and takes an authorization server that is down for a
revoked login. Here only refreshing is exclusive, and only a refusal ends a login.

A part of the SDK, and therefore imported only where a server with OAuth is configured.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import orjson
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import ValidationError

from bot.config import McpSection
from bot.log import get_logger
from bot.toolkit.mcp.private_file import write_private
from bot.toolkit.mcp.session import current_mark

EARLY_S = 30.0
"""How long before its end an access token is refreshed: the call it is for takes its time, and clocks differ."""

_LOCK_LIMIT_S, _LOCK_PAUSE_S = 30.0, 0.05
_REFUSALS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_log = get_logger(__name__)

Json = dict[str, Any]


class Grant(StrEnum):
    """How an access token is obtained (RFC 6749, sections 4.1, 4.4 and 6)."""

    CODE = "authorization_code"  # by a person
    CLIENT = "client_credentials"  # by the program itself
    REFRESH = "refresh_token"


class LoginNeeded(OAuthFlowError):
    """Nobody is logged in any more: only `dutiful mcp login` helps."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"{why}; run `dutiful mcp login {server}`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One login at one server. `id` is drawn when a person logs in, and stays while tokens are refreshed."""

    id: str
    url: str  # of the server: the tokens are sent nowhere else
    client: OAuthClientInformationFull
    tokens: OAuthToken
    token_endpoint: str
    resource: str  # the resource parameter of token requests (RFC 8707); "" where the server knows none
    ends_at: float | None  # seconds since the epoch; None where the server does not say
    grant: str = Grant.CODE
    lacks: str = ""  # the scopes that the server missed in it: the next login asks for them, too

    def __repr__(self) -> str:
        return f"Login(url={self.url!r})"  # never a token

    def is_over(self, now: float) -> bool:
        """Whether the access token is out of date, or will be in a moment."""
        return self.ends_at is not None and now > self.ends_at - EARLY_S

    def is_renewable(self) -> bool:
        """Whether new tokens can be had without a person."""
        return self.grant == Grant.CLIENT or bool(self.tokens.refresh_token)

    def refreshed(self, tokens: OAuthToken, now: float) -> Login:
        """Return the login with new tokens; what an answer leaves out stays (RFC 6749, section 6)."""
        kept = {name: getattr(self.tokens, name) for name in ("refresh_token", "scope") if not getattr(tokens, name)}
        return replace(self, tokens=tokens.model_copy(update=kept), ends_at=end_of(tokens, now))


def end_of(tokens: OAuthToken, now: float) -> float | None:
    """Return when an access token obtained now ends, in seconds since the epoch."""
    return None if tokens.expires_in is None else now + tokens.expires_in


class LoginFile:
    """The file of one server's login. Its methods block, but for `exclusive`."""

    def __init__(self, data_dir: Path, server: str) -> None:
        self.path = data_dir / "mcp" / f"{server}.oauth.json"

    def stamp(self) -> tuple[int, int] | None:
        """Return what changes whenever the file does; None while there is none."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def load(self) -> Login | None:
        """Return the login; None without one, or with one that cannot be read."""
        try:
            body: Json = orjson.loads(self.path.read_bytes())
            body["client"] = OAuthClientInformationFull.model_validate(body["client"])
            body["tokens"] = OAuthToken.model_validate(body["tokens"])
            return Login(**body)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as exc:
            # Not the error's text: it may quote the file.
            _log.warning("login of an mcp server cannot be read", path=str(self.path), error=type(exc).__name__)
            return None

    def save(self, login: Login) -> None:
        """Keep a login. Raises OSError."""
        body = {slot: getattr(login, slot) for slot in Login.__slots__}
        for name in ("client", "tokens"):
            body[name] = body[name].model_dump(mode="json", exclude_none=True)
        write_private(self.path, orjson.dumps(body))

    def save_refreshed(self, login: Login) -> bool:
        """Keep refreshed tokens, unless a person has logged in anew meanwhile; returns whether they are kept."""
        known = self.load()
        if known is not None and known.id != login.id:
            return False
        self.save(login)
        return True

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Keep other processes from refreshing; waits for them up to a limit, after which it goes on all the same.

        A refresh token often works once: two that use it side by side lose the login.
        """
        path = self.path.with_suffix(".lock")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(round(_LOCK_LIMIT_S / _LOCK_PAUSE_S)):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_LOCK_PAUSE_S)
            yield
        finally:
            os.close(descriptor)  # and the lock with it

    def forget(self) -> bool:
        """Remove the login; returns whether there was one."""
        if self.stamp() is None:
            return False
        self.path.unlink(missing_ok=True)
        return True


class StoredLogin(httpx2.Auth):
    """Sends a login's access token along and refreshes it. One for all sessions of a server, so that one refreshes."""

    def __init__(self, server: str, url: str, file: LoginFile) -> None:
        self._server = server
        self._url = url
        self._file = file
        self._stamp: tuple[int, int] | None = None
        self._login: Login | None = None
        self._refreshing = asyncio.Lock()

    def is_there(self) -> bool:
        """Whether somebody has logged in at this address. Blocks."""
        self._look()
        return self._login is not None

    def _look(self) -> None:
        """Read the file if it has changed. Blocks."""
        stamp = self._file.stamp()
        if stamp == self._stamp:
            return
        login = self._file.load() if stamp is not None else None
        # Tokens are for one server: one that the configuration now has under this name does not get them.
        self._login = login if login is not None and login.url == self._url else None
        self._stamp = stamp

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `httpx2.Auth`. Raises `LoginNeeded`."""
        await asyncio.to_thread(self._look)
        used = self._current()
        if not used.is_over(time.time()) or not used.is_renewable():
            self._put(request, used)
            response = yield request
            if response.status_code != HTTPStatus.UNAUTHORIZED or not used.is_renewable():
                await self._note_lack(used, response)
                return
        async with self._refreshing, self._file.exclusive():
            await asyncio.to_thread(self._look)
            login = self._current()
            if login.tokens.access_token == used.tokens.access_token:  # nobody else has refreshed it meanwhile
                answer = yield self._refresh_request(login)
                await answer.aread()
                login = await self._refreshed(login, answer)
        self._put(request, login)
        response = yield request
        await self._note_lack(login, response)

    async def _note_lack(self, used: Login, response: httpx2.Response) -> None:
        """Remember what a server misses in the login, so that the next one asks for it (RFC 6750, section 3.1)."""
        if response.status_code != HTTPStatus.FORBIDDEN:
            return
        if extract_field_from_www_auth(response, "error") != "insufficient_scope":
            return
        scope = extract_scope_from_www_auth(response) or ""
        if (mark := current_mark.get()) is not None:
            mark.lacks = scope
        async with self._refreshing, self._file.exclusive():
            await asyncio.to_thread(self._look)  # it may have been refreshed since
            login = self._login
            lacks = union_scopes(login.lacks, scope) if login is not None else None
            if login is not None and login.id == used.id and lacks and lacks != login.lacks:
                await asyncio.shield(asyncio.to_thread(self._keep, replace(login, lacks=lacks)))

    def _current(self) -> Login:
        if self._login is None:
            raise LoginNeeded(self._server, "nobody is logged in")
        return self._login

    @staticmethod
    def _put(request: httpx2.Request, login: Login) -> None:
        request.headers["Authorization"] = f"Bearer {login.tokens.access_token}"

    def _refresh_request(self, login: Login) -> httpx2.Request:
        data = {"client_id": login.client.client_id, **({"resource": login.resource} if login.resource else {})}
        if login.tokens.refresh_token:
            data |= {"grant_type": Grant.REFRESH, "refresh_token": login.tokens.refresh_token}
        else:
            data |= {"grant_type": Grant.CLIENT, **({"scope": login.tokens.scope} if login.tokens.scope else {})}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept-Encoding": "identity"}
        context = OAuthContext(
            server_url=login.url,
            client_metadata=OAuthClientMetadata(redirect_uris=login.client.redirect_uris),
            storage=_NoStorage(),
            redirect_handler=None,
            callback_handler=None,
            client_info=login.client,
        )
        data, headers = context.prepare_token_auth(data, headers)
        return httpx2.Request("POST", login.token_endpoint, data=data, headers=headers)

    async def _refreshed(self, login: Login, answer: httpx2.Response) -> Login:
        """Take the answer to a refresh request; returns the login that goes on."""
        if answer.status_code in _REFUSALS:
            _log.warning("login at an mcp server is over", server=self._server, status=answer.status_code)
            if (mark := current_mark.get()) is not None:
                mark.is_unsent = True  # without a good token the server did not look at the request
            raise LoginNeeded(self._server, "the login is over: its tokens are not refreshed any more")
        try:
            tokens = OAuthToken.model_validate_json(answer.content)
        except ValidationError:  # down, or behind something that is: the login may well be good
            raise httpx2.ReadError(
                f"the authorization server answered {answer.status_code} to a refresh of the login"
            ) from None
        new = login.refreshed(tokens, time.time())
        if await asyncio.shield(asyncio.to_thread(self._keep, new)):
            self._login = new
        return self._current()

    def _keep(self, login: Login) -> bool:
        """Write refreshed tokens. Blocks. What cannot be written is used all the same, until the process ends."""
        try:
            kept = self._file.save_refreshed(login)
        except OSError as exc:
            _log.error("refreshed login cannot be kept", server=self._server, error=os.strerror(exc.errno or 0))
            return True
        if kept:
            self._login, self._stamp = login, self._file.stamp()
        else:
            self._look()
        return kept


class _NoStorage:
    """For the SDK's context, of which only the form of requests is used."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


class Logins:
    """The logins of all servers of one process."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._known: dict[tuple[str, str], StoredLogin] = {}

    def of(self, server: str, section: McpSection) -> StoredLogin | None:
        """See `asks.OAuthOf`: None while nobody has logged in. Blocks."""
        if section.auth != "oauth" or section.url is None:
            return None
        key = (server, section.url)
        if key not in self._known:
            self._known[key] = StoredLogin(server, section.url, LoginFile(self._data_dir, server))
        return self._known[key] if self._known[key].is_there() else None
