"""What the README says is so: its two lines, its tables, its settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import typer.main

from bot.cli import app
from bot.config import LlmSection
from bot.parts import config_sections
from bot.toolkit.catalogue import summary_of
from bot.toolkit.loader import PLUGIN_GROUP, ToolLoader, declared_name
from tests.support.program import Program

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
VENV = "python3 -m venv .venv && .venv/bin/pip install -qq -r requirements.lock"
SET_UP = f"{VENV} && .venv/bin/pip install -qq --no-deps -e . && "


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table_keys(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def test_the_quick_start_is_two_command_lines() -> None:
    blocks = re.findall(r"```\n(.*?)```", section("Quick start"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if not line.startswith("› ")]
    assert lines == [f"{SET_UP}.venv/bin/dutiful chat", f"{SET_UP}.venv/bin/python -m pytest"]


def test_ci_runs_the_second_line() -> None:
    script = (ROOT / ".ci/run").read_text()
    pattern = re.search(r"grep -m 1 -E '(.*)' README.md", script)
    assert pattern is not None
    (line,) = [line for line in README.splitlines() if re.search(pattern[1], line)]
    assert line == f"{SET_UP}.venv/bin/python -m pytest"


def test_the_commands_listed_are_those_there_are() -> None:
    names: set[str] = set()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)  # of a group, such as `jobs`
        names |= {name} if below is None else {f"{name} {item}" for item in below}
    listed = {
        re.sub(r" [A-Z-].*| -m.*", "", entry.removeprefix("dutiful "))
        for entry in table_keys(section("Commands"))
        if entry.startswith("dutiful ") and entry != "dutiful --version"
    }
    assert listed == names


async def test_the_slash_commands_listed_are_those_that_help_lists(tmp_path: Path) -> None:
    listed = [entry.split()[0] for entry in table_keys(section("In a chat")) if entry[0] == "/"]
    program = Program(tmp_path)
    program.configure()
    helped = await program.run("chat", "-m", "/help")
    assert listed == re.findall(r"^(/\w+) — ", helped.out, re.MULTILINE)


def test_the_table_of_tools_is_made_of_their_docstrings() -> None:
    rows = [
        f"| `{name}` | {cls.risk} | {summary_of(cls)} |"
        for cls in ToolLoader().discover()
        if (name := declared_name(cls))
    ]
    listed = [line for line in section("Tools").splitlines() if line.startswith("| `")]
    assert listed == sorted(rows)


def test_every_docstring_of_a_tool_tells_arguments_errors_and_result() -> None:
    for cls in ToolLoader().discover():
        text = cls.__doc__ or ""
        for word in ("Parameters:", "Errors:", "Result:"):
            assert word in text, f"{cls.__name__}: {word}"


def test_the_settings_for_telegram_are_valid() -> None:
    block = re.search(r"```toml\n(.*?)```", section("Channels"), re.DOTALL)
    assert block is not None
    values = tomllib.loads(re.sub(r"^   ", "", block[1], flags=re.MULTILINE).replace("env:TELEGRAM_BOT_TOKEN", "1:a"))
    checked = config_sections()["channels.telegram"].model_validate(values["channels"]["telegram"])
    assert checked.model_dump()["allow_from"] == ["111", "222"]


def test_the_settings_for_models_are_valid() -> None:
    rows = re.findall(r"^\| [A-Zlv].*? \| (.*) \|$", section("A model"), re.MULTILINE)
    pairs = [dict(re.findall(r'`(\w+) = "([^"]+)"`', row)) for row in rows]
    assert len(pairs) == 5
    for values in pairs:
        assert values.keys() <= LlmSection.model_fields.keys()
        if "base_url" in values:
            assert LlmSection(base_url=values["base_url"]).provider == "openai"


def test_every_file_the_readme_names_exists() -> None:
    named = set(re.findall(r"\]\(([^)#]+)\)", README)) | set(re.findall(r"`(deploy/[\w./-]+|tests/[\w.]+/)`", README))
    assert "deploy/RUNBOOK.md" in named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_lock_file_names_versions_and_hashes_and_no_place() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"://|^--|^-|@ ", text, re.MULTILINE)
    names = re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    missing = {re.split(r"[^\w.-]", line)[0].lower().replace(".", "-") for line in wanted} - set(names)
    assert missing == set()
    assert text.count("--hash=sha256:") > len(names)


async def test_the_tool_of_ones_own_works_as_shown(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", section("A tool of your own"), re.DOTALL)
    points = re.search(r"```toml\n(.*?)```", section("A tool of your own"), re.DOTALL)
    assert code is not None
    assert points is not None
    module, _, cls = tomllib.loads(points[1])["project"]["entry-points"][PLUGIN_GROUP]["dice"].partition(":")
    (tmp_path / f"{module}.py").write_text(code[1])
    info = tmp_path / "my_dice-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-dice\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{PLUGIN_GROUP}]\ndice = {module}:{cls}\n")
    program = Program(tmp_path)
    program.env["PYTHONPATH"] = f"{ROOT}:{tmp_path}"
    for text in ("", "[tools.dice]\nsides = 20\n"):
        program.configure(text)
        (row,) = [row for row in (await program.run("tools", "--json")).json if row["name"] == "roll_dice"]
        assert (row["status"], row["risk"], row["source"]) == ("on", "read", "plugin dice")
    program.configure("[tools.dice]\nside = 20\n")
    assert "dice.side: unknown key; did you mean 'sides'?" in (await program.run("check")).err
