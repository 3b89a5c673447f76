"""A server process that writes without end what is no message: everybody else's work goes on."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from pathlib import Path

from bot.config import McpSection
from bot.toolkit.mcp.child import ServerChild

_FLOOD = "import sys\nwhile True: sys.stdout.write('x\\n' * 50_000)"


async def test_a_flood_of_short_lines_lets_other_tasks_run_in_between(tmp_path: Path) -> None:
    section = McpSection(command=sys.executable, args=["-c", _FLOOD])
    child = await ServerChild.start("flood", section, workspace=tmp_path)
    turns: list[int] = []
    read = 0

    async def other() -> None:
        while True:
            turns.append(read)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    try:
        async for _ in child.lines():
            read += 1
            if read == 50_000:
                break
    finally:
        task.cancel()
        await child.end()
    assert max(after - before for before, after in pairwise(turns)) <= 200
