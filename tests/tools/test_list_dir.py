"""list_dir: what a chat sees of its folders, in which order and how much of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.messages import ChatType, Role
from bot.toolkit.base import ToolResult
from bot.toolkit.context import set_request
from bot.toolkit.results import ADVICE
from bot.tools.list_dir import ListDirTool
from tests.support.contexts import ToolDesk, request_context, tool_context

ME = request_context("1")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    """The tools of an ordinary turn; a secret lies beside the workspace."""
    (tmp_path / "secret").write_text("TOP SECRET")
    async with tool_context(tmp_path) as ctx:
        yield ToolDesk(ctx)


async def ls(desk: ToolDesk, path: str = ".", **params: object) -> ToolResult:
    return await desk.call(ME, "list_dir", path=path, **params)


def put(desk: ToolDesk, *names: str, content: str = "x") -> None:
    for name in names:
        file = desk.root(ME) / name
        if name.endswith("/"):
            file.mkdir(parents=True, exist_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)


async def test_a_new_chat_has_an_empty_folder_and_the_shared_one(desk: ToolDesk) -> None:
    assert await desk.call(ME, "list_dir") == "shared/\n(1 entry)"
    assert await ls(desk, "shared") == "(shared: is empty)"


async def test_folders_come_first_and_files_have_sizes(desk: ToolDesk) -> None:
    put(desk, "b.txt", "a.bin", "zoo/", "Notes/x.md", content="12345")
    put(desk, "big", content="x" * 1536)
    assert await ls(desk) == "Notes/\nshared/\nzoo/\na.bin (5 bytes)\nb.txt (5 bytes)\nbig (1.5 KiB)\n(6 entries)"


async def test_a_recursive_listing_goes_breadth_first_with_paths_below_the_folder(desk: ToolDesk) -> None:
    put(desk, "p/b/deep/x", "p/a/y", "p/z")
    assert await ls(desk, "p", recursive=True) == (
        "a/\nb/\nz (1 byte)\na/y (1 byte)\nb/deep/\nb/deep/x (1 byte)\n(6 entries)"
    )


async def test_a_cut_listing_tells_the_total_and_how_to_see_more(desk: ToolDesk) -> None:
    put(desk, *(f"many/f{n:03}" for n in range(250)))
    result = await ls(desk, "many")
    lines = result.split("\n")
    assert lines[:2] == ["f000 (1 byte)", "f001 (1 byte)"]
    assert lines[200:] == ["(the first 200 of 250 entries; list a folder below, or raise max_entries)"]
    assert (await ls(desk, "many", max_entries=250)).endswith("f249 (1 byte)\n(250 entries)")


async def test_gitignore_hides_what_it_excludes_and_the_footer_names_it(desk: ToolDesk) -> None:
    put(desk, "p/.gitignore", content="*.log\n/build/\n!keep.log\n[z-a]\n!\n\\\n")
    put(desk, "p/a.log", "p/keep.log", "p/build/out", "p/src/build/kept", "p/src/b.log", "p/src/c.py")
    assert await ls(desk, "p", recursive=True) == (
        "src/\n.gitignore (34 bytes)\nkeep.log (1 byte)\nsrc/build/\nsrc/c.py (1 byte)\nsrc/build/kept (1 byte)\n"
        "(6 entries; 3 left out by .gitignore: build, a.log, src/b.log; list_dir of such a folder opens it)"
    )


async def test_rules_count_from_the_folder_they_stand_in_and_the_nearest_word_wins(desk: ToolDesk) -> None:
    put(desk, ".gitignore", content="*.tmp\n/top\n")
    put(desk, "in/.gitignore", content="!b.tmp\n/own\n")
    put(desk, "top", "in/top", "in/own", "in/a.tmp", "in/b.tmp")
    assert await ls(desk, "in") == (
        ".gitignore (12 bytes)\nb.tmp (1 byte)\ntop (1 byte)\n"
        "(3 entries; 2 left out by .gitignore: a.tmp, own; list_dir of such a folder opens it)"
    )


async def test_an_excluded_folder_that_is_named_is_listed(desk: ToolDesk) -> None:
    put(desk, ".gitignore", content="build/\n*.o\n")
    put(desk, "build/x.o", "build/sub/y.o")
    assert await ls(desk, "build", recursive=True) == "sub/\nx.o (1 byte)\nsub/y.o (1 byte)\n(3 entries)"
    assert await ls(desk, "build/sub") == "y.o (1 byte)\n(1 entry)"


async def test_the_chats_rules_do_not_reach_into_shared_files_nor_hide_them(desk: ToolDesk) -> None:
    put(desk, ".gitignore", content="*\n")
    (desk.workspace / "shared/s.txt").write_text("x")
    assert await ls(desk, recursive=True) == (
        "shared/\nshared/s.txt (1 byte)\n"
        "(2 entries; 1 left out by .gitignore: .gitignore; list_dir of such a folder opens it)"
    )


async def test_noise_folders_are_named_but_not_opened_unless_asked_for(desk: ToolDesk) -> None:
    put(desk, "p/node_modules/m/index.js", "p/.git/HEAD", "p/src/a.js")
    assert await ls(desk, "p", recursive=True) == (
        ".git/ (not opened)\nnode_modules/ (not opened)\nsrc/\nsrc/a.js (1 byte)\n(4 entries)"
    )
    assert await ls(desk, "p/node_modules", recursive=True) == "m/\nm/index.js (1 byte)\n(2 entries)"


@pytest.mark.parametrize(
    "rules",
    [
        "*a" * 60 + "b\n",
        ("*a" * 100 + "b\n") * 300,
        ("?" * 60 + "*a" * 20 + "b\n") * 200,
        "[[:alpha:]--z]\n[a&&b]\n[a||b]\n",
        "\ud800",
        "[[" * 30_000,
        "".join(f"x{n}\n" for n in range(10_000)),
    ],
)
async def test_hostile_rules_neither_hang_nor_break_a_listing(desk: ToolDesk, rules: str) -> None:
    put(desk, "p/.gitignore", "p/" + "a" * 250)
    (desk.root(ME) / "p/.gitignore").write_bytes(rules.encode("utf-8", "surrogatepass"))
    result = await ls(desk, "p")
    assert not result.is_error
    assert "a" * 250 + " (1 byte)\n" in result


async def test_links_are_named_and_never_followed(desk: ToolDesk, tmp_path: Path) -> None:
    root = desk.root(ME)
    put(desk, "p/real/x")
    (root / "p/out").symlink_to(tmp_path)
    (root / "p/in").symlink_to("real")
    (root / "p/up").symlink_to("..")
    assert await ls(desk, "p", recursive=True) == (
        "real/\nin (link)\nout (link)\nup (link)\nreal/x (1 byte)\n(5 entries)"
    )
    assert await ls(desk, "p/in") == "x (1 byte)\n(1 entry)"
    refused = await ls(desk, "p/out")
    assert refused.is_refused
    assert str(tmp_path) not in refused
    assert "secret" not in refused


async def test_pipes_are_named_and_nothing_waits_for_them(desk: ToolDesk) -> None:
    os.mkfifo(desk.root(ME) / "pipe")
    os.mkfifo(desk.root(ME) / ".gitignore")
    assert await ls(desk) == "shared/\n.gitignore (special file)\npipe (special file)\n(3 entries)"


async def test_names_of_any_bytes_stay_on_one_line_and_can_be_stored(desk: ToolDesk) -> None:
    root = os.fsencode(desk.root(ME))
    Path(os.fsdecode(root + b"/p")).mkdir()
    for name in (b"line\nbreak", b"caf\xe9", "می\u200cخواهم".encode(), "👨\u200d👩.png".encode(), b"\x1b[31m"):
        Path(os.fsdecode(root + b"/p/" + name)).touch()
    result = await ls(desk, "p")
    assert result.encode().decode() == result
    assert sorted(result.split("\n")[:-1]) == [
        "\\x1b[31m (0 bytes)", "caf\\udce9 (0 bytes)", "line\\nbreak (0 bytes)", "می\u200cخواهم (0 bytes)",
        "👨\u200d👩.png (0 bytes)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path",
    ["..", "../..", "../telegram=3A2", "/", "/etc", "~", "~/.ssh", "a\x00b", "{tmp}", "{tmp}/workspace",
     "{tmp}/workspace/chats", "{tmp}/workspace/chats/telegram=3A2", "shared/..", "shared/../../chats/telegram=3A2"],
)  # fmt: skip
async def test_a_folder_outside_is_refused_without_advice_to_try_around_it(
    desk: ToolDesk, tmp_path: Path, path: str
) -> None:
    (desk.root(request_context("2")) / "hers.txt").touch()
    desk.root(ME)
    result = await ls(desk, path.format(tmp=tmp_path))
    if path == "shared/..":  # by its text this is "."
        assert result == "shared/\n(1 entry)"
        return
    assert result.is_refused
    assert ADVICE not in result
    assert "hers.txt" not in result


async def test_only_an_owner_in_private_sees_the_other_chats(desk: ToolDesk) -> None:
    hers = desk.root(request_context("2"))
    (hers / ".gitignore").write_text("*.o\n")
    (hers / "a.o").touch()
    (hers / "hers.txt").write_text("hers")
    put(desk, "mine.txt")
    for role, chat_type in (
        (Role.MEMBER, ChatType.PRIVATE),
        (Role.MEMBER, ChatType.GROUP),
        (Role.OWNER, ChatType.GROUP),
    ):
        other = request_context("1", role=role, chat_type=chat_type)
        assert await desk.call(other, "list_dir") == "shared/\nmine.txt (1 byte)\n(2 entries)"
        assert (await desk.call(other, "list_dir", path="chats/telegram=3A2")).startswith(
            "chats/telegram=3A2: does not"
        )
    owner = request_context("111", role=Role.OWNER)
    assert await desk.call(owner, "list_dir", recursive=True) == "chats/ (not opened)\nshared/\n(2 entries)"
    assert await desk.call(owner, "list_dir", path="chats") == (
        "telegram=3A1/\ntelegram=3A111/\ntelegram=3A2/\n(3 entries)"
    )
    assert await desk.call(owner, "list_dir", path="chats/telegram=3A2") == (
        ".gitignore (4 bytes)\nhers.txt (4 bytes)\n"
        "(2 entries; 1 left out by .gitignore: a.o; list_dir of such a folder opens it)"
    )


async def test_a_file_points_to_read_file_and_a_missing_folder_is_no_refusal(desk: ToolDesk) -> None:
    put(desk, "a.txt")
    file = await ls(desk, "a.txt")
    assert (file.is_error, file.is_refused) == (True, False)
    assert file == f"a.txt: is not a folder. read_file reads it.\n\n{ADVICE}"
    missing = await ls(desk, "nowhere")
    assert (missing.is_error, missing.is_refused) == (True, False)
    assert missing == f"nowhere: does not exist.\n\n{ADVICE}"


async def test_a_listing_out_of_time_says_that_it_is_not_complete(desk: ToolDesk) -> None:
    put(desk, "p/a", "p/b")
    set_request(ME)
    tool = ListDirTool(desk.files, time_limit_s=-1.0)
    result = await tool.execute(path="p", recursive=True)
    assert result == "(p: nothing to list; too many to look at all; list folders below one by one)"


async def test_a_very_large_folder_is_listed_as_far_as_is_bearable(desk: ToolDesk) -> None:
    folder = desk.root(ME) / "p"
    folder.mkdir()
    for n in range(5_001):
        os.close(os.open(folder / f"{n:04}", os.O_CREAT | os.O_WRONLY))
    result = await ls(desk, "p", max_entries=1)
    assert result == (
        "0000 (0 bytes)\n(the first 1 of at least 5,000 entries; list a folder below, or raise max_entries; "
        "too many to look at all; list folders below one by one)"
    )


@pytest.mark.parametrize("params", [{"path": ""}, {"max_entries": 0}, {"max_entries": 2_001}, {"depth": 2}])
async def test_arguments_outside_of_the_schema_are_refused(desk: ToolDesk, params: dict[str, object]) -> None:
    result = await desk.call(ME, "list_dir", **params)
    assert result.is_error
    assert "Invalid parameters" in result


async def test_the_tool_exists_for_subagents_under_the_same_walls(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx, "subagent")
        put(desk, "a.txt")
        request = request_context("1", scope="subagent")
        assert await desk.call(request, "list_dir") == "shared/\na.txt (1 byte)\n(2 entries)"
        assert (await desk.call(request, "list_dir", path="..")).is_refused


async def test_the_call_may_run_beside_others_and_again_after_a_crash(desk: ToolDesk) -> None:
    tool = desk.registry.get("list_dir")
    assert tool is not None
    assert tool.concurrency_safe
    assert (tool.risk, tool.replay) == ("read", "safe")


async def test_too_many_wildcards_in_gitignore_leave_the_first_rules_in_force(desk: ToolDesk) -> None:
    put(desk, ".gitignore", content="*.log\n" + "".join(f"{'?' * 200}{number}\n" for number in range(900)))
    put(desk, "a.log", "b.txt")
    told = await ls(desk)
    assert "b.txt" in told
    assert "1 left out by .gitignore: a.log" in told
