"""Logins beyond the plain one: known clients, access without a person, permissions that come later, other servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.config import McpSection
from bot.toolkit.mcp.login import LoginFailed
from bot.toolkit.mcp.login_file import LoginFile
from bot.toolkit.mcp.server_calls import McpCallError, ServerState
from tests.platforms import mcp_scripts
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_server import McpServer
from tests.support.mcp_login import Person, agrees, section_of
from tests.support.mcp_service import LoggedInBot as Bot

SECRET = "s3cret/of:desk"  # with what Basic has to escape


def known_to(server: McpServer, *, client: str = "by-hand", secret: str | None = SECRET) -> McpSection:
    """Return the section of a server whose operator registered us."""
    more = {"oauth_client_id": client} | ({} if secret is None else {"oauth_client_secret": secret})
    return McpSection.model_validate({**section_of(server).model_dump(exclude_unset=True), **more})


async def stays_away(_address: str, _person: Person) -> None:
    raise AssertionError("nobody had to be asked")


async def test_a_client_that_was_registered_by_hand_logs_in_and_refreshes(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.refuses_registration = True
    oauth.secrets["by-hand"] = SECRET
    section = known_to(server)
    await Person(agrees).logs_in(server, tmp_path, section)
    assert oauth.authorizations[0]["client_id"] == "by-hand"
    async with Bot(tmp_path, section) as bot:
        assert await bot.echo("a") == "a"
        oauth.expire_tokens()
        assert await bot.echo("b") == "b"
    assert oauth.token_requests[-1]["grant_type"] == "refresh_token"
    assert oauth.clients == {}


async def test_a_wrong_secret_is_said_and_nothing_is_kept(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    oauth.secrets["by-hand"] = "another"
    with pytest.raises(LoginFailed, match="invalid_client"):
        await Person(agrees).logs_in(server, tmp_path, known_to(server))
    assert LoginFile(tmp_path, "desk").stamp() is None


async def test_a_secret_goes_to_its_own_issuer_alone(server: McpServer, oauth: McpOAuth, tmp_path: Path) -> None:
    oauth.secrets["by-hand"] = SECRET
    values = known_to(server).model_dump(exclude_unset=True)
    elsewhere = McpSection.model_validate({**values, "oauth_issuer": "https://login.example.org"})
    with pytest.raises(LoginFailed, match="not its oauth_issuer"):
        await Person(stays_away).logs_in(server, tmp_path, elsewhere)
    assert oauth.token_requests == []
    here = McpSection.model_validate({**values, "oauth_issuer": server.origin})
    await Person(agrees).logs_in(server, tmp_path, here)


async def test_access_without_a_person_is_renewed_without_one(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.grants = ("client_credentials",)
    oauth.secrets["by-hand"] = SECRET
    section = known_to(server)
    await Person(stays_away).logs_in(server, tmp_path, section)
    async with Bot(tmp_path, section) as bot:
        assert await bot.echo("a") == "a"
        oauth.expire_tokens()
        assert await bot.echo("b") == "b"
    assert [form["grant_type"] for form in oauth.token_requests] == ["client_credentials"] * 2
    assert {form["scope"] for form in oauth.token_requests} == {"tools"}
    assert oauth.authorizations == []


async def test_a_call_that_lacks_a_permission_says_so_and_the_next_login_asks_for_it(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.needs["add"] = "sums"
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        with pytest.raises(McpCallError, match=r"lacks a permission \(sums\).*`dutiful mcp login desk`") as failed:
            await bot.call("add", {"a": 1, "b": 2})
        assert failed.value.wants_login
        assert await bot.echo("still") == "still"  # what the login is good for goes on
        await Person(agrees).logs_in(server, tmp_path)
        assert (await bot.call("add", {"a": 1, "b": 2}))["structuredContent"] == {"sum": 3}
    assert [asked["scope"] for asked in oauth.authorizations] == ["tools", "tools sums"]
    login = LoginFile(tmp_path, "desk").load()
    assert login is not None
    assert login.lacks == ""


async def test_what_a_server_missed_is_noted_in_the_login_of_now(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    file = LoginFile(tmp_path, "desk")

    class Meanwhile(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            if name == "add" and (login := file.load()) is not None:  # another process refreshes while the server looks
                file.save(replace(login, tokens=login.tokens.model_copy(update={"refresh_token": "newer"})))
            return super().get(name, default)

    oauth.needs = Meanwhile(add="sums")
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        with pytest.raises(McpCallError, match="sums"):
            await bot.call("add", {"a": 1, "b": 2})
    login = file.load()
    assert login is not None
    assert (login.tokens.refresh_token, login.lacks) == ("newer", "sums")


async def test_a_permission_that_is_missed_in_the_middle_of_a_login_is_asked_for_at_once(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.needs["tools/list"] = "lists"
    person = Person(agrees)
    offer = await person.logs_in(server, tmp_path)
    assert "echo" in [tool["name"] for tool in offer.tools]
    assert [asked["scope"] for asked in oauth.authorizations] == ["tools", "tools lists"]


async def test_lists_that_lack_a_permission_wait_for_a_login_and_not_for_better_times(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    await Person(agrees).logs_in(server, tmp_path)
    oauth.needs["tools/list"] = "lists"
    async with Bot(tmp_path, section_of(server)) as bot:
        assert "lacks a permission (lists)" in await bot.comes_to(ServerState.LOGIN)
        await Person(agrees).logs_in(server, tmp_path)
        bot.connection.poke()
        assert await bot.echo("a") == "a"  # at once: whoever calls now waits for the new attempt


async def test_a_token_that_cannot_be_renewed_wants_a_login_also_where_the_older_protocol_is_refused(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.gives_refresh = False
    oauth.refuses_initialize = True  # which the client tries after the 401
    await Person(agrees).logs_in(server, tmp_path)
    oauth.expire_tokens()
    async with Bot(tmp_path, section_of(server)) as bot:
        assert "401" in await bot.comes_to(ServerState.LOGIN)


async def test_a_call_whose_token_cannot_be_renewed_says_what_to_do(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.gives_refresh = False
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        await bot.echo("a")
        oauth.expire_tokens()
        with pytest.raises(McpCallError, match="`dutiful mcp login desk`"):
            await bot.echo("b")


async def test_a_server_of_2025_03_26_may_name_an_issuer_below_its_own_address(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.is_old = True
    await Person(agrees).logs_in(server, tmp_path)
    async with Bot(tmp_path, section_of(server)) as bot:
        assert await bot.echo("a") == "a"


async def test_a_server_of_2025_03_26_cannot_pass_itself_off_as_another_issuer(
    server: McpServer, oauth: McpOAuth, tmp_path: Path
) -> None:
    oauth.is_old = True
    oauth.issuer = "https://accounts.example.org"
    with pytest.raises(LoginFailed, match="issuer mismatch"):
        await Person(stays_away).logs_in(server, tmp_path)
    assert oauth.authorizations == []


async def test_results_that_do_not_say_that_they_are_complete_are(tmp_path: Path) -> None:
    script = mcp_scripts.workshop()
    script.plain_results = True
    async with McpServer(script) as server:
        section = McpSection.model_validate({"url": server.url, "allow_private": True})
        async with Bot(tmp_path, section) as bot:
            assert await bot.echo("a") == "a"
            offer = bot.manager.offer("desk")
    assert offer is not None
    assert offer.protocol_version == "2026-07-28"
