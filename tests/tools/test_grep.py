"""grep: what is found, in which order and how much of it, and that nothing outside of the chat's files is."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.config import ToolsConfig
from bot.config.tools import FilesSection
from bot.messages import ChatType, Role
from bot.ripgrep.answers import CAREFUL_REMARK
from bot.ripgrep.output import MAX_LINES_BYTES
from bot.ripgrep.program import find_program
from bot.toolkit.base import ToolResult
from bot.toolkit.context import set_request
from bot.toolkit.results import ADVICE
from bot.tools.grep import MAX_CHARS, GrepTool
from tests.support.children import children
from tests.support.contexts import ToolDesk, request_context, tool_context

ME = request_context("1")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    """The tools of an ordinary turn; a secret lies beside the workspace."""
    (tmp_path / "secret").write_text("needle TOP SECRET")
    async with tool_context(tmp_path) as ctx:
        yield ToolDesk(ctx)


@pytest.fixture(params=["all processors", "one processor"])
def processors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let this thread, and whatever it starts, run on all processors or on one only: ripgrep goes by their number."""
    before = os.sched_getaffinity(0)
    if request.param == "one processor":
        os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


async def grep(desk: ToolDesk, pattern: str = "needle", **params: object) -> ToolResult:
    return await desk.call(ME, "grep", pattern=pattern, **params)


async def lines(desk: ToolDesk, pattern: str = "needle", **params: object) -> ToolResult:
    return await grep(desk, pattern, output_mode="content", **params)


def put(desk: ToolDesk, *names: str, content: str = "needle\n") -> None:
    for name in names:
        file = desk.root(ME) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


# --- what is found


async def test_the_files_that_match_come_in_path_order_with_their_number(desk: ToolDesk) -> None:
    put(desk, "b.txt", "a/z.txt", "a/b/c.txt", "a-b/x.txt", ".hidden/h.txt")
    put(desk, "other.txt", content="hay")
    assert await grep(desk) == ".hidden/h.txt\na/b/c.txt\na/z.txt\na-b/x.txt\nb.txt\n(5 files)"
    assert await grep(desk, path="a") == "a/b/c.txt\na/z.txt\n(2 files)"
    assert await grep(desk, path="./a//b/../z.txt") == "a/z.txt\n(1 file)"


@pytest.mark.usefixtures("processors")
async def test_lines_have_numbers_and_what_stands_around_them(desk: ToolDesk) -> None:
    put(desk, "a.txt", content="1\n2\nneedle 3\n4\n5\n6\n7\nneedle 8\nneedle 9\n")
    put(desk, "b.txt", content="a needle")
    assert await lines(desk) == (
        "a.txt:3: needle 3\na.txt:8: needle 8\na.txt:9: needle 9\nb.txt:1: a needle\n(4 matching lines in 2 files)"
    )
    assert await lines(desk, context_before=1, context_after=2) == (
        "a.txt-2- 2\na.txt:3: needle 3\na.txt-4- 4\na.txt-5- 5\n--\na.txt-7- 7\na.txt:8: needle 8\na.txt:9: needle 9\n"
        "--\nb.txt:1: a needle\n(4 matching lines in 2 files)"
    )
    assert await lines(desk, path="a.txt", context_before=1) == (
        "a.txt-2- 2\na.txt:3: needle 3\n--\na.txt-7- 7\na.txt:8: needle 8\na.txt:9: needle 9\n"
        "(3 matching lines in 1 file)"
    )


async def test_matching_lines_are_counted_per_file(desk: ToolDesk) -> None:
    put(desk, "a.txt", content="needle\n" * 1_200)
    put(desk, "b.txt", content="needle needle\nhay\n")
    assert await grep(desk, output_mode="count") == "a.txt: 1,200\nb.txt: 1\n(1,201 matching lines in 2 files)"
    assert await grep(desk, output_mode="count", path="b.txt") == "b.txt: 1\n(1 matching line in 1 file)"


async def test_case_and_syntax_of_the_pattern_are_the_callers_choice(desk: ToolDesk) -> None:
    put(desk, "a.txt", content="f(x) = Needle\n")
    assert (await grep(desk)).startswith("(.: no match")
    assert await grep(desk, case_insensitive=True) == "a.txt\n(1 file)"
    assert await lines(desk, "f(x)", fixed_strings=True) == "a.txt:1: f(x) = Needle\n(1 matching line in 1 file)"
    assert await grep(desk, "--files", fixed_strings=True) == await grep(desk, "-f")
    assert (await grep(desk, "--files")).startswith("(.: no match")


async def test_glob_and_type_choose_files(desk: ToolDesk) -> None:
    put(desk, "a.py", "a.ts", "a.tsx", "src/b.py", "src/in/c.py")
    assert await grep(desk, type="py") == "a.py\nsrc/b.py\nsrc/in/c.py\n(3 files)"
    assert await grep(desk, glob="*.{ts,tsx}") == "a.ts\na.tsx\n(2 files)"
    assert await grep(desk, glob="!*.py") == "a.ts\na.tsx\n(2 files)"
    assert await grep(desk, glob="src/*.py") == "src/b.py\n(1 file)"
    assert await grep(desk, glob="in/*.py", path="src") == "src/in/c.py\n(1 file)"
    assert await grep(desk, glob="**/in/*.py") == "src/in/c.py\n(1 file)"
    assert await grep(desk, glob="!src/in/*", type="py") == "a.py\nsrc/b.py\n(2 files)"


async def test_a_part_of_the_result_says_how_to_get_the_rest_and_all_parts_make_the_whole(desk: ToolDesk) -> None:
    put(desk, *(f"f{n}.txt" for n in range(3)), content="needle 1\nhay\nneedle 2\nneedle 3\n")
    whole = (await lines(desk)).split("\n")[:-1]
    assert len(whole) == 9
    parts = []
    for offset in range(0, 9, 2):
        part = (await lines(desk, offset=offset, head_limit=2)).split("\n")
        parts += part[:-1]
        rest = f"; go on with offset={offset + 2}" if offset < 7 else ""
        end = min(offset + 2, 9)
        assert part[-1] == f"(9 matching lines in 3 files; matching lines {offset + 1}-{end} are shown{rest})"
    assert parts == whole
    assert await grep(desk, head_limit=1, offset=1) == "f1.txt\n(3 files; files 2-2 are shown; go on with offset=2)"
    assert await grep(desk, offset=9) == "(3 files; offset 9 is past the last of 3 files)"
    assert await lines(desk, offset=9) == (
        "(9 matching lines in 3 files; offset 9 is past the last of 9 matching lines)"
    )


async def test_a_part_keeps_what_stands_around_its_lines(desk: ToolDesk) -> None:
    put(desk, "a.txt", content="".join(f"needle {n}\n" if n % 3 == 0 else f"{n}\n" for n in range(1, 20)))
    assert await lines(desk, offset=1, head_limit=2, context_before=1, context_after=1) == (
        "a.txt-5- 5\na.txt:6: needle 6\na.txt-7- 7\na.txt-8- 8\na.txt:9: needle 9\na.txt-10- 10\n"
        "(6 matching lines in 1 file; matching lines 2-3 are shown; go on with offset=3)"
    )


async def test_no_match_is_no_error_and_says_what_was_left_out(desk: ToolDesk) -> None:
    result = await grep(desk)
    assert not result.is_error
    assert result == (
        "(.: no match; left out are .gitignore's, folders such as node_modules, binary files; "
        "other files to search: path shared)"
    )


# --- what is left out


async def test_gitignore_counts_from_the_top_of_the_workspace_and_the_nearest_word_wins(desk: ToolDesk) -> None:
    put(desk, ".gitignore", content="*.log\n/top.txt\nbuild/\nin/bound.txt\n# x\n[z-a]\n")
    put(desk, "in/.gitignore", content="!keep.log\n/own.txt\n")
    put(desk, "a.log", "top.txt", "build/x.txt", "in/keep.log", "in/b.log", "in/own.txt", "in/top.txt")
    put(desk, "in/bound.txt", "in/deep/own.txt", "in/deep/keep.log", "in/deep/in/bound.txt", ".ignore", ".rgignore")
    inside = "in/deep/in/bound.txt\nin/deep/keep.log\nin/deep/own.txt\n"
    assert await grep(desk) == f".ignore\n.rgignore\n{inside}in/keep.log\nin/top.txt\n(7 files)"
    assert await grep(desk, path="in") == f"{inside}in/keep.log\nin/top.txt\n(5 files)"
    assert await grep(desk, path="in/deep") == f"{inside}(3 files)"


async def test_what_is_left_out_is_searched_when_it_is_named(desk: ToolDesk) -> None:
    put(desk, ".gitignore", content="build/\n*.log\n")
    put(desk, "build/x.txt", "build/y.log", "a.log", "node_modules/m/index.js", "node_modules/m/node_modules/n.js")
    assert (await grep(desk)).startswith("(.: no match")
    assert await grep(desk, path="build") == "build/x.txt\nbuild/y.log\n(2 files)"
    assert await grep(desk, path="a.log") == "a.log\n(1 file)"
    assert await grep(desk, path="node_modules") == "node_modules/m/index.js\n(1 file)"
    assert await grep(desk, glob="*.log") == "a.log\n(1 file)"


async def test_rules_above_the_workspace_do_not_count(desk: ToolDesk) -> None:
    put(desk, "a.txt")
    for folder in (desk.workspace, desk.workspace / "chats", desk.workspace.parent):
        (folder / ".gitignore").write_text("*\n")
    assert await grep(desk) == "a.txt\n(1 file)"


async def test_strange_folder_names_do_not_change_what_rules_mean(desk: ToolDesk) -> None:
    for name in ("[ab]", "a b", "!x", "#y", "{a,b}", "back\\slash", "new\nline", "-d", "*"):
        put(desk, f"{name}/.gitignore", content="/no.txt\n*.log\n")
        put(desk, f"{name}/in/yes.txt", f"{name}/in/a.log", f"{name}/in/no.txt")
        found = (await grep(desk, path=f"{name}/in")).split("\n")
        assert [line.rpartition("/")[2] for line in found[:-1]] in (
            ["no.txt", "yes.txt"],
            ["a.log", "no.txt", "yes.txt"],
        )
        if name != "new\nline":  # no .gitignore can name such a folder
            assert len(found) == 3, name


async def test_binary_files_are_left_out_and_a_named_one_is_refused_with_its_type(desk: ToolDesk) -> None:
    root = desk.root(ME)
    (root / "early.bin").write_bytes(b"\0needle\n")
    (root / "late.bin").write_bytes(b"needle\n" * 50_000 + b"\0")
    put(desk, "a.txt")
    assert await grep(desk) == "a.txt\nlate.bin\n(2 files)"  # ripgrep is content with the first line
    assert await lines(desk) == "a.txt:1: needle\n(1 matching line in 1 file)"
    assert await grep(desk, output_mode="count") == "a.txt: 1\n(1 matching line in 1 file)"
    result = await lines(desk, path="early.bin")
    assert result.is_error
    assert result.startswith("early.bin: is binary (application/octet-stream, 8 bytes)")


async def test_a_sparse_terabyte_is_passed_over_and_refused_when_named(desk: ToolDesk) -> None:
    put(desk, "a.txt")
    os.truncate(desk.root(ME) / "a.txt", 1)
    os.truncate(desk.root(ME) / "a.txt", 1 << 40)
    put(desk, "b.txt")
    assert await grep(desk) == "b.txt\n(1 file)"
    assert "is 1 TiB; a named file of up to 100 MiB can be searched" in await grep(desk, path="a.txt")


# --- names and lines of any bytes


@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
async def test_a_gitignore_that_nobody_writes_to_does_not_hold_up_the_search(desk: ToolDesk, mode: str) -> None:
    put(desk, "a.txt", "d/b.txt")
    os.mkfifo(desk.root(ME) / "d/.gitignore")
    result = await grep(desk, output_mode=mode)
    assert not result.is_error
    assert "a.txt" in result
    assert "d/b.txt" in result
    assert result.endswith(f"; {CAREFUL_REMARK})")


async def test_a_gigabyte_without_a_line_end_does_not_end_the_search(desk: ToolDesk) -> None:
    put(desk, "a.txt", "d/b.txt")
    with (desk.root(ME) / "d/.gitignore").open("wb") as file:
        file.truncate(2 << 30)
    result = await grep(desk)
    assert result == f"a.txt\nd/b.txt\n(2 files; {CAREFUL_REMARK})"


async def test_the_name_of_a_folder_cannot_hide_another_file(desk: ToolDesk) -> None:
    put(desk, "a.txt", "a.txt: binary file matches (found x)\n./a.txt", "b/c\n.d/e", "b/\n./f")
    assert await lines(desk) == "a.txt:1: needle\nb/c\\n.d/e:1: needle\n(2 matching lines in 2 files)"
    named = await lines(desk, path="b/\n.")
    assert named == "b/\\n./f:1: needle\n(1 matching line in 1 file)"


async def test_names_and_lines_of_any_bytes_are_found_and_stay_on_one_line(desk: ToolDesk) -> None:
    root = os.fsencode(desk.root(ME))
    names = (b"line\nbreak", b"caf\xe9", b"a:1: x", b"./", b"--", b'x: binary file matches (found "\\0")\n')
    for name in (*names[:3], *names[4:]):
        Path(os.fsdecode(root + b"/" + name)).write_bytes(b"\xff needle\x1b[31m\r\n")
    result = await lines(desk)
    assert result.encode().decode() == result
    assert sorted(result.split("\n")[:-1]) == [
        "--:1: \ufffd needle\x1b[31m",
        "a:1: x:1: \ufffd needle\x1b[31m",
        "caf\\udce9:1: \ufffd needle\x1b[31m",
        "line\\nbreak:1: \ufffd needle\x1b[31m",
        'x: binary file matches (found "\\0")\\n:1: \ufffd needle\x1b[31m',
    ]
    assert (await grep(desk)).endswith("(5 files)")
    assert (await grep(desk, output_mode="count")).endswith("(5 matching lines in 5 files)")


async def test_line_ends_and_encodings_do_not_hide_a_match(desk: ToolDesk) -> None:
    (desk.root(ME) / "crlf.txt").write_bytes(b"a needle\r\nb\r\n")
    (desk.root(ME) / "utf16.txt").write_bytes("the needle\n".encode("utf-16"))
    assert await lines(desk, "needle$") == (
        "crlf.txt:1: a needle\nutf16.txt:1: the needle\n(2 matching lines in 2 files)"
    )
    assert await lines(desk, "needle$", path="utf16.txt") == "utf16.txt:1: the needle\n(1 matching line in 1 file)"


async def test_a_very_long_line_is_cut_with_a_note(desk: ToolDesk) -> None:
    put(desk, "a.txt", content="needle " + "x" * 5_000_000 + "\n")
    for where in ({}, {"path": "a.txt"}):
        result = await lines(desk, **where)
        assert "[... omitted end of long line]" in result
        assert len(result) < 1_000


async def test_a_hundred_thousand_lines_are_counted_and_bounded_whichever_way_they_are_read(desk: ToolDesk) -> None:
    put(desk, "a.txt", content="".join(f"needle {n} {'x' * 90}\n" for n in range(100_000)))
    put(desk, "b.txt", content="needle\n")
    assert (desk.root(ME) / "a.txt").stat().st_size > MAX_LINES_BYTES
    first = await lines(desk)
    assert first.split("\n")[:2] == [f"a.txt:1: needle 0 {'x' * 90}", f"a.txt:2: needle 1 {'x' * 90}"]
    assert first.endswith("(100,001 matching lines in 2 files; matching lines 1-250 are shown; go on with offset=250)")
    last = await lines(desk, offset=99_999, context_before=1)
    assert last.split("\n") == [
        f"a.txt-99999- needle 99998 {'x' * 90}",
        f"a.txt:100000: needle 99999 {'x' * 90}",
        "--",
        "b.txt:1: needle",
        "(100,001 matching lines in 2 files; matching lines 100,000-100,001 are shown)",
    ]
    much = await lines(desk, head_limit=2_000)
    assert MAX_CHARS < len(much) < MAX_CHARS + 2_000
    shown = len(much.split("\n")) - 1
    assert much.endswith(f"matching lines 1-{shown:,} are shown; go on with offset={shown})")


async def test_lines_of_many_files_are_the_same_in_one_step_and_in_two(desk: ToolDesk) -> None:
    put(desk, *(f"d{n % 7}/f{n:03}.txt" for n in range(600)), content="needle\nhay\n")
    one = await lines(desk, head_limit=600, context_after=1)
    put(desk, "z.txt", content=f"{'x' * 400} needle\n" * 25_000)
    two = await lines(desk, head_limit=600, context_after=1)
    assert two.split("\n")[:-1] == one.split("\n")[:-1]
    assert two.endswith("(25,600 matching lines in 601 files; matching lines 1-600 are shown; go on with offset=600)")


# --- walls and bounds


@pytest.mark.parametrize(
    "path", ["..", "/", "/etc", "~", "a\x00b", "{tmp}", "{tmp}/secret", "shared/../../chats", "out"]
)
async def test_a_path_outside_is_refused_without_advice_to_try_around_it(
    desk: ToolDesk, tmp_path: Path, path: str
) -> None:
    (desk.root(ME) / "out").symlink_to(tmp_path)
    result = await lines(desk, path=path.format(tmp=tmp_path))
    assert result.is_refused
    assert ADVICE not in result
    assert "SECRET" not in result


async def test_links_inside_are_not_followed_but_can_be_named(desk: ToolDesk, tmp_path: Path) -> None:
    """C080: a link inside of the workspace leads out."""
    put(desk, "real/a.txt")
    root = desk.root(ME)
    (root / "out").symlink_to(tmp_path)
    (root / "secret.txt").symlink_to(tmp_path / "secret")
    (root / "in").symlink_to("real")
    assert await lines(desk) == "real/a.txt:1: needle\n(1 matching line in 1 file)"
    assert await lines(desk, path="in") == "real/a.txt:1: needle\n(1 matching line in 1 file)"
    assert (await lines(desk, path="secret.txt")).is_refused


async def test_each_chat_searches_its_own_files_and_the_shared_ones(desk: ToolDesk) -> None:
    put(desk, "mine.txt")
    hers = desk.root(request_context("2"))
    (hers / "hers.txt").write_text("needle")
    (hers / "a.o").write_text("needle")
    (hers / ".gitignore").write_text("*.o")
    (desk.workspace / "shared/deep").mkdir()
    (desk.workspace / "shared/deep/s.txt").write_text("needle")
    put(desk, "shared/fake.txt")
    assert await grep(desk) == "mine.txt\n(1 file)"
    assert await grep(desk, path="shared") == "shared/deep/s.txt\n(1 file)"
    assert await lines(desk, path="shared/deep") == "shared/deep/s.txt:1: needle\n(1 matching line in 1 file)"
    for role, chat_type in ((Role.MEMBER, ChatType.PRIVATE), (Role.OWNER, ChatType.GROUP)):
        other = request_context("1", role=role, chat_type=chat_type)
        assert (await desk.call(other, "grep", pattern="needle", path="chats/telegram=3A2")).is_error
    owner = request_context("111", role=Role.OWNER)
    assert (await desk.call(owner, "grep", pattern="needle")).endswith("path shared, path chats)")
    assert await desk.call(owner, "grep", pattern="needle", path="chats/telegram=3A2") == (
        "chats/telegram=3A2/hers.txt\n(1 file)"
    )
    assert (await desk.call(owner, "grep", pattern="needle", path="chats")).endswith("(3 files)")


async def test_a_further_root_is_searched_by_its_path_but_not_the_workspace_within_it(tmp_path: Path) -> None:
    (tmp_path / "books/deep").mkdir(parents=True)
    (tmp_path / "books/deep/b.txt").write_text("needle 1\nhay\n")
    (tmp_path / "books/.gitignore").write_text("*.log\n")
    (tmp_path / "books/deep/a.log").write_text("needle\n")
    (tmp_path / "books/alias").symlink_to(tmp_path / "workspace")
    config = ToolsConfig(files=FilesSection(extra_read=[tmp_path]))
    async with tool_context(tmp_path, config=config) as ctx:
        desk = ToolDesk(ctx)
        put(desk, "mine.txt")
        (desk.root(request_context("2")) / "hers.txt").write_text("needle HERS\n")
        books = f"{tmp_path}/books/deep/b.txt"
        assert await lines(desk, path=str(tmp_path)) == f"{books}:1: needle 1\n(1 matching line in 1 file)"
        assert await grep(desk, path=f"{tmp_path}/books/deep") == f"{books}\n(1 file)"
        assert (await desk.call(ME, "find_files", path=str(tmp_path), query="b.txt")) == f"{books}\n(1 file)"
        for path in (f"{tmp_path}/workspace/chats", f"{tmp_path}/books/alias", f"{tmp_path}/books/alias/chats"):
            assert "HERS" not in await lines(desk, path=path)
        assert await lines(desk) == "mine.txt:1: needle\n(1 matching line in 1 file)"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"pattern": "(foo"}, "regex parse error: unclosed group"),
        (
            {"pattern": "(?=x)"},
            "regex parse error: look-around, including look-ahead and look-behind, is not supported",
        ),
        ({"pattern": r"\w{1000}{1000}"}, "exceeds size limit"),
        ({"pattern": r"a\nb"}, 'the literal "\\n" is not allowed in a regex'),
        ({"pattern": "x", "type": "klingon"}, "unrecognized file type: klingon"),
        ({"pattern": "x", "glob": "["}, "error parsing glob '[': unclosed character class; missing ']'"),
        ({"pattern": "a\x00b"}, "NUL"),
        ({"pattern": "x", "path": "nowhere"}, "nowhere: does not exist"),
        ({"pattern": ""}, "Invalid parameters"),
        ({"pattern": "x", "output_mode": "json"}, "Invalid parameters"),
        ({"pattern": "x", "head_limit": 0}, "Invalid parameters"),
        ({"pattern": "x", "multiline": True}, "Invalid parameters"),
    ],
)
async def test_mistakes_are_errors_in_one_line_of_ripgreps_own_words(
    desk: ToolDesk, tmp_path: Path, params: dict[str, object], words: str
) -> None:
    result = await desk.call(ME, "grep", **params)
    assert result.is_error
    assert not result.is_refused
    assert words in result
    assert str(tmp_path) not in result
    if "Invalid" not in result:
        assert result.count("\n") == 2  # the line, an empty one, the advice


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*a){20}b", r"(x+x+)+y", r"([a-z]+)*\d"])
async def test_patterns_that_hang_other_engines_end(desk: ToolDesk, pattern: str) -> None:
    put(desk, "a.txt", content=("a" * 50_000 + "!\n") * 20)
    assert not (await grep(desk, pattern)).is_error


async def test_a_search_out_of_time_says_so(desk: ToolDesk) -> None:
    put(desk, "a.txt")
    set_request(ME)
    result = await GrepTool(desk.files, limit_s=-1.0).execute(pattern="needle")
    assert "not everything was searched in the time" in result
    assert children(find_program().name) == []


async def test_files_that_cannot_be_read_are_mentioned(desk: ToolDesk) -> None:
    put(desk, "a.txt")
    os.mkfifo(desk.root(ME) / "pipe")
    (desk.root(ME) / ".gitignore").symlink_to("/etc/passwd")
    assert await grep(desk) == "a.txt\n(1 file)"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pattern=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    glob=st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    name=st.binary(min_size=1, max_size=40),
    content=st.binary(max_size=200),
    mode=st.sampled_from(["files_with_matches", "content", "count"]),
    plain=st.booleans(),
)
async def test_any_pattern_over_any_file_gives_a_bounded_answer(  # noqa: PLR0917 - as hypothesis gives them
    tmp_path: Path, pattern: str, glob: str, name: bytes, content: bytes, mode: str, plain: bool
) -> None:
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx)
        file = os.fsencode(desk.root(ME)) + b"/" + name.replace(b"/", b"_").replace(b"\0", b"_")
        if name not in {b".", b".."}:
            Path(os.fsdecode(file)).write_bytes(content)
        params = {"glob": glob} if glob else {}
        result = await grep(desk, pattern, output_mode=mode, fixed_strings=plain, **params)
        assert len(result) < 5_000
        assert result.encode().decode() == result
        assert str(tmp_path) not in result
        if plain and not glob and mode == "count" and pattern.isalnum() and pattern.isascii() and b"\0" not in content:
            hits = sum(pattern.encode() in line for line in content.split(b"\n"))
            if content[:2] not in {b"\xff\xfe", b"\xfe\xff"} and name not in {b".", b"..", b".gitignore"}:
                assert f"({hits} matching line" in result or not hits


async def test_the_call_may_run_beside_others_and_again_after_a_crash(desk: ToolDesk) -> None:
    tool = desk.registry.get("grep")
    assert tool is not None
    assert tool.concurrency_safe
    assert (tool.risk, tool.replay, tool.unavailable) == ("read", "safe", "")


async def test_the_tool_exists_for_subagents(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx, "subagent")
        put(desk, "a.txt")
        assert await desk.call(request_context("1", scope="subagent"), "grep", pattern="needle") == "a.txt\n(1 file)"
