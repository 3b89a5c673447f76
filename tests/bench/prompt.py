"""Building the system prompt: all sections full, 50 skills beside the shipped ones."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bot.agent.prompt import ContextBuilder
from bot.agent.skills import SkillLibrary
from bot.clock import SystemClock
from bot.conversation import Session, SessionPast
from bot.shipped import BOOTSTRAP_FILES, SKILLS
from bot.toolkit.chat_files import ChatFiles
from bot.toolkit.context import RequestContext
from tests.bench.figures import Figure
from tests.support.contexts import request_context

RUNS = 9
SKILL_COUNT = 50
MS = 1_000

LINE = "- [2026-11-29] Ada takes the 8:15 train, [Ben] the 9:00; both like tea (green).\n"
PAST = SessionPast(
    summary=LINE * 150,
    recent=tuple(
        Session(id=number, lane="x", title=f"Talk {number}", created_us=0, used_us=number, summary=LINE * 12)
        for number in range(5)
    ),
)


class Memory:
    """Remembers a full file."""

    def section(self, request: RequestContext) -> str:
        return LINE * 100

    def shared(self, request: RequestContext) -> str:
        return ""


def _fill(workspace: Path) -> None:
    for name in BOOTSTRAP_FILES:
        (workspace / name).write_text(LINE * 200)
    for number in range(SKILL_COUNT):
        folder = workspace / f"shared/skills/skill-{number:02}"
        folder.mkdir(parents=True)
        always = "always: true\n" if number < 3 else ""
        (folder / "SKILL.md").write_text(f"---\ndescription: {'How to do it well. ' * 12}\n{always}---\n{LINE * 60}")


def _builder(workspace: Path) -> ContextBuilder:
    return ContextBuilder(
        name="Dutiful",
        workspace=workspace,
        format_hints={"telegram": "Messages are Markdown."},
        skills=SkillLibrary(workspace, SystemClock()),
        view_of=ChatFiles(workspace, skills=[SKILLS]).view,
        memory=Memory(),
    )


def _ms_each(act: Callable[[], object], times: int) -> list[float]:
    values = []
    for _ in range(RUNS):
        began = time.perf_counter()
        for _ in range(times):
            act()
        values.append((time.perf_counter() - began) / times * MS)
    return values


async def _turns(builder: ContextBuilder, times: int) -> list[float]:
    """Milliseconds as a turn sees them, the way to the thread and back included."""
    request, values = request_context("1"), []
    for _ in range(RUNS):
        began = time.perf_counter()
        for _ in range(times):
            await builder.for_turn(request, PAST, window_tokens=128_000)
        values.append((time.perf_counter() - began) / times * MS)
    return values


async def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        _fill(workspace)
        request = request_context("1")
        cold = _ms_each(lambda: _builder(workspace).build(request, PAST, window_tokens=128_000), 1)
        builder = _builder(workspace)
        size = len(builder.build(request, PAST, window_tokens=128_000).system)
        await asyncio.sleep(0.1)  # until the files are no longer new
        builder.build(request, PAST, window_tokens=128_000)
        name = f"build_prompt, {size:,} characters, {SKILL_COUNT} skills"
        return [
            Figure(
                name=f"{name}, warm",
                values=_ms_each(lambda: builder.build(request, PAST, window_tokens=128_000), 500),
                unit="ms",
                limit="<= 0.5",
            ),
            Figure(name=f"{name}, in a turn", values=await _turns(builder, 200), unit="ms"),
            Figure(name=f"{name}, cold", values=cold, unit="ms"),
        ]
