"""edit_file: exactly the bytes that were meant, in exactly the file that was read."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.messages import Replay, Risk
from bot.toolkit.base import ToolResult
from bot.toolkit.results import ADVICE
from tests.support.contexts import ToolDesk, request_context, tool_context
from tests.support.swapping import Swapping, folder_and_file_for_links

SECRET = "TOP SECRET"
ME = request_context("1")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    """The tools of an ordinary turn; a secret lies beside the workspace."""
    (tmp_path / "secret").write_text(SECRET)
    async with tool_context(tmp_path) as ctx:
        yield ToolDesk(ctx)


async def edit(desk: ToolDesk, path: str, old_text: str, new_text: str, **params: object) -> ToolResult:
    return await desk.call(ME, "edit_file", path=path, old_text=old_text, new_text=new_text, **params)


def put(desk: ToolDesk, name: str, content: bytes) -> Path:
    file = desk.root(ME) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def names(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


async def test_the_place_is_changed_and_its_line_told(desk: ToolDesk) -> None:
    file = put(desk, "notes/a.txt", b"one\ntwo\nthree\n")
    file.chmod(0o750)
    assert await edit(desk, "notes/../notes/a.txt", "two", "2") == (
        "notes/a.txt: replaced 1 place, at line 2 (12 bytes now)."
    )
    assert file.read_bytes() == b"one\n2\nthree\n"
    assert file.stat().st_mode & 0o777 == 0o750
    assert names(file.parent) == ["a.txt"]


async def test_c085_an_edit_matches_in_a_file_with_crlf(desk: ToolDesk) -> None:
    """C085."""
    file = put(desk, "a.txt", b"a\r\nb\r\n")
    assert not (await edit(desk, "a.txt", "a\nb", "a\nc")).is_error
    assert file.read_bytes() == b"a\r\nc\r\n"


async def test_c086_only_the_changed_bytes_differ(desk: ToolDesk) -> None:
    """C086."""
    file = put(desk, "a.txt", b"\xef\xbb\xbfone\r\ntwo\nthree\r\n")
    assert not (await edit(desk, "a.txt", "two", "zwei")).is_error
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\nzwei\nthree\r\n"


async def test_several_places_need_a_choice_and_their_lines_are_told(desk: ToolDesk) -> None:
    file = put(desk, "a.txt", b"x\ny\nx\nz\nx\n")
    result = await edit(desk, "a.txt", "x", "X")
    assert result.is_error
    assert not result.is_refused
    assert result.startswith("a.txt: old_text is found 3 times, at lines 1, 3 and 5. Give more of the lines around it")
    assert file.read_bytes() == b"x\ny\nx\nz\nx\n"
    assert "at line 3 " in await edit(desk, "a.txt", "x", "2", occurrence=2)
    assert "at line 5 " in await edit(desk, "a.txt", "x", "5", line_hint=4)
    assert file.read_bytes() == b"x\ny\n2\nz\n5\n"
    put(desk, "a.txt", b"x\nx\n")
    assert (await edit(desk, "a.txt", "x", "y", expected_replacements=3)).is_error
    assert "replaced 2 places, at lines 1 and 2" in await edit(desk, "a.txt", "x", "y", expected_replacements=2)
    assert "replaced 2 places" in await edit(desk, "a.txt", "y", "", replace_all=True)
    assert file.read_bytes() == b"\n\n"


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"replace_all": True, "occurrence": 1}, "replace_all and occurrence contradict each other"),
        ({"line_hint": 2, "occurrence": 1}, "occurrence and line_hint contradict each other"),
        ({"occurrence": 1, "expected_replacements": 2}, "occurrence chooses one place"),
    ],
)
async def test_choices_that_contradict_each_other_are_errors(
    desk: ToolDesk, params: dict[str, object], told: str
) -> None:
    file = put(desk, "a.txt", b"x\nx\n")
    result = await edit(desk, "a.txt", "x", "y", **params)
    assert result.is_error
    assert result.startswith(told)
    assert file.read_bytes() == b"x\nx\n"


async def test_what_is_not_found_comes_with_the_closest_lines_and_the_cause(desk: ToolDesk) -> None:
    put(desk, "a.py", b"import os\n\ndef alpha(beta):\n    return beta\n")
    result = await edit(desk, "a.py", "3| def alpha(beta):\n4|     return beta", "pass")
    assert result == (
        "a.py: old_text is not there. old_text has the line numbers that read_file shows; without them it is found "
        "at line 3. The closest lines, as a diff from old_text (-) to the file (+):\n"
        "--- old_text\n+++ file, lines 3-4\n-3| def alpha(beta):\n-4|     return beta\n"
        "+def alpha(beta):\n+    return beta"
        f"\n\n{ADVICE}"
    )


async def test_a_match_that_is_not_exact_is_told_with_what_became_of_it(desk: ToolDesk) -> None:
    file = put(desk, "a.py", b"def f():\n\tif x:\n\t\treturn 1\n")
    result = await edit(desk, "a.py", "if x:\n    return 1\n", "if x:\n    return 2\n")
    assert result == (
        "a.py: replaced 1 place, at line 2 (27 bytes now). Matched although white space at the beginnings or ends of "
        "lines differs; the file's was kept.\n \tif x:\n-\t\treturn 1\n+\t\treturn 2\n "
    )
    assert file.read_bytes() == b"def f():\n\tif x:\n\t\treturn 2\n"


async def test_an_empty_old_text_creates_a_file_and_changes_none(desk: ToolDesk) -> None:
    assert await edit(desk, "new/a.txt", "", "one\n") == "new/a.txt: created (4 bytes)."
    assert (desk.root(ME) / "new/a.txt").read_bytes() == b"one\n"
    again = await edit(desk, "new/a.txt", "", "two\n")
    assert again.is_error
    assert again.startswith("new/a.txt: exists already; to change it, old_text must say what to replace.")
    assert (desk.root(ME) / "new/a.txt").read_bytes() == b"one\n"


async def test_a_missing_file_is_an_error_and_makes_no_folder(desk: ToolDesk) -> None:
    result = await edit(desk, "nope/a.txt", "x", "y")
    assert result.startswith("nope/a.txt: does not exist. An empty old_text creates it")
    assert names(desk.root(ME)) == []


async def test_equal_texts_and_binary_files_are_errors(desk: ToolDesk) -> None:
    put(desk, "a.bin", b"\x7fELF\x02\x01\x01" + b"\0" * 90)
    assert (await edit(desk, "a.bin", "x", "x")).startswith("a.bin: old_text and new_text are the same")
    assert (await edit(desk, "a.bin", "ELF", "x")).startswith(
        "a.bin: is binary (application/x-elf) and cannot be edited"
    )


async def test_a_sparse_terabyte_is_refused_by_its_size_at_once(desk: ToolDesk) -> None:
    with put(desk, "sparse", b"").open("wb") as file:
        file.truncate(1 << 40)
    result = await edit(desk, "sparse", "x", "y")
    assert result.startswith("sparse: is 1 TiB; files up to 10 MiB can be edited.")


async def test_a_change_since_the_last_read_is_told_and_the_edit_made_all_the_same(desk: ToolDesk) -> None:
    file = put(desk, "a.txt", b"one\ntwo\n")
    await desk.call(ME, "read_file", path="a.txt")
    assert "had changed" not in await edit(desk, "a.txt", "one", "1")
    file.write_bytes(b"1\ntwo\nthree\n")
    assert (await edit(desk, "a.txt", "two", "2")).endswith(
        " The file had changed since this conversation last read or wrote it."
    )
    assert file.read_bytes() == b"1\n2\nthree\n"
    assert "had changed" not in await desk.call(ME, "write_file", path="a.txt", content="x")


async def test_no_edit_is_lost_when_others_change_the_file_meanwhile(desk: ToolDesk) -> None:
    """Each of many edits at once either is in the file at the end or was told to have failed."""
    file = put(desk, "a.txt", b"".join(b"line %d\n" % number for number in range(16)))
    before = file.read_bytes()
    results = await asyncio.gather(*(edit(desk, "a.txt", f"line {n}\n", f"done {n}\n") for n in range(16)))
    made = [n for n, result in enumerate(results) if not result.is_error]
    assert made
    for result in results:
        if result.is_error:
            assert result.startswith("a.txt: has changed meanwhile.")
    expected = before
    for n in made:
        expected = expected.replace(b"line %d\n" % n, b"done %d\n" % n)
    assert file.read_bytes() == expected


@pytest.mark.parametrize(
    "path",
    ["../../secret", "/etc/passwd", "~/.bashrc", "a\x00b", "{tmp}/secret", "../telegram=3A2/hers.txt", "shared/s.txt"],
)
@pytest.mark.parametrize("old", ["TOP", ""])
async def test_c078_a_path_that_may_not_be_changed_is_refused_without_advice(
    desk: ToolDesk, tmp_path: Path, path: str, old: str
) -> None:
    """C078."""
    (desk.root(request_context("2")) / "hers.txt").write_text(SECRET)
    (desk.workspace / "shared/s.txt").write_text(SECRET)
    desk.root(ME)
    result = await edit(desk, path.format(tmp=tmp_path), old, "mine")
    assert result.is_refused
    assert ADVICE not in result
    assert "SECRET" not in result
    for file in (tmp_path / "secret", desk.root(request_context("2")) / "hers.txt", desk.workspace / "shared/s.txt"):
        assert file.read_text() == SECRET


async def test_c080_no_link_is_edited_or_shown_outside(desk: ToolDesk, tmp_path: Path) -> None:
    """C080."""
    root = desk.root(ME)
    (root / "link.txt").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    put(desk, "real.txt", b"inside")
    (root / "good").symlink_to("real.txt")
    for path in ("link.txt", "folder/secret"):
        for old in ("TOP", "TOP SECRE", "nothing like it"):
            result = await edit(desk, path, old, "mine")
            assert result.is_refused
            assert "SECRET" not in result
    assert (tmp_path / "secret").read_text() == SECRET
    assert await edit(desk, "good", "inside", "changed") == "real.txt: replaced 1 place, at line 1 (7 bytes now)."
    assert (root / "good").is_symlink()


async def test_what_is_no_ordinary_file_is_not_edited(desk: ToolDesk) -> None:
    root = desk.root(ME)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(Path(os.path.relpath(root)) / "sock"))
        for name in ("pipe", "sock"):
            assert await edit(desk, name, "x", "y") == f"{name}: is not an ordinary file."
    if os.geteuid() == 0:
        os.mknod(root / "zero", 0o600 | 0o020000, os.makedev(1, 5))
        assert (await edit(desk, "zero", "x", "y")).is_refused
    (root / "folder").mkdir()
    result = await edit(desk, "folder", "x", "y")
    assert (result.is_error, result.is_refused) == (True, False)


async def test_a_file_swapped_for_a_link_meanwhile_is_neither_shown_nor_changed(desk: ToolDesk, tmp_path: Path) -> None:
    put(desk, "box/a.txt", b"")
    (tmp_path / "a.txt").write_text(SECRET)
    before = names(tmp_path)

    async def outcome(old_text: str) -> str:
        result = await edit(desk, "box/a.txt", old_text, "changed")
        assert "SECRET" not in result
        return "refused" if result.is_refused else "error" if result.is_error else "done"

    box = desk.root(ME) / "box"
    with Swapping(folder_and_file_for_links(box, box / "a.txt", outside=tmp_path)).running() as swapping:
        while swapping.count < 300:
            await outcome("harmless")
            await outcome("TOP SECRE")
        for old_text, honestly in (("harmless", "done"), ("TOP SECRE", "error")):
            with swapping.held("honest"):
                assert await outcome(old_text) == honestly
            for state in ("file", "folder"):
                with swapping.held(state):
                    assert await outcome(old_text) == "refused"
    assert (tmp_path / "a.txt").read_text() == SECRET
    assert names(tmp_path) == before


async def test_c054_arguments_that_are_cut_off_change_nothing(desk: ToolDesk) -> None:
    """C054."""
    file = put(desk, "a.py", b"print(1)\n")
    result = await desk.registry.execute("edit_file", '{"path":"a.py","old_text":"print(1)","new_text":"print(')
    assert result.is_error
    assert "cut off" in result
    assert file.read_bytes() == b"print(1)\n"


async def test_it_is_told_as_a_write_that_a_crash_leaves_unknown(desk: ToolDesk) -> None:
    tool = desk.registry.get("edit_file")
    assert tool is not None
    assert (tool.risk, tool.replay, tool.read_only) == (Risk.WRITE, Replay.ONCE, False)


async def test_a_file_without_text_is_filled_by_an_empty_old_text(desk: ToolDesk) -> None:
    file = put(desk, "a.sh", b"")
    file.chmod(0o700)
    assert await edit(desk, "a.sh", "", "x\n") == "a.sh: was empty; filled (2 bytes)."
    assert file.read_bytes() == b"x\n"
    assert file.stat().st_mode & 0o777 == 0o700
    assert "exists already" in await edit(desk, "a.sh", "", "y\n")


async def test_a_reason_ends_in_one_full_stop(desk: ToolDesk) -> None:
    put(desk, "a", b"abc\n")
    told = await edit(desk, "a", "completely different", "z")
    assert told.startswith("a: old_text is not there. Nothing in it is similar.\n")
