"""The probe where nobody is there: what it says and how it ends. What goes well is in the conformance scenarios."""

from __future__ import annotations

import pytest

from bot.toolkit.mcp_probe import main, probe
from bot.toolkit.mcp_probe_login import CONTEXT, SCENARIO, SUITE_CLIENT, ProbeIdentity, identity_of
from tests.platforms import mcp_scripts
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_server import McpServer
from tests.support.mcp_login import section_of


async def said_of(oauth: McpOAuth, capsys: pytest.CaptureFixture[str]) -> tuple[bool, str]:
    """Try a guarded server out; return how it went and what was printed."""
    async with McpServer(mcp_scripts.workshop(), oauth=oauth) as server:
        went_well = await probe(section_of(server), ProbeIdentity())
    return went_well, capsys.readouterr().out


async def test_a_login_that_needs_nobody_is_made_and_everything_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    went_well, said = await said_of(McpOAuth(needs={"create_ticket": "write"}), capsys)
    assert went_well
    assert said.count("ok     login") == 2  # once more for what the first was not good for
    assert "ok     tool create_ticket" in said


async def test_a_page_that_wants_to_be_read_ends_the_probe(capsys: pytest.CaptureFixture[str]) -> None:
    oauth = McpOAuth(asks=True)
    went_well, said = await said_of(oauth, capsys)
    assert not went_well
    assert "wants to be read by a person" in said
    assert oauth.token_requests == []


async def test_a_refusal_ends_the_probe_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    went_well, said = await said_of(McpOAuth(denies=True), capsys)
    assert not went_well
    assert "access_denied" in said


async def test_a_server_that_is_never_content_is_not_asked_without_end(capsys: pytest.CaptureFixture[str]) -> None:
    oauth = McpOAuth(needs={"echo": "more"}, grants_no_more=True)
    went_well, said = await said_of(oauth, capsys)
    assert not went_well
    assert "FAILED tool echo" in said
    assert len(oauth.authorizations) == 2


def test_who_the_probe_is_comes_from_the_environment() -> None:
    assert identity_of({}).client_id is None
    assert identity_of({SCENARIO: "x"}).client_id == SUITE_CLIENT
    given = '{"name": "x", "client_id": "c", "client_secret": "s", "later": 1}'
    assert identity_of({SCENARIO: "x", CONTEXT: given}).client_id == "c"
    for broken in ("[]", "no", '{"client_id": "c", "client_secret": ["s3cret"]}'):
        with pytest.raises(ValueError, match=CONTEXT) as failed:
            identity_of({CONTEXT: broken})
        assert "s3cret" not in str(failed.value)


def test_a_broken_environment_is_said_and_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(CONTEXT, "no")
    assert main(["http://127.0.0.1:1/mcp"]) == 2
    assert CONTEXT in capsys.readouterr().err
