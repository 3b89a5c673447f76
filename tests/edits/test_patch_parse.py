"""Reading unified diffs: git's headers, sloppy ones as models write them, and what is no unified diff at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.edits.patch import MAX_FILES, MAX_HUNKS, MAX_PATCH_CHARS, FilePatch, parse_patch
from bot.edits.sloppy_diff import PatchError

NAMES = "--- a/f.txt\n+++ b/f.txt\n"
BODY = " a\n-b\n+c\n"


def one(text: str) -> FilePatch:
    (file,) = parse_patch(text)
    return file


def change(file: FilePatch, index: int = 0) -> tuple[list[str], list[str]]:
    return file.hunks[index].old, file.hunks[index].new


def refusal(text: str) -> str:
    with pytest.raises(PatchError) as caught:
        parse_patch(text)
    return str(caught.value)


def outcome(text: str) -> list[FilePatch] | str:
    try:
        return parse_patch(text)
    except PatchError as error:
        return str(error)


def test_a_plain_diff_names_its_file_and_its_lines() -> None:
    file = one(f"{NAMES}@@ -7,2 +7,2 @@ def f():\n{BODY}")
    assert (file.old, file.new) == ("f.txt", "f.txt")
    assert change(file) == (["a\n", "b\n"], ["a\n", "c\n"])
    assert (file.hunks[0].number, file.hunks[0].line) == (1, 7)


def test_a_created_file_has_no_old_name() -> None:
    file = one("diff --git a/n b/n\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n")
    assert (file.old, file.new, change(file)) == (None, "n", ([], ["x\n"]))


def test_an_empty_file_is_created_by_its_header_alone() -> None:
    file = one("diff --git a/n b/n\nnew file mode 100644\nindex 0000000..e69de29\n")
    assert (file.old, file.new, file.hunks) == (None, "n", ())


def test_a_deleted_file_has_no_new_name() -> None:
    file = one("diff --git a/o b/o\ndeleted file mode 100644\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")
    assert (file.old, file.new, change(file)) == ("o", None, (["x\n"], []))


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", (None, "n")),
        ("diff --git a/n b/n\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", (None, "n")),
        ("--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", ("n", None)),
        ("diff --git a/n b/n\n--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", ("n", None)),
    ],
)
def test_dev_null_says_create_or_delete_with_or_without_modes(header: str, names: tuple[str, str]) -> None:
    file = one(header)
    assert (file.old, file.new) == names


def test_a_rename_goes_with_and_without_changes() -> None:
    moved = "diff --git a/old name b/new name\nsimilarity index 90%\nrename from old name\nrename to new name\n"
    assert (one(moved).old, one(moved).new, one(moved).hunks) == ("old name", "new name", ())
    changed = one(f"{moved}index 1..2 100644\n--- a/old name\t\n+++ b/new name\t\n@@ -1,2 +1,2 @@\n{BODY}")
    assert (changed.old, changed.new, changed.keeps_old) == ("old name", "new name", False)
    assert change(changed) == (["a\n", "b\n"], ["a\n", "c\n"])


def test_a_copy_keeps_the_old_file() -> None:
    file = one("diff --git a/o b/n\nsimilarity index 100%\ncopy from o\ncopy to n\n")
    assert (file.old, file.new, file.keeps_old) == ("o", "n", True)


def test_the_mark_of_no_newline_belongs_to_the_line_before_it() -> None:
    mark = "\\ No newline at end of file\n"
    assert change(one(f"{NAMES}@@ -1 +1 @@\n-a\n{mark}+b\n{mark}")) == (["a"], ["b"])
    assert change(one(f"{NAMES}@@ -1 +1 @@\n-a\n{mark}+a\n")) == (["a"], ["a\n"])
    assert change(one(f"{NAMES}@@ -1 +1 @@\n-a\n+a\n{mark}")) == (["a\n"], ["a"])
    assert change(one(f"{NAMES}@@ -1,2 +1,2 @@\n-x\n+y\n z\n\\ Kein Zeilenumbruch\n")) == (["x\n", "z"], ["y\n", "z"])


def test_nothing_may_follow_a_line_that_ends_the_file() -> None:
    error = refusal(f"{NAMES}@@ -1,2 +1,2 @@\n a\n\\ No newline at end of file\n-b\n+c\n")
    assert error == "f.txt: hunk 1 goes on after a line that it says is the end of the file."


def test_prefixes_are_taken_off_in_pairs_only() -> None:
    for old, new, name in (
        ("a/x/f", "b/x/f", "x/f"),
        ("i/x/f", "w/x/f", "x/f"),
        ("x/f", "x/f", "x/f"),
        ("a/f", "a/f", "a/f"),
        ("b/f", "b/f", "b/f"),
    ):
        file = one(f"--- {old}\n+++ {new}\n@@ -1,2 +1,2 @@\n{BODY}")
        assert (file.old, file.new) == (name, name)


def test_time_stamps_are_no_part_of_a_name() -> None:
    file = one(f"--- f.txt\t2026-01-01 10:00:00.000 +0100\n+++ f.txt\t2026-01-02\n@@ -1,2 +1,2 @@\n{BODY}")
    assert (file.old, file.new) == ("f.txt", "f.txt")


def test_quoted_names_are_read_as_git_wrote_them() -> None:
    quoted = r"\303\244 \"b\"\t.txt"
    file = one(f'diff --git "a/{quoted}" "b/{quoted}"\n--- "a/{quoted}"\n+++ "b/{quoted}"\n@@ -1,2 +1,2 @@\n{BODY}')
    assert (file.old, file.new) == ('ä "b"\t.txt', 'ä "b"\t.txt')


def test_several_files_each_have_their_own_hunks() -> None:
    text = f"{NAMES}@@ -1,2 +1,2 @@\n{BODY}@@ -9,2 +9,2 @@\n{BODY}--- a/g\n+++ b/g\n@@ -3,2 +3,2 @@\n{BODY}"
    files = parse_patch(text)
    assert [(file.name, [hunk.line for hunk in file.hunks]) for file in files] == [("f.txt", [1, 9]), ("g", [3])]


def test_lines_that_look_like_names_are_lines_where_the_counts_say_so() -> None:
    file = one(f"{NAMES}@@ -1,2 +1,2 @@\n a\n--- old\n+++ new\n")
    assert change(file) == (["a\n", "-- old\n"], ["a\n", "++ new\n"])


def test_a_diff_that_was_converted_to_crlf_as_a_whole_has_no_cr_in_its_lines() -> None:
    text = f"{NAMES}@@ -1,2 +1,2 @@\n{BODY}".replace("\n", "\r\n")
    assert change(one(text)) == (["a\n", "b\n"], ["a\n", "c\n"])


def test_a_diff_of_a_crlf_file_keeps_the_cr_of_its_lines() -> None:
    text = NAMES + "@@ -1,2 +1,2 @@\n" + BODY.replace("\n", "\r\n")
    assert change(one(text)) == (["a\r\n", "b\r\n"], ["a\r\n", "c\r\n"])


@pytest.mark.parametrize(
    "header", ["@@ -1,7 +1,9 @@", "@@ -1,1 +1,1 @@", "@@ -1 +1 @@", "@@ -1,2 +1 @@", "@@ -1,0 +1,0 @@", "@@ -1 @@"]
)
def test_wrong_counts_are_counted_again(header: str) -> None:
    file = one(f"{NAMES}{header}\n{BODY} d\n")
    assert change(file) == (["a\n", "b\n", "d\n"], ["a\n", "c\n", "d\n"])
    assert file.hunks[0].line == 1


@pytest.mark.parametrize("header", ["@@", "@@ @@", "@@ ... @@", "@@ def f():", "@@ -0,3 +0,3 @@", "@@-1,2 +1,2@@"])
def test_a_header_without_numbers_states_no_line(header: str) -> None:
    file = one(f"{NAMES}{header}\n{BODY}")
    assert file.hunks[0].line is None
    assert change(file) == (["a\n", "b\n"], ["a\n", "c\n"])


def test_wrong_counts_do_not_swallow_the_next_file() -> None:
    files = parse_patch(f"{NAMES}@@ -1,9 +1,9 @@\n{BODY}--- a/g\n+++ b/g\n@@ -1,9 +1,9 @@\n{BODY}")
    assert [change(file) for file in files] == [(["a\n", "b\n"], ["a\n", "c\n"])] * 2


def test_a_blank_line_of_context_may_have_lost_its_space() -> None:
    assert change(one(f"{NAMES}@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n")) == (["a\n", "\n", "b\n"], ["a\n", "\n", "c\n"])
    assert change(one(f"{NAMES}@@ @@\n a\n\n-b\n+c\n\n\n")) == (["a\n", "\n", "b\n"], ["a\n", "\n", "c\n"])


def test_prose_fences_and_the_mail_of_format_patch_are_passed_over() -> None:
    diff = f"diff --git a/f.txt b/f.txt\nindex 1..2 100644\n{NAMES}@@ -1,2 +1,2 @@\n{BODY}"
    mail = f"From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n f.txt | 2 +-\n\n{diff}-- \n2.39.5\n\n"
    for text in (f"Here it is:\n\n```diff\n{diff}```\nThat was it.\n"[: -len("That was it.\n")], mail, mail + mail):
        assert {(file.name, *map(tuple, change(file))) for file in parse_patch(text)} == {
            ("f.txt", ("a\n", "b\n"), ("a\n", "c\n"))
        }


@pytest.mark.parametrize("line", ["d", "}", "\td", "That is all."])
def test_a_line_that_belongs_to_no_hunk_is_an_error_and_never_dropped(line: str) -> None:
    error = refusal(f"{NAMES}@@ -1,3 +1,3 @@\n{BODY}{line}\n+e\n")
    assert error.startswith("Line 7 of the patch belongs to no hunk")


def test_lines_that_only_a_hunk_can_have_follow_no_finished_hunk() -> None:
    assert change(one(f"{NAMES}@@ -1,2 +1,2 @@\n{BODY}\n+e\n")) == (["a\n", "b\n", "\n"], ["a\n", "c\n", "\n", "e\n"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch\n", "the *** Begin Patch form"),
        ("*** f\n--- f\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n", "a context diff"),
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "search and replace block"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\nKcmZ\n", "only text can be patched"),
        ("Binary files a/x and b/x differ\n", "only text can be patched"),
        ("diff --cc f\n@@@ -1 -1 +1 @@@\n- a\n", "a combined diff of a merge"),
        ("", "There is no unified diff in this patch."),
        ("s/a/b/", "There is no unified diff in this patch."),
        ("1c1\n< a\n---\n> b\n", "There is no unified diff in this patch."),
    ],
)
def test_another_form_of_patch_is_refused_with_the_form_that_is_wanted(text: str, said: str) -> None:
    error = refusal(text)
    assert said in error
    assert "Wanted is a unified diff" in error
    assert "`--- a/PATH`, `+++ b/PATH`" in error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"@@ -1,2 +1,2 @@\n{BODY}", "Line 1 of the patch begins a hunk, but no `--- a/PATH` and `+++ b/PATH`"),
        (f"diff --git a/f b/f\n@@ -1,2 +1,2 @@\n{BODY}", "Line 2 of the patch begins a hunk, but no"),
        (f"{NAMES}@@ -1,2 +1,2 @@\n a\n b\n", "The hunk at line 3 of the patch changes nothing"),
        (f"{NAMES}@@ -1,2 +1,2 @@\n", "The hunk at line 3 of the patch changes nothing"),
        (NAMES, "f.txt: the patch has no hunk for it and changes nothing."),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "/dev/null on both sides"),
        ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n", "is a link"),
        ("diff --git a/m b/m\nnew file mode 160000\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+Sub\n", "submodule"),
        (f"diff --git a/f b/f\n--- a/f\n+++ b/g\n@@ -1,2 +1,2 @@\n{BODY}", "The patch cannot be read: Target without"),
        (f"--- \n+++ b\n@@ -1,2 +1,2 @@\n{BODY}", "Line 1 of the patch names no file"),
        ("diff --git http://x/f http://x/f\n", "Line 1 of the patch does not name two files"),
        ("diff --git a/f\nrename from f\nrename to g\n", "Line 1 of the patch does not name two files"),
        (f"--- {'x' * 50_000}\n+++ b\n@@ -1,2 +1,2 @@\n{BODY}", "Line 1 of the patch is no header"),
    ],
)
def test_what_cannot_be_meant_is_said_with_its_place(text: str, said: str) -> None:
    assert said in refusal(text)


def test_an_executable_mode_is_told() -> None:
    script = "diff --git a/s b/s\nnew file mode 100755\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+x\n"
    assert one(script).is_executable is True
    assert one("diff --git a/s b/s\nold mode 100755\nnew mode 100644\n").is_executable is False
    assert (
        one(f"diff --git a/s b/s\nindex 1..2 100755\n--- a/s\n+++ b/s\n@@ -1,2 +1,2 @@\n{BODY}").is_executable is None
    )


def test_the_limits_are_told() -> None:
    assert f"{MAX_PATCH_CHARS + 1:,} characters" in refusal("x" * (MAX_PATCH_CHARS + 1))
    assert "101 files" in refusal("".join(f"--- {n}\n+++ {n}\n@@ -1 +1 @@\n-a\n+b\n" for n in range(MAX_FILES + 1)))
    assert "1,001 hunks" in refusal(NAMES + "@@ -1 +1 @@\n-a\n+b\n" * (MAX_HUNKS + 1))


WORDS = st.sampled_from(
    [
        *("--- a/f", "+++ b/f", "--- ", "+++ ", "--- /dev/null", "+++ /dev/null", "diff --git a/f b/f", "diff --git "),
        *(
            "@@ -1 +1 @@",
            "@@",
            "@@ -1,2 +3,4 @@",
            "@@ -0,0 +1,999999999 @@",
            "@@@ ",
            " ",
            "",
            "+",
            "-",
            "\\",
            " a",
            "-a",
        ),
        *("+b", "\\ No newline at end of file", "rename from x", "rename to y", "new file mode 100644", "old mode 1"),
        *(
            "deleted file mode 1",
            "copy from a",
            "index 1..2 3",
            "-- ",
            "```",
            "\r",
            "+x\r",
            '--- "a/\\3',
            '+++ "',
            "From ",
        ),
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=400), st.lists(WORDS | st.text(max_size=10), max_size=25).map("\n".join)))
def test_any_text_is_a_patch_or_an_error(text: str) -> None:
    files = outcome(text)
    assert 0 < len(files) < 1_000
    if isinstance(files, str):
        return
    for file in files:
        assert file.old or file.new
        for hunk in file.hunks:
            assert hunk.old != hunk.new


@pytest.mark.parametrize(
    "text",
    [
        "diff --git " + "a/ b/ " * 5_000,
        "diff --git " + "x " * 16_000,
        NAMES + "@@ -1 +1 @@\n" + "-\n+\n" * 100_000,
        NAMES + ("@@ -1,9 +1,9 @@\n" + "-\n" * 20) * 900,
        "--- a\n" * 100_000,
        ("--- a\n+++ b\n" * 50_000) + "@@ -1,99999 +1,99999 @@\n" + "--- a\n+++ b\n" * 30_000,
        "\\\n" * 300_000,
        "Binary files " + "\t and " * 100_000,
    ],
)
@pytest.mark.timeout(10)
def test_long_patches_take_linear_time(text: str) -> None:
    assert len(outcome(text)) < 1_000
