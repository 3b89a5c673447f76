"""SKILL.md: what its front matter may be, and that no file of any kind does more than be refused with a reason."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.skill_file import MAX_BODY_CHARS, MAX_FILE_BYTES, SkillBroken, parse_skill

PLAIN = """---
name: gh
description: >
  Works with
  GitHub.
always: true
requires:
  bins: [gh, jq]
  env: [GH_TOKEN]
license: MIT
---

# Steps

---
1. Look.
"""


def test_front_matter_and_body_are_read() -> None:
    skill = parse_skill(PLAIN.encode(), "gh")
    assert (skill.name, skill.description, skill.always) == ("gh", "Works with GitHub.", True)
    assert (skill.bins, skill.env) == (("gh", "jq"), ("GH_TOKEN",))
    assert skill.body == "# Steps\n\n---\n1. Look."


@pytest.mark.parametrize(
    "metadata",
    [
        "requires: {bins: [gh]}\nalways: true",
        "metadata:\n  requires: {bins: [gh]}\n  always: 'yes'",
        'metadata: {"nanobot": {"emoji": "x", "requires": {"bins": ["gh"]}, "always": true}}',
        """metadata: '{"openclaw": {"requires": {"bins": ["gh"]}, "always": true}}'""",
        "requires: {bins: gh}\nalways: on",
    ],
)
def test_requirements_are_found_where_other_assistants_have_them(metadata: str) -> None:
    skill = parse_skill(f"---\nname: gh\ndescription: d\n{metadata}\n---\nbody".encode(), "gh")
    assert (skill.bins, skill.always) == (("gh",), True)


def test_the_folder_gives_a_name_that_is_left_out_and_line_ends_and_marks_do_not_matter() -> None:
    skill = parse_skill("\ufeff---\r\ndescription: d\r\n---\r\nbody\r\n".encode(), "notes")
    assert (skill.name, skill.description, skill.body, skill.always) == ("notes", "d", "body", False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# no front matter", "does not begin with front matter between lines of three hyphens"),
        ("---\nname: gh\ndescription: d\n", "its front matter has no end within 8,192 characters"),
        (f"---\nx: {'y' * 9_000}\n---\n", "its front matter has no end within 8,192 characters"),
        ("---\nname: other\ndescription: d\n---\n", "its name 'other' is not that of its folder"),
        ("---\nname: gh\n---\nbody", "has no description"),
        ("---\nname: gh\ndescription: [a]\n---\nbody", "description is not text"),
        ("---\n- a\n---\nbody", "its front matter is not a table of names and values"),
        ("---\n---\nbody", "its front matter is not a table of names and values"),
        ("---\ndescription: d\nrequires: [gh]\n---\n", "requires is not a table of lists"),
        ("---\ndescription: d\nrequires: {bins: {a: b}}\n---\n", "requires.bins is not a list of at most 20 names"),
        ("---\ndescription: d\nrequires: {bins: [/bin/sh]}\n---\n", "requires.bins has something that is not a name"),
        ("---\ndescription: d: e\n---\n", "its front matter is not valid YAML, line 2: mapping values are not allowed"),
        ("---\ndescription: d\nx: *nobody\n---\n", "its front matter is not valid YAML, line 3: found undefined alias"),
    ],
)
def test_a_broken_file_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(SkillBroken) as caught:
        parse_skill(text.encode(), "gh")
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize("folder", ["5", "-x", "a b", "a" * 65, "käse", "x.y"])
def test_a_name_that_could_not_be_asked_for_is_refused(folder: str) -> None:
    with pytest.raises(SkillBroken, match="its name is not made of"):
        parse_skill(b"---\ndescription: d\n---\n", folder)


def test_bytes_that_are_no_text_and_files_that_are_too_large_are_refused() -> None:
    with pytest.raises(SkillBroken, match="is not UTF-8 text"):
        parse_skill(b"---\ndescription: \xff\n---\n", "gh")
    with pytest.raises(SkillBroken, match="is larger than 128 KiB"):
        parse_skill(b"x" * (MAX_FILE_BYTES + 1), "gh")


def test_of_a_long_body_no_more_is_kept_than_is_ever_shown() -> None:
    skill = parse_skill(b"---\ndescription: d\n---\n" + b"x" * 100_000, "gh")
    assert len(skill.body) == MAX_BODY_CHARS + 1


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: y}\n" + "".join(
    f"{name}: &{name}\n  <<: [{', '.join([f'*{below}'] * 9)}]\n"
    for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "front",
    [
        BOMB + "description: d\nmetadata: *i",
        BOMB + "description: d\nalways: *i",
        BOMB + "description: d\nname: *i",
        BOMB + "description: d\nrequires: {bins: *i}",
        BOMB + "description: d\nrequires: {env: [*i]}",
        BOMB + "description: d\nmetadata: {x: {always: *i}}",
        "description: d\nrequires:",
        MERGES + "description: d\nmetadata: *i",
        "x: &x [*x]\ndescription: d",
        "x: " + "[" * 4_000,
        "- " * 4_000,
        "x: !!python/object/apply:os.system ['false']\ndescription: d",
        "description: d\nx: " + "9" * 6_000,
        "description: d\nx: 2026-99-99",
        "\x00",
        "description: d\nalways: {a: b}",
    ],
)
def test_a_bomb_costs_nothing_and_makes_no_object(front: str) -> None:
    began = time.process_time()
    try:
        skill = parse_skill(f"---\n{front}\n---\nbody".encode(), "gh")
    except SkillBroken:
        pass
    else:
        assert (skill.description, skill.bins, skill.always) == ("d", (), False)
    assert time.process_time() - began < 1  # expanded it would be 9**9 entries


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=300) | st.text("-:[]{}&*!|>'\"%@` \nax", max_size=80))
def test_whatever_the_front_matter_is_it_is_read_or_refused(front: str) -> None:
    with suppress(SkillBroken):
        skill = parse_skill(f"---\n{front}\n---\nbody".encode("utf-8", "surrogatepass"), "gh")
        assert skill.description
