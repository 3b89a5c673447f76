"""Living on a login where the authorization server, other processes or the configuration make it hard."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

from bot.config import McpSection
from bot.toolkit.mcp.authorization import Authorization
from bot.toolkit.mcp.login import LoginFailed
from bot.toolkit.mcp.login_file import LoginFile
from bot.toolkit.mcp.server_calls import McpCallError, ServerState
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_server import McpServer
from tests.support.mcp_login import Person, agrees, refreshes, section_of
from tests.support.mcp_service import LoggedInBot as Bot


async def settled_and_expired(bot: Bot, server: McpServer, oauth: McpOAuth) -> None:
    """Let the next call be the first request that finds its token expired."""
    await bot.echo("a")
    await server.wait_for(lambda: server.record.received("subscriptions/listen"))
    oauth.expire_tokens()


def with_client(server: McpServer, client: str, secret: str, **more: str) -> McpSection:
    values = section_of(server).model_dump(exclude_unset=True)
    return McpSection.model_validate(
        {**values, "oauth_client_id": client, "oauth_client_secret": secret, **more},
    )


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, "down"),
        (503, '{"error": "temporarily_unavailable"}'),
        (429, "slow down"),
        (400, '{"error": "temporarily_unavailable"}'),
        (403, "<html>the firewall does not like you</html>"),
        (307, ""),
        (200, "<html>maintenance</html>"),
        (200, ""),
    ],
)
async def test_a_refresh_that_fails_for_now_leaves_the_login(
    status: int, body: str, server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        await settled_and_expired(bot, server, oauth)
        oauth.refresh_answers = [(status, body)] * 99
        with pytest.raises(McpCallError, match=f"answered {status} to a refresh") as failed:
            await bot.echo("b")
        assert not failed.value.wants_login
        oauth.refresh_answers.clear()
        assert await bot.echo("c") == "c"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, '{"error": "bad_refresh_token", "error_description": "x"}'),  # GitHub's way
        (200, '{"error": "invalid_grant"}'),
        (400, '{"error": "invalid_grant"}'),
        (400, ""),
        (401, '{"error": "invalid_client"}'),
        (401, "no"),
    ],
)
async def test_a_refresh_that_is_refused_wants_a_login(
    status: int, body: str, server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        await settled_and_expired(bot, server, oauth)
        oauth.refresh_answers = [(status, body)] * 9
        with pytest.raises(McpCallError, match="`dutiful mcp login desk`"):
            await bot.echo("b")


@pytest.mark.parametrize("life", [0, -1, 10**400, 1e300, "3600", "soon", "", 59.9, None, True, [1]])
async def test_a_life_that_is_no_number_of_seconds_costs_no_token(
    life: Any, server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.says = {"expires_in": life}
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        for text in ("a", "b", "c"):
            assert await bot.echo(text) == text
        before = refreshes(oauth)
        oauth.expire_tokens()
        assert await bot.echo("d") == "d"
        assert (before, refreshes(oauth)) == (0, 1)
    async with Bot(tmp_path, section_of(server)) as bot:
        assert await bot.echo("e") == "e"


async def test_a_call_that_is_stopped_in_the_middle_of_a_refresh_loses_no_login(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        await settled_and_expired(bot, server, oauth)
        oauth.hold = asyncio.Event()
        call = asyncio.create_task(bot.echo("b"))
        await oauth.held.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        oauth.hold.set()
        oauth.hold = None
        assert await bot.echo("c") == "c"
    assert refreshes(oauth) == 1


async def test_closing_waits_for_a_refresh_that_is_under_way(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        await settled_and_expired(bot, server, oauth)
        oauth.hold = asyncio.Event()
        call = asyncio.create_task(bot.echo("b"))
        await oauth.held.wait()
        call.cancel()
        closing = asyncio.create_task(bot.manager.close())
        await asyncio.sleep(0.05)
        oauth.hold.set()
        await closing
        await asyncio.gather(call, return_exceptions=True)
    oauth.hold = None
    async with Bot(tmp_path, section_of(server)) as bot:
        assert await bot.echo("c") == "c"


async def test_a_logout_in_the_middle_of_a_refresh_is_a_logout(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    file = LoginFile(tmp_path, "desk")
    async with Bot(tmp_path, section_of(server)) as bot:
        await settled_and_expired(bot, server, oauth)
        oauth.hold = asyncio.Event()
        call = asyncio.create_task(bot.echo("b"))
        await oauth.held.wait()
        leaving = asyncio.create_task(file.forget())
        await asyncio.sleep(0.1)
        oauth.hold.set()
        assert await leaving
        await asyncio.gather(call, return_exceptions=True)
        assert file.load() is None
        with pytest.raises(McpCallError, match="login"):
            await bot.echo("c")
    assert file.load() is None


async def test_a_login_in_the_middle_of_a_refresh_is_the_one_that_stays(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    file = LoginFile(tmp_path, "desk")
    old = file.load()
    assert old is not None
    async with Bot(tmp_path, section_of(server)) as bot:
        await settled_and_expired(bot, server, oauth)
        oauth.hold = asyncio.Event()
        call = asyncio.create_task(bot.echo("b"))
        await oauth.held.wait()
        again = asyncio.create_task(Person(agrees).logs_in(server, tmp_path))
        await asyncio.sleep(0.1)
        oauth.hold.set()
        await again
        await call
        assert await bot.echo("c") == "c"
    new = file.load()
    assert new is not None
    assert new.id != old.id


async def test_tokens_of_another_client_are_not_used(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    oauth.secrets = {"first": "one", "second": "two"}
    await Person(agrees).logs_in(server, tmp_path, with_client(server, "first", "one"))
    seen = len(server.record.events)
    async with Bot(tmp_path, with_client(server, "second", "two")) as bot:
        await bot.comes_to(ServerState.LOGIN)
    assert len(server.record.events) == seen
    async with Bot(tmp_path, with_client(server, "first", "one")) as bot:
        assert await bot.echo("a") == "a"


async def test_tokens_of_another_issuer_are_not_used(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    oauth.secrets = {"first": "one"}
    await Person(agrees).logs_in(server, tmp_path, with_client(server, "first", "one"))
    seen = len(server.record.events)
    other = with_client(server, "first", "one", oauth_issuer="https://login.example.org")
    async with Bot(tmp_path, other) as bot:
        await bot.comes_to(ServerState.LOGIN)
    assert len(server.record.events) == seen
    async with Bot(tmp_path, with_client(server, "first", "one", oauth_issuer=server.origin)) as bot:
        assert await bot.echo("a") == "a"


async def test_a_secret_that_was_replaced_in_the_configuration_refreshes(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.secrets = {"first": "one"}
    await Person(agrees).logs_in(server, tmp_path, with_client(server, "first", "one"))
    oauth.secrets = {"first": "two"}
    oauth.expire_tokens()
    async with Bot(tmp_path, with_client(server, "first", "two")) as bot:
        assert await bot.echo("a") == "a"


async def test_an_answer_that_is_no_token_is_not_quoted_with_its_secrets(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.says = {"access_token": ["hush-hush"]}
    person = Person(agrees)
    with pytest.raises(LoginFailed) as failed:
        await person.logs_in(server, tmp_path)
    assert "hush" not in str(failed.value)


async def test_a_server_that_refuses_each_refreshed_token_is_not_asked_without_end(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)

    class NoToken(dict[str, str]):
        def __contains__(self, token: object) -> bool:
            return False

    oauth.access_tokens = NoToken()
    async with Bot(tmp_path, section_of(server)) as bot:
        await bot.comes_to(ServerState.LOGIN)
        before = refreshes(oauth)
        with pytest.raises(McpCallError, match="login"):
            await bot.echo("a")
    assert refreshes(oauth) == before <= 2


class _Nowhere:
    """A storage of the SDK's that keeps nothing."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        raise AssertionError(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


async def _nobody(*_: object) -> AuthorizationCodeResult:
    raise AssertionError("nobody had to be asked")


@pytest.mark.parametrize(
    "replaced",
    [
        {"token_endpoint": "http://login.example.org/token"},
        {"registration_endpoint": "http://login.example.org/register"},
        {"authorization_endpoint": "http://login.example.org/authorize"},
        {"authorization_servers": ["http://login.example.org"]},
    ],
)
async def test_a_login_at_an_encrypted_server_sends_nothing_in_the_clear(replaced: dict[str, Any]) -> None:
    address = "https://desk.example.org/mcp"
    section = McpSection.model_validate(
        {"url": address, "auth": "oauth", "oauth_client_id": "known", "oauth_client_secret": "secret"}
        if "token_endpoint" in replaced
        else {"url": address, "auth": "oauth"}
    )
    provider = Authorization(
        section,
        _Nowhere(),
        redirect_uri="http://127.0.0.1:1/callback",
        scopes="",
        show=_nobody,  # type: ignore[arg-type]
        come_back=_nobody,
    )
    flow = provider.async_auth_flow(httpx2.Request("POST", address))
    asked = [await flow.__anext__()]
    with pytest.raises(OAuthFlowError, match=r"http://login\.example\.org, which is not encrypted"):  # noqa: PT012
        while len(asked) < 9:
            asked.append(await flow.asend(_described(asked[-1], replaced)))
    assert {request.url.scheme for request in asked} == {"https"}


def _described(request: httpx2.Request, replaced: dict[str, Any]) -> httpx2.Response:
    """Answer as a server whose metadata have something replaced."""
    login = "https://login.example.org"
    if request.url.path == "/mcp":
        return httpx2.Response(401, request=request)
    if request.url.path == "/register":
        return httpx2.Response(201, json={"client_id": "x"}, request=request)
    metadata = {
        "resource": "https://desk.example.org/mcp",
        "authorization_servers": [login],
        "issuer": login,
        "authorization_endpoint": f"{login}/authorize",
        "token_endpoint": f"{login}/token",
        "registration_endpoint": f"{login}/register",
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": ["code"],
    }
    return httpx2.Response(200, json=metadata | replaced, request=request)
