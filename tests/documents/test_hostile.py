"""Files made to hang, bloat, crash or deceive their reader, and readings that are given up."""

from __future__ import annotations

import asyncio
import io
import os
import select
import subprocess
import sys
import time
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from docx.oxml.ns import nsdecls
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.documents.contract import DocumentError, DocumentKind, DocumentProblem
from bot.documents.package import MAX_ENTRIES, MAX_UNPACKED_BYTES
from bot.documents.reading import AT_ONCE, Documents
from tests.support.documents import (
    package,
    page_tree_bomb,
    page_tree_loop,
    patched_sizes,
    pdf,
    raw_pdf,
    replaced,
    sheets,
    slides,
    slow_pdf,
    word,
    zip_bomb,
)

LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE w [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    + f"]><w:document {nsdecls('w')}><w:body><w:p><w:r><w:t>&a9;</w:t></w:r></w:p></w:body></w:document>"
)
PATIENCE_S = 20
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def documents() -> AsyncIterator[Documents]:
    made = Documents()
    yield made
    await made.close()
    assert not made.pids
    assert not children()


async def problem(documents: Documents, data: bytes, kind: DocumentKind = DocumentKind.DOCX) -> tuple[str, str]:
    with pytest.raises(DocumentError) as told:
        await documents.read(data, kind)
    return told.value.problem.value, str(told.value)


async def outcome(data: bytes, kind: DocumentKind) -> str:
    """Return the text or the error; anything else fails the test."""
    try:
        return (await Documents().read(data, kind, max_chars=1_000)).text
    except DocumentError as error:
        return str(error)


async def begun(documents: Documents, count: int = 1) -> frozenset[int]:
    """Wait until so many readers run."""
    async with asyncio.timeout(PATIENCE_S):
        while len(documents.pids) < count:
            await asyncio.sleep(0)
    return documents.pids


def children() -> set[int]:
    """Return the processes of this one, also those that ended and were not waited for."""
    return {int(pid) for tasks in Path("/proc/self/task").glob("*/children") for pid in tasks.read_text().split()}


async def test_a_zip_bomb_is_refused_by_what_it_declares(documents: Documents) -> None:
    bomb = zip_bomb(MAX_UNPACKED_BYTES + (1 << 20))
    assert len(bomb) < 1 << 20
    assert await problem(documents, bomb) == ("too_large", "would unpack to more than 512 MiB and is not read")


async def test_a_zip_bomb_that_declares_little_is_not_believed(documents: Documents) -> None:
    bomb = patched_sizes(zip_bomb(64 << 20), "word/media/a.bin", 100)
    assert await problem(documents, bomb) == ("damaged", "is damaged: its zip container cannot be read")


async def test_overlapping_entries_are_refused(documents: Documents) -> None:
    file = io.BytesIO(package([("word/document.xml", b"<a/>"), ("word/b.xml", b"<b/>")]))
    with zipfile.ZipFile(file, "a") as archive:
        archive.getinfo("word/b.xml").header_offset = archive.getinfo("word/document.xml").header_offset
        archive.writestr("word/c.xml", b"<c/>")  # so that the central directory is written anew
    assert await problem(documents, file.getvalue()) == (
        "damaged", "is damaged: entries of its zip container overlap",
    )  # fmt: skip


async def test_very_many_entries_are_refused(documents: Documents) -> None:
    many = package([(f"word/{number}.xml", b"") for number in range(MAX_ENTRIES)])
    told = await problem(documents, many)
    assert told == ("too_large", "has 10,002 entries in its zip container; at most 10,000 are read")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_entities_are_not_expanded_but_refused(documents: Documents, encoding: str) -> None:
    text = LAUGHS.replace("?>", f' encoding="{encoding}"?>', 1)
    told = await problem(documents, package([("word/document.xml", text.encode(encoding))]))
    assert told == ("unsupported", "contains a document type declaration, which office files never do")


async def test_entities_of_a_sheet_and_of_a_slide_are_refused(documents: Documents) -> None:
    doctype = b'<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    for data, name in (
        (sheets(lambda book: book.active.append(["a"])), "xl/workbook.xml"),
        (sheets(lambda book: book.active.append(["a"])), "xl/worksheets/sheet1.xml"),
        (slides("a"), "ppt/slides/slide1.xml"),
    ):
        changed = replaced(data, {name: lambda xml: doctype + xml[xml.find(b"?>") + 2 if b"?>" in xml else 0 :]})
        assert (await problem(documents, changed))[0] == "unsupported"


async def test_an_encrypted_zip_needs_a_password(documents: Documents) -> None:
    data = bytearray(package([("word/document.xml", b"<a/>")]))
    at = data.rfind(b"PK\x01\x02")
    data[at + 8] |= 1
    assert (await problem(documents, bytes(data)))[0] == "password"


async def test_a_zip_that_is_no_office_file_is_told(documents: Documents) -> None:
    other = package([("word/document.xml", b"<a/>")], main_type="application/xml")
    assert await problem(documents, other) == (
        "unsupported", "is a zip container, but no Word, Excel or PowerPoint file that can be read",
    )  # fmt: skip


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
async def test_a_file_that_is_cut_off_is_damaged(documents: Documents, share: float) -> None:
    whole = word(lambda document: document.add_paragraph("x"))
    assert (await problem(documents, whole[: int(len(whole) * share)]))[0] == "damaged"


@pytest.mark.parametrize("data", [b"%PDF-1.7\n", b"%PDF-1.7\n1 0 obj\n<<", raw_pdf([b"<</Type/Catalog>>"])])
async def test_a_pdf_that_is_no_more_than_a_beginning_is_damaged(documents: Documents, data: bytes) -> None:
    assert (await problem(documents, data, DocumentKind.PDF))[0] == "damaged"


async def test_a_page_tree_that_contains_itself_ends_in_an_error(documents: Documents) -> None:
    assert (await problem(documents, page_tree_loop(), DocumentKind.PDF))[0] in {"damaged", "no_text"}


@pytest.mark.parametrize("data", [page_tree_bomb(), slow_pdf()])
async def test_work_without_end_is_ended_by_the_limit_of_processor_time(data: bytes) -> None:
    documents = Documents(cpu_s=1)
    told = await problem(documents, data, DocumentKind.PDF)
    assert told in {
        ("too_slow", "cannot be read within 1 s of processor time; fewer pages at a time may work"),
        ("damaged", "is damaged and cannot be read"),
    }
    assert not children()


async def test_a_reader_that_stands_still_is_ended_by_the_clock() -> None:
    documents = Documents(wall_s=0.2)
    told = await problem(documents, slow_pdf(), DocumentKind.PDF)
    assert told == ("too_slow", "cannot be read within 0.2 s; fewer pages at a time may work")
    assert not children()


async def test_memory_is_limited_and_so_is_counting() -> None:
    documents = Documents(memory_bytes=160 << 20)
    inside = b"<w:document %s><w:body>%s</w:body></w:document>" % (
        nsdecls("w").encode(), b"<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 1_000_000,
    )  # fmt: skip
    data = package([("word/document.xml", inside)])
    assert await problem(documents, data) == ("too_large", "cannot be read: it needs too much memory")
    text = await Documents().read(data, DocumentKind.DOCX, max_lines=1)
    assert text.lines == ("a",)
    # Nor is a document of a million lines gone through to the end to tell how many there are.
    assert (text.is_counted, text.is_end) == (False, False)
    assert 1 < text.total_lines < 1_000_000


async def test_the_reader_has_no_keys_no_name_of_the_file_and_little_else(
    documents: Documents, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DUTIFUL_TEST_KEY", "sk-secret")
    (tmp_path / "named.pdf").write_bytes(slow_pdf())
    with (tmp_path / "named.pdf").open("rb") as file:
        reading = asyncio.create_task(documents.read(file, DocumentKind.PDF), name="reading")
        (pid,) = await begun(documents)
        async with asyncio.timeout(PATIENCE_S):
            while os.getpriority(os.PRIO_PROCESS, pid) != 10:  # it has limited itself
                await asyncio.sleep(0.01)  # it needs the processor, too
        process = Path(f"/proc/{pid}")
        environment = (process / "environ").read_bytes().split(b"\0")
        assert {entry.partition(b"=")[0] for entry in environment} <= {b"LANG", b"PATH", b""}
        assert b"named.pdf" not in (process / "cmdline").read_bytes()
        assert (process / "cwd").readlink() == Path("/")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_a_reading_that_is_given_up_leaves_no_process_and_no_descriptor(documents: Documents) -> None:
    await documents.read(pdf("warm"), DocumentKind.PDF)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        reading = asyncio.create_task(documents.read(slow_pdf(5), DocumentKind.PDF), name="reading")
        (pid,) = await begun(documents)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not Path(f"/proc/{pid}").exists()  # neither running nor a zombie
    assert not documents.pids
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


async def test_no_more_than_two_are_read_at_once_and_the_next_begins_when_one_ends(documents: Documents) -> None:
    data = slow_pdf()
    held = [asyncio.create_task(documents.read(data, DocumentKind.PDF), name=f"held {n}") for n in range(AT_ONCE)]
    await begun(documents, AT_ONCE)
    third = asyncio.create_task(documents.read(pdf("next"), DocumentKind.PDF), name="third")
    await asyncio.sleep(0)
    assert len(documents.pids) == AT_ONCE
    held[0].cancel()
    assert (await third).lines[1] == "next"
    assert not held[1].done()
    held[1].cancel()
    await asyncio.gather(*held, return_exceptions=True)


async def test_closing_ends_what_is_being_read() -> None:
    documents = Documents()
    reading = asyncio.create_task(documents.read(slow_pdf(), DocumentKind.PDF), name="reading")
    await begun(documents)
    await documents.close()
    with pytest.raises(DocumentError) as told:
        await reading
    assert told.value.problem is DocumentProblem.FAILED
    assert not children()


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([b"%PDF-1.7\n", b"PK\x03\x04", b""]), st.binary(max_size=400), st.sampled_from(DocumentKind))
async def test_any_bytes_give_text_or_an_error(magic: bytes, data: bytes, kind: DocumentKind) -> None:
    assert len(await outcome(magic + data, kind)) < 2_000


@settings(max_examples=25, deadline=None)
@given(st.data())
async def test_any_damage_to_a_whole_document_gives_text_or_an_error(data: st.DataObject) -> None:
    kind, whole = data.draw(st.sampled_from(WHOLE))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    assert len(await outcome(bytes(damaged), kind)) < 2_000


WHOLE = (
    (DocumentKind.PDF, pdf("one", "two")),
    (DocumentKind.DOCX, word(lambda document: document.add_paragraph("text"))),
    (DocumentKind.XLSX, sheets(lambda book: book.active.append([1, "two", "=3"]))),
    (DocumentKind.PPTX, slides("A")),
)

BOT = """
import asyncio, sys, uvloop
from bot.documents.contract import DocumentKind
from bot.documents.reading import Documents

async def main() -> None:
    documents = Documents()
    reading = asyncio.create_task(documents.read(sys.stdin.buffer, DocumentKind.PDF), name="reading")
    while not documents.pids:
        await asyncio.sleep(0)
    (pid,) = documents.pids
    print(pid, flush=True)
    if sys.argv[1] == "cancel":
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        print("gone" if not documents.pids else "left", flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


@contextmanager
def bot_that_reads(tmp_path: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """Have a process that reads an endless document as the service does, on uvloop."""
    (tmp_path / "slow.pdf").write_bytes(slow_pdf())
    with (tmp_path / "slow.pdf").open("rb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", BOT, how],
            stdin=file,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(ROOT)},
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_reading_is_given_up_in_the_same_way_on_the_loop_of_the_service(tmp_path: Path) -> None:
    with bot_that_reads(tmp_path, "cancel") as process:
        pid = int(line_of(process))
        assert line_of(process) == "gone"
        assert not Path(f"/proc/{pid}").exists()


def test_no_reader_outlives_a_bot_that_is_killed(tmp_path: Path) -> None:
    with bot_that_reads(tmp_path, "stay") as process:
        pid = int(line_of(process))
        until = time.monotonic() + PATIENCE_S
        while os.getpriority(os.PRIO_PROCESS, pid) != 10 and time.monotonic() < until:  # it has bound itself to the bot
            time.sleep(0.01)
        watched = os.pidfd_open(pid)
        process.kill()
        ready, _, _ = select.select([watched], [], [], PATIENCE_S)
        os.close(watched)
        assert ready, "the reader goes on"
