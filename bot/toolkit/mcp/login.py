"""Logging in at a server by OAuth: authorization code with PKCE, by a person with a browser anywhere.

The SDK's provider does the protocol, with what `authorization` adds. Here is what it leaves open: the person gets the
address to open, and the redirect comes to a port of this machine's loopback, or, where the browser runs elsewhere, as
a pasted address. Each login registers anew, since the port is another one each time.

A part of the SDK, and imported only for `dutiful mcp login`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

from bot.config import McpSection
from bot.errors import DutifulError
from bot.messages import new_id
from bot.toolkit.mcp.authorization import Authorization
from bot.toolkit.mcp.client import open_session
from bot.toolkit.mcp.login_file import Login, LoginFile, end_of
from bot.toolkit.mcp.offers import Offer
from bot.toolkit.mcp.session import CallFailed, SessionFailed, SessionSpec, Signals
from bot.web.resolver import Resolver, SystemResolver

PERSON_LIMIT_S = 10 * 60.0
"""How long the person may take; codes end after ten minutes at most (RFC 6749, section 4.1.2)."""

_WORK_LIMIT_S = 60.0  # for all that is not waiting for the person
_CLOSE_S = 1.0
_PATH = "/callback"
_PAGE = "<!doctype html><title>dutiful</title><p>{words}</p>"

Say = Callable[[str], None]
Pasted = Callable[[], AsyncIterator[str]]
"""Yields the lines that the person pastes; may end early, when nobody can."""

Show = Callable[[str], Awaitable[None]]
"""Opens an address in a browser, in place of the person. Raises OAuthFlowError."""


class LoginFailed(DutifulError):
    """No login came about; says why in one sentence."""


class _Answers:
    """What comes back from the authorization server, by redirect or pasted; only what carries our state counts."""

    def __init__(self) -> None:
        self._state = ""
        self._result: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    def expect(self, address: str) -> None:
        """Wait for the answer to this authorization request, the first or one more: a server may want more at once."""
        self._result = asyncio.get_running_loop().create_future()
        self._state = _query(address).get("state", "")

    def take(self, query: Mapping[str, str]) -> bool:
        """Take the query of a redirect; False when it does not belong to this login."""
        if not self._state or not secrets.compare_digest(_bytes(query.get("state", "")), _bytes(self._state)):
            return False
        if not self._result.done():
            self._result.set_result(query)
        return True

    async def result(self) -> AuthorizationCodeResult:
        """Return what the SDK wants of the answer. Raises OAuthFlowError when it is a refusal."""
        query = await self._result
        if "error" in query:
            words = f": {query['error_description']}" if query.get("error_description") else ""
            raise OAuthFlowError(f"the authorization server refused with {query['error']}{words}")
        return AuthorizationCodeResult(code=query.get("code", ""), state=query.get("state"), iss=query.get("iss"))


class _NewLogin:
    """The SDK's storage for one login: begins empty, and keeps in the file what it obtains."""

    def __init__(self, file: LoginFile, url: str) -> None:
        self._file = file
        self._url = url
        self.provider: Authorization | None = None
        self.is_done = False
        self._client: OAuthClientInformationFull | None = None
        self._id = new_id("login-", 12)

    async def get_tokens(self) -> OAuthToken | None:
        """See the SDK's TokenStorage."""
        return None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """See the SDK's TokenStorage."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """See the SDK's TokenStorage."""
        self._client = client_info

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep the login, with all that refreshing it needs."""
        assert self.provider is not None
        assert self._client is not None
        context = self.provider.context
        metadata = context.oauth_metadata
        if metadata is not None and metadata.token_endpoint is not None:
            endpoint = str(metadata.token_endpoint)
        else:
            endpoint = context.get_authorization_base_url(self._url) + "/token"  # where the SDK looks, too
        login = Login(
            id=self._id,
            url=self._url,
            client=self._client,
            tokens=tokens,
            token_endpoint=endpoint,
            resource=context.get_resource_url()
            if context.should_include_resource_param(context.protocol_version)
            else "",
            ends_at=end_of(tokens, time.time()),
            grant=self.provider.grant,
            asked_as=self.provider.asked_as,
            issuer="" if metadata is None else str(metadata.issuer),
        )
        async with self._file.exclusive():  # whoever refreshes the login before must not write over it
            await asyncio.shield(asyncio.to_thread(self._file.save, login))
        self.is_done = True


async def log_in(
    server: str,
    section: McpSection,
    *,
    data_dir: Path,
    workspace: Path,
    say: Say,
    pasted: Pasted,
    resolver: Resolver | None = None,
    person_limit_s: float = PERSON_LIMIT_S,
    show: Show | None = None,
    authorization: Callable[..., Authorization] = Authorization,
) -> Offer:
    """Log in at a server and return what it offers; the login is in the data directory then.

    Permissions that the server missed in the login before are asked for along with those it names now. `show` opens the
    address in place of the person, `authorization` makes the provider.

    Raises:
        LoginFailed: refused, given up, out of time, or the server cannot be reached.
    """
    if section.auth != "oauth" or section.url is None:
        raise LoginFailed(f'[mcp.{server}] has no auth = "oauth"; there is nothing to log in to')
    file = LoginFile(data_dir, server)
    storage = _NewLogin(file, section.url)
    before = await asyncio.to_thread(file.load)
    answers = _Answers()
    async with _listening(answers) as redirect_uri:

        async def open_page(address: str) -> None:
            answers.expect(address)
            if show is not None:
                await show(address)
                return
            say(f"Open this address in a browser and agree:\n\n{address}\n")
            say(
                "Waiting. If the browser runs on another machine, it cannot show its last page: paste its address here."
            )

        async def come_back() -> AuthorizationCodeResult:
            return await _first_answer(answers, pasted, say, person_limit_s)

        provider = storage.provider = authorization(
            section,
            storage,
            redirect_uri=redirect_uri,
            scopes=_missed(before, section.url),
            show=open_page,
            come_back=come_back,
        )
        spec = SessionSpec(
            name=server,
            section=section,
            workspace=workspace,
            resolver=resolver or SystemResolver(),
            oauth=lambda: provider,
        )
        offer = await _connected(spec, person_limit_s + _WORK_LIMIT_S)
    if not storage.is_done:
        raise LoginFailed(f"the server {server} asked for no login; nothing was kept")
    return offer


def _missed(before: Login | None, url: str) -> str:
    """Return the scopes of the login before and those that the server missed in it; "" when it missed none."""
    if before is None or before.url != url or not before.lacks:
        return ""
    return union_scopes(before.tokens.scope, before.lacks) or ""


async def _connected(spec: SessionSpec, limit_s: float) -> Offer:
    """Connect, which brings about the login, and return what the server offers."""
    try:
        async with asyncio.timeout(limit_s), open_session(spec, Signals()) as session:
            return await session.list_all()
    except TimeoutError:
        raise LoginFailed(f"no login within {limit_s:g} s") from None
    except (SessionFailed, CallFailed) as exc:
        raise LoginFailed(f"the login did not come about: {exc}") from None


async def _first_answer(answers: _Answers, pasted: Pasted, say: Say, limit_s: float) -> AuthorizationCodeResult:
    """Wait for the redirect, or for its address to be pasted."""

    async def read() -> None:
        async for line in pasted():
            if line.strip() and not answers.take(_query(line.strip())):
                say("That is not the address this login ends at. Paste the whole address of the browser's last page.")

    reading = asyncio.create_task(read(), name="pasted addresses")
    try:
        async with asyncio.timeout(limit_s):
            return await answers.result()
    except TimeoutError:
        raise OAuthFlowError(f"no answer within {limit_s:g} s") from None
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


@asynccontextmanager
async def _listening(answers: _Answers) -> AsyncIterator[str]:
    """Listen on a free port of loopback for the redirect; gives its address (RFC 8252, section 7.3)."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        taken = request.path == _PATH and answers.take(dict(request.query))
        words = "You can close this page." if taken else "This is not the page of a login that goes on."
        body = _PAGE.format(words=words)
        return web.Response(text=body, content_type="text/html", status=200 if taken else 400)

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=_CLOSE_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}{_PATH}"
    finally:
        await runner.cleanup()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # a terminal's half letters are no reason to stop


def _query(address: str) -> dict[str, str]:
    """Return the first value of each field of an address's query; {} for what is no address."""
    try:
        return {key: values[0] for key, values in parse_qs(urlsplit(address).query).items()}
    except ValueError:
        return {}
