"""The public MCP conformance suite (npm, https://github.com/modelcontextprotocol/conformance): its client scenarios.

The suite serves one scenario, starts the client with the address as its last argument, and judges what it saw. Two
versions are installed: the current one, and the next, which also knows 2026-07-28. All listeners are on loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.platforms.mcp_real import PACKAGES, program

CURRENT = "@modelcontextprotocol/conformance"
NEXT = "conformance-next"

CLIENT_LIMIT_S = 60.0  # a scenario takes two seconds; this is for one slow processor
_LIMIT_S = 100.0  # less than a test has
_LATE = "client-sse-retry-timing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the suite says of one scenario."""

    code: int  # 0: passed
    checks: Sequence[Mapping[str, Any]]
    output: str

    def problems(self) -> list[str]:
        """Return what is wrong with the client, in the suite's words.

        That it came late is not: a busy machine does that. That it came too early is.
        """
        bad = [check for check in self.checks if check["status"] in ("FAILURE", "WARNING")]
        found = [
            f"{check['id']}: {check['description']} ({check.get('errorMessage', '')})"
            for check in bad
            if check["id"] != _LATE or check["details"].get("tooEarly", True)
        ]
        return found if self.code == 0 or bad else [self.output]

    def successes(self) -> int:
        """Return how many checks the client has passed."""
        return sum(check["status"] == "SUCCESS" for check in self.checks)


async def scenarios(version: str) -> list[str]:
    """Return the names of a version's client scenarios."""
    _, output = await _run(version, ["list", "--client"], {}, preloads=["older_node.mjs"])  # which opens no port
    return [line.split()[1] for line in output.splitlines() if line.startswith("  - ")]


async def run_scenario(
    version: str, scenario: str, command: str, folder: Path, environment: Mapping[str, str]
) -> Verdict:
    """Run one scenario against the client that `command` starts, writing below `folder`."""
    words = ["client", "--command", command, "--scenario", scenario, "--output-dir", str(folder)]
    words += ["--timeout", str(round(CLIENT_LIMIT_S * 1000))]
    code, output = await _run(version, words, environment, preloads=["older_node.mjs", "loopback_only.mjs"])
    written = list(folder.rglob("checks.json"))
    checks = json.loads(await asyncio.to_thread(written[0].read_text, "utf-8")) if written else []
    return Verdict(code=code, checks=checks, output=output)


async def _run(
    version: str, words: Sequence[str], environment: Mapping[str, str], *, preloads: Sequence[str]
) -> tuple[int, str]:
    suite = program(version)
    process = await asyncio.create_subprocess_exec(
        suite.command,
        *(word for name in preloads for word in ("--import", str(PACKAGES / name))),
        *suite.args,
        *words,
        env={"PATH": os.environ["PATH"], **environment},
        stdin=PIPE,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_LIMIT_S):
            output = await process.stdout.read()
            return await process.wait(), output.decode()
    finally:
        with suppress(ProcessLookupError):  # with the client, if the suite hangs
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
