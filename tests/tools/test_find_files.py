"""find_files: which names are found, in which order and how many, and that nothing outside is."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.messages import Role
from bot.toolkit.base import ToolResult
from bot.toolkit.context import set_request
from bot.toolkit.results import ADVICE
from bot.tools.find_files import MAX_CHARS, FindFilesTool
from tests.support.contexts import ToolDesk, request_context, tool_context

ME = request_context("1")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    """The tools of an ordinary turn; a secret lies beside the workspace."""
    (tmp_path / "secret").write_text("TOP SECRET")
    async with tool_context(tmp_path) as ctx:
        yield ToolDesk(ctx)


async def find(desk: ToolDesk, **params: object) -> ToolResult:
    return await desk.call(ME, "find_files", **params)


def put(desk: ToolDesk, *names: str, content: str = "x") -> None:
    for name in names:
        file = desk.root(ME) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


async def test_all_files_come_in_path_order_with_their_number(desk: ToolDesk) -> None:
    put(desk, "b.txt", "a/z.txt", "a/b/c.txt", "a-b/x.txt", ".hidden", "empty.txt")
    put(desk, "empty.txt", content="")
    assert await find(desk) == ".hidden\na/b/c.txt\na/z.txt\na-b/x.txt\nb.txt\nempty.txt\n(6 files)"
    assert await find(desk, path="a") == "a/b/c.txt\na/z.txt\n(2 files)"


async def test_a_query_is_words_of_the_path_in_any_case_below_the_folder(desk: ToolDesk) -> None:
    put(desk, "Reports/Tax-2026.pdf", "Reports/rent.pdf", "photos/tax.jpg", "Straße.txt")
    assert await find(desk, query="TAX") == "Reports/Tax-2026.pdf\nphotos/tax.jpg\n(2 files)"
    assert await find(desk, query="tax report") == "Reports/Tax-2026.pdf\n(1 file)"
    assert await find(desk, query="STRASSE") == "Straße.txt\n(1 file)"
    assert await find(desk, query="reports rent", path="Reports") == "(Reports: no such file; left out are .gitignore's and folders such as node_modules)"  # fmt: skip  # noqa: E501
    assert await find(desk, query="  ") == await find(desk)


async def test_letters_in_order_are_enough_when_no_path_has_the_words(desk: ToolDesk) -> None:
    put(desk, "src/search_history.py", "src/grep.py")
    assert await find(desk, query="srchist") == (
        "src/search_history.py\n(1 file; none contains the query; these have its letters in order)"
    )
    assert (await find(desk, query="zzz")).startswith("(.: no such file; ")


async def test_glob_and_type_choose_files(desk: ToolDesk) -> None:
    put(desk, "a.py", "a.ts", "src/b.py", "src/in/c.py")
    assert await find(desk, type="py") == "a.py\nsrc/b.py\nsrc/in/c.py\n(3 files)"
    assert await find(desk, glob="src/*.py") == "src/b.py\n(1 file)"
    assert await find(desk, glob="*.{ts,py}", path="src/in") == "src/in/c.py\n(1 file)"
    assert await find(desk, glob="!*.py") == "a.ts\n(1 file)"


async def test_folders_are_named_with_a_slash_if_they_are_asked_for(desk: ToolDesk) -> None:
    put(desk, "a/deep/x.txt", "a/y.txt", "z.txt")
    (desk.root(ME) / "empty").mkdir()
    assert await find(desk, include_dirs=True) == "a/\na/deep/\na/deep/x.txt\na/y.txt\nz.txt\n(5 paths)"
    assert await find(desk, include_dirs=True, path="a") == "a/deep/\na/deep/x.txt\na/y.txt\n(3 paths)"
    assert await find(desk, include_dirs=True, query="deep/") == "a/deep/\na/deep/x.txt\n(2 paths)"


async def test_the_newest_come_first_if_asked_for(desk: ToolDesk) -> None:
    put(desk, "a/old.txt", "a/new.txt", "b.txt", "c.txt")
    for at_s, name in enumerate(("a/old.txt", "c.txt", "b.txt", "a/new.txt")):
        os.utime(desk.root(ME) / name, (at_s, at_s))
    os.utime(desk.root(ME) / "a", (99, 99))
    assert await find(desk, sort="modified") == "a/new.txt\nb.txt\nc.txt\na/old.txt\n(4 files)"
    assert (await find(desk, sort="modified", include_dirs=True)).startswith("a/\na/new.txt\n")


async def test_a_part_of_the_result_says_how_to_get_the_rest_and_all_parts_make_the_whole(desk: ToolDesk) -> None:
    put(desk, *(f"d{n % 3}/f{n:03}" for n in range(450)))
    whole = (await find(desk, head_limit=2_000)).split("\n")
    assert whole[-1] == "(450 files)"
    first = (await find(desk)).split("\n")
    assert first[-1] == "(450 files; paths 1-200 are shown; go on with offset=200)"
    second = (await find(desk, offset=200)).split("\n")
    last = (await find(desk, offset=400)).split("\n")
    assert last[-1] == "(450 files; paths 401-450 are shown)"
    assert first[:-1] + second[:-1] + last[:-1] == whole[:-1]
    assert await find(desk, offset=450) == "(450 files; offset 450 is past the last of 450 paths)"


async def test_long_paths_are_bounded_and_the_rest_can_be_reached(desk: ToolDesk) -> None:
    folder = "/".join(["d" * 200] * 4)
    put(desk, *(f"{folder}/{n:03}" for n in range(200)))
    result = await find(desk)
    shown = len(result.split("\n")) - 1
    assert len(result) < MAX_CHARS + 200
    assert result.endswith(f"(200 files; paths 1-{shown} are shown; go on with offset={shown})")
    assert (await find(desk, offset=shown)).startswith(f"{folder}/{shown:03}\n")


async def test_what_gitignore_and_noise_leave_out_is_found_when_its_folder_is_named(desk: ToolDesk) -> None:
    put(desk, "p/.gitignore", content="*.log\n/build/\n!keep.log\n")
    put(desk, "p/a.log", "p/keep.log", "p/build/out", "p/src/build/kept", "p/node_modules/m.js", "p/.git/HEAD")
    assert await find(desk) == "p/.gitignore\np/keep.log\np/src/build/kept\n(3 files)"
    assert await find(desk, path="p/src") == "p/src/build/kept\n(1 file)"
    assert await find(desk, path="p/build") == "p/build/out\n(1 file)"
    assert await find(desk, path="p/node_modules") == "p/node_modules/m.js\n(1 file)"


async def test_each_chat_finds_its_own_files_and_the_shared_ones(desk: ToolDesk) -> None:
    put(desk, "mine.txt", "shared/fake.txt")
    (desk.root(request_context("2")) / "hers.txt").write_text("x")
    (desk.workspace / "shared/s.txt").write_text("x")
    assert await find(desk) == "mine.txt\n(1 file)"
    assert await find(desk, path="shared") == "shared/s.txt\n(1 file)"
    assert (await find(desk, path="chats")).is_error
    owner = request_context("111", role=Role.OWNER)
    assert "path shared, path chats" in await desk.call(owner, "find_files")
    assert await desk.call(owner, "find_files", path="chats/telegram=3A2") == "chats/telegram=3A2/hers.txt\n(1 file)"


async def test_links_are_not_followed_and_names_of_any_bytes_stay_on_one_line(desk: ToolDesk, tmp_path: Path) -> None:
    root = os.fsencode(desk.root(ME))
    for name in (b"line\nbreak", b"caf\xe9", b"\x1b[31m"):
        Path(os.fsdecode(root + b"/" + name)).touch()
    (desk.root(ME) / "out").symlink_to(tmp_path)
    (desk.root(ME) / "secret.txt").symlink_to(tmp_path / "secret")
    os.mkfifo(desk.root(ME) / "pipe")
    result = await find(desk)
    assert result.encode().decode() == result
    assert result == "\\x1b[31m\ncaf\\udce9\nline\\nbreak\n(3 files)"
    assert (await find(desk, path="out")).is_refused


@pytest.mark.parametrize("path", ["..", "/", "/etc", "~", "a\x00b", "{tmp}", "shared/../../chats"])
async def test_a_folder_outside_is_refused_without_advice_to_try_around_it(
    desk: ToolDesk, tmp_path: Path, path: str
) -> None:
    result = await find(desk, path=path.format(tmp=tmp_path))
    assert result.is_refused
    assert ADVICE not in result
    assert "secret" not in result


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"type": "klingon"}, "unrecognized file type: klingon"),
        ({"glob": "["}, "unclosed character class"),
        ({"glob": "a\x00"}, "NUL"),
        ({"path": "nowhere"}, "nowhere: does not exist"),
        ({"path": "a.txt"}, "a.txt: is not a folder. read_file reads it."),
        ({"sort": "size"}, "Invalid parameters"),
        ({"head_limit": 2_001}, "Invalid parameters"),
        ({"depth": 1}, "Invalid parameters"),
    ],
)
async def test_mistakes_are_errors(desk: ToolDesk, tmp_path: Path, params: dict[str, object], words: str) -> None:
    put(desk, "a.txt")
    result = await find(desk, **params)
    assert (result.is_error, result.is_refused) == (True, False)
    assert words in result
    assert str(tmp_path) not in result


async def test_a_search_out_of_time_says_so(desk: ToolDesk) -> None:
    put(desk, "a.txt")
    set_request(ME)
    assert "not everything was looked at" in await FindFilesTool(desk.files, limit_s=-1.0).execute()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=40),
    sort=st.sampled_from(["path", "modified"]),
    folders=st.booleans(),
)
async def test_any_query_over_any_name_gives_an_answer_and_a_name_is_found_by_itself(
    tmp_path: Path, query: str, name: str, sort: str, folders: bool
) -> None:
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx)
        if name not in {".", "..", ".gitignore"}:
            (desk.root(ME) / name).touch()
            assert "(1 " in await find(desk, query=name, sort=sort, include_dirs=folders)
            (desk.root(ME) / name).unlink()
        result = await find(desk, query=query, sort=sort, include_dirs=folders)
        assert not result.is_error
        assert result.count("\n") <= 1


async def test_the_call_may_run_beside_others_and_again_after_a_crash(desk: ToolDesk) -> None:
    tool = desk.registry.get("find_files")
    assert tool is not None
    assert tool.concurrency_safe
    assert (tool.risk, tool.replay, tool.unavailable) == ("read", "safe", "")
