"""CPU of a turn and turns a second, with a memory channel and a loopback model."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from tests.bench.figures import Figure
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply

RUNS = 3


def answer(request: Mapping[str, Any]) -> Reply:
    """A tool call first where the person's text begins with "tool", words otherwise."""
    last = request["messages"][-1]
    if last["role"] == "user" and str(last["content"]).startswith("tool"):
        return Reply(tool_calls=[("list_dir", {"path": "."})])
    return Reply(text="Here is a short answer of a dozen words for the person who asked it.")


async def figures() -> list[Figure]:
    plain = [await _run("plain", 30, 150, "one-by-one") for _ in range(RUNS)]
    tool = [await _run("tool", 30, 120, "one-by-one") for _ in range(RUNS)]
    many = [await _run("plain", 100, 1000, "burst") for _ in range(RUNS)]
    return [
        Figure(name="plain turn, CPU", values=[run["cpu_ms"] for run in plain], unit="ms", limit="<= 5"),
        Figure(name="turn with a tool call, CPU", values=[run["cpu_ms"] for run in tool], unit="ms", limit="<= 8"),
        Figure(name="100 chats at once", values=[run["per_s"] for run in many], unit="turns/s", limit=">= 200"),
        Figure(name="100 chats at once, CPU a turn", values=[run["cpu_ms"] for run in many], unit="ms"),
    ]


async def _run(mode: str, chats: int, turns: int, order: str) -> dict[str, float]:
    async with OpenAIApi(validate=False, record=False) as model:
        model.default = answer
        with tempfile.TemporaryDirectory() as folder:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.bench.worker",
                model.url,
                folder,
                mode,
                str(chats),
                str(turns),
                order,
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await asyncio.wait_for(process.communicate(), 120)
    result: dict[str, float] = json.loads(out.splitlines()[-1])
    return result
