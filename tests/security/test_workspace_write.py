"""Writing within a chat's files: whole or not at all, and never a byte outside, whatever is swapped meanwhile."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.security.workspace import (
    FileTooLarge,
    PathChanged,
    PathMissing,
    PathRefused,
    PathTaken,
    Root,
    WorkspaceView,
    WriteFailed,
    WrongKind,
)
from tests.support.swapping import Swapping, folder_and_file_for_links

SECRET = b"TOP SECRET"
HARMLESS = b"harmless words\n"
LIMIT = 1 << 20


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace with a secret in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def view(tmp_path: Path, outside: Path) -> WorkspaceView:
    view = WorkspaceView.of(tmp_path / "ws", "telegram:1")
    view.make_dirs()
    (view.root / "notes").mkdir()
    (view.root / "notes/a.txt").write_bytes(b"old")
    (view.shared / "s.txt").write_bytes(b"for all")
    return view


def put(view: WorkspaceView, path: str, data: bytes) -> None:
    with view.slot(path, make_parents=True) as slot:
        slot.replace(data)


def names(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


# --- what it does ----------------------------------------------------------------------------------------


def test_missing_folders_are_made_only_when_asked_for(view: WorkspaceView) -> None:
    with pytest.raises(PathMissing, match=r"^deep/er/b\.txt: does not exist$"), view.slot("deep/er/b.txt"):
        pass
    assert not (view.root / "deep").exists()
    put(view, "deep/er/b.txt", b"new")
    assert (view.root / "deep/er/b.txt").read_bytes() == b"new"
    assert names(view.root / "deep/er") == ["b.txt"]


def test_the_chats_own_folder_is_made_on_the_first_write(tmp_path: Path) -> None:
    view = WorkspaceView.of(tmp_path / "ws", "telegram:2")
    put(view, "a.txt", b"first")
    assert (view.root / "a.txt").read_bytes() == b"first"
    assert view.root.stat().st_mode & 0o777 == 0o700


def test_a_new_file_has_the_umasks_permissions_and_a_replaced_one_keeps_its_own(view: WorkspaceView) -> None:
    file = view.root / "notes/a.txt"
    file.chmod(0o751)
    before = os.umask(0o027)
    try:
        put(view, "notes/a.txt", b"new")
        put(view, "notes/b.txt", b"new")
        with view.slot("notes/c.sh") as slot:
            slot.create(b"#!/bin/sh\n", mode=0o755)
            assert slot.mode() == 0o755
    finally:
        os.umask(before)
    modes = {found.name: found.stat().st_mode & 0o7777 for found in (view.root / "notes").iterdir()}
    assert modes == {"a.txt": 0o751, "b.txt": 0o640, "c.sh": 0o755}


def test_extended_attributes_and_the_owner_are_kept(view: WorkspaceView) -> None:
    file = view.root / "notes/a.txt"
    try:
        os.setxattr(file, "user.origin", b"mail")
    except OSError as error:
        pytest.skip(f"no extended attributes here: {error}")
    if os.geteuid() == 0:
        os.chown(file, 1234, 2345)
    owner = file.stat().st_uid, file.stat().st_gid
    put(view, "notes/a.txt", b"new")
    assert os.getxattr(file, "user.origin") == b"mail"
    assert (file.stat().st_uid, file.stat().st_gid) == owner


def test_a_hard_link_keeps_the_old_bytes(view: WorkspaceView, outside: Path) -> None:
    (view.root / "hard").hardlink_to(outside / "secret")
    put(view, "hard", b"new")
    assert (outside / "secret").read_bytes() == SECRET
    assert (view.root / "hard").read_bytes() == b"new"


def test_creating_never_replaces_what_is_there_be_it_a_link_that_leads_nowhere(view: WorkspaceView) -> None:
    with view.slot("notes/a.txt") as slot, pytest.raises(PathTaken, match=r"^notes/a\.txt: exists already$"):
        slot.create(b"new")
    with view.slot("notes/b.txt") as slot:
        (view.root / "notes/b.txt").symlink_to("c.txt")  # after the slot was opened
        with pytest.raises(PathTaken):
            slot.create(b"new")
    assert (view.root / "notes/a.txt").read_bytes() == b"old"
    assert names(view.root / "notes") == ["a.txt", "b.txt"]


def test_of_many_who_create_one_file_at_once_one_succeeds(view: WorkspaceView) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        with view.slot("notes/b.txt") as slot:
            start.wait(timeout=10)
            try:
                slot.create(b"%d" % number)
            except PathTaken:
                return
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,), name=f"create-{number}") for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert (view.root / "notes/b.txt").read_bytes() == b"%d" % won[0]


def test_a_file_is_replaced_only_while_it_has_the_expected_bytes(view: WorkspaceView) -> None:
    file = view.root / "notes/a.txt"
    with view.slot("notes/a.txt") as slot:
        data, seen = slot.read(limit_bytes=LIMIT)
        assert data == b"old"
        stamp = file.stat()
        file.write_bytes(b"odd")  # same size, and the same time stamp
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        with pytest.raises(PathChanged, match=r"^notes/a\.txt: has changed meanwhile$"):
            slot.replace(b"new", expected=seen)
        with pytest.raises(PathChanged):
            slot.unlink(expected=seen)
        assert file.read_bytes() == b"odd"
        file.unlink()
        with pytest.raises(PathChanged):
            slot.replace(b"new", expected=seen)
        assert names(file.parent) == []
        file.write_bytes(b"old")  # another file with those bytes is as good
        written = slot.replace(b"new", expected=seen)
        assert slot.identity(limit_bytes=LIMIT) == written
        assert slot.replace(b"newer", expected=written).size_bytes == 5
    assert file.read_bytes() == b"newer"


def test_of_many_who_replace_the_same_bytes_at_once_one_succeeds(view: WorkspaceView) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def replace(number: int) -> None:
        with view.slot("notes/a.txt") as slot:
            seen = slot.identity(limit_bytes=LIMIT)
            start.wait(timeout=10)
            try:
                slot.replace(b"%d" % number, expected=seen)
            except PathChanged:
                return
            won.append(number)

    threads = [threading.Thread(target=replace, args=(number,), name=f"replace-{number}") for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert (view.root / "notes/a.txt").read_bytes() == b"%d" % won[0]


def test_a_file_is_removed(view: WorkspaceView) -> None:
    with view.slot("notes/a.txt") as slot:
        slot.unlink(expected=slot.identity(limit_bytes=LIMIT))
        with pytest.raises(PathMissing, match=r"^notes/a\.txt: does not exist$"):
            slot.unlink()
        assert slot.mode() is None
    assert names(view.root / "notes") == []


def test_a_file_is_moved_to_a_free_name_only(view: WorkspaceView) -> None:
    (view.root / "notes/b.txt").write_bytes(b"other")
    with view.slot("notes/a.txt") as slot:
        with view.slot("notes/b.txt") as taken, pytest.raises(PathTaken):
            slot.move_to(taken)
        with view.slot("new/place.txt", make_parents=True) as free:
            slot.move_to(free, expected=slot.identity(limit_bytes=LIMIT))
            assert free.read(limit_bytes=LIMIT)[0] == b"old"
        with view.slot("again.txt") as free, pytest.raises(PathMissing):
            slot.move_to(free)
    assert names(view.root / "notes") == ["b.txt"]
    assert names(view.root) == ["new", "notes"]
    assert (view.root / "notes/b.txt").read_bytes() == b"other"


def test_nothing_is_left_open(view: WorkspaceView) -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    put(view, "x/y.txt", b"1")
    for path in ("shared/a", "..", "nope/x", "notes", "."):
        with pytest.raises(PathRefused), view.slot(path) as slot:
            slot.replace(b"2")
    assert sorted(Path("/proc/self/fd").iterdir()) == before


# --- what it refuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("shared/s.txt", "shared/s.txt: can be read from this chat, but not changed"),
        ("shared/new/s.txt", "shared/new/s.txt: can be read from this chat, but not changed"),
        (".", ".: is a folder"),
        ("notes", "notes: is a folder"),
        ("notes/a.txt/b", "notes/a.txt/b: is not a folder"),
        ("../x", "../x: lies outside of this chat's files"),
        ("/etc/x", "/etc/x: lies outside of this chat's files"),
        ("~/x", "~/x: lies outside of this chat's files"),
        ("a\0b", "a\\x00b: contains a NUL character"),
        ("\udfff", "\\udfff: is not a possible file name"),
    ],
)
def test_what_may_not_be_written_is_refused_in_words_for_anyone(view: WorkspaceView, path: str, told: str) -> None:
    with pytest.raises(PathRefused) as caught, view.slot(path, make_parents=True) as slot:
        slot.replace(b"new")
    assert str(caught.value) == told
    assert names(view.shared) == ["s.txt"]


def test_names_and_paths_may_be_as_long_as_the_system_takes_them(view: WorkspaceView) -> None:
    put(view, "n" * 255, b"new")
    assert (view.root / ("n" * 255)).read_bytes() == b"new"
    deep = "/".join(["d" * 254] * 16)  # 4,079 bytes below a root that makes it longer than PATH_MAX
    put(view, deep, b"deep")
    with view.open_read(deep) as file:
        assert file.read() == b"deep"
    for path in ("n" * 256, "ä" * 128, "/".join(["d" * 255] * 16) + "/x"):
        with pytest.raises(PathRefused, match=r"is too long$"):
            put(view, path, b"new")


def test_what_is_no_ordinary_file_is_neither_opened_nor_replaced(
    view: WorkspaceView, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(view.root / "pipe")
    monkeypatch.chdir(view.root)  # a socket's path may have 107 bytes only
    kinds = ["pipe", "socket"]
    if os.geteuid() == 0:
        os.mknod(view.root / "device", 0o600 | 0o020000, os.makedev(1, 5))
        kinds.append("device")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        acts: list[Callable[[WorkspaceView, str], None]] = [_replace, _read, _unlink, _move]
        for act in acts:
            for name in kinds:
                with pytest.raises(PathRefused, match=f"^{name}: (is not an ordinary file|cannot be opened: .*)$"):
                    act(view, name)
        assert {*kinds} <= {*names(view.root)}


def _replace(view: WorkspaceView, name: str) -> None:
    put(view, name, b"new")


def _read(view: WorkspaceView, name: str) -> None:
    with view.slot(name) as slot:
        slot.read(limit_bytes=LIMIT)


def _unlink(view: WorkspaceView, name: str) -> None:
    with view.slot(name) as slot:
        slot.unlink()


def _move(view: WorkspaceView, name: str) -> None:
    with view.slot(name) as slot, view.slot("moved") as target:
        slot.move_to(target)


def test_a_read_only_file_is_not_replaced(view: WorkspaceView) -> None:
    (view.root / "notes/a.txt").chmod(0o444)
    with pytest.raises(WriteFailed, match=r"^notes/a\.txt: is read-only$"):
        put(view, "notes/a.txt", b"new")
    assert (view.root / "notes/a.txt").read_bytes() == b"old"


def test_a_huge_file_is_known_by_its_size_alone(view: WorkspaceView) -> None:
    with (view.root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    for act in ("read", "identity"):
        with view.slot("sparse") as slot, pytest.raises(FileTooLarge) as caught:
            getattr(slot, act)(limit_bytes=LIMIT)
        assert caught.value.size_bytes == 1 << 40


def test_an_owner_writes_in_all_chats_but_makes_none(view: WorkspaceView, tmp_path: Path) -> None:
    owner = WorkspaceView.of(tmp_path / "ws", "telegram:9", all_chats=True)
    owner.make_dirs()
    put(owner, "chats/telegram=3A1/new/b.txt", b"from the owner")
    assert (view.root / "new/b.txt").read_bytes() == b"from the owner"
    for path in ("chats/telegram=3A77", "chats/x.txt", "shared/x.txt", "chats"):
        with pytest.raises(PathRefused):
            put(owner, path, b"new")
    with pytest.raises(PathMissing):
        put(owner, "chats/telegram=3A77/x.txt", b"new")
    assert names(tmp_path / "ws/chats") == ["telegram=3A1", "telegram=3A9"]
    with pytest.raises(PathMissing):
        _read(view, "chats/telegram=3A9/x.txt")


# --- links -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ("../telegram=3A9/mine", "link"),
        ("../telegram=3A9", "link/mine"),
        ("../../chats/telegram=3A9/mine", "link"),
        ("sub/../../telegram=3A9/mine", "link"),
    ],
)
def test_a_chats_link_leads_no_owner_into_another_chat(tmp_path: Path, link: str, path: str) -> None:
    """C080, between chats: what an owner reads or writes as one chat's file is never another's."""
    owner = WorkspaceView.of(tmp_path / "ws", "telegram:9", all_chats=True)
    theirs = WorkspaceView.of(tmp_path / "ws", "telegram:1")
    owner.make_dirs()
    theirs.make_dirs()
    (owner.root / "mine").write_text("mine")
    (theirs.root / "link").symlink_to(link)
    with pytest.raises(PathRefused, match="is a link that leads to another chat's"):
        owner.open_read(f"chats/telegram=3A1/{path}")
    with (
        pytest.raises(PathRefused, match="is a link that leads to another chat's"),
        owner.slot(f"chats/telegram=3A1/{path}") as slot,
    ):
        slot.replace(b"x")
    assert (owner.root / "mine").read_text() == "mine"
    (theirs.root / "link").unlink()
    (theirs.root / "near").write_text("near")
    (theirs.root / "link").symlink_to("../telegram=3A1/near")
    with owner.open_read("chats/telegram=3A1/link") as file:
        assert file.read() == b"near"


def test_a_name_that_ends_in_a_slash_is_a_folders(view: WorkspaceView) -> None:
    with pytest.raises(WrongKind, match="names a folder"), view.slot("new/folder/", make_parents=True):
        pass
    assert not (view.root / "new").exists()


def test_a_link_within_the_own_files_is_written_through_and_stays(view: WorkspaceView) -> None:
    (view.root / "l").symlink_to("notes/a.txt")
    (view.root / "f").symlink_to(view.root / "notes")
    (view.root / "dangling").symlink_to("f/made.txt")
    put(view, "l", b"1")
    put(view, "f/b.txt", b"2")
    put(view, "dangling", b"3")
    with view.slot("l") as slot:
        assert slot.shown == "notes/a.txt"
    found = {name: (view.root / "notes" / name).read_bytes() for name in names(view.root / "notes")}
    assert found == {"a.txt": b"1", "b.txt": b"2", "made.txt": b"3"}
    assert all((view.root / name).is_symlink() for name in ("l", "f", "dangling"))


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("link.txt", "{outside}/secret", "link.txt"),
        ("link.txt", "../../../outside/secret", "link.txt"),
        ("link.txt", "{outside}/new", "link.txt"),
        ("folder", "{outside}", "folder/secret"),
        ("folder", "{outside}", "folder/new"),
        ("folder", "{outside}", "folder/deep/er/new"),
        ("other", "../telegram=3A2", "other/hers.txt"),
        ("all", "../../shared/s.txt", "all"),
        ("all", "shared/s.txt", "all"),
        ("proc", "/proc/self/root", "proc/{outside}/secret"),
        ("loop", "loop", "loop"),
    ],
)
def test_c080_no_link_lets_a_byte_out_or_in(  # noqa: PLR0917 - fixtures and cases
    view: WorkspaceView, outside: Path, tmp_path: Path, link: str, target: str, path: str
) -> None:
    hers = WorkspaceView.of(tmp_path / "ws", "telegram:2")
    put(hers, "hers.txt", SECRET)
    (view.root / link).symlink_to(target.format(outside=outside))
    for act in (_replace, _read, _unlink, _move):
        with pytest.raises(PathRefused) as caught:
            act(view, path.format(outside=outside))
        assert "TOP" not in str(caught.value)
    assert (outside / "secret").read_bytes() == SECRET
    assert names(outside) == ["secret"]
    assert (hers.root / "hers.txt").read_bytes() == SECRET
    assert (view.shared / "s.txt").read_bytes() == b"for all"


def test_swapping_a_folder_or_the_file_for_a_link_lets_no_byte_out_or_in(view: WorkspaceView, outside: Path) -> None:
    """Both kinds of swap run beside all acts; held still, each act succeeds or is refused."""
    (view.root / "box").mkdir()

    def replace() -> None:
        with view.slot("box/secret") as slot:
            slot.replace(HARMLESS)

    def replace_below() -> None:
        put(view, "box/deep/er/secret", HARMLESS)

    def expecting() -> None:
        with view.slot("box/secret") as slot:
            data, seen = slot.read(limit_bytes=LIMIT)
            assert data == HARMLESS
            slot.replace(data, expected=seen)

    def create() -> None:
        with view.slot("box/new") as slot:
            slot.create(HARMLESS)
            slot.unlink()

    def move() -> None:
        with view.slot("box/secret") as slot, view.slot("box/moved") as target:
            slot.move_to(target)
            with target.open_read() as file:
                assert file.read() == HARMLESS
            target.unlink()

    def outcome(act: Callable[[], None]) -> str:
        try:
            act()
        except PathRefused:
            return "refused"
        return "done"

    acts = [replace, replace_below, expecting, create, move]
    cycle = folder_and_file_for_links(view.root / "box", view.root / "box/secret", outside=outside)
    with Swapping(cycle).running() as swapping:
        swapping.storm(lambda: [outcome(act) for act in acts])
        for act in acts:
            with swapping.held("honest"):
                for left in ("new", "moved"):  # by an act that was refused half-way in the storm
                    (view.root / "box" / left).unlink(missing_ok=True)
                assert (act, outcome(act)) == (act, "done")
            with swapping.held("folder"):
                assert (act, outcome(act)) == (act, "refused")
    assert (outside / "secret").read_bytes() == SECRET
    assert names(outside) == ["secret"]


# --- further roots ---------------------------------------------------------------------------------------


@pytest.fixture
def wide(view: WorkspaceView, tmp_path: Path) -> WorkspaceView:
    """A view with a folder to read, one to write, and one that does not exist."""
    for name in ("docs", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_bytes(name.encode())
    extra = tuple(
        Root(name=str(tmp_path / name), path=tmp_path / name, writable_depth=depth)
        for name, depth in (("docs", None), ("out", 0), ("gone", 0))
    )
    return WorkspaceView.of(tmp_path / "ws", "telegram:1", extra=extra)


def read(view: WorkspaceView, path: str) -> bytes:
    with view.open_read(path) as file:
        return file.read()


def test_further_roots_go_by_their_absolute_path(wide: WorkspaceView, tmp_path: Path) -> None:
    for path in (f"{tmp_path}/docs/a.txt", f"{tmp_path}//docs/./x/../a.txt", f"{tmp_path}/out/../docs/a.txt"):
        assert read(wide, path) == b"docs"
        assert wide.resolve(path).shown == f"{tmp_path}/docs/a.txt"
        assert wide.resolve(path).path == tmp_path / "docs/a.txt"
    assert [entry.name for entry in wide.scandir(f"{tmp_path}/docs", limit=9)[0]] == ["a.txt"]
    assert wide.resolve(f"{tmp_path}/docs").shown == f"{tmp_path}/docs"
    put(wide, f"{tmp_path}/out/new/b.txt", b"new")
    assert (tmp_path / "out/new/b.txt").read_bytes() == b"new"
    with pytest.raises(PathRefused, match="can be read from this chat, but not changed"):
        put(wide, f"{tmp_path}/docs/a.txt", b"new")


def test_a_further_root_that_does_not_exist_has_nothing_and_is_not_made(wide: WorkspaceView, tmp_path: Path) -> None:
    for act in (_read, _replace):
        with pytest.raises(PathMissing, match=r"does not exist$"):
            act(wide, f"{tmp_path}/gone/a.txt")
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("path", ["{tmp}/docsx/a", "{tmp}/docs/../outside/secret", "{tmp}", "{tmp}/outside/secret"])
def test_beside_a_further_root_everything_is_outside(wide: WorkspaceView, tmp_path: Path, path: str) -> None:
    with pytest.raises(PathRefused, match=r"lies outside of this chat's files$"):
        read(wide, path.format(tmp=tmp_path))


def test_links_lead_from_no_root_into_another(wide: WorkspaceView, tmp_path: Path) -> None:
    (tmp_path / "docs/inside").symlink_to("a.txt")
    (tmp_path / "docs/absolute").symlink_to(tmp_path / "docs/a.txt")
    assert read(wide, f"{tmp_path}/docs/inside") == read(wide, f"{tmp_path}/docs/absolute") == b"docs"
    for folder, target in (
        (tmp_path / "docs", "../out/a.txt"),
        (tmp_path / "docs", f"{wide.root}/notes/a.txt"),
        (tmp_path / "out", tmp_path / "docs/a.txt"),
        (tmp_path / "out", "/etc/passwd"),
        (wide.root, tmp_path / "docs/a.txt"),
    ):
        (folder / "leads").symlink_to(target)
        path = "leads" if folder == wide.root else f"{folder}/leads"
        with pytest.raises(PathRefused, match="is a link that leads"):
            read(wide, path)
        (folder / "leads").unlink()


def test_a_further_root_around_the_workspace_shows_no_other_chat(tmp_path: Path, view: WorkspaceView) -> None:
    put(WorkspaceView.of(tmp_path / "ws", "telegram:2"), "hers.txt", SECRET)
    (tmp_path / "alias").symlink_to(tmp_path)
    for top in (tmp_path, tmp_path / "alias", Path("/"), tmp_path / "ws/chats"):
        around = Root(name=str(top), path=top, writable_depth=None if top == Path("/") else 0)
        wide = WorkspaceView.of(tmp_path / "ws", "telegram:1", extra=[around])
        for start in (top / "ws", tmp_path / "ws", tmp_path / "alias/ws"):
            path = str(start / "chats/telegram=3A2/hers.txt")
            for act in (_read, _replace):
                with pytest.raises(PathRefused):
                    act(wide, path)
        with pytest.raises(PathRefused):
            wide.scandir(f"{top}/ws", limit=9)
    assert read(wide, f"{tmp_path}/ws/chats/telegram=3A1/notes/a.txt") == b"old"


# --- disks -----------------------------------------------------------------------------------------------

_WRITE = """
import os, sys
from pathlib import Path
from bot.security.workspace import PathRefused, WorkspaceView
if sys.argv[4] != "0":
    os.setgroups([])
    os.setgid(int(sys.argv[4]))
    os.setuid(int(sys.argv[4]))
view = WorkspaceView.of(Path(sys.argv[1]), "telegram:1")
for act in ("replace", "create"):
    try:
        with view.slot(sys.argv[2] if act == "replace" else "fresh.txt", make_parents=True) as slot:
            getattr(slot, act)(b"x" * int(sys.argv[3]))
    except PathRefused as error:
        print(type(error).__name__, error, sep="|")
"""


def _write_elsewhere(workspace: Path, path: str, size: int, *, limit: int | None = None, user: int = 0) -> str:
    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-c", _WRITE, str(workspace), path, str(size), str(user)],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        preexec_fn=restrict,
    ).stdout


def test_a_write_that_the_system_cuts_off_leaves_the_old_file_and_no_other(view: WorkspaceView, tmp_path: Path) -> None:
    told = _write_elsewhere(tmp_path / "ws", "notes/a.txt", 100_000, limit=65_536)
    problem = os.strerror(errno.EFBIG)
    assert told.splitlines() == [
        f"WriteFailed|notes/a.txt: cannot be written: {problem}",
        f"WriteFailed|fresh.txt: cannot be written: {problem}",
    ]
    assert (view.root / "notes/a.txt").read_bytes() == b"old"
    assert names(view.root / "notes") == ["a.txt"]
    assert names(view.root) == ["notes"]


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no small disk can be made here: {made.stderr.strip()}")
    try:
        view = WorkspaceView.of(disk / "ws", "telegram:1")
        put(view, "a.txt", b"old")
        with pytest.raises(WriteFailed, match=r"^a\.txt: cannot be written: No space left on device$"):
            put(view, "a.txt", b"x" * 500_000)
        assert (view.root / "a.txt").read_bytes() == b"old"
        assert names(view.root) == ["a.txt"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_or_workspace_that_may_not_be_written_is_said() -> None:
    user = 65_534 if os.geteuid() == 0 else 0  # root may write anywhere
    with tempfile.TemporaryDirectory() as name:
        workspace = Path(name) / "ws"
        view = WorkspaceView.of(workspace, "telegram:1")
        put(view, "notes/a.txt", b"old")
        Path(name).chmod(0o755)
        for folder in (workspace, view.root.parent, view.root, view.shared, view.root / "notes"):
            folder.chmod(0o555)
        told = _write_elsewhere(workspace, "notes/a.txt", 10, user=user)
        problem = os.strerror(errno.EACCES)
        expected = "notes/a.txt: is read-only" if user else f"notes/a.txt: cannot be written: {problem}"
        assert told.splitlines() == [f"WriteFailed|{expected}", f"WriteFailed|fresh.txt: cannot be written: {problem}"]
        for folder in (workspace, view.root.parent, view.root, view.root / "notes"):
            folder.chmod(0o755)
        assert (view.root / "notes/a.txt").read_bytes() == b"old"
