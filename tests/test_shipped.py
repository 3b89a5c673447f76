"""The shipped skills and templates: they are in the wheel, and what they teach is what the tools take."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bot.agent.skill_file import parse_skill
from bot.clock import SystemClock
from bot.config import ToolsConfig
from bot.messages import Role
from bot.shipped import BOOTSTRAP_FILES, SKILLS, templates
from bot.toolkit.context import set_request
from bot.toolkit.room import ToolRoom
from bot.tools.exec import ExecTool
from tests.support.commands import needs_bwrap
from tests.support.contexts import request_context
from tests.support.engine import OWNER, AnsweringProvider, calls, rig, said, tool_texts

ROOT = Path(__file__).parents[1]
NAMES = sorted(path.name for path in SKILLS.iterdir())


def text_of(name: str) -> str:
    return (SKILLS / name / "SKILL.md").read_text(encoding="utf-8")


def test_the_wheel_has_the_data_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name.removeprefix("bot/shipped/") for name in archive.namelist() if "bot/shipped/" in name}
    assert {f"skills/{name}/SKILL.md" for name in NAMES} <= inside
    assert {f"templates/{number}/{name}" for number in (1,) for name in BOOTSTRAP_FILES} <= inside


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_skill_names_only_tools_that_exist(name: str) -> None:
    skill = parse_skill(text_of(name).encode(), name)
    tools = {path.stem for path in (ROOT / "bot/tools").glob("*.py")}
    named = set(re.findall(r"`(\w+_\w+|cron)`", skill.body))
    assert named & tools
    assert named - tools <= {"in_seconds", "every_seconds", "cron_expr", "max_runs", "max_chars"}
    assert "Use it " in skill.description
    assert len(skill.body.splitlines()) < 100


def test_the_newest_templates_have_all_files_and_say_who_reads_them() -> None:
    newest = templates()[-1]
    assert sorted(newest) == sorted(BOOTSTRAP_FILES)
    for text in newest.values():
        assert "As long as this file is unchanged, it is not used." in text
    for name in ("AGENTS.md", "USER.md"):
        assert "groups included" in newest[name]


def test_the_example_in_the_skill_on_skills_is_one() -> None:
    example = re.search(r"^```\n(---\n.*?)^```", text_of("write-skill"), re.DOTALL | re.MULTILINE)
    assert example is not None
    assert parse_skill(example[1].encode(), "weekly-report").description.startswith("How to write the weekly report")


TAUGHT: list[tuple[str, dict[str, Any]]] = [
    ("`in_seconds` (2700, 10800)", {"in_seconds": 2700}),
    ("`2026-12-24T18:00`", {"at": "2030-12-24T18:00"}),
    ("`every_seconds`", {"every_seconds": 5400}),
    ("`30 7 * * 1-5`", {"cron_expr": "30 7 * * 1-5", "tz": "Asia/Tokyo", "max_runs": 3}),
    ("`0 9 1 * *`", {"cron_expr": "0 9 1 * *", "until": "2030-06-01T00:00"}),
    ("`kind: task`", {"kind": "task", "in_seconds": 60}),
    ("`kind: reminder`", {"kind": "reminder", "in_seconds": 60}),
]


async def test_the_cron_tool_takes_what_the_skill_on_reminders_teaches(tmp_path: Path) -> None:
    for words, _ in TAUGHT:
        assert words in text_of("reminders")
    orders = [("cron", {"action": "add", "text": f"Call Ann {n}", **given}) for n, (_, given) in enumerate(TAUGHT)]
    replies = iter([calls(*orders, ("cron", {"action": "list"})), said("set")])
    provider = AnsweringProvider(lambda request: next(replies))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("$reminders please", sender=OWNER) == "set"
        assert len(await engine.jobs()) == len(TAUGHT)
        *_, listed = tool_texts(provider.requests[1])
        assert all(f"Call Ann {n}" in listed for n in range(len(TAUGHT)))


@needs_bwrap
async def test_a_command_can_read_a_skills_files_but_not_change_them(tmp_path: Path) -> None:
    more = tmp_path / "more"
    (more / "far").mkdir(parents=True)
    (more / "far/help.sh").write_text("echo from far")
    (tmp_path / "data").mkdir()
    room = ToolRoom(
        ToolsConfig(),
        workspace=tmp_path / "data/workspace",
        data_dir=tmp_path / "data",
        clock=SystemClock(),
        skill_paths=[more],
    )
    try:
        request = request_context("1", role=Role.OWNER)
        room.files.view(request).make_dirs()
        tool = ExecTool(room.shell, room.sessions, timeout_s=30, network=False)
        set_request(request)
        script = f"sh {more}/far/help.sh; head -2 {SKILLS}/reminders/SKILL.md; echo x > {more}/far/help.sh"
        result = await tool.execute(command=script)
        assert "from far" in result
        assert "name: reminders" in result
        assert "Read-only file system" in result
    finally:
        await room.close()
    assert (more / "far/help.sh").read_text() == "echo from far"
