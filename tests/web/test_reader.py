"""Reading pages: a hostile page does nothing to the bot, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncIterator

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.web.errors import WebError
from bot.web.reader import PageReader, PageText

TEXT = "Cats sleep for most of the day, and nobody who has one is surprised by it. " * 6
GOOD = f"<html><head><title>Cats</title></head><body><article><p>{TEXT}</p></article></body></html>"
HOSTILE = "<p>a</p>" * 150_000  # finding an article in it takes half a minute


@pytest.fixture
async def reader() -> AsyncIterator[PageReader]:
    reader = PageReader(cpu_s=1)
    yield reader
    await reader.close()


def _wait(process: psutil.Process) -> bool:
    """Wait for a process without taking its exit status, which is its parent's to take."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 10)[0])
    finally:
        os.close(descriptor)


async def gone(*processes: psutil.Process) -> None:
    """Return when the processes have ended."""
    for process in processes:
        assert await asyncio.to_thread(_wait, process)


async def test_the_article_of_a_page_is_found_with_its_title(reader: PageReader) -> None:
    page = await reader.read(GOOD, "http://example.org/", markdown=True)
    assert (page.title, page.text, page.article, page.total_chars) == ("Cats", TEXT.strip(), True, len(TEXT) - 1)


async def test_a_hostile_page_holds_up_no_other_and_is_given_as_its_plain_text(reader: PageReader) -> None:
    ended: list[str] = []

    async def read(name: str, markup: str) -> PageText:
        page = await reader.read(markup, "http://example.org/", markdown=True)
        ended.append(name)
        return page

    hostile = asyncio.create_task(read("hostile", HOSTILE))
    await asyncio.sleep(0)
    assert (await read("good", GOOD)).article
    children = psutil.Process(reader.pid).children()
    page = await hostile
    assert ended == ["good", "hostile"]
    assert not page.article
    assert page.text == "\n".join(["a"] * 150_000)
    process = psutil.Process(reader.pid)
    await gone(*children, *process.children())
    assert process.children() == []  # not even as zombies


async def test_closing_ends_the_process_and_the_page_it_reads(reader: PageReader) -> None:
    hostile = asyncio.create_task(reader.read(HOSTILE, "http://example.org/", markdown=True))
    await asyncio.sleep(0)
    await reader.read(GOOD, "http://example.org/", markdown=True)
    process = psutil.Process(reader.pid)
    family = [process, *process.children()]
    assert len(family) >= 2
    await reader.close()
    with pytest.raises(WebError):
        await hostile
    await gone(*family)
    await reader.close()
    with pytest.raises(WebError):
        await reader.read(GOOD, "http://example.org/", markdown=True)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 10])
async def test_closing_while_the_process_is_being_started_leaves_none(turns: int) -> None:
    reader = PageReader()
    tasks = [asyncio.create_task(reader.read(GOOD, "http://example.org/", markdown=True)) for _ in range(3)]
    for _ in range(turns):
        await asyncio.sleep(0.001)
    await reader.close()
    assert reader.pid is None
    assert all(isinstance(found, WebError) for found in await asyncio.gather(*tasks, return_exceptions=True))
    assert psutil.Process().children() == []


async def test_a_killed_process_is_replaced(reader: PageReader) -> None:
    await reader.read(GOOD, "http://example.org/", markdown=True)
    assert reader.pid
    first = psutil.Process(reader.pid)
    os.kill(first.pid, signal.SIGKILL)
    await gone(first)
    assert (await reader.read(GOOD, "http://example.org/", markdown=True)).article
    assert reader.pid != first.pid


async def test_the_process_ends_when_nobody_reads_and_comes_back() -> None:
    reader = PageReader(idle_s=0.1)
    assert (await reader.read(GOOD, "http://example.org/", markdown=True)).article
    await gone(psutil.Process(reader.pid))
    assert (await reader.read(GOOD, "http://example.org/", markdown=True)).article
    await reader.close()


async def test_a_page_that_needs_more_memory_than_it_may_is_an_error() -> None:
    reader = PageReader(memory_bytes=64 * 1024 * 1024)
    with pytest.raises(WebError, match="within the limits"):
        await reader.read(HOSTILE, "http://example.org/", markdown=True)
    await reader.close()


async def test_a_reading_that_is_given_up_leaves_no_child_behind() -> None:
    reader = PageReader(cpu_s=30)  # so that the child's own limits do not end it in time
    hostile = asyncio.create_task(reader.read(HOSTILE, "http://example.org/", markdown=True))
    await asyncio.sleep(0)
    await reader.read(GOOD, "http://example.org/", markdown=True)
    children = psutil.Process(reader.pid).children()
    hostile.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hostile
    assert children
    await gone(*children)
    await reader.close()


_BOT = f"""
import asyncio
from bot.web.reader import PageReader, PageText

async def main():
    reader = PageReader()
    await reader.read({GOOD!r}, "http://example.org/", markdown=True)
    print(reader.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_process_does_not_outlive_a_killed_bot() -> None:
    bot = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BOT, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert bot.stdout
    reading = psutil.Process(int(await bot.stdout.readline()))
    bot.kill()
    await bot.wait()
    await gone(reading)


@pytest.mark.parametrize(
    "markup",
    [
        "",
        "\x00\x00",
        "<div>" * 100_000 + "x",
        "<table>" * 5_000 + "x",
        "<a " + "x=1 " * 200_000 + ">",
        "<script>" + "a" * 1_000_000,
        "&amp;" * 200_000,
        "<?xml version='1.0' encoding='gbk'?><html><body>é",
        "<title>" * 1_000 + "&#0;&#xD800;",
        "\ud800",
    ],
    ids=range(10),
)
async def test_odd_markup_is_read_or_found_empty(markup: str, reader: PageReader) -> None:
    page = await reader.read(markup, "http://example.org/", markdown=True)
    assert page.total_chars >= len(page.text)


@given(st.text(max_size=300) | st.text(alphabet='<>/="abhtmlpitle&;![]- \x00é', max_size=300))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_text_is_read(reader: PageReader, markup: str) -> None:
    page = await reader.read(markup, "http://example.org/", markdown=True)
    assert len(page.text) <= 20 * len(markup) + 100
