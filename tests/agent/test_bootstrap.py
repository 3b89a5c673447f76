"""The bootstrap files: what people wrote is told, what was shipped is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bot.agent.bootstrap import LIMIT_CHARS, BootstrapFiles, write_templates
from bot.messages import Role
from bot.shipped import BOOTSTRAP_FILES, templates
from tests.support.contexts import ToolDesk, request_context, tool_context


def test_what_init_makes_adds_nothing_until_somebody_writes_into_it(tmp_path: Path) -> None:
    made = write_templates(tmp_path / "new" / "workspace")
    assert [path.name for path in made] == ["AGENTS.md", "SOUL.md", "USER.md"]
    files = BootstrapFiles(tmp_path / "new" / "workspace")
    assert files.text() == ""
    made[1].write_text(made[1].read_text() + "\n- Speak like a captain.\n")
    assert files.text().startswith("# SOUL.md\n\n# Who I am")
    assert files.text().endswith("- Speak like a captain.")


@pytest.mark.parametrize("name", BOOTSTRAP_FILES)
def test_blanks_and_line_ends_make_no_difference_to_a_template(tmp_path: Path, name: str) -> None:
    text = templates()[-1][name]
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", " \r\n\r\n").encode() + b"\n\n")
    assert BootstrapFiles(tmp_path).text() == ""
    (tmp_path / name).write_text(text.replace("unchanged", "changed"))
    assert BootstrapFiles(tmp_path).text() != ""


def test_the_template_of_an_older_version_is_still_known(tmp_path: Path) -> None:
    for version, text in (("1", "first"), ("2", "second"), ("10", "tenth")):
        folder = tmp_path / "templates" / version
        folder.mkdir(parents=True)
        (folder / "SOUL.md").write_text(text)
    versions = templates(tmp_path / "templates")
    assert [version["SOUL.md"] for version in versions] == ["first", "second", "tenth"]
    for text, told in (("second", ""), ("first\n", ""), ("third", "# SOUL.md\n\nthird")):
        (tmp_path / "SOUL.md").write_text(text)
        assert BootstrapFiles(tmp_path, versions).text() == told
    (tmp_path / "USER.md").write_text("first")  # a template of another file is text like any other
    assert BootstrapFiles(tmp_path, versions).text() == "# SOUL.md\n\nthird\n\n# USER.md\n\nfirst"


def test_the_files_come_in_their_order_and_a_long_one_says_that_it_was_cut(tmp_path: Path) -> None:
    (tmp_path / "USER.md").write_text("u" * (LIMIT_CHARS + 1))
    (tmp_path / "AGENTS.md").write_text("  \n the rules \n")
    (tmp_path / "SOUL.md").write_text(" \n\t\n")
    assert BootstrapFiles(tmp_path).text() == (
        f"# AGENTS.md\n\nthe rules\n\n# USER.md\n\n{'u' * LIMIT_CHARS}\n[USER.md is cut here at 20,000 characters]"
    )


def test_a_change_is_seen_at_once_also_by_replacement_at_the_same_size_and_time(tmp_path: Path) -> None:
    files = BootstrapFiles(tmp_path)
    assert files.text() == ""
    file = tmp_path / "SOUL.md"
    file.write_text("one")
    assert files.text() == "# SOUL.md\n\none"
    file.write_text("two")
    os.utime(file, (1, 1))
    assert files.text() == "# SOUL.md\n\ntwo"
    (tmp_path / "new").write_text("six")
    (tmp_path / "new").replace(file)
    os.utime(file, (1, 1))
    assert files.text() == "# SOUL.md\n\nsix"
    file.unlink()
    assert files.text() == ""


def test_what_is_no_file_or_no_text_ends_no_turn(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").mkdir()
    os.mkfifo(tmp_path / "SOUL.md")
    (tmp_path / "USER.md").write_bytes(b"caf\xe9 \x00")
    assert BootstrapFiles(tmp_path).text() == "# USER.md\n\ncaf\ufffd \x00"


def test_nothing_that_is_there_is_overwritten_not_even_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("mine")
    (tmp_path / "SOUL.md").symlink_to(tmp_path / "nowhere")
    assert [path.name for path in write_templates(tmp_path)] == ["USER.md"]
    assert (tmp_path / "AGENTS.md").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert write_templates(tmp_path) == []


async def test_no_chat_can_write_what_every_chat_is_told(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx)
        owner = request_context("1", role=Role.OWNER)
        desk.root(owner)
        for path in ("../../SOUL.md", str(desk.workspace / "SOUL.md"), "chats/../SOUL.md", "chats/SOUL.md"):
            await desk.call(owner, "write_file", path=path, content="x")
        for path in ("shared/skills/evil/SKILL.md", str(desk.workspace / "shared/skills/evil/SKILL.md")):
            result = await desk.call(owner, "write_file", path=path, content="x")
            assert result.is_error
        assert not list(desk.workspace.rglob("evil"))
        assert not (desk.workspace / "SOUL.md").exists()
        assert not (desk.workspace / "chats/SOUL.md").exists()
        assert BootstrapFiles(desk.workspace).text() == ""
