"""The scripted authorization server against the SDK's OAuth client: consent, refresh, revocation, refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import aiohttp
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.platforms import mcp_scripts
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_server import McpServer
from tests.platforms.mcp_ways import LIMIT_S, first_text

CALLBACK = "http://127.0.0.1:1/callback"  # only read from the redirect, never visited


class Person:
    """Somebody with a browser, and the client's store of tokens."""

    def __init__(self) -> None:
        self.visits = 0
        self._query: dict[str, list[str]] = {}
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def visit(self, url: str) -> None:
        """Open the page of consent and keep what it redirects to."""
        self.visits += 1
        async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as answer:
            self._query = parse_qs(urlsplit(answer.headers["Location"]).query)

    async def come_back(self) -> AuthorizationCodeResult:
        """Return what the redirect carried."""
        first = {key: values[0] for key, values in self._query.items()}
        return AuthorizationCodeResult(code=first.get("code", ""), state=first.get("state"), iss=first.get("iss"))

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


@asynccontextmanager
async def client_of(server: McpServer, person: Person) -> AsyncIterator[Client]:
    """Connect with the SDK's OAuth client on behalf of a person."""
    auth = OAuthClientProvider(
        server.url,
        OAuthClientMetadata(redirect_uris=[AnyUrl(CALLBACK)], token_endpoint_auth_method="none"),
        person,
        person.visit,
        person.come_back,
    )
    async with (
        httpx2.AsyncClient(auth=auth, timeout=LIMIT_S) as http,
        Client(streamable_http_client(server.url, http_client=http), read_timeout_seconds=LIMIT_S) as client,
    ):
        yield client


@pytest.fixture
def oauth() -> McpOAuth:
    return McpOAuth()


@pytest.fixture
async def server(oauth: McpOAuth) -> AsyncIterator[McpServer]:
    async with McpServer(mcp_scripts.workshop(), oauth=oauth) as server:
        yield server


async def test_consent_gives_a_token_that_works_and_lasts_over_connections(server: McpServer, oauth: McpOAuth) -> None:
    person = Person()
    for _ in range(2):
        async with client_of(server, person) as client:
            assert first_text(await client.call_tool("echo", {"text": "a"})) == "a"
    assert person.visits == 1
    assert len(oauth.clients) == 1
    assert oauth.authorizations[0]["code_challenge_method"] == "S256"


async def test_a_token_that_says_it_is_over_is_refreshed_without_the_person(server: McpServer, oauth: McpOAuth) -> None:
    oauth.token_life_s = -1
    person = Person()
    async with client_of(server, person) as client:
        await client.call_tool("echo", {"text": "a"})
    assert person.visits == 1
    assert "refresh_token" in {form["grant_type"] for form in oauth.token_requests}


async def test_a_revoked_token_needs_the_person_again(server: McpServer, oauth: McpOAuth) -> None:
    person = Person()
    async with client_of(server, person) as client:
        await client.call_tool("echo", {"text": "a"})
        oauth.revoke_all()
        await client.call_tool("echo", {"text": "b"})
    assert person.visits == 2
    assert server.record.of("unauthorized")


async def test_a_person_who_refuses_leaves_the_client_outside(server: McpServer, oauth: McpOAuth) -> None:
    oauth.denies = True
    with pytest.raises(ExceptionGroup):
        async with client_of(server, Person()):
            pass
    assert not oauth.access_tokens
    assert not server.record.received("tools/list")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"code_verifier": "another"}, "invalid_grant"),
        ({"code": "another"}, "invalid_grant"),
        ({"resource": "https://example.org/"}, "invalid_target"),
        ({"client_id": "another"}, "invalid_client"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
    ],
)
async def test_a_code_is_worth_nothing_without_its_verifier_client_and_resource(
    wrong: dict[str, str], error: str, server: McpServer, oauth: McpOAuth
) -> None:
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636, appendix B
    async with aiohttp.ClientSession(server.origin) as http:
        await http.post("/register", json={"redirect_uris": [CALLBACK]})
        query = {
            "response_type": "code",
            "client_id": "client-1",
            "redirect_uri": CALLBACK,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": server.url,
        }
        async with http.get("/authorize", params=query, allow_redirects=False) as redirect:
            code = parse_qs(urlsplit(redirect.headers["Location"]).query)["code"][0]
        good = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "client_id": "client-1",
            "code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
            "resource": server.url,
        }
        async with http.post("/token", data=good | wrong) as refused:
            assert (refused.status, (await refused.json())["error"]) == (400, error)
        assert not oauth.access_tokens
