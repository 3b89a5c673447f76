"""Logging in at servers, and living on a login: refresh, expiry, revocation, other processes."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from bot.config import McpSection
from bot.toolkit.mcp.login import LoginFailed
from bot.toolkit.mcp.login_file import LoginFile
from bot.toolkit.mcp.server_calls import McpCallError, ServerState
from tests.platforms import mcp_scripts
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_server import McpServer
from tests.support.mcp_login import Person, agrees, browse, browse_elsewhere, refreshes, section_of
from tests.support.mcp_service import LoggedInBot as Bot


def age(folder: Path) -> None:
    """Let the kept access token be out of date."""
    file = LoginFile(folder, "desk")
    body = json.loads(file.path.read_bytes())
    body["ends_at"] = time.time() - 1
    file.path.write_text(json.dumps(body))


async def test_a_login_is_kept_for_this_user_alone_and_is_enough_for_a_service(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    person = Person(agrees)
    offer = await person.logs_in(server, tmp_path)
    assert "echo" in [tool["name"] for tool in offer.tools]
    assert person.pages == [(200, "<!doctype html><title>dutiful</title><p>You can close this page.</p>")]
    path = LoginFile(tmp_path, "desk").path
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    async with Bot(tmp_path, section_of(server)) as bot:
        assert await bot.echo("a") == "a"
    (asked,) = oauth.authorizations
    assert asked["code_challenge_method"] == "S256"
    assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"
    assert next(iter(oauth.clients.values()))["client_name"] == "Dutiful"


async def test_the_redirect_may_be_pasted_where_there_is_no_browser(server: McpServer, tmp_path: Path) -> None:
    async def far_away(address: str, person: Person) -> None:
        person.lines.put_nowait("what do you mean?")
        person.lines.put_nowait(f"  {await browse_elsewhere(address)}\n")

    person = Person(far_away)
    await person.logs_in(server, tmp_path)
    assert any("not the address this login ends at" in text for text in person.said)
    assert LoginFile(tmp_path, "desk").load() is not None


async def test_only_an_answer_with_our_own_state_counts(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    async def attacked(address: str, person: Person) -> None:
        redirect = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        person.pages.append(await browse(f"{redirect}?code=evil&state=guessed"))
        person.pages.append(await browse(f"{redirect}?code=evil"))
        person.pages.append(await browse(address))

    person = Person(attacked)
    await person.logs_in(server, tmp_path)
    assert [status for status, _ in person.pages] == [400, 400, 200]
    assert "evil" not in [form.get("code") for form in oauth.token_requests]


async def test_a_refusal_is_said_and_nothing_is_kept(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    oauth.denies = True
    with pytest.raises(LoginFailed, match="access_denied"):
        await Person(agrees).logs_in(server, tmp_path)
    assert LoginFile(tmp_path, "desk").stamp() is None


async def test_a_server_that_registers_nobody_is_said(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    oauth.refuses_registration = True
    with pytest.raises(LoginFailed, match="invalid_client_metadata"):
        await Person(agrees).logs_in(server, tmp_path)


async def test_a_person_who_never_answers_is_not_waited_for_without_end(server: McpServer, tmp_path: Path) -> None:
    with pytest.raises(LoginFailed, match="no answer within"):
        await Person(lambda _address, _person: None, limit_s=0.2).logs_in(server, tmp_path)


async def test_a_server_without_login_keeps_nothing(tmp_path: Path) -> None:
    async with McpServer(mcp_scripts.workshop()) as server:
        with pytest.raises(LoginFailed, match="asked for no login"):
            await Person(agrees).logs_in(server, tmp_path)
        section = McpSection.model_validate({"url": server.url, "allow_private": True})
        with pytest.raises(LoginFailed, match="nothing to log in to"):
            await Person(agrees).logs_in(server, tmp_path, section)
    assert LoginFile(tmp_path, "desk").stamp() is None


async def test_a_service_without_login_says_what_to_do_and_goes_on_once_somebody_did(
    server: McpServer, tmp_path: Path
) -> None:
    async with Bot(tmp_path, section_of(server)) as bot:
        await bot.comes_to(ServerState.LOGIN)
        with pytest.raises(McpCallError, match="dutiful mcp login desk"):
            await bot.echo("a")
        await Person(agrees).logs_in(server, tmp_path)
        connection = bot.manager.connection("desk")
        assert connection is not None
        connection.poke()  # as the command does by the control socket
        await bot.comes_to(ServerState.READY)
        assert await bot.echo("a") == "a"


async def test_a_token_that_ran_out_while_nothing_ran_is_refreshed(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    before = LoginFile(tmp_path, "desk").load()
    age(tmp_path)
    oauth.expire_tokens()
    refused = len(server.record.of("unauthorized"))
    async with Bot(tmp_path, section_of(server)) as bot:
        assert await bot.echo("a") == "a"
    assert refreshes(oauth) == 1
    assert len(server.record.of("unauthorized")) == refused  # it was not even tried with the old one
    after = LoginFile(tmp_path, "desk").load()
    assert before is not None
    assert after is not None
    assert before.tokens.refresh_token != after.tokens.refresh_token  # the server gives each out for one use
    assert after.id == before.id


async def test_calls_side_by_side_refresh_once(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        await bot.echo("first")
        oauth.expire_tokens()  # before their time: the server says so by 401
        answers = await asyncio.gather(*(bot.echo(str(number)) for number in range(4)))
        assert answers == ["0", "1", "2", "3"]
    assert refreshes(oauth) == 1


async def test_a_revoked_login_asks_for_a_new_one_and_not_for_a_retry(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        await bot.echo("first")
        await server.wait_for(
            lambda: server.record.received("subscriptions/listen")
        )  # so that the call is what meets the revocation
        oauth.revoke_all()
        with pytest.raises(McpCallError, match="login"):
            await bot.echo("second")
        problem = await bot.comes_to(ServerState.LOGIN)
        assert "dutiful mcp login desk" in problem
        with pytest.raises(McpCallError, match="dutiful mcp login desk"):
            await bot.echo("third")


async def test_two_processes_with_one_login_do_not_lose_it(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as one, Bot(tmp_path, section_of(server)) as other:
        for text in ("a", "b"):
            assert await one.echo(text) == text
            oauth.expire_tokens()
            assert await other.echo(text) == text
        assert await one.echo("c") == "c"


async def test_tokens_go_to_no_other_address(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    async with McpServer(mcp_scripts.workshop(), oauth=McpOAuth()) as other:
        async with Bot(tmp_path, section_of(other)) as bot:
            await bot.comes_to(ServerState.LOGIN)
        assert not other.record.events  # nothing was even sent
    assert refreshes(oauth) == 0


async def test_a_login_file_that_is_no_login_counts_as_none(server: McpServer, tmp_path: Path) -> None:
    file = LoginFile(tmp_path, "desk")
    file.path.parent.mkdir()
    for content in ("", "{}", "[1]", '{"id": 1, "client": {}, "tokens": {}}', "\x00"):
        file.path.write_text(content)
        assert file.load() is None
    assert await file.forget()
    assert not await file.forget()


async def test_no_token_is_ever_logged(
    server: McpServer,
    oauth: McpOAuth,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    person = Person(agrees)
    await person.logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        await bot.echo("a")
        oauth.expire_tokens()
        await bot.echo("b")
        tokens = {
            *oauth.access_tokens,
            *oauth.refresh_tokens,
            *(form.get("refresh_token", "") for form in oauth.token_requests),
        } - {""}
        oauth.revoke_all()
        with pytest.raises(McpCallError) as failed:
            await bot.echo("c")
    seen = "\n".join(
        [caplog.text, *person.said, str(failed.value), repr(LoginFile(tmp_path, "desk").load()), *capfd.readouterr()]
    )
    assert not [token for token in tokens if token in seen]
