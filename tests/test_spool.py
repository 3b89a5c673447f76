"""Copies of accepted files: whole, private, bounded, and gone when nobody needs them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from bot import spool as spool_module
from bot.messages import Attachment
from bot.spool import Spool, SpoolFull
from channels.files import read_outbound
from tests.support.stores import outbound


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "outgoing"


def kept(spool: Spool, path: Path, *, limit_bytes: int = 10_000_000) -> tuple[Path, int]:
    """Return the copy of a file and its size."""
    with path.open("rb") as file:
        return spool.keep(file, limit_bytes=limit_bytes)


def of(copy: Path) -> Attachment:
    return Attachment(kind="document", copy=str(copy))


async def nothing() -> Collection[str]:
    return ()


def test_a_copy_is_whole_private_and_of_its_own(tmp_path: Path, folder: Path) -> None:
    spool, original = Spool(folder), tmp_path / "a.bin"
    content = os.urandom(300_000)
    original.write_bytes(content)
    first, second = kept(spool, original), kept(spool, original)
    with original.open("r+b") as file:
        file.write(b"changed in place")
    assert [copy.read_bytes() == content for copy, _ in (first, second)] == [True, True]
    assert first[0] != second[0]
    assert first[1] == len(content)
    assert (first[0].stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert first[0].stat().st_nlink == 1


def test_a_file_of_another_file_system_is_copied_too(folder: Path) -> None:
    """Linux copies by itself within one file system only, and memory is another one."""
    content = os.urandom(300_000)
    with os.fdopen(os.memfd_create("elsewhere"), "w+b") as file:
        file.write(content)
        file.flush()
        whole, size = Spool(folder).keep(file, limit_bytes=10_000_000)
        part, _ = Spool(folder).keep(file, limit_bytes=70_000)
    assert (whole.read_bytes(), size) == (content, len(content))
    assert part.read_bytes() == content[:70_000]


def test_a_file_is_copied_up_to_its_limit(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"0123456789")
    copy, size = kept(Spool(folder), tmp_path / "a.bin", limit_bytes=4)
    assert (copy.read_bytes(), size) == (b"0123", 4)


def test_what_waits_is_bounded_in_all(tmp_path: Path, folder: Path) -> None:
    spool = Spool(folder)
    huge = tmp_path / "huge.bin"
    with huge.open("wb") as file:
        file.truncate(spool_module.LIMIT_BYTES + 1)  # takes no room on the disk
    with pytest.raises(SpoolFull, match="wait to be sent already, or failed to be"):
        kept(spool, huge, limit_bytes=2 * spool_module.LIMIT_BYTES)
    assert list(folder.iterdir()) == []


def test_forgetting_touches_nothing_but_copies(tmp_path: Path, folder: Path) -> None:
    spool, original = Spool(folder), tmp_path / "a.txt"
    original.write_text("words")
    copy, _ = kept(spool, original)
    spool.forget([of(copy), of(original), Attachment(kind="document", path=str(original))])
    spool.forget([of(copy)])
    assert not copy.exists()
    assert original.read_text() == "words"


async def test_what_a_killed_process_left_is_cleaned_up_by_the_next(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    before = Spool(folder)
    named, unnamed = kept(before, tmp_path / "a.txt")[0], kept(before, tmp_path / "a.txt")[0]

    async def wanted() -> Collection[str]:
        return [str(named), "/gone/by/now"]

    await Spool(folder).clean(wanted)
    assert (named.exists(), unnamed.exists()) == (True, False)
    await Spool(folder).clean(nothing)
    assert list(folder.iterdir()) == []


async def test_a_copy_whose_message_is_committed_just_now_is_not_cleaned_up(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    spool = Spool(folder)
    copy, _ = kept(spool, tmp_path / "a.txt")
    await spool.clean(nothing)
    assert copy.exists()


async def test_where_nothing_was_ever_copied_there_is_nothing_to_clean_up(folder: Path) -> None:
    await Spool(folder).clean(nothing)
    assert not folder.exists()


async def test_copies_are_found_where_the_data_live_now(tmp_path: Path, folder: Path) -> None:
    """Messages name copies by their whole path; a backup may be restored elsewhere."""
    (tmp_path / "a.txt").write_text("words")
    copy, _ = kept(Spool(folder), tmp_path / "a.txt")
    folder.rename(tmp_path / "moved")
    spool = Spool(tmp_path / "moved")
    original = Attachment(kind="voice", path="/v.ogg")
    message = outbound("x", attachments=(of(copy), original))
    here = spool.as_here(message)
    assert here.attachments[1] is original
    assert read_outbound(here.attachments[0], limit_bytes=100) == b"words"
    spool.forget(message.attachments)
    assert list((tmp_path / "moved").iterdir()) == []


def test_the_folder_of_copies_may_be_a_link_to_another_disk(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a.txt").write_text("words")
    copy, _ = kept(Spool(folder), tmp_path / "a.txt")
    assert read_outbound(of(copy), limit_bytes=100) == b"words"


async def test_cleaning_up_and_copying_do_not_disturb_each_other(tmp_path: Path, folder: Path) -> None:
    """Both are done by threads, and what fails in the clean-up ends the process."""
    (tmp_path / "a.txt").write_text("words")
    spool, ended = Spool(folder), threading.Event()
    spool._made.update({str(number): time.monotonic() for number in range(200_000)})  # so that a look takes a while
    copies = [kept(spool, tmp_path / "a.txt")[0]]

    def copy_on() -> None:
        while not ended.is_set():
            copies.append(kept(spool, tmp_path / "a.txt")[0])

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    copying = asyncio.create_task(asyncio.to_thread(copy_on))
    try:
        for _ in range(10):
            await spool.clean(nothing)
    finally:
        ended.set()
        await copying
        sys.setswitchinterval(interval_s)
    assert all(copy.exists() for copy in copies)
