"""grep and find_files while folders are swapped for links, while a search takes long, and without Landlock."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Address
from bot.ripgrep.program import find_program
from bot.security.workspace import WorkspaceView
from tests.support.children import children
from tests.support.contexts import ToolDesk, request_context, tool_context
from tests.support.engine import AnsweringProvider, calls, last_user, rig, said, tool_texts
from tests.support.held_file import held
from tests.support.swapping import Swapping, folder_and_file_for_links

ME = request_context("1")
OUTSIDE = "outside.txt"


def make_tree(root: Path, outside: Path) -> Path:
    """Make a folder to be swapped, and one outside with the same names, other words and one more file."""
    for folder, words in ((root / "p/d", "needle inside\n"), (outside, "needle SECRET\n" * 7)):
        folder.mkdir(parents=True)
        for number in range(20):
            (folder / f"f{number}.txt").write_text(words)
    (outside / OUTSIDE).write_text("needle SECRET\n")
    return root / "p/d"


async def search(desk: ToolDesk, rounds: int, *paths: str) -> list[str]:
    """Return what the tools find, from above the swapped folder or in it."""
    results = []
    for _ in range(rounds):
        for path in paths:
            for mode in ("content", "count", "files_with_matches"):
                results.append(await desk.call(ME, "grep", pattern="needle", path=path, output_mode=mode))
            results.append(await desk.call(ME, "find_files", path=path))
    return [str(result) for result in results]


async def test_no_byte_from_outside_is_found_while_a_folder_is_swapped_for_a_link(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx)
        folder = make_tree(desk.root(ME), tmp_path / "outside")
        cycle = folder_and_file_for_links(folder, folder / "f0.txt", outside=tmp_path / "outside")
        with Swapping(cycle).running() as swapping:
            results = []
            while swapping.count < 100:
                results += await search(desk, 1, ".", "p", "p/d")
            with swapping.held("honest"):
                found = await search(desk, 1, ".", "p", "p/d")
    assert ["needle inside" in result for result in found] == [True, False, False, False] * 3
    for result in results + found:
        assert "SECRET" not in result
        assert OUTSIDE not in result
        assert ": 7" not in result  # as many lines match in a file outside


# A filter of system calls (https://docs.kernel.org/userspace-api/seccomp_filter.html, read 2026-11-30) that answers
# landlock_create_ruleset as a kernel without Landlock does: with ENOSYS.
_WITHOUT_LANDLOCK = """
import ctypes, json, pathlib, asyncio, struct, sys
program = b"".join((
    struct.pack("=HBBI", 0x20, 0, 0, 0),             # load the number of the system call
    struct.pack("=HBBI", 0x15, 0, 1, 444),           # is it landlock_create_ruleset?
    struct.pack("=HBBI", 0x06, 0, 0, 0x00050000 | 38),  # then return ENOSYS
    struct.pack("=HBBI", 0x06, 0, 0, 0x7fff0000),    # else allow
))
held = ctypes.create_string_buffer(program)
header = struct.pack("=HxxxxxxQ", 4, ctypes.addressof(held))
libc = ctypes.CDLL(None, use_errno=True)
words = [ctypes.c_ulong(0)] * 3
assert libc.prctl(38, ctypes.c_ulong(1), *words) == 0                    # no new privileges
assert libc.prctl(22, ctypes.c_ulong(2), ctypes.c_char_p(header), *words[:2]) == 0  # the filter
from bot.security.landlock import abi_version
from tests.support.contexts import ToolDesk, tool_context
from tests.support.swapping import Swapping, folder_and_file_for_links
from tests.tools.test_search_races import ME, make_tree, search

async def main(path):
    async with tool_context(path) as ctx:
        desk = ToolDesk(ctx)
        folder = make_tree(desk.root(ME), path / "outside")
        cycle = folder_and_file_for_links(folder, folder / "f0.txt", outside=path / "outside")
        with Swapping(cycle).running() as swapping:
            results = await search(desk, 60, "p/d")
            with swapping.held("honest"):
                return await search(desk, 1, "p/d") + results

print(json.dumps([abi_version(), asyncio.run(main(pathlib.Path(sys.argv[1])))]))
"""


def test_without_landlock_no_line_or_name_from_outside_is_found_either(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_LANDLOCK, tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version, results = json.loads(done.stdout)
    assert version == 0
    assert "needle inside" in results[0]
    for result in results:
        assert "SECRET" not in result
        assert OUTSIDE not in result


async def test_a_second_chat_is_answered_while_one_is_held_in_a_search(tmp_path: Path) -> None:
    async def answer(request: ModelRequest) -> ModelReply:
        if results := tool_texts(request):
            return said(results[-1])
        text = last_user(request)
        # Eight at once: as many as a step runs together, more than the loop's pool has threads.
        eight = [("grep", {"pattern": f"needle|{number}"}) for number in range(8)]
        return calls(*eight) if text == "search" else said(f"re: {text}")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        view = WorkspaceView.of(engine.workspace, Address(channel="memory", chat_id="A").key)
        view.make_dirs()
        (view.root / "a.txt").write_text("needle\n")
        async with held(view.root / "a.txt") as file:
            await engine.says("search", chat="A")
            await file.somebody_waits()
            assert await engine.asks("hello", chat="B") == "re: hello"
            assert await engine.asks("and now", chat="B") == "re: and now"
            assert engine.channel.texts("A") == []
            file.let_go()
            assert (await engine.texts_count(1, chat="A"))[0].startswith("a.txt\n(1 file")


async def test_stopping_the_chat_ends_its_search(tmp_path: Path) -> None:
    async def answer(request: ModelRequest) -> ModelReply:
        return calls(("grep", {"pattern": "needle"}))

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        view = WorkspaceView.of(engine.workspace, Address(channel="memory", chat_id="A").key)
        view.make_dirs()
        (view.root / "a.txt").write_text("needle\n")
        async with held(view.root / "a.txt") as file:
            await engine.says("search", chat="A")
            await file.somebody_waits()
            assert len(children(find_program().name)) == 1
            assert await engine.asks("/stop", chat="A") == "Stopped."
            async with asyncio.timeout(10):
                await engine.idle()
            assert children(find_program().name) == []
