"""The client scenarios of the public MCP conformance suite, against the probe: our manager, logins and calls.

Each takes two seconds on an idle machine, all of them under three minutes; a hanging one is ended. What cannot pass is
listed with the reason, and fails once it does pass.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.platforms.mcp_conformance import CURRENT, NEXT, run_scenario, scenarios

pytestmark = pytest.mark.journey  # one program starts another for each: after the fast tests

ROOT = Path(__file__).parents[2]

OF_BOTH = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
)
ONLY_CURRENT = ("auth/cross-app-access-complete-flow",)
ONLY_NEXT = (
    "request-metadata",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
)
_NO_DPOP = "tokens bound to a key (RFC 9449, an extension): the SDK's OAuth client has none"
_NO_SKILLS = "an extension that we do not offer: the suite then checks nothing"
CANNOT = {
    "auth/dpop": _NO_DPOP,
    "auth/dpop-nonce": _NO_DPOP,
    "json-schema-2020-12-preservation": "wants one tool called with another tool's schema: not what a probe does",
    "sep-2640-client-no-prefetch": _NO_SKILLS,
    "sep-2640-client-verify-digest": _NO_SKILLS,
    "sep-2640-client-verify-size": _NO_SKILLS,
    "sep-2640-client-verify-frontmatter": _NO_SKILLS,
}


async def passes(version: str, scenario: str, folder: Path) -> None:
    command = f"{sys.executable} -m bot.toolkit.mcp_probe"
    verdict = await run_scenario(version, scenario, command, folder, {"PYTHONPATH": str(ROOT), "HOME": str(folder)})
    assert verdict.problems() == []
    assert verdict.successes() > 0, verdict.output


@pytest.mark.parametrize("scenario", [*OF_BOTH, *ONLY_CURRENT])
async def test_a_client_scenario_passes(scenario: str, tmp_path: Path) -> None:
    await passes(CURRENT, scenario, tmp_path)


@pytest.mark.parametrize("scenario", ONLY_NEXT)
async def test_a_client_scenario_of_the_next_version_passes(scenario: str, tmp_path: Path) -> None:
    await passes(NEXT, scenario, tmp_path)


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(scenario, marks=pytest.mark.xfail(reason=why, raises=AssertionError, strict=True))
        for scenario, why in CANNOT.items()
    ],
)
async def test_a_client_scenario_that_cannot_pass_fails_for_now(scenario: str, tmp_path: Path) -> None:
    await passes(NEXT, scenario, tmp_path)


async def test_no_client_scenario_is_left_out() -> None:
    assert set(await scenarios(CURRENT)) == {*OF_BOTH, *ONLY_CURRENT}
    assert set(await scenarios(NEXT)) == {*OF_BOTH, *ONLY_NEXT, *CANNOT}
