"""Reading files that are to be sent: what is sent is what was checked, wherever its name leads by then."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bot.errors import SendRejected
from bot.messages import Attachment
from channels.files import read_outbound
from tests.support.swapping import Swapping, folder_and_file_for_links

SECRET = b"the bot's token"


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """Return a chat's folder; beside it lies what no chat may see."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "plot.png").write_bytes(SECRET)
    folder = tmp_path / "chats" / "telegram_5"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "plot.png").write_bytes(b"picture")
    return folder


def attachment(chat: Path) -> Attachment:
    path = chat / "out" / "plot.png"
    return Attachment(kind="image", name="plot.png", size_bytes=7, path=str(path), root=str(chat))


def read(file: Attachment) -> bytes:
    return read_outbound(file, limit_bytes=100)


def test_a_file_of_the_chat_is_read_also_through_its_own_links(chat: Path) -> None:
    assert read(attachment(chat)) == b"picture"
    (chat / "latest.png").symlink_to("out/plot.png")
    assert read(replace(attachment(chat), path=str(chat / "latest.png"))) == b"picture"


def test_files_of_a_chat_that_has_moved_are_found(chat: Path) -> None:
    file = attachment(chat)
    chat.rename(chat.with_name("telegram_-1009"))
    chat.symlink_to("telegram_-1009")
    assert read(file) == b"picture"


@pytest.mark.parametrize("swapped", ["out/plot.png", "out"])
def test_a_link_put_in_the_place_of_a_file_or_folder_sends_nothing_else(chat: Path, swapped: str) -> None:
    file = attachment(chat)
    (chat / swapped).rename(chat / "aside")
    target = chat.parents[1] / "secret"
    (chat / swapped).symlink_to(target / "plot.png" if swapped.endswith("png") else target)
    with pytest.raises(SendRejected, match=r"plot\.png cannot be sent: .* leads out of this chat's files"):
        read(file)


def test_swapping_while_it_is_read_sends_nothing_else(chat: Path) -> None:
    file = attachment(chat)

    def outcome() -> str:
        try:
            assert read(file) == b"harmless words\n"
        except SendRejected:
            return "refused"
        return "done"

    cycle = folder_and_file_for_links(chat / "out", Path(file.path), outside=chat.parents[1] / "secret")
    with Swapping(cycle).running() as swapping:
        with swapping.held("honest"):
            assert outcome() == "done"
        swapping.storm(outcome, cycles=1_000)
        for state in ("file", "folder"):
            with swapping.held(state):
                assert outcome() == "refused"


def test_a_pipe_in_the_place_of_a_file_holds_nothing_up(chat: Path) -> None:
    file = attachment(chat)
    Path(file.path).unlink()
    os.mkfifo(file.path)
    with pytest.raises(SendRejected, match=r"plot\.png cannot be sent: .* not an ordinary file"):
        read(file)


def test_refusals_name_the_file_but_not_where_it_lies(chat: Path) -> None:
    file = attachment(chat)
    Path(file.path).unlink()
    with pytest.raises(SendRejected) as refused:
        read(file)
    assert str(chat.parent) not in str(refused.value)
