"""Memory files as prompts are shown them: bounded, read through no link, whatever people put there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bot.agent.memory import KEPT_BYTES, MemoryFiles, shared_part
from bot.memories import HomeKind, MemoryHome
from bot.messages import ChatType
from bot.security.workspace import PathRefused
from bot.toolkit.chat_files import ChatFiles
from bot.toolkit.context import RequestContext
from tests.support.contexts import request_context

LIMIT = 1_000


def files_in(folder: Path, *, enabled: bool = True) -> MemoryFiles:
    view_of = ChatFiles(folder / "workspace", memories=folder / "memory").memory_view
    return MemoryFiles(view_of, max_chars=LIMIT, enabled=enabled)


def put(folder: Path, home: MemoryHome, data: bytes | str) -> Path:
    path = folder / "memory" / home.folder / "MEMORY.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def private(sender: str = "111") -> RequestContext:
    return replace(request_context(), sender_id=sender, chat_type=ChatType.PRIVATE)


def group(sender: str = "111", *, shares: bool = False) -> RequestContext:
    request = replace(request_context(), sender_id=sender, chat_type=ChatType.GROUP)
    return replace(request, turn=replace(request.turn, shares_memory=shares))


def person(request: RequestContext) -> MemoryHome:
    return MemoryHome(kind=HomeKind.PERSON, channel=request.channel, ident=request.sender_id)


def chat(request: RequestContext) -> MemoryHome:
    return MemoryHome(kind=HomeKind.CHAT, channel=request.channel, ident=request.chat_id)


def test_a_private_chat_is_shown_its_person_and_a_group_its_own_alone(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    put(tmp_path, person(private()), "mine")
    put(tmp_path, chat(group()), "ours")
    assert files.section(private()) == "mine"
    assert files.section(private("222")) == ""
    assert files.section(group()) == "ours"


def test_a_change_by_hand_is_seen_at_the_next_turn(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    path = put(tmp_path, person(private()), "one")
    assert files.section(private()) == "one"
    path.write_text("another")
    assert files.section(private()) == "another"
    path.unlink()
    assert files.section(private()) == ""


def test_a_file_of_ten_megabytes_costs_its_beginning(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    put(tmp_path, person(private()), "x" * 10_000_000)
    assert LIMIT < len(files.section(private())) <= (LIMIT + 1) * 4
    assert files.read(person(private())) is None


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    put(tmp_path, person(private()), b"\xef\xbb\xbfte\x00a \xff\xfe\r\nmilk")
    assert files.section(private()) == "tea \ufffd\ufffd\nmilk"


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "folder"])
def test_what_is_no_file_of_the_folder_is_not_read(tmp_path: Path, kind: str) -> None:
    files = files_in(tmp_path)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "MEMORY.md").write_text("secret")
    folder = tmp_path / "memory" / person(private()).folder
    folder.parent.mkdir(parents=True)
    if kind == "folder link":
        folder.symlink_to(secret)
    else:
        folder.mkdir()
        path = folder / "MEMORY.md"
        if kind == "link":
            path.symlink_to(secret / "MEMORY.md")
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
    assert files.section(private()) == ""
    with pytest.raises(PathRefused):
        files.read(person(private()))


def test_switched_off_it_shows_nothing(tmp_path: Path) -> None:
    files = files_in(tmp_path, enabled=False)
    put(tmp_path, person(private()), "## Shared\nmine")
    assert files.section(private()) == ""
    assert files.shared(group(shares=True)) == ""


def test_only_what_a_person_shares_goes_to_groups(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    put(tmp_path, person(private()), "# Ann\nsecret\n\n## Shared\nlikes tea\n### Food\nno nuts\n\n## Private\nsecret")
    assert files.shared(group()) == ""
    assert files.shared(group(shares=True)) == "likes tea\n### Food\nno nuts"
    assert files.shared(replace(group(shares=True), chat_type=ChatType.PRIVATE)) == ""
    assert files.shared(group("222", shares=True)) == ""


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("", ""),
        ("## Shared", ""),
        ("## shared ##\nx", "x"),
        ("text ## Shared\nx", ""),
        ("### Shared\nx", ""),
        ("## Shared things\nx", ""),
        ("## Shared\n\nx\n# Next\ny", "x"),
        ("## Shared\nx\n\nPrivate\n-------\ny", "x"),
        ("## Shared\nx\n\nQuite\nprivate\n===\ny", "x"),
        ("## Shared\nx\n  ## Private\ny", "x"),
        ("## Shared\nx\n#\ny", "x"),
        ("## Shared\nx\n\n---\ny", "x\n\n---\ny"),
        ("words\u2028## Shared\u2028x", ""),
        ("words\f## Shared\fx", ""),
    ],
)
def test_the_shared_part_is_what_stands_under_its_heading(text: str, shared: str) -> None:
    assert shared_part(text) == shared


def test_writing_is_for_the_owner_of_the_process_alone_and_removing_takes_all(tmp_path: Path) -> None:
    files, home = files_in(tmp_path), person(private())
    files.write(home, "grüße\ud800")
    path = tmp_path / "memory" / home.folder / "MEMORY.md"
    assert path.read_text() == "grüße?"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    (path.parent / "more").mkdir()
    (path.parent / "more" / "note.md").write_text("x")
    files.remove(home)
    assert not path.parent.exists()
    files.remove(home)
    assert files.read(home) == ""


def test_the_largest_file_that_is_kept_is_read_whole(tmp_path: Path) -> None:
    files, home = files_in(tmp_path), person(private())
    put(tmp_path, home, "x" * KEPT_BYTES)
    assert files.read(home) == "x" * KEPT_BYTES


def test_a_chat_that_moves_takes_its_file_along_but_never_over_another(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    old, new = (MemoryHome(kind=HomeKind.CHAT, channel="memory", ident=ident) for ident in ("old", "new"))
    files.move(old, new)
    put(tmp_path, old, "ours")
    files.move(old, new)
    assert (files.read(old), files.read(new)) == ("", "ours")
    put(tmp_path, old, "older")
    files.move(old, new)
    assert (files.read(old), files.read(new)) == ("older", "ours")
