"""write_file: the whole content or the old file, and what the answer says about what was there before."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.config import FilesSection, ToolsConfig
from bot.messages import Replay, Risk, Role
from bot.toolkit.base import ToolResult
from bot.toolkit.results import ADVICE
from tests.support.contexts import ToolDesk, request_context, tool_context
from tests.support.swapping import Swapping, folder_and_file_for_links

SECRET = "TOP SECRET"
ME = request_context("1")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    """The tools of an ordinary turn; a secret lies beside the workspace, and two folders of the configuration."""
    (tmp_path / "secret").write_text(SECRET)
    for name in ("docs", "out"):
        (tmp_path / name).mkdir()
    config = ToolsConfig(files=FilesSection(extra_read=[tmp_path / "docs"], extra_write=[tmp_path / "out"]))
    async with tool_context(tmp_path, config=config) as ctx:
        yield ToolDesk(ctx)


async def write(desk: ToolDesk, path: str, content: str) -> ToolResult:
    return await desk.call(ME, "write_file", path=path, content=content)


async def read(desk: ToolDesk, path: str) -> ToolResult:
    return await desk.call(ME, "read_file", path=path)


def names(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


async def test_a_new_file_is_created_with_the_folders_above_it(desk: ToolDesk) -> None:
    result = await write(desk, "notes/2026/a.txt", "one\ntwö\r\nthree")
    assert result == "notes/2026/a.txt: created (15 bytes, 3 lines)."
    assert not result.is_error
    assert (desk.root(ME) / "notes/2026/a.txt").read_bytes() == "one\ntwö\r\nthree".encode()
    assert names(desk.root(ME) / "notes/2026") == ["a.txt"]
    assert await write(desk, "empty", "") == "empty: created (0 bytes, 0 lines)."
    assert (desk.root(ME) / "empty").read_bytes() == b""


async def test_replacing_what_the_conversation_read_is_told_without_more(desk: ToolDesk) -> None:
    file = desk.root(ME) / "a.sh"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    await read(desk, "a.sh")
    assert await write(desk, "./a.sh", "x\n") == "a.sh: replaced (2 bytes, 1 line; it had 10 bytes)."
    assert file.read_text() == "x\n"
    assert file.stat().st_mode & 0o777 == 0o755
    assert await write(desk, "a.sh", "y\n") == "a.sh: replaced (2 bytes, 1 line; it had 2 bytes)."
    assert await write(desk, "a.sh", "y\n") == "a.sh: has exactly this content already (2 bytes, 1 line)."


async def test_replacing_what_was_not_read_or_changed_since_is_said(desk: ToolDesk) -> None:
    file = desk.root(ME) / "a.txt"
    file.write_text("old")
    unread = " This conversation had not read the file that was there."
    assert await write(desk, "a.txt", "1") == f"a.txt: replaced (1 byte, 1 line; it had 3 bytes).{unread}"
    stamp = file.stat()
    file.write_text("2")  # same size, and the same time stamp
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert await write(desk, "a.txt", "33") == (
        "a.txt: replaced (2 bytes, 1 line; it had 1 byte). "
        "The file had changed since this conversation last read or wrote it."
    )
    other = request_context("1", session_id=99)
    assert (await desk.call(other, "write_file", path="a.txt", content="4")).endswith(unread)
    assert file.read_text() == "4"


async def test_a_file_that_changed_while_it_was_read_counts_as_changed(desk: ToolDesk) -> None:
    file = desk.root(ME) / "a.txt"
    file.write_text("one\n")
    await read(desk, "a.txt")
    await read(desk, "a.txt")  # answered by "unchanged", which is reading too
    file.write_text("two\n")
    assert "had changed since" in await write(desk, "a.txt", "three\n")


@pytest.mark.parametrize("arguments", ['{"path":"a.py","content":"print(', '{"path":"a.py","content":"print(\\'])
async def test_c054_arguments_that_are_cut_off_write_nothing(desk: ToolDesk, arguments: str) -> None:
    """C054."""
    file = desk.root(ME) / "a.py"
    file.write_text("whole")
    tool, _, problem = desk.registry.prepare_call("write_file", arguments)
    assert problem is not None
    result = await desk.registry.execute("write_file", arguments)
    assert result.is_error
    assert "cut off" in result
    assert file.read_text() == "whole"
    assert tool is None or tool.name == "write_file"


async def test_too_much_content_and_text_that_utf8_cannot_hold_write_nothing(desk: ToolDesk) -> None:
    result = await write(desk, "a.txt", "x" * (10 * 1024 * 1024 + 1))
    assert result.is_error
    assert result.startswith("content: is 10 MiB; at most 10 MiB can be written at once.")
    result = await write(desk, "a.txt", "one\ntwo\ud800")
    assert result.is_error
    assert "content has a lone surrogate" in result
    assert names(desk.root(ME)) == []
    assert not (await write(desk, "a.txt", "x" * (10 * 1024 * 1024))).is_error


@pytest.mark.parametrize(
    "path",
    [
        "../../secret", "/etc/passwd", "~/.ssh/id_rsa", "a\x00b", "..", "/", "{tmp}/secret", "{tmp}/store.db",
        "{tmp}/workspace/chats/telegram=3A2/hers.txt", "../telegram=3A2/hers.txt", "shared/s.txt",
        "{tmp}/docs/a.txt", "{tmp}/docs/../secret",
    ],
)  # fmt: skip
async def test_c078_a_path_that_may_not_be_written_is_refused_without_advice(
    desk: ToolDesk, tmp_path: Path, path: str
) -> None:
    """C078."""
    (desk.root(request_context("2")) / "hers.txt").write_text(SECRET)
    (desk.workspace / "shared/s.txt").write_text(SECRET)
    before = (tmp_path / "store.db").read_bytes()
    result = await write(desk, path.format(tmp=tmp_path), "mine")
    assert result.is_refused
    assert ADVICE not in result
    assert SECRET not in result
    assert (tmp_path / "secret").read_text() == SECRET
    assert (desk.root(request_context("2")) / "hers.txt").read_text() == SECRET
    assert (desk.workspace / "shared/s.txt").read_text() == SECRET
    assert (tmp_path / "store.db").read_bytes() == before
    assert names(tmp_path / "docs") == []


async def test_c080_no_link_is_written_through_to_the_outside(desk: ToolDesk, tmp_path: Path) -> None:
    """C080."""
    root = desk.root(ME)
    (root / "link.txt").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "neighbour").symlink_to(desk.root(request_context("2")))
    (root / "notes").mkdir()
    (root / "good").symlink_to("notes/a.txt")
    before = names(tmp_path)
    for path in ("link.txt", "folder/secret", "folder/new", "neighbour/new"):
        result = await write(desk, path, "mine")
        assert result.is_refused, path
        assert str(tmp_path) not in result
    assert (tmp_path / "secret").read_text() == SECRET
    assert names(tmp_path) == before
    assert names(desk.root(request_context("2"))) == []
    assert await write(desk, "good", "x") == "notes/a.txt: created (1 byte, 1 line)."
    assert (root / "good").is_symlink()


async def test_further_folders_of_the_configuration_are_written_by_their_absolute_path(
    desk: ToolDesk, tmp_path: Path
) -> None:
    result = await write(desk, f"{tmp_path}/out/new/a.txt", "x")
    assert result == f"{tmp_path}/out/new/a.txt: created (1 byte, 1 line)."
    assert (await read(desk, f"{tmp_path}/out/new/a.txt")).startswith("1| x")
    (tmp_path / "docs/d.txt").write_text("for all")
    assert (await read(desk, f"{tmp_path}/docs/d.txt")).startswith("1| for all")
    assert await desk.call(ME, "list_dir", path=f"{tmp_path}/out", recursive=True) == (
        "new/\nnew/a.txt (1 byte)\n(2 entries)"
    )


async def test_the_rules_of_the_chats_own_gitignore_do_not_reach_further_folders(
    desk: ToolDesk, tmp_path: Path
) -> None:
    (desk.root(ME) / ".gitignore").write_text("*.txt\n")
    (tmp_path / "docs/d.txt").write_text("for all")
    assert await desk.call(ME, "list_dir", path=f"{tmp_path}/docs") == "d.txt (7 bytes)\n(1 entry)"


async def test_an_owner_in_private_writes_in_another_chats_folder(desk: ToolDesk) -> None:
    desk.root(ME)
    owner = request_context("111", role=Role.OWNER)
    result = await desk.call(owner, "write_file", path="chats/telegram=3A1/a.txt", content="x")
    assert result == "chats/telegram=3A1/a.txt: created (1 byte, 1 line)."
    assert (desk.root(ME) / "a.txt").read_text() == "x"
    result = await desk.call(ME, "write_file", path="chats/telegram=3A1/a.txt", content="y")
    assert (desk.root(ME) / "chats/telegram=3A1/a.txt").read_text() == "y"  # to others an ordinary folder
    assert not result.is_error


async def test_what_is_no_ordinary_file_is_not_replaced(desk: ToolDesk) -> None:
    root = desk.root(ME)
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(Path(os.path.relpath(root)) / "sock"))
        for name in ("pipe", "sock"):
            result = await write(desk, name, "x")
            assert result == f"{name}: is not an ordinary file."
            assert result.is_refused
    result = await write(desk, "folder", "x")
    assert (result.is_error, result.is_refused) == (True, False)
    assert result.startswith("folder: is a folder.")
    (root / "locked").write_text("x")
    (root / "locked").chmod(0o444)
    result = await write(desk, "locked", "y")
    assert (result.is_error, result.is_refused) == (True, False)
    assert result.startswith("locked: is read-only.")
    assert names(root) == ["folder", "locked", "pipe", "sock"]


async def test_a_huge_old_file_is_replaced_without_being_read(desk: ToolDesk) -> None:
    with (desk.root(ME) / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    result = await write(desk, "sparse", "x")
    assert result == "sparse: replaced (1 byte, 1 line; it had 1 TiB, too much to have been read)."


async def test_files_swapped_for_links_meanwhile_let_no_byte_out(desk: ToolDesk, tmp_path: Path) -> None:
    own = desk.root(ME) / "own"
    own.mkdir()
    (desk.root(ME) / "box").mkdir()
    (tmp_path / "a.txt").write_text(SECRET)
    before = names(tmp_path)

    async def outcome(target: str | Path) -> str:
        shown = await desk.call(ME, "read_file", path="box/a.txt", force=True)
        assert SECRET not in shown
        (own / "a.txt").unlink(missing_ok=True)
        (own / "a.txt").symlink_to(target)
        result = await write(desk, "own/a.txt", "harmless too")
        assert SECRET not in result
        return "refused" if result.is_refused else "error" if result.is_error else "done"

    box = desk.root(ME) / "box"
    with Swapping(folder_and_file_for_links(box, box / "a.txt", outside=tmp_path)).running() as swapping:
        while swapping.count < 300:
            await outcome("../box/a.txt")
            await outcome(tmp_path / "a.txt")
        with swapping.held("honest"):
            assert await outcome("../box/a.txt") == "done"
            assert await outcome(tmp_path / "a.txt") == "refused"
        for state in ("file", "folder"):
            with swapping.held(state):
                assert await outcome("../box/a.txt") == "refused"
    assert (tmp_path / "a.txt").read_text() == SECRET
    assert names(tmp_path) == before


async def test_it_is_told_as_a_write_that_a_crash_leaves_unknown(desk: ToolDesk) -> None:
    tool = desk.registry.get("write_file")
    assert tool is not None
    assert (tool.risk, tool.replay, tool.read_only) == (Risk.WRITE, Replay.ONCE, False)
