"""Living on the logins that `dutiful mcp login` obtained, without a person.

Obtaining one is `login`'s part, by the SDK's provider. That provider is not used to live on it: it holds its lock for
as long as a call takes, forgets when tokens end and where they are refreshed as soon as the process ends, and takes an
authorization server that is down for a revoked login. Here only refreshing is exclusive, and only a refusal ends a
login.

A part of the SDK, and therefore imported only where a server with OAuth is configured.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from bot.config import McpSection
from bot.log import get_logger
from bot.toolkit.mcp.aside import Aside
from bot.toolkit.mcp.login_file import Grant, Login, LoginFile, fields_of, tokens_in
from bot.toolkit.mcp.network_door import NetworkDoor
from bot.toolkit.mcp.session import Signals, current_mark
from bot.web.resolver import Resolver, SystemResolver

_REFRESH_S = 30.0  # how long an authorization server may take
_FINISH_S = 3.0  # how long a session that is to end waits for it, below the grace of `connection`
_REFUSALS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED})
_PASSING = frozenset({"temporarily_unavailable", "server_error", "slow_down"})  # RFC 6749, 4.1.2.1, and RFC 8628, 3.5
_log = get_logger(__name__)


class LoginNeeded(OAuthFlowError):
    """Nobody is logged in any more: only `dutiful mcp login` helps."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"{why}; run `dutiful mcp login {server}`")


class RefreshFailed(httpx2.ReadError):
    """There are no new tokens for now; the login may well be good. The text says why."""


class StoredLogin(httpx2.Auth):
    """Sends a login's access token along and refreshes it. One for all sessions of a server, so that one refreshes."""

    def __init__(self, server: str, section: McpSection, file: LoginFile, resolver: Resolver) -> None:
        self._server = server
        self._section = section
        self._file = file
        self._resolver = resolver
        self._stamp: tuple[int, int] | None = None
        self._login: Login | None = None
        self._renewal: asyncio.Task[Login] | None = None

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
        self._login = login if login is not None and login.fits(self._section) else None
        self._stamp = stamp

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `httpx2.Auth`. Raises `LoginNeeded`, `RefreshFailed`."""
        await asyncio.to_thread(self._look)
        used = self._current()
        if not used.is_over(time.time()) or not used.is_renewable():
            self._put(request, used)
            response = yield request
            if response.status_code != HTTPStatus.UNAUTHORIZED or not used.is_renewable():
                await self._note_lack(used, response)
                return
        login = await self._renewed(used)
        self._put(request, login)
        response = yield request
        await self._note_lack(login, response)

    async def _renewed(self, used: Login) -> Login:
        """Return the login with tokens other than those used.

        An answer that is on its way is waited for whatever becomes of the session: the old refresh token may be worth
        nothing any more.
        """
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(used), name=f"refresh of the login at mcp {self._server}")
            self._renewal.add_done_callback(lambda task: task.cancelled() or task.exception())  # perhaps nobody's
        renewal = self._renewal
        mark = current_mark.get()
        try:
            return await asyncio.shield(renewal)
        except asyncio.CancelledError:
            with anyio.move_on_after(_FINISH_S, shield=True):
                await asyncio.wait({renewal})
            raise
        except (LoginNeeded, RefreshFailed) as error:
            if mark is not None:  # without a good token the server did not look at the request
                mark.is_unsent = True
                mark.is_unauthorized = False
                mark.status = 0
                mark.problem = str(error)
            raise

    async def _renew(self, used: Login) -> Login:
        current_mark.set(None)  # this task is nobody's request
        async with self._file.exclusive():
            await asyncio.to_thread(self._look)
            login = self._current()
            if login.tokens.access_token != used.tokens.access_token:  # somebody else has refreshed it meanwhile
                return login
            door = NetworkDoor(self._resolver, Signals(), Aside(), allow_private=self._section.allow_private)
            try:
                async with httpx2.AsyncClient(transport=door, timeout=_REFRESH_S) as client:
                    answer = await client.send(self._refresh_request(login))
            except httpx2.HTTPError as error:
                raise RefreshFailed(f"the login could not be refreshed: {error or type(error).__name__}") from None
            return await self._refreshed(login, answer)

    async def _note_lack(self, used: Login, response: httpx2.Response) -> None:
        """Remember what a server misses in the login, so that the next one asks for it (RFC 6750, section 3.1)."""
        if response.status_code != HTTPStatus.FORBIDDEN:
            return
        if extract_field_from_www_auth(response, "error") != "insufficient_scope":
            return
        scope = extract_scope_from_www_auth(response) or ""
        if (mark := current_mark.get()) is not None:
            mark.lacks = scope
        async with self._file.exclusive():
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

    def _client(self, login: Login) -> OAuthClientInformationFull:
        """Return the client with the secret that the configuration has now."""
        secret = self._section.oauth_client_secret
        if secret is None:
            return login.client
        return login.client.model_copy(update={"client_secret": secret.get_secret_value()})

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
            client_info=self._client(login),
        )
        data, headers = context.prepare_token_auth(data, headers)
        return httpx2.Request("POST", login.token_endpoint, data=data, headers=headers)

    async def _refreshed(self, login: Login, answer: httpx2.Response) -> Login:
        """Take the answer to a refresh request; returns the login that goes on."""
        status, error = answer.status_code, fields_of(answer.content).get("error")
        is_said = isinstance(error, str) and (answer.is_success or status == HTTPStatus.FORBIDDEN)
        if (is_said or status in _REFUSALS) and error not in _PASSING:
            _log.warning("login at an mcp server is over", server=self._server, status=status)
            raise LoginNeeded(self._server, "the login is over: its tokens are not refreshed any more")
        tokens = tokens_in(answer.content) if answer.is_success else None
        if tokens is None:  # down, or behind something that is: the login may well be good
            raise RefreshFailed(f"the authorization server answered {status} to a refresh of the login")
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

    def __init__(self, data_dir: Path, resolver: Resolver | None = None) -> None:
        self._data_dir = data_dir
        self._resolver = resolver or SystemResolver()
        self._known: dict[str, tuple[McpSection, StoredLogin]] = {}

    def of(self, server: str, section: McpSection) -> StoredLogin | None:
        """See `asks.OAuthOf`: None while nobody has logged in. Blocks."""
        if section.auth != "oauth" or section.url is None:
            return None
        known, login = self._known.get(server, (None, None))
        if login is None or known != section:
            login = StoredLogin(server, section, LoginFile(self._data_dir, server), self._resolver)
            self._known[server] = section, login
        return login if login.is_there() else None
