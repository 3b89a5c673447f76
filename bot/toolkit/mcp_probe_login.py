"""How `mcp_probe` logs in where a server wants it: the whole of OAuth, with a browser that nobody sits at.

The login itself is the product's (`mcp.login`), and calls are made with what it leaves (`mcp.oauth`). In place of the
person the address is opened here and its redirects are followed: this works where an authorization server agrees
without asking, as one does that is made for tests. A page that wants to be read is refused; then log in with
`dutiful mcp login`.

Who the probe is to the authorization server comes from the environment, in the form that the MCP conformance suite
gives it to any client (https://github.com/modelcontextprotocol/conformance, read 2026-11-30). `MCP_CONFORMANCE_CONTEXT`
is a JSON object with

- `client_id` and `client_secret`, perhaps with the `issuer` that they are for; or
- `client_id`, `private_key_pem` and `signing_algorithm` (RFC 7523, section 2.2); or
- what an enterprise's identity provider wants: `idp_...` (RFC 8693, and RFC 7523, section 2.1); or
- `client_id` and `valid_jwt`, a workload's own assertion.

Without any the probe registers. But a run of that suite, known by `MCP_CONFORMANCE_SCENARIO`, takes its clients for the
one that its metadata document describes. `toolCalls` of the same object are calls to make, each with `name` and
`arguments`, in place of those with the smallest arguments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.auth import OAuthFlowError, TokenStorage
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE
from pydantic import BaseModel, Field, ValidationError

from bot.config import McpSection
from bot.toolkit.mcp.aside import Aside
from bot.toolkit.mcp.authorization import FORM, Authorization
from bot.toolkit.mcp.login import log_in
from bot.toolkit.mcp.login_file import Grant
from bot.toolkit.mcp.network_door import NetworkDoor
from bot.toolkit.mcp.oauth import Logins
from bot.toolkit.mcp.session import Signals
from bot.web.resolver import SystemResolver

CONTEXT = "MCP_CONFORMANCE_CONTEXT"
SCENARIO = "MCP_CONFORMANCE_SCENARIO"
SUITE_CLIENT = "https://conformance-test.local/client-metadata.json"
"""Who the suite takes a client under test for, where an authorization server knows clients by their addresses."""

_MOST_LOGINS = 2  # the first, and one for what a server missed in it: more would go round in a circle
_MOST_REDIRECTS = 10
_PATIENCE_S = 30.0
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - a name of RFC 8693
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


class ToolCall(BaseModel):
    """A call to make, with its arguments."""

    name: str
    arguments: dict[str, Any]


class ProbeIdentity(BaseModel):
    """Who the probe is to an authorization server; see the module. What is not known here is left out."""

    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    private_key_pem: str | None = None
    signing_algorithm: str = "RS256"
    idp_client_id: str | None = None
    idp_id_token: str | None = None
    idp_token_endpoint: str | None = None
    valid_jwt: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list, alias="toolCalls")


def identity_of(environment: Mapping[str, str]) -> ProbeIdentity:
    """Return who the environment says that the probe is. Raises ValueError."""
    try:
        identity = ProbeIdentity.model_validate_json(environment.get(CONTEXT) or "{}")
    except ValidationError as error:
        raise ValueError(f"{CONTEXT}: {error.errors(include_input=False)[0]['msg']}") from None
    if identity.client_id is None and SCENARIO in environment:
        return identity.model_copy(update={"client_id": SUITE_CLIENT})
    return identity


class _ProbeAuthorization(Authorization):
    """Adds the grants that need a key, or somebody else's word, in place of a person or a secret."""

    def __init__(self, section: McpSection, storage: TokenStorage, *, identity: ProbeIdentity, **rest: Any) -> None:
        super().__init__(section, storage, **rest)
        self._identity = identity

    async def without_person(self) -> httpx2.Request | None:
        """See `Authorization`; a signed statement comes before a secret."""
        mine = self._identity
        if mine.private_key_pem and self.grants(Grant.CLIENT):
            signed = await self._signed(mine.private_key_pem)
            return self.token_request(
                {"grant_type": Grant.CLIENT, "client_assertion_type": _ASSERTION, "client_assertion": signed}
            )
        if mine.idp_id_token and self.grants(JWT_BEARER_GRANT_TYPE):
            return self.token_request({"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": await self._granted_by_idp()})
        if mine.valid_jwt and self.grants(JWT_BEARER_GRANT_TYPE):
            return self.token_request(
                {
                    "grant_type": JWT_BEARER_GRANT_TYPE,
                    "assertion": mine.valid_jwt,
                    "client_id": mine.client_id or "",
                }
            )
        return await super().without_person()

    async def _signed(self, key: str) -> str:
        # It imports a library of cryptography, which takes a while: only here.
        from mcp.client.auth.extensions.client_credentials import SignedJWTParameters

        mine = self._identity
        name = mine.client_id or ""
        statement = SignedJWTParameters(
            issuer=name, subject=name, signing_key=key, signing_algorithm=mine.signing_algorithm
        )
        return await statement.create_assertion_provider()(self._audience)

    async def _granted_by_idp(self) -> str:
        """Exchange the person's id token at the enterprise's identity provider for a grant at this server."""
        mine = self._identity
        form = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _ID_JAG,
            "audience": self._audience,
            "resource": self.context.get_resource_url(),
            "subject_token": mine.idp_id_token or "",
            "subject_token_type": _ID_TOKEN,
            "client_id": mine.idp_client_id or "",
        }
        async with _http_client() as client:
            answer = await client.post(mine.idp_token_endpoint or "", data=form, headers=FORM)
        try:
            return _Exchanged.model_validate_json(answer.content).access_token
        except ValidationError:
            raise OAuthFlowError(f"the identity provider answered {answer.status_code} to a token exchange") from None

    @property
    def _audience(self) -> str:
        assert self.context.oauth_metadata is not None  # `grants` has looked into it
        return str(self.context.oauth_metadata.issuer)


class _Exchanged(BaseModel):
    access_token: str


class ProbeLogins:
    """See `asks.OAuthOf`; before a login it sends requests as they are, so that a server that wants none is served."""

    def __init__(self, data_dir: Path, identity: ProbeIdentity) -> None:
        self._data_dir = data_dir
        self._identity = identity
        self._logins = Logins(data_dir)
        self._left = _MOST_LOGINS

    def __call__(self, server: str, section: McpSection) -> httpx2.Auth:
        """Return what sends the login along. Blocks."""
        return self._logins.of(server, section) or httpx2.Auth()

    async def log_in(self, server: str, section: McpSection) -> bool:
        """Log in, if that may help; returns whether it was tried.

        Raises:
            LoginFailed: it was tried and did not come about.
        """
        if section.auth != "oauth" or not self._left:
            return False
        self._left -= 1
        await log_in(
            server,
            section,
            data_dir=self._data_dir,
            workspace=self._data_dir,
            say=lambda _: None,
            pasted=_nothing,
            person_limit_s=_PATIENCE_S,
            show=_browse,
            authorization=partial(_ProbeAuthorization, identity=self._identity),
        )
        return True


async def _browse(address: str) -> None:
    """Open an address and follow its redirects, to the page that waits for the last one.

    Raises:
        OAuthFlowError: they end somewhere else.
    """
    wanted = httpx2.URL(address).params.get("redirect_uri", "")
    async with _http_client() as client:
        try:
            page = await client.get(address, follow_redirects=True)
        except httpx2.HTTPError as error:
            raise OAuthFlowError(f"the authorization page cannot be opened: {error}") from None
    if str(page.url.copy_with(query=None)) != wanted:
        raise OAuthFlowError(f"the authorization page wants to be read by a person (HTTP {page.status_code})")


def _http_client() -> httpx2.AsyncClient:
    door = NetworkDoor(SystemResolver(), Signals(), Aside(), allow_private=True)
    headers = {"accept-encoding": "identity"}
    return httpx2.AsyncClient(transport=door, headers=headers, timeout=_PATIENCE_S, max_redirects=_MOST_REDIRECTS)


async def _nothing() -> AsyncIterator[str]:
    """See `login.Pasted`: nobody is there."""
    return
    yield ""
