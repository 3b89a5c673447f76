"""Figures of this machine, by hand: `python -m tests.bench [name ...]`.

Each figure is the median of several runs, printed beside its floor. Servers run in this process and listen on
loopback; the bot runs as processes of its own, whose CPU is read from /proc. Nothing here runs in CI.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from tests.bench import calls, governor, grep, idle, jobs, prompt, reads, service, soak, start, turns
from tests.bench.figures import Figure, print_table

SECTIONS: dict[str, Callable[[], Awaitable[list[Figure]]]] = {
    "turns": turns.figures,
    "telegram": service.figures,
    "idle": idle.figures,
    "start": start.figures,
    "jobs": jobs.figures,
    "calls": calls.figures,
    "reads": reads.figures,
    "grep": grep.figures,
    "governor": governor.figures,
    "prompt": prompt.figures,
    "soak": soak.figures,
    "soak-http": soak.figures_http,
}
LONG = frozenset({"soak", "soak-http"})
"""Sections of several minutes, which run only when they are named."""


async def main(names: list[str]) -> None:
    figures: list[Figure] = []
    for name in names or [name for name in SECTIONS if name not in LONG]:
        figures += await SECTIONS[name]()
    print_table(figures)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
