"""Placing hunks: the stated line, offsets, fuzz, line ends, and the rule book of `git apply` and `patch`."""

from __future__ import annotations

import difflib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.edits.hunks import HunkMisfit, Patched, apply_hunks, split_lines
from bot.edits.patch import Hunk, parse_patch

MARK = "\\ No newline at end of file\n"
NUMBERED = "".join(f"line {n}\n" for n in range(1, 41))


def hunks(body: str) -> tuple[Hunk, ...]:
    (file,) = parse_patch(f"--- a/f\n+++ b/f\n{body}")
    return file.hunks


def patched(text: str, body: str) -> Patched:
    return apply_hunks(split_lines(text), hunks(body))


def after(text: str, body: str) -> str:
    return "".join(patched(text, body).lines)


def misfit(text: str, body: str) -> HunkMisfit:
    with pytest.raises(HunkMisfit) as caught:
        patched(text, body)
    return caught.value


def places(text: str, body: str) -> list[tuple[int, int, int]]:
    return [(place.line, place.offset, place.fuzz) for place in patched(text, body).placed]


def diff(old: str, new: str, context: int = 3) -> str:
    """Return a git-style diff of two texts, with the marks that difflib leaves out."""
    lines = difflib.unified_diff(split_lines(old), split_lines(new), "a/f", "b/f", n=context)
    return "".join(line if line.endswith("\n") else f"{line}\n{MARK}" for line in lines)


def test_only_a_newline_ends_a_line() -> None:
    assert split_lines("a\x0cb\u2028c\rd\r\n\ne") == ["a\x0cb\u2028c\rd\r\n", "\n", "e"]
    assert split_lines("") == []


def test_a_hunk_at_its_line_has_no_offset() -> None:
    body = "@@ -2,3 +2,3 @@\n line 2\n-line 3\n+three\n line 4\n"
    assert after(NUMBERED, body) == NUMBERED.replace("line 3\n", "three\n", 1)
    assert places(NUMBERED, body) == [(2, 0, 0)]


def test_a_hunk_elsewhere_is_found_and_the_offset_told() -> None:
    body = "@@ -2,3 +2,3 @@\n line 30\n-line 31\n+x\n line 32\n"
    assert after(NUMBERED, body) == NUMBERED.replace("line 31\n", "x\n")
    assert places(NUMBERED, body) == [(30, 28, 0)]


def test_the_next_hunk_is_expected_with_the_offset_of_the_one_before() -> None:
    text = "new\n" * 5 + "a\nb\n" * 10
    body = "@@ -1,3 +1,3 @@\n-a\n+A\n b\n a\n@@ -7,2 +7,2 @@\n-a\n+A\n b\n"
    assert places(text, body) == [(6, 5, 0), (12, 5, 0)]


def test_of_several_places_the_nearest_to_the_stated_line_is_taken_and_the_later_of_two_equally_near() -> None:
    text = "x\n" * 3 + "here\n" + "x\n" * 9 + "here\n" + "x\n" * 3  # at 4 and 14
    assert [places(text, f"@@ -{line} +{line} @@\n-here\n+y\n")[0][0] for line in (1, 8, 9, 10, 17, 900)] == [
        *(4, 4, 14, 14, 14, 14)
    ]


def test_a_hunk_without_a_line_needs_the_only_place() -> None:
    assert places(NUMBERED, "@@ @@\n-line 9\n+x\n") == [(9, 0, 0)]
    error = misfit("a\nb\n" * 10, "@@ @@\n-a\n+x\n b\n")
    assert str(error) == (
        "hunk 1 states no line, and its old lines are found at lines 1, 3, 5, 7, 9, 11, 13, 15, …; "
        "state one or give more context"
    )


@pytest.mark.parametrize(
    ("changed", "fuzz"),
    [((), 0), ((7,), 1), ((13,), 1), ((7, 13), 1), ((8,), 2), ((7, 8, 12, 13), 2), ((9,), None), ((10,), None)],
)
def test_up_to_two_outer_lines_of_context_may_differ(changed: tuple[int, ...], fuzz: int | None) -> None:
    text = "".join(f"other {n}\n" if n in changed else f"line {n}\n" for n in range(1, 41))
    body = diff(NUMBERED, NUMBERED.replace("line 10\n", "ten\n")).split("\n", 2)[2]
    if fuzz is None:
        assert "does not fit" in str(misfit(text, body))
        return
    assert after(text, body) == text.replace("line 10\n", "ten\n")
    assert places(text, body) == [(7, 0, fuzz)]


def test_the_longer_context_is_shortened_first() -> None:
    body = "@@ -1,5 +1,5 @@\n one\n two\n three\n-four\n+4\n five\n"
    assert places("1\ntwo\nthree\nfour\nfive\n", body) == [(1, 0, 1)]
    assert "does not fit" in str(misfit("one\ntwo\nthree\nfour\n5\n", body))


def test_fuzz_leaves_an_old_line_to_be_found() -> None:
    assert "does not fit" in str(misfit("x\ny\n", "@@ -1,2 +1,3 @@\n a\n+new\n b\n"))


def test_a_hunk_lies_behind_the_one_before_it() -> None:
    error = misfit(NUMBERED, "@@ -9 +9 @@\n-line 9\n+x\n@@ -3 +3 @@\n-line 3\n+y\n")
    assert str(error) == (
        "hunk 2 fits only at line 3, which is not behind the hunk before it; order hunks by their lines"
    )
    assert "behind the hunk" in str(misfit("a\nb\n", "@@ -1 +1 @@\n-a\n+x\n@@ -1 +1 @@\n-a\n+y\n"))


def test_a_hunk_that_fits_nowhere_tells_the_likeliest_line() -> None:
    error = misfit(NUMBERED, "@@ -3,3 +3,3 @@\n line 20\n-line twenty-one\n+x\n line 22\n line 23\n")
    assert (error.hunk.number, error.near) == (1, 20)
    assert misfit(NUMBERED, "@@ -3 +3 @@\n-nowhere\n+x\n").near is None


def test_lines_are_added_without_context_where_the_line_says() -> None:
    assert after("a\nb\n", "@@ -1,0 +2 @@\n+x\n") == "a\nx\nb\n"
    assert after("a\nb\n", "@@ -0,0 +1 @@\n+x\n") == "x\na\nb\n"
    assert after("", "@@ -0,0 +1,2 @@\n+x\n+y\n") == "x\ny\n"
    assert str(misfit("a\nb\n", "@@ -7,0 +8 @@\n+x\n")) == "hunk 1 adds lines after line 7, but the file has 2 lines"
    assert "adds lines without any context" in str(misfit("a\n", "@@ @@\n+x\n"))


def test_crlf_files_keep_their_line_ends_under_an_lf_patch() -> None:
    assert after("a\r\nb\r\nc\r\n", "@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n") == "a\r\nx\r\ny\r\nc\r\n"
    assert after("a\r\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+x\n") == "a\r\nx"


def test_in_a_mixed_file_a_new_line_ends_as_the_line_before_it() -> None:
    text = "one\r\ntwo\nthree\r\nfour\r\n"
    assert after(text, "@@ -2,3 +2,5 @@\n two\n+x\n three\n+y\n four\n") == "one\r\ntwo\nx\nthree\r\ny\r\nfour\r\n"


def test_line_ends_can_be_changed_where_the_diff_has_those_of_the_file() -> None:
    assert after("a\nb\n", "@@ -1,2 +1,2 @@\n-a\n+a\r\n b\n") == "a\r\nb\n"


def test_the_end_of_the_file_stays_as_it_was_unless_the_diff_says_otherwise() -> None:
    assert after("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+x\n") == "a\nx"
    assert after("a\nb", f"@@ -1,2 +1,2 @@\n a\n-b\n{MARK}+x\n") == "a\nx\n"
    assert after("a\nb\n", f"@@ -1,2 +1,2 @@\n a\n-b\n+x\n{MARK}") == "a\nx"
    assert after("a\r\nb", f"@@ -1,2 +1,2 @@\n a\n-b\n{MARK}+x\n") == "a\r\nx\r\n"
    assert after("a", "@@ -1 +1,2 @@\n a\n+b\n") == "a\nb"
    assert after("a", "@@ -1,0 +2 @@\n+b\n") == "a\nb"
    assert after("a\nb", "@@ -1,2 +1 @@\n a\n-b\n") == "a"


def test_a_hunk_that_ends_the_file_fits_only_there() -> None:
    body = f"@@ -1 +1 @@\n-a\n+x\n{MARK}"
    assert after("a\na\n", body) == "a\nx"
    assert "says that it reaches to the end of the file" in str(misfit("a\nb\n", body))


LINE = st.text(st.sampled_from("ab \t\r\x0c\u2028é+-@\\"), max_size=4)
TEXT = st.lists(st.sampled_from(["a", "b", "c", "", "a\r"]) | LINE, max_size=25).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "".join(f"{line}\n" for line in lines)])
)


@settings(max_examples=400, deadline=None)
@given(TEXT, TEXT)
def test_a_diff_gives_the_new_text_and_reversed_the_old_one(old: str, new: str) -> None:
    for before, wanted in ((old, new), (new, old)):
        if before == wanted:
            continue
        (file,) = parse_patch(diff(before, wanted))
        result = apply_hunks(split_lines(before), file.hunks)
        assert "".join(result.lines) == wanted
        assert all((place.offset, place.fuzz) == (0, 0) for place in result.placed)


@settings(max_examples=200, deadline=None)
@given(TEXT, TEXT, TEXT)
def test_any_hunks_on_any_file_are_a_result_or_a_misfit(old: str, new: str, other: str) -> None:
    if old == new:
        return
    (file,) = parse_patch(diff(old, new, context=1))
    try:
        result = apply_hunks(split_lines(other), file.hunks)
    except HunkMisfit as error:
        text = str(error)
        assert text
        return
    for line in result.lines[:-1]:
        assert line.endswith("\n")
        assert line.count("\n") == 1


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.data())
def test_what_git_apply_does_at_offsets_we_do_too(lines: list[str], data: st.DataObject) -> None:
    old = "".join(f"{line}\n" for line in lines)
    new = "".join(f"{line}\n" for line in data.draw(st.lists(st.sampled_from("abcxyz"), max_size=30)))
    moved = "".join(f"{line}\n" for line in data.draw(st.lists(st.sampled_from("pq"), max_size=6))) + old
    if old == new or not old:
        return
    text = diff(old, new)
    theirs = _run(["git", "apply", "--recount", "-"], moved, text)
    if theirs is None:  # git demands that a hunk without context at an end stands at that end; patch does not
        return
    (file,) = parse_patch(text)
    assert "".join(apply_hunks(split_lines(moved), file.hunks).lines) == theirs


@pytest.mark.skipif(not shutil.which("patch"), reason="GNU patch is not installed")
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_what_gnu_patch_does_with_fuzz_we_do_too(data: st.DataObject) -> None:
    lines = [f"line {n}" for n in range(30)]
    at = data.draw(st.integers(8, 20))
    new = [*lines[:at], "changed", *lines[at + 1 :]]
    other = list(lines)
    for index in data.draw(st.sets(st.sampled_from([at - 3, at - 2, at + 2, at + 3]))):
        other[index] = "disturbed"
    other = [f"more {n}" for n in range(data.draw(st.integers(0, 6)))] + other
    old_text, new_text, text = ("".join(f"{line}\n" for line in part) for part in (lines, new, other))
    body = diff(old_text, new_text)
    theirs = _run(["patch", "-p1", "-F2", "--no-backup-if-mismatch", "-s", "-r", "-"], text, body)
    (file,) = parse_patch(body)
    assert "".join(apply_hunks(split_lines(text), file.hunks).lines) == theirs


def _run(command: list[str], text: str, patch: str) -> str | None:
    """Return what the program makes of the file `f`, None if it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "f")
        file.write_text(text, newline="")
        run = subprocess.run(command, cwd=folder, input=patch.encode(), capture_output=True, check=False)
        return file.read_bytes().decode() if run.returncode == 0 else None


@pytest.mark.timeout(20)
def test_repeated_lines_take_linear_time() -> None:
    text = "x\n" * 300_000
    body = "@@ -150000,5002 +150000,5002 @@\n" + " x\n" * 5_000 + "-y\n+z\n x\n"
    assert misfit(text, body).near is not None
    many = "".join(f"@@ -{line},3 +{line},3 @@\n x\n-x\n+y\n x\n" for line in range(1, 3_000, 3))
    assert after(text, many).count("y\n") == 1_000
