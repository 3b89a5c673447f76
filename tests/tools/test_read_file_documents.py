"""read_file over documents: what the answer says, and that a hostile one holds up nobody."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Address
from bot.security.workspace import WorkspaceView
from bot.toolkit.base import ToolResult
from tests.support.contexts import ToolDesk, request_context, tool_context
from tests.support.documents import package, patched_sizes, pdf, sheets, slides, slow_pdf, word, zip_bomb
from tests.support.engine import MEMBER, OTHER, AnsweringProvider, Rig, calls, last_user, rig, said
from tests.support.providers import ScriptedProvider

ME = request_context("1")
MAGIC = (
    b"%PDF-1.7\n", b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"\x89PNG\r\n\x1a\n", b"",
    b"\xff\xd8\xff",
    b"\xff\xfe", b"\xff\xfe\0\0", b"\xef\xbb\xbf", b"GIF89a", b"RIFF\x08\0\0\0WEBP", b"\x1f\x8b", b"SQLite format 3\0",
    b"PK\x03\x04[Content_Types].xml word/",
)  # fmt: skip
BOMB = patched_sizes(zip_bomb(1 << 20), "word/media/a.bin", 600 << 20)
PATIENCE_S = 20


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    async with tool_context(tmp_path) as ctx:
        yield ToolDesk(ctx)


async def read(desk: ToolDesk, path: str, **params: object) -> ToolResult:
    return await desk.call(ME, "read_file", path=path, **params)


def put(desk: ToolDesk, name: str, content: bytes) -> Path:
    file = desk.root(ME) / name
    file.write_bytes(content)
    return file


def ole(stream: str) -> bytes:
    """Return the look of an OLE container with a stream of this name."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1016) + stream.encode("utf-16-le") + bytes(1000)


async def test_a_document_is_known_by_its_content_whatever_its_name(desk: ToolDesk) -> None:
    put(desk, "a.txt", pdf("hello"))
    assert await read(desk, "a.txt") == "1| [page 1]\n2| hello\n\n(1 page; 2 lines; end of file)"
    put(desk, "b.pdf", word(lambda document: document.add_paragraph("hello")))
    assert await read(desk, "b.pdf") == "1| hello\n\n(1 line; end of file)"
    put(desk, "c", sheets(lambda book: book.active.append(["a", 1])))
    assert await read(desk, "c") == "1| [sheet 1: Sheet]\n2| A1\ta\t1\n\n(1 sheet (Sheet); 2 lines; end of file)"
    put(desk, "d.zip", slides("Plan"))
    assert (await read(desk, "d.zip")).endswith("\n\n(1 slide; 3 lines; end of file)")


async def test_a_long_document_is_read_on_with_offset(desk: ToolDesk) -> None:
    put(desk, "a.pdf", pdf("a", "b", "c"))
    assert await read(desk, "a.pdf", limit=3) == (
        "1| [page 1]\n2| a\n3| [page 2]\n\n(pages 1-2 of 3; lines 1-3 of 6; go on with offset=4)"
    )
    assert await read(desk, "a.pdf", offset=4, limit=1) == "4| b\n\n(page 2 of 3; lines 4-4 of 6; go on with offset=5)"
    assert await read(desk, "a.pdf", offset=5) == "5| [page 3]\n6| c\n\n(page 3 of 3; lines 5-6 of 6; end of file)"
    past = await read(desk, "a.pdf", offset=7)
    assert past.is_error
    assert past.startswith("a.pdf: has 6 lines of text; offset 7 is past its end.")


async def test_pages_are_selected_and_their_lines_counted_by_themselves(desk: ToolDesk) -> None:
    put(desk, "a.pdf", pdf("a", "b", "c", "d"))
    assert await read(desk, "a.pdf", pages="2-3", limit=2) == (
        "1| [page 2]\n2| b\n\n(page 2 of 4; lines 1-2 of 4; go on with offset=3 and the same pages)"
    )
    assert (await read(desk, "a.pdf", pages="2-3", offset=3)).endswith(
        "4| c\n\n(page 3 of 4; lines 3-4 of 4; end of the selected pages)"
    )
    put(desk, "s.pptx", slides("A", "B"))
    assert (await read(desk, "s.pptx", pages="2")).startswith("1| [slide 2]\n2| # B\n")


@pytest.mark.parametrize(
    ("content", "pages", "told"),
    [
        (pdf("a"), "2", "has 1 page; there is no page 2."),
        (pdf("a"), "x", "pages: 'x' is no page or range;"),
        (b"text", "1", "is text/plain, which has no pages to select; use offset and limit."),
        (word(lambda document: document.add_paragraph("x")), "1", "is a docx file, which has no pages to choose."),
    ],
)
async def test_pages_that_cannot_be_selected_are_an_error(
    desk: ToolDesk, content: bytes, pages: str, told: str
) -> None:
    put(desk, "f", content)
    result = await read(desk, "f", pages=pages)
    assert result.is_error
    assert result.startswith(f"f: {told}")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (pdf("a", password="x"), "needs a password and cannot be read; a copy without one can."),
        (pdf(""), "has no text on its page, only pictures (a scan?)."),
        (b"%PDF-1.7\nbroken", "is damaged and cannot be read."),
        (BOMB, "would unpack to more than 512 MiB and is not read."),
        (package([("word/document.xml", b"<a")]), "is damaged and cannot be read."),
        (ole("EncryptedPackage"), "is an office file with a password (application/x-ole-encrypted-package, 2.008 KiB)"),
        (ole("WordDocument"), "is an old Word file (application/msword, 2 KiB) and cannot be read; ask for it as docx"),
        (ole("Workbook"), "is an old Excel file (application/vnd.ms-excel, 1.992 KiB) and cannot be read; ask for it"),
        (ole("Other"), "is binary (application/x-ole-storage, 1.986 KiB) and cannot be read as text."),
    ],
)  # fmt: skip
async def test_a_document_that_gives_no_text_says_why(desk: ToolDesk, content: bytes, told: str) -> None:
    put(desk, "f", content)
    result = await read(desk, "f")
    assert (result.is_error, result.is_refused) == (True, False)
    assert result.startswith(f"f: {told}")


async def test_a_document_over_the_limit_is_refused_by_its_size_alone(desk: ToolDesk) -> None:
    with put(desk, "f.pdf", pdf("a")).open("ab") as file:
        file.truncate(1024**4)
    assert (await read(desk, "f.pdf")).startswith("f.pdf: is 1 TiB; files up to 100 MiB can be read.")


async def test_a_document_longer_than_an_answer_is_cut_between_lines(desk: ToolDesk) -> None:
    def fill(book: Any) -> None:
        for number in range(3_000):
            book.active.append([number, "x" * 100])

    put(desk, "f", sheets(fill))
    result = await read(desk, "f", limit=3_000)
    assert 120_000 < len(result) < 128_200
    assert "of 3,001; go on with offset=" in result
    lines = (await read(desk, "f", limit=2_000, offset=3_000)).split("\n")
    assert lines[:2] == ["3000| A2999\t2998\t" + "x" * 100, "3001| A3000\t2999\t" + "x" * 100]


async def test_an_unchanged_document_is_not_read_a_second_time(desk: ToolDesk) -> None:
    file = put(desk, "a.pdf", pdf("one"))
    full = await read(desk, "a.pdf")
    # A reader would find the places taken, and wait.
    documents = desk.documents
    held = [documents._places.acquire() for _ in range(2)]
    await asyncio.gather(*held)
    assert (await read(desk, "a.pdf")).startswith("a.pdf: unchanged since")
    for _ in held:
        documents._places.release()
    assert await read(desk, "a.pdf", force=True) == full
    assert (await read(desk, "a.pdf", pages="1")) != full
    assert (await read(desk, "a.pdf")).startswith("a.pdf: unchanged")
    stamp = file.stat()
    file.write_bytes(pdf("two"))
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert await read(desk, "a.pdf") == full.replace("one", "two")


async def test_a_document_that_could_not_be_read_is_tried_again(desk: ToolDesk) -> None:
    put(desk, "a.pdf", pdf("a", password="x"))
    for _ in range(2):
        assert (await read(desk, "a.pdf")).startswith("a.pdf: needs a password")


async def test_sixteen_reads_at_once_are_all_right(desk: ToolDesk) -> None:
    for number in range(8):
        put(desk, f"{number}.pdf", pdf(f"text {number}"))
        put(desk, f"{number}.txt", f"plain {number}".encode())
    names = [f"{number}.{kind}" for number in range(8) for kind in ("pdf", "txt")]
    answers = await asyncio.gather(*(read(desk, name) for name in names))
    for name, answer in zip(names, answers, strict=True):
        assert ("text " if name.endswith("pdf") else "plain ") + name[0] in answer


def test_the_libraries_of_the_formats_are_imported_by_the_reader_only() -> None:
    code = (
        "import sys, bot.tools.read_file, bot.toolkit.room\n"
        "print(sorted({'pypdf', 'docx', 'openpyxl', 'pptx', 'lxml'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


async def until_reading(pids: Callable[[], frozenset[int]]) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while not pids():
            await asyncio.sleep(0)
    (pid,) = pids()
    return pid


async def test_a_document_that_holds_one_chat_does_not_hold_another_and_stop_ends_it(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        text = last_user(request)
        return calls(("read_file", {"path": "slow.pdf"})) if text == "read it" else said(f"re: {text}")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.asks("hello")
        (chat_root(engine) / "slow.pdf").write_bytes(slow_pdf())
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        await engine.says("read it", sender=MEMBER)
        pid = await until_reading(lambda: engine.room.documents.pids)
        assert await engine.asks("and I?", sender=OTHER, chat="c2") == "re: and I?"
        assert engine.room.documents.pids == {pid}  # the first chat's document is still being read
        assert await engine.asks("/stop", sender=MEMBER) == "Stopped."
        async with asyncio.timeout(PATIENCE_S):
            while engine.room.documents.pids:
                await asyncio.sleep(0)
        assert not Path(f"/proc/{pid}").exists()  # neither running nor a zombie
        assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
        assert await engine.asks("again") == "re: again"


def chat_root(engine: Rig) -> Path:
    key = Address(channel=engine.channel.name, chat_id="c1").rate_key
    view = WorkspaceView.of(engine.workspace, key)
    view.make_dirs()
    return view.root


async def test_sixteen_documents_in_one_step_come_back_in_order(tmp_path: Path) -> None:
    names = [f"{number}.pdf" for number in range(16)]
    provider = ScriptedProvider(calls(*(("read_file", {"path": name}) for name in names)), said("Read."))
    async with rig(tmp_path, provider) as engine:
        root = chat_root(engine)
        for number, name in enumerate(names):
            (root / name).write_bytes(pdf(f"text {number}"))
        assert await engine.asks("read them") == "Read."
        results = [row["content"] for row in provider.requests[-1].messages if row["role"] == "tool"]
        assert [f"2| text {number}\n" in result for number, result in enumerate(results)] == [True] * 16


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MAGIC), st.binary(max_size=2_000), st.integers(1, 5), st.sampled_from(["", "1", "2-"]))
async def test_any_bytes_give_a_bounded_answer(magic: bytes, data: bytes, offset: int, pages: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with tool_context(Path(folder)) as ctx:
            desk = ToolDesk(ctx)
            put(desk, "f", magic + data)
            result = await read(desk, "f", offset=offset, pages=pages)
    assert result.startswith("f: ") or "| " in result
    assert len(result) < 20_000
    assert "Traceback" not in result
    assert str(Path(folder)) not in result
