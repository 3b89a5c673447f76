"""Memory of a process that has had 2,000 conversations of 20 turns each, a tool call in every fifth turn.

`soak` has its model in the same process, so that the whole of it takes minutes; `soak-http` asks a loopback model,
as far as that comes in the same time. The curve is printed, a point each 200 conversations; after the first half it
must have levelled off. A run that is not done after `LIMIT_S` ends there and says how far it came.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from typing import Any

from tests.bench.figures import Figure
from tests.bench.turns import answer
from tests.platforms.openai_api import OpenAIApi

SESSIONS, TURNS = 2_000, 20
LIMIT_S = 420
GROWTH_LIMIT = "<= 5"


async def figures() -> list[Figure]:
    return _report("soak", await _run(""))


async def figures_http() -> list[Figure]:
    async with OpenAIApi(validate=False, record=False) as model:
        model.default = answer
        return _report("soak-http", await _run(model.url))


def _report(name: str, curve: list[tuple[int, float]]) -> list[Figure]:
    for sessions, rss in curve:
        print(f"after {sessions:>5} conversations: {rss:7.1f} MB")
    middle, end = curve[len(curve) // 2][1], curve[-1][1]
    done = curve[-1][0]
    return [
        Figure(name=f"{name}, memory after {done} conversations", values=[end], unit="MB"),
        Figure(
            name=f"{name}, growth in the second half", values=[(end / middle - 1) * 100], unit="%", limit=GROWTH_LIMIT
        ),
    ]


async def _run(url: str) -> list[tuple[int, float]]:
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.bench.soak_worker",
            url,
            folder,
            str(SESSIONS),
            str(TURNS),
            str(LIMIT_S),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), LIMIT_S + 40)
    curve: list[Any] = json.loads(out.splitlines()[-1])
    return [(int(sessions), float(rss)) for sessions, rss in curve]
