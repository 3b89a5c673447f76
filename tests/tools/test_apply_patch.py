"""apply_patch: several files at once, whole or not at all, by a diff or by edits; walls and limits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.clock import SystemClock
from bot.config import ToolsConfig
from bot.edits.change_record import ChangeRecord, ChangeState
from bot.edits.patching import MAX_LINES
from bot.edits.plan import MAX_FILE_BYTES
from bot.messages import ChatType, Role
from bot.toolkit.base import ToolResult
from bot.toolkit.room import ToolRoom
from bot.tools.apply_patch import DIFF_CHARS
from tests.edits.test_hunks import TEXT, diff
from tests.support.contexts import ToolDesk, request_context, tool_context

ME = request_context("1")
SECRET = "TOP SECRET\n"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    """The tools of an ordinary turn; a secret lies beside the workspace, a file in shared/."""
    (tmp_path / "secret").write_text(SECRET)
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx)
        desk.root(ME)
        (ctx.workspace / "shared" / "doc").write_text("shared\n")
        yield desk


def put(desk: ToolDesk, **files: str | bytes) -> None:
    for name, content in files.items():
        (desk.root(ME) / name).write_bytes(content.encode() if isinstance(content, str) else content)


def files(desk: ToolDesk) -> dict[str, bytes]:
    root = desk.root(ME)
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def records(desk: ToolDesk) -> list[ChangeRecord]:
    return [ChangeRecord(folder) for folder in desk.workspace.parent.glob("changes/*/*")]


async def apply(desk: ToolDesk, patch: str, **params: object) -> ToolResult:
    return await desk.call(ME, "apply_patch", patch=patch, **params)


async def edit(desk: ToolDesk, *edits: dict[str, str], **params: object) -> ToolResult:
    return await desk.call(ME, "apply_patch", edits=list(edits), **params)


def change(name: str, old: str, new: str) -> str:
    return f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{old}\n+{new}\n"


MANY = (
    "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    "diff --git a/made/new b/made/new\nnew file mode 100755\n--- /dev/null\n+++ b/made/new\n@@ -0,0 +1 @@\n+hello\n"
    "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
    "diff --git a/old b/moved\nsimilarity index 50%\nrename from old\nrename to moved\n"
    "--- a/old\n+++ b/moved\n@@ -1 +1 @@\n-x\n+y\n"
)


def put_many(desk: ToolDesk) -> dict[str, bytes]:
    put(desk, a="one\ntwo\n", gone="bye\n", old="x\n")
    return files(desk)


async def test_a_diff_changes_creates_deletes_and_renames(desk: ToolDesk) -> None:
    put_many(desk)
    (desk.root(ME) / "old").chmod(0o640)
    result = await apply(desk, MANY)
    assert not result.is_error
    assert result == (
        "Applied: 4 files, +3 -3 lines\n"
        "- changed a (+1 -1)\n"
        "- created made/new (+1 -0; executable)\n"
        "- deleted gone (+0 -1)\n"
        "- renamed old to moved (+1 -1)"
    )
    assert files(desk) == {"a": b"one\n2\n", "made/new": b"hello\n", "moved": b"y\n"}
    assert (desk.root(ME) / "moved").stat().st_mode & 0o777 == 0o640
    assert (desk.root(ME) / "made/new").stat().st_mode & 0o111
    (record,) = records(desk)
    assert record.state is ChangeState.COMMITTED
    author = record.manifest().author
    assert (author.tool, author.turn_id, author.session_id, author.sender_id) == (
        *("apply_patch", ME.turn_id, ME.turn.session_id, "7"),
    )


async def test_a_dry_run_shows_the_diffs_and_changes_nothing(desk: ToolDesk) -> None:
    before = put_many(desk)
    result = await apply(desk, MANY, dry_run=True)
    assert result.startswith("Would apply (dry run, nothing was changed): 4 files, +3 -3 lines\n- changed a (+1 -1)")
    assert "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n" in result
    assert "--- /dev/null\n+++ b/made/new\n@@ -0,0 +1 @@\n+hello" in result
    assert "--- a/gone\n+++ /dev/null" in result
    assert files(desk) == before
    assert records(desk) == []
    assert not (desk.root(ME) / "made").exists()


async def test_one_misfit_leaves_every_file_as_it_was_and_is_told_with_what_is_there(desk: ToolDesk) -> None:
    put(desk, a="1\n", b="".join(f"line {n}\n" for n in range(1, 9)))
    patch = change("a", "1", "2") + "--- a/b\n+++ b/b\n@@ -4,3 +4,3 @@\n line 4\n-line  5\n+x\n line 6\n"
    before = files(desk)
    result = await apply(desk, patch)
    assert result.is_error
    assert not result.is_refused
    assert result.startswith(
        "Nothing was changed.\n"
        "b: hunk 1 does not fit: its old lines are not in the file, not even without 2 lines of context. "
        "Closest is line 4, and only white space differs; here `-` is what the file has and `+` what the hunk "
        "expects:\n line 4\n-line 5\n+line  5\n line 6\n"
    )
    assert files(desk) == before
    assert records(desk) == []


async def test_all_misfits_are_told_at_once_up_to_eight(desk: ToolDesk) -> None:
    put(desk, a="1\n")
    result = await apply(desk, "".join(change(f"f{n}", "1", "2") for n in range(10)) + change("a", "1", "2"))
    assert result.count("does not exist") == 8
    assert "- f0: does not exist." in result
    assert "- and 2 more" in result
    assert files(desk) == {"a": b"1\n"}


async def test_offset_and_fuzz_are_said(desk: ToolDesk) -> None:
    lines = [f"line {n}" for n in range(1, 30)]
    put(desk, a="".join(f"{line}\n" for line in ["new", "newer", *lines]))
    lines[3] = "not in the file"
    old = "".join(f"{line}\n" for line in lines)
    result = await apply(
        desk, diff(old, old.replace("line 7\n", "seven\n")).replace("a/f", "a/a").replace("b/f", "b/a")
    )
    assert result == (
        "Applied: 1 file, +1 -1 lines\n"
        "- changed a (+1 -1; hunk 1: line 6 instead of 4, 1 outer line of context ignored)"
    )


async def test_later_parts_of_a_diff_see_what_earlier_ones_did(desk: ToolDesk) -> None:
    put(desk, a="1\n")
    moved = "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"
    result = await apply(desk, change("a", "1", "2") + moved + change("b", "2", "3"))
    assert not result.is_error, result
    assert files(desk) == {"b": b"3\n"}


async def test_lines_added_to_no_file_create_it(desk: ToolDesk) -> None:
    result = await apply(desk, "--- a/new\n+++ b/new\n@@ -0,0 +1,2 @@\n+1\n+2\n")
    assert result.endswith("- created new (+2 -0)")
    assert files(desk) == {"new": b"1\n2\n"}


async def test_what_exists_is_neither_created_nor_renamed_over(desk: ToolDesk) -> None:
    put(desk, a="1\n", b="2\n")
    created = await apply(desk, "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n")
    assert "a: exists already" in created
    renamed = await apply(desk, "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n")
    assert "b: exists already" in renamed
    assert created.is_error
    assert renamed.is_error
    assert files(desk) == {"a": b"1\n", "b": b"2\n"}


async def test_a_deletion_must_cover_the_whole_file_or_have_no_hunks(desk: ToolDesk) -> None:
    put(desk, a="1\n2\n", b=b"\x00binary")
    result = await apply(desk, "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n")
    assert "its hunks leave 1 of its lines" in result
    for name in "ab":
        whole = await apply(desk, f"diff --git a/{name} b/{name}\ndeleted file mode 100644\n")
        assert whole.endswith(f"- deleted {name} (+0 -0)")
    assert files(desk) == {}


async def test_modes_are_changed_by_a_diff_that_says_so(desk: ToolDesk) -> None:
    put(desk, a="1\n")
    (desk.root(ME) / "a").chmod(0o640)
    result = await apply(desk, "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n")
    assert result.endswith("- changed a (+0 -0; made executable)")
    assert (desk.root(ME) / "a").stat().st_mode & 0o777 == 0o750
    await apply(desk, "diff --git a/a b/a\nold mode 100755\nnew mode 100644\n")
    assert (desk.root(ME) / "a").stat().st_mode & 0o777 == 0o640


async def test_a_diff_that_is_applied_already_in_effect_changes_nothing(desk: ToolDesk) -> None:
    put(desk, a="1\n")
    result = await apply(desk, change("a", "1", "2") + change("a", "2", "1"))
    assert result == "The files are already as the patch wants them; nothing was changed."
    assert records(desk) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\xef\xbb\xbfone\r\ntwo\r\n", b"\xef\xbb\xbfone\r\n2\r\n"),
        (b"one\ntwo", b"one\n2"),
        (b"one\r\ntwo\nthree\r", b"one\r\n2\nthree\r"),
        (b"one\ntwo\n\xff\xfe raw\n", b"one\n2\n\xff\xfe raw\n"),
        ("one\ntwo\nä\n".encode("latin-1"), "one\n2\nä\n".encode("latin-1")),
        ("\ufeffone\r\ntwo\r\n".encode("utf-16-le"), "\ufeffone\r\n2\r\n".encode("utf-16-le")),
    ],
)
async def test_bytes_that_are_not_touched_stay(desk: ToolDesk, old: bytes, new: bytes) -> None:
    # Case C086 for this tool: line ends, byte order mark, encoding and the end of the file.
    put(desk, a=old)
    result = await apply(desk, "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
    assert not result.is_error, result
    assert files(desk) == {"a": new}


async def test_a_character_that_the_files_encoding_lacks_is_an_error(desk: ToolDesk) -> None:
    put(desk, a="äöüß are letters of some German words, grün und schön\n".encode("latin-1") + b"one\n")
    before = files(desk)
    result = await edit(desk, {"path": "a", "old_text": "one", "new_text": "日"})
    assert "cannot be written in the file's encoding" in result
    assert files(desk) == before


async def test_binary_and_too_large_files_are_told(desk: ToolDesk) -> None:
    put(desk, a=b"\x7fELF\x00\x01\n", b=b"x\n" * (MAX_FILE_BYTES // 2 + 1), c=b"\n" * (MAX_LINES + 1))
    result = await apply(desk, change("a", "1", "2") + change("b", "x", "y") + change("c", "x", "y"))
    assert "c: has 500,001 lines; files of up to 500,000 lines can be changed" in result
    assert "a: is binary (application/x-elf) and cannot be changed as text" in result
    assert "b: is too large" in result


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "x/../../secret", "~/x", "../../../secret"])
async def test_paths_that_lead_out_are_refused_wherever_they_stand(desk: ToolDesk, name: str) -> None:
    outside = desk.workspace.parent / "secret"
    put(desk, a="1\n")
    for patch in (
        f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-TOP SECRET\n+x\n",
        f"--- {name}\n+++ {name}\n@@ -1 +1 @@\n-TOP SECRET\n+x\n",
        f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n",
        f"diff --git a/{name} b/{name}\ndeleted file mode 100644\n",
        f"diff --git a/a b/{name}\nsimilarity index 100%\nrename from a\nrename to {name}\n",
        f"diff --git a/{name} b/b\nsimilarity index 100%\ncopy from {name}\ncopy to b\n",
    ):
        result = await apply(desk, change("a", "1", "2") + patch)
        assert result.is_error, patch
        assert "SECRET" not in result
        assert result.is_refused or "does not exist" in result, result
    assert outside.read_text() == SECRET
    assert files(desk) == {"a": b"1\n"}


async def test_absolute_paths_are_refused_as_a_wall(desk: ToolDesk) -> None:
    secret = desk.workspace.parent / "secret"
    result = await apply(desk, f"--- {secret}\n+++ {secret}\n@@ -1 +1 @@\n-TOP SECRET\n+x\n")
    assert result.is_refused
    assert "lies outside of this chat's files" in result


async def test_linked_folders_are_not_written_through(desk: ToolDesk) -> None:
    outside = desk.workspace.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("1\n")
    (desk.root(ME) / "link").symlink_to(outside)
    (desk.root(ME) / "file").symlink_to(outside / "f")
    for patch in (
        change("link/f", "1", "2"),
        change("file", "1", "2"),
        "--- /dev/null\n+++ b/link/n\n@@ -0,0 +1 @@\n+x\n",
    ):
        result = await apply(desk, patch)
        assert result.is_refused, result
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"f": "1\n"}


async def test_a_link_inside_stays_a_link_and_its_file_is_changed_once(desk: ToolDesk) -> None:
    put(desk, a="1\n")
    (desk.root(ME) / "link").symlink_to("a")
    result = await apply(desk, change("link", "1", "2") + change("a", "2", "3"))
    assert not result.is_error, result
    assert (desk.root(ME) / "link").is_symlink()
    assert (desk.root(ME) / "a").read_text() == "3\n"


async def test_shared_files_are_not_changed(desk: ToolDesk) -> None:
    for patch in (
        change("shared/doc", "shared", "mine"),
        "--- /dev/null\n+++ b/shared/new\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/shared/doc b/shared/doc\ndeleted file mode 100644\n",
    ):
        result = await apply(desk, patch)
        assert result.is_refused
        assert "can be read from this chat, but not changed" in result
    assert [path.name for path in (desk.workspace / "shared").iterdir()] == ["doc"]
    assert (desk.workspace / "shared" / "doc").read_text() == "shared\n"


async def test_another_chats_files_are_changed_by_an_owner_in_private_only(desk: ToolDesk) -> None:
    put(desk, a="1\n")
    name = f"chats/{desk.root(ME).name}/a"
    group = request_context("5", role=Role.OWNER, chat_type=ChatType.GROUP)
    owner = request_context("5", role=Role.OWNER)
    desk.root(owner)
    assert (await desk.call(group, "apply_patch", patch=change(name, "1", "2"))).is_error
    assert files(desk) == {"a": b"1\n"}
    assert not (await desk.call(owner, "apply_patch", patch=change(name, "1", "2"))).is_error
    assert files(desk) == {"a": b"2\n"}


async def test_folders_devices_and_pipes_are_no_files(desk: ToolDesk) -> None:
    (desk.root(ME) / "folder").mkdir()
    os.mkfifo(desk.root(ME) / "pipe")
    assert "folder: is a folder" in await apply(desk, change("folder", "1", "2"))
    assert "pipe: is not an ordinary file" in await apply(desk, change("pipe", "1", "2"))
    assert "made/x" not in str(await apply(desk, "--- /dev/null\n+++ b/pipe/x\n@@ -0,0 +1 @@\n+x\n"))


async def test_edits_replace_and_add_in_their_order(desk: ToolDesk) -> None:
    put(desk, a="one\ntwo\n")
    result = await edit(
        desk,
        {"path": "a", "action": "replace", "old_text": "two", "new_text": "2"},
        {"path": "sub/b", "action": "add", "new_text": "hello\n"},
        {"path": "a", "old_text": "2\n", "new_text": "3\n4\n"},
    )
    assert result.startswith("Applied: 3 files, +4 -2 lines\n- changed a (+1 -1)\n- created sub/b (+1 -0)\n")
    assert files(desk) == {"a": b"one\n3\n4\n", "sub/b": b"hello\n"}


async def test_edits_that_do_not_fit_change_nothing(desk: ToolDesk) -> None:
    put(desk, a="one\none\n", b="1\n")
    result = await edit(
        desk,
        {"path": "b", "old_text": "1", "new_text": "2"},
        {"path": "a", "old_text": "one", "new_text": "x"},
        {"path": "a", "old_text": "nowhere", "new_text": "x"},
        {"path": "b", "action": "add", "new_text": "x"},
        {"path": "c", "action": "add", "old_text": "y", "new_text": "x"},
        {"path": "a", "new_text": "x"},
        {"path": "../secret", "action": "add", "new_text": "x"},
    )
    assert result.is_refused
    assert result.startswith("Nothing was changed.\n- a: edit 2: ")
    for said in ("edit 3", "b: exists already", "c: edit 5: action add", "edit 6: action replace needs old_text"):
        assert said in result
    assert files(desk) == {"a": b"one\none\n", "b": b"1\n"}


@pytest.mark.parametrize("params", [{}, {"patch": MANY, "edits": [{"path": "a", "new_text": "x"}]}])
async def test_exactly_one_of_patch_and_edits_is_given(desk: ToolDesk, params: dict[str, object]) -> None:
    result = await desk.call(ME, "apply_patch", **params)
    assert "exactly one of patch and edits" in result
    assert result.is_error


async def test_unknown_parameters_and_too_many_edits_are_errors(desk: ToolDesk) -> None:
    assert "Invalid parameters" in await desk.call(ME, "apply_patch", diff=MANY)
    assert "Invalid parameters" in await edit(desk, *[{"path": "a", "action": "add", "new_text": "x"}] * 21)
    assert "Invalid parameters" in await edit(desk, {"path": "a", "action": "append", "new_text": "x"})
    assert "Invalid parameters" in await apply(desk, "x" * 1_000_001)
    assert files(desk) == {}


async def test_the_result_stays_of_bounded_size(desk: ToolDesk) -> None:
    text = "".join(f"{'x' * 900}{n}\n" for n in range(500))
    patch = "".join(
        f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,500 @@\n" + "".join(f"+{line}\n" for line in text.split("\n")[:-1])
        for name in "ab"
    )
    shown = await apply(desk, patch, dry_run=True)
    assert not shown.is_error, shown
    assert len(shown) < DIFF_CHARS + 2_000
    assert "(the rest of this diff is not shown)" in shown
    assert len(await apply(desk, patch)) < 1_000


async def test_two_changes_of_the_same_files_at_the_same_time_never_mix(desk: ToolDesk) -> None:
    for _ in range(15):
        put(desk, a="1\n", b="1\n")
        await asyncio.gather(
            apply(desk, change("a", "1", "2") + change("b", "1", "2")),
            apply(desk, change("b", "1", "3") + change("a", "1", "3")),
        )
        assert files(desk)["a"] == files(desk)["b"]
    assert all(record.state is ChangeState.COMMITTED for record in records(desk))


async def test_a_stopped_call_that_has_not_begun_to_write_changes_nothing(desk: ToolDesk) -> None:
    put(desk, a="1\n")
    call = asyncio.create_task(apply(desk, change("a", "1", "2")))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.get_running_loop().shutdown_default_executor()
    assert files(desk)["a"] in {b"1\n", b"2\n"}
    assert all(record.state is ChangeState.COMMITTED for record in records(desk))


async def test_what_a_dead_process_left_half_done_is_taken_back_when_the_tools_start(
    desk: ToolDesk, tmp_path: Path
) -> None:
    put(desk, a="1\n")
    assert not (await apply(desk, change("a", "1", "2"))).is_error
    (record,) = records(desk)
    (record.folder / "committed.json").rename(record.folder / "prepared.json")  # as if it died just before
    (desk.root(ME) / "b").write_text("b")
    room = ToolRoom(ToolsConfig(), workspace=desk.workspace, data_dir=tmp_path, clock=SystemClock())
    await room.start()
    await room.close()
    assert files(desk) == {"a": b"1\n", "b": b"b"}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, TEXT)
async def test_any_change_applied_and_reversed_gives_the_same_bytes(desk: ToolDesk, old: str, new: str) -> None:
    if old == new:
        return
    put(desk, f=old)
    forth, back = diff(old, new), diff(new, old)
    forward = await apply(desk, forth)
    assert not forward.is_error, forward
    assert files(desk) == {"f": new.encode()}
    backward = await apply(desk, back)
    assert not backward.is_error, backward
    assert files(desk) == {"f": old.encode()}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, TEXT, st.binary(max_size=200))
async def test_any_diff_on_any_file_is_a_result(desk: ToolDesk, old: str, new: str, data: bytes) -> None:
    put(desk, f=data)
    result = await apply(desk, diff(old, new) or "x")
    assert len(result) < 10_000
    if result.is_error:
        assert files(desk) == {"f": data}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f", "b/f"), ("a/f", "f"), ("a/f", "a/f"), ("b/f", "b/f"), ("f.orig", "f"), ("old/f", "new/f"), ("./f", "./f"),
        ("a/./f", "b/./f"), ("{root}/f", "{root}/f"),
    ],
)  # fmt: skip
async def test_a_diff_without_words_on_renames_changes_the_file_that_is_there(
    desk: ToolDesk, old: str, new: str
) -> None:
    put(desk, f="1\n")
    names = f"--- {old}\n+++ {new}\n".replace("{root}", str(desk.root(ME)))
    result = await apply(desk, f"{names}@@ -1 +1 @@\n-1\n+2\n")
    assert "- changed " in result
    assert files(desk) == {"f": b"2\n"}


async def test_a_folder_that_is_called_like_a_prefix_is_meant_when_its_file_is_there(desk: ToolDesk) -> None:
    for folder in ("a", "b"):
        (desk.root(ME) / folder).mkdir()
        put(desk, **{f"{folder}/f": "1\n"})
    put(desk, f="1\n")
    await apply(desk, "--- a/f\n+++ a/f\n@@ -1 +1 @@\n-1\n+2\n")
    await apply(desk, "--- a/b/f\n+++ b/b/f\n@@ -1 +1 @@\n-1\n+3\n")
    assert files(desk) == {"a/f": b"2\n", "b/f": b"3\n", "f": b"1\n"}


async def test_a_rename_that_only_the_names_tell_is_one(desk: ToolDesk) -> None:
    put(desk, old="1\n")
    assert "- renamed old to new" in await apply(desk, "--- a/old\n+++ b/new\n@@ -1 +1 @@\n-1\n+2\n")
    assert files(desk) == {"new": b"2\n"}


async def test_lines_between_two_changes_do_not_count_as_changed(desk: ToolDesk) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 2001))
    put(desk, f=text)
    patch = (
        "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n line 1\n-line 2\n+two\n+and\n line 3\n"
        "@@ -1900,2 +1901,2 @@\n line 1900\n-line 1901\n+later\n"
    )
    shown = await apply(desk, patch, dry_run=True)
    assert "1 file, +3 -2 lines" in shown
    assert shown.endswith(
        "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n line 1\n-line 2\n+two\n+and\n line 3\n"
        "@@ -1900,2 +1901,2 @@\n line 1900\n-line 1901\n+later"
    )
    assert (await apply(desk, patch)).endswith("- changed f (+3 -2)")


async def test_a_file_that_is_made_anew_in_place_of_a_program_is_none(desk: ToolDesk) -> None:
    put(desk, f="1\n")
    (desk.root(ME) / "f").chmod(0o755)
    gone = "diff --git a/f b/f\ndeleted file mode 100755\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"
    made = "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+2\n"
    assert not (await apply(desk, gone + made)).is_error
    assert files(desk) == {"f": b"2\n"}
    assert (desk.root(ME) / "f").stat().st_mode & 0o777 == 0o644


async def test_an_empty_parameter_counts_as_not_given(desk: ToolDesk) -> None:
    put(desk, f="1\n")
    await apply(desk, change("f", "1", "2"), edits=[])
    assert files(desk) == {"f": b"2\n"}
    await edit(desk, {"path": "f", "old_text": "2", "new_text": "3"}, patch="")
    assert files(desk) == {"f": b"3\n"}
    assert "exactly one of patch and edits" in await edit(desk, patch="")


async def test_a_file_below_a_new_file_leaves_nothing_behind(desk: ToolDesk) -> None:
    result = await edit(
        desk,
        {"path": "f", "action": "add", "new_text": "x"},
        {"path": "f/below", "action": "add", "new_text": "x"},
    )
    assert result.is_error
    assert files(desk) == {}
    assert records(desk) == []


@pytest.mark.parametrize(
    "patch",
    [
        "--- lib/f\n+++ lib/f\n@@ -1 +1 @@\n-1\n+2\n",  # another folder's file of that name
        "--- a/f\n+++ a/f\n@@ -0,0 +1 @@\n+2\n",  # a new one
        "--- old/f\n+++ new/g\n@@ -1 +1 @@\n-1\n+2\n",
    ],
)
async def test_a_file_of_the_same_name_elsewhere_is_not_taken_for_the_one_that_is_meant(
    desk: ToolDesk, patch: str
) -> None:
    put(desk, f="1\n")
    await apply(desk, patch)
    assert files(desk)["f"] == b"1\n"
