"""Which skills a chat has: whose name wins, what is listed as unusable, what is read again, what `$name` asks for."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bot.agent.skills import Skill, SkillLibrary, SkillProblem, SkillSet, SkillSource
from bot.agent.sources import is_settled
from bot.clock import US_PER_S
from bot.security.workspace import Root, WorkspaceView
from bot.shipped import SKILLS
from tests.support.clock import FakeClock

SHIPPED = ["reminders", "summarise-page", "write-skill"]


class House:
    """A workspace with a folder of further skills, and the library over both."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.workspace, self.paths, self.bin = folder / "workspace", folder / "more", folder / "bin"
        self.paths.mkdir()
        self.bin.mkdir()
        self.clock = FakeClock()
        self.library = SkillLibrary(
            self.workspace, self.clock, paths=[self.paths], program_path=[str(self.bin)], **options,  # type: ignore[arg-type]
        )  # fmt: skip

    def view(self, key: str = "telegram:1") -> WorkspaceView:
        extra = [Root(name=str(path), path=path, writable_depth=None) for path in (self.paths, SKILLS)]
        view = WorkspaceView.of(self.workspace, key, extra=extra)
        view.make_dirs()
        return view

    def look(self, key: str = "telegram:1") -> SkillSet:
        return self.library.look(self.view(key))

    def get(self, name: str, key: str = "telegram:1") -> Skill:
        return next(skill for skill in self.look(key).skills if skill.name == name)


def put(folder: Path, name: str, *, description: str = "d", body: str = "body", more: str = "") -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\ndescription: {description}\n{more}\n---\n{body}")
    return file


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_the_shipped_skills_are_there_usable_and_readable_by_their_path(house: House) -> None:
    skills = house.look()
    assert [skill.name for skill in skills.usable] == SHIPPED
    assert skills.problems == ()
    for skill in skills.skills:
        assert skill.source is SkillSource.BUILT_IN
        assert 80 < len(skill.description) <= 300  # shown in full
        with house.view().open_read(skill.path) as file:
            assert skill.body.encode() in file.read()


def test_the_workspace_wins_over_paths_and_those_over_what_is_built_in(house: House) -> None:
    put(house.paths, "reminders", body="from paths")
    assert (house.get("reminders").source, house.get("reminders").body) == (SkillSource.CONFIGURED, "from paths")
    put(house.workspace / "shared/skills", "reminders", body="from the workspace")
    assert (house.get("reminders").source, house.get("reminders").body) == (SkillSource.SHARED, "from the workspace")
    assert house.get("reminders").path == "shared/skills/reminders/SKILL.md"
    assert [skill.name for skill in house.look().skills] == SHIPPED


def test_a_chats_own_skill_is_that_chats_only(house: House) -> None:
    put(house.view("telegram:1").root / "skills", "ours", body="SECRET of chat one")
    assert house.get("ours").source is SkillSource.CHAT
    assert house.get("ours").path == "skills/ours/SKILL.md"
    for key in ("telegram:2", "telegram:11", "slack:1"):
        assert [skill.name for skill in house.look(key).skills] == SHIPPED
        assert "SECRET" not in repr(house.look(key))


def test_a_chats_own_skill_neither_replaces_one_of_the_installation_nor_is_always_on(house: House) -> None:
    put(house.workspace / "shared/skills", "rules", body="the rules", more="always: true")
    own = house.view().root / "skills"
    put(own, "rules", body="no rules")
    put(own, "ours", more="always: true")
    put(own, "reminders", body="mine")
    found = {(skill.name, skill.source): skill for skill in house.look().skills}
    assert found["rules", SkillSource.SHARED].always
    assert found["rules", SkillSource.CHAT].problem is SkillProblem.TAKEN
    assert found["reminders", SkillSource.CHAT].problem is SkillProblem.TAKEN
    assert not found["ours", SkillSource.CHAT].always
    bodies = [skill.body for skill in house.look().requested("$rules and $reminders")]
    assert bodies[0] == "the rules"
    assert bodies[1].startswith("# Reminders")


def test_links_out_of_the_folder_are_not_followed(house: House, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "leaked", body="SECRET")
    put(house.view("telegram:2").root / "skills", "theirs", body="SECRET of chat two")
    own = house.view().root / "skills"
    own.mkdir()
    (own / "leaked").symlink_to(tmp_path / "elsewhere/leaked")
    (own / "theirs").symlink_to(house.view("telegram:2").root / "skills/theirs")
    (own / "file").mkdir()
    (own / "file/SKILL.md").symlink_to(tmp_path / "elsewhere/leaked/SKILL.md")
    (house.paths / "out").symlink_to(tmp_path / "elsewhere/leaked")
    skills = {skill.name: skill for skill in house.look().skills}
    for name in ("leaked", "theirs", "file", "out"):
        assert skills[name].problem is SkillProblem.BROKEN
        assert "is a link that leads" in skills[name].detail
    assert "SECRET" not in repr(house.look())
    house.view("telegram:3").root.joinpath("skills").symlink_to(house.view("telegram:2").root / "skills")
    assert "SECRET" not in repr(house.look("telegram:3"))


def test_what_is_broken_is_listed_with_the_reason_and_spoils_nothing_else(house: House) -> None:
    shared = house.workspace / "shared/skills"
    put(shared, "good")
    (shared / "empty").mkdir()
    (shared / ".git").mkdir()
    (shared / "README.md").write_text("not a skill")
    put(shared, "bad").write_text("no front matter")
    put(shared, "folder").unlink()
    (shared / "folder/SKILL.md").mkdir()
    put(shared, "pipe").unlink()
    os.mkfifo(shared / "pipe/SKILL.md")
    found = {skill.name: skill.detail for skill in house.look().skills if skill.problem is SkillProblem.BROKEN}
    assert found == {
        "bad": "does not begin with front matter between lines of three hyphens",
        "empty": "has no SKILL.md",
        "folder": "is a folder",
        "pipe": "is not an ordinary file",
    }
    assert [skill.name for skill in house.look().usable] == ["good", *SHIPPED]


def test_a_missing_program_is_found_once_it_is_installed(house: House) -> None:
    put(house.paths, "gh", more="requires: {bins: [gh]}")
    skill = house.get("gh")
    assert (skill.problem, skill.reason) == (SkillProblem.PROGRAM, "the program gh is not installed")
    (house.bin / "gh").write_text("#!/bin/sh")
    (house.bin / "gh").chmod(0o755)
    house.clock.advance(61)
    assert house.get("gh").problem is None
    (house.bin / "gh").unlink()
    house.clock.advance(61)
    assert house.get("gh").problem is SkillProblem.PROGRAM


def test_a_missing_variable_and_a_disabled_name_are_listed(tmp_path: Path) -> None:
    house = House(tmp_path, disabled=["reminders", "other"], environment={"HERE": "x", "EMPTY": ""})
    put(house.paths, "here", more="requires: {env: [HERE]}")
    put(house.paths, "empty", more="requires: {env: [EMPTY]}")
    assert house.get("here").problem is None
    assert (house.get("empty").problem, house.get("empty").detail) == (SkillProblem.VARIABLE, "EMPTY")
    assert house.get("reminders").reason == "it is disabled in this installation"
    put(house.view().root / "skills", "other")
    assert house.get("other").problem is SkillProblem.DISABLED


def test_nothing_changes_until_a_file_does(house: House) -> None:
    file = put(house.paths, "notes", body="one")
    own = put(house.view().root / "skills", "ours", body="one")
    before, other = house.look(), house.look("telegram:2")
    for _ in range(3):
        assert house.look() is before
        assert house.look("telegram:2") is other
    file.write_text(file.read_text().replace("one", "two"))
    assert house.get("notes").body == "two"
    assert house.look("telegram:2") is not other
    other = house.look("telegram:2")
    own.write_text(own.read_text().replace("one", "two"))
    assert house.get("ours").body == "two"
    assert house.look("telegram:2") is other
    file.with_name("other.md").write_text("beside it")
    (house.paths / "loose.md").write_text("no skill")
    before = house.look()
    assert house.look() is before


def test_a_skill_that_comes_goes_or_is_replaced_is_noticed(house: House) -> None:
    (house.paths / "late").mkdir()
    assert house.get("late").detail == "has no SKILL.md"
    file = put(house.paths, "late", body="one")
    os.utime(file, (1, 1))
    assert house.get("late").body == "one"
    new = file.with_name("new")
    new.write_text(file.read_text().replace("one", "two"))
    new.replace(file)
    os.utime(file, (1, 1))  # same size, same time
    assert house.get("late").body == "two"
    file.unlink()
    file.parent.rmdir()
    assert [skill.name for skill in house.look().skills] == SHIPPED


def test_changes_within_one_tick_of_the_clock_are_seen(house: House) -> None:
    file = put(house.paths, "quick", body="0")
    text = file.read_text()
    for number in range(100):
        file.write_text(text[:-1] + str(number % 10))  # the same size, the same file
        assert house.get("quick").body == str(number % 10)
    for number in range(30):
        put(house.paths, f"new-{number}")
        assert house.get(f"new-{number}").problem is None


def test_a_stamp_is_settled_once_the_clock_has_gone_on() -> None:
    now_ns = time.time_ns()
    assert not is_settled((1, 1, 1, now_ns, now_ns))
    assert not is_settled((1, 1, 1, 0, now_ns + 10**9))  # a file server's clock that is ahead
    assert is_settled((1, 1, 1, now_ns - 10**9, now_ns - 10**9))
    assert is_settled(())


def test_only_so_many_of_one_folder_are_read(house: House) -> None:
    own = house.view().root / "skills"
    for number in range(40):
        put(own, f"s{number:02}")
    skills = house.look()
    assert [skill.name for skill in skills.skills if skill.source is SkillSource.CHAT][-1] == "s29"
    assert skills.problems == ("skills: has 40 entries; only the first 30 are looked at",)


def test_a_configured_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.paths.rmdir()
    assert house.look().problems == (f"{house.paths}: does not exist",)


KNOWN = SkillSet(
    skills=tuple(Skill(name=name, source=SkillSource.BUILT_IN, path=name) for name in ("pay", "PATH", "a-b"))
)


@pytest.mark.parametrize(
    "text",
    [
        "$pay", "please $pay now", "($pay)", "do it with $pay.", "$pay: all of it", "$pay, then rest",
        "line\n$pay\nline",
        "用$pay提醒我", "请用 $pay。", "$pay!?", "“$pay”", "costs $5, $pay", "$nobody $pay $pay", "`$a-b` $pay",
        "``$a`` $pay", "好~~~ $pay ~~~",
    ],
)  # fmt: skip
def test_a_name_at_the_beginning_of_a_word_asks_for_the_skill(text: str) -> None:
    assert [skill.name for skill in KNOWN.requested(text)] == ["pay"]


@pytest.mark.parametrize(
    "text",
    [
        "", "$", "pay", "$ pay", "$Pay", "$payment", "$pay2", "$pay-all", "$pay_", "$$pay", "\\$pay", "US$pay", "a$pay",
        "5$pay", "$5", "${pay}", "x=$pay", "$pay=1", "$pay/bin", "$PATH:/usr/bin", "$pay.name", "$pay[0]", "$pay()",
        "``$pay``", "`` ` $pay ``", "~~~\n$pay\n~~~", "```` ``` $pay ````", "a\n~~~~\n~~~\n$pay", "``` ` $pay",
        "echo `$pay`", "```\necho $pay\n```", "```sh\n$pay", "'$pay'", '"$pay"', "https://x.org/$pay", "@$pay",
        "$pays.", "$päy", "$payä",
    ],
)  # fmt: skip
def test_prices_variables_and_code_ask_for_nothing(text: str) -> None:
    assert KNOWN.requested(text) == []


def test_one_message_asks_for_three_skills_at_most() -> None:
    many = SkillSet(skills=tuple(Skill(name=f"s{n}", source=SkillSource.CHAT, path="") for n in range(9)))
    assert [skill.name for skill in many.requested("$s3 $s1 $s3 $s2 $s0")] == ["s3", "s1", "s2"]


def test_looking_for_names_takes_time_in_proportion_to_the_text() -> None:
    for text in (
        "$pay" * 50_000,
        "$" + "a" * 200_000,
        "`" * 200_000,
        "``` " * 50_000,
        "$pay." * 40_000,
        "$pay" + "." * 100_000,
    ):
        assert len(KNOWN.requested(text)) <= 1  # done before the time limit of a test: that is what is tested


def test_chats_with_many_skills_do_not_fill_the_memory(house: House) -> None:
    for number in range(80):
        put(house.view(f"telegram:{number}").root / "skills", "ours", body=f"of {number}")
        house.look(f"telegram:{number}")
    assert len(house.library._chats) == 64
    assert [house.get("ours", f"telegram:{number}").body for number in (0, 79)] == ["of 0", "of 79"]
    for number in range(100, 200):  # those without any take nobody's place
        house.look(f"telegram:{number}")
    assert len(house.library._chats) == 64


def test_the_clock_may_jump(house: House) -> None:
    put(house.paths, "gh", more="requires: {bins: [gh]}")
    house.look()
    house.clock.advance(-3 * 3600)
    assert house.look() is house.look()
    assert house.clock.now_us() % US_PER_S >= 0
