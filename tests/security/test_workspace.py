"""No path, link or race shows one chat a byte from outside of its own files."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.security.workspace import EntryKind, PathMissing, PathRefused, WorkspaceView, folder_name
from tests.support.swapping import Swapping, folder_and_file_for_links

SECRET = "TOP SECRET"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with two chats, a shared file, and a secret beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text(SECRET)
    for key in ("telegram:1", "telegram:2"):
        view = WorkspaceView.of(tmp_path / "ws", key)
        view.make_dirs()
        (view.root / "notes").mkdir()
        (view.root / "notes/a.txt").write_text(f"of {key}")
    (tmp_path / "ws/shared/s.txt").write_text("for all")
    return tmp_path / "ws"


@pytest.fixture
def view(workspace: Path) -> WorkspaceView:
    return WorkspaceView.of(workspace, "telegram:1")


def read(view: WorkspaceView, path: str) -> str:
    with view.open_read(path) as file:
        return file.read().decode()


def test_a_chat_reads_its_own_files_and_the_shared_ones(view: WorkspaceView) -> None:
    for path in ("notes/a.txt", "./notes//a.txt", "notes/../notes/a.txt", f"{view.root}/notes/a.txt"):
        assert read(view, path) == "of telegram:1"
        assert view.resolve(path).shown == "notes/a.txt"
        assert view.resolve(path).writable
    for path in ("shared/s.txt", "notes/../shared/s.txt", f"{view.shared}/s.txt"):
        assert read(view, path) == "for all"
        assert not view.resolve(path).writable
    assert view.resolve("shared/s.txt").path == view.shared / "s.txt"


@pytest.mark.parametrize(
    "path",
    [
        "../telegram=3A2/notes/a.txt",
        "notes/../../telegram=3A2/notes/a.txt",
        "shared/../../x",
        "..",
        "/",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "~root/.bashrc",
        "{workspace}/chats/telegram=3A2/notes/a.txt",
        "{workspace}/chats/telegram=3A1x/a.txt",
        "{workspace}/../outside/secret",
        "{workspace}/chats/telegram=3A1/../telegram=3A2/notes/a.txt",
    ],
)
def test_a_path_that_leads_out_is_refused_in_the_same_words_whether_or_not_it_exists(
    view: WorkspaceView, workspace: Path, path: str
) -> None:
    path = path.format(workspace=workspace)
    for act in (view.resolve, view.open_read, lambda value: view.scandir(value, limit=9)):
        with pytest.raises(PathRefused) as caught:
            act(path)
        assert str(caught.value) == f"{path}: lies outside of this chat's files"


@pytest.mark.parametrize("path", ["a\0b", "x" * 256, "/".join(["d" * 200] * 30), "\udfff"])
def test_impossible_names_are_refused(view: WorkspaceView, path: str) -> None:
    with pytest.raises(PathRefused) as caught:
        view.open_read(path)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable() or "…" in str(caught.value)


def test_what_is_missing_or_of_another_kind_is_said(view: WorkspaceView) -> None:
    with pytest.raises(PathMissing, match=r"^nope\.txt: does not exist$"):
        view.open_read("nope.txt")
    with pytest.raises(PathRefused, match=r"^notes: is a folder$"):
        view.open_read("notes")
    with pytest.raises(PathRefused, match=r"^notes/a\.txt/b: is not a folder$"):
        view.open_read("notes/a.txt/b")
    with pytest.raises(PathRefused, match=r"^notes/a\.txt: is not a folder$"):
        view.scandir("notes/a.txt", limit=9)


def test_the_chats_folder_of_others_is_only_a_name_to_an_ordinary_chat(view: WorkspaceView) -> None:
    with pytest.raises(PathMissing):
        view.open_read("chats/telegram=3A2/notes/a.txt")


def test_an_owner_sees_all_chats_but_nothing_above_them(workspace: Path) -> None:
    owner = WorkspaceView.of(workspace, "telegram:9", all_chats=True)
    owner.make_dirs()
    assert read(owner, "chats/telegram=3A2/notes/a.txt") == "of telegram:2"
    assert owner.resolve("chats/telegram=3A2/notes/a.txt").writable
    assert not owner.resolve("chats/telegram=3A2").writable
    names = [entry.name for entry in owner.scandir("chats", limit=9)[0]]
    assert names == ["telegram=3A1", "telegram=3A2", "telegram=3A9"]
    assert [entry.name for entry in owner.scandir(limit=9)[0]] == ["chats", "shared"]
    with pytest.raises(PathRefused):
        owner.open_read("chats/../../outside/secret")


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("link.txt", "{outside}/secret", "link.txt"),
        ("link.txt", "../../../outside/secret", "link.txt"),
        ("folder", "{outside}", "folder/secret"),
        ("notes/up", "../..", "notes/up/telegram=3A2/notes/a.txt"),
        ("other", "../telegram=3A2", "other/notes/a.txt"),
        ("other", "{ws}/chats/telegram=3A2", "other/notes/a.txt"),
        ("root", "/", "root/etc/passwd"),
        ("proc", "/proc/self/root", "proc/etc/passwd"),
        ("via", "notes/../../telegram=3A2", "via/notes/a.txt"),
    ],
)
def test_a_link_that_leads_out_shows_nothing(
    view: WorkspaceView, workspace: Path, link: str, target: str, path: str
) -> None:
    (view.root / link).symlink_to(target.format(outside=workspace.parent / "outside", ws=workspace))
    with pytest.raises(PathRefused) as caught:
        view.open_read(path)
    assert str(caught.value) == f"{path}: is a link that leads out of this chat's files"
    with pytest.raises(PathRefused):
        view.scandir(str(Path(path).parent) if "/" in path else path, limit=9)


def test_links_inside_of_the_own_folder_work(view: WorkspaceView) -> None:
    (view.root / "l1").symlink_to("notes")
    (view.root / "notes/l2").symlink_to("../l1/a.txt")
    (view.root / "l3").symlink_to(view.root / "notes/l2")
    for path in ("l1/a.txt", "notes/l2", "l3", "l1/l2"):
        assert read(view, path) == "of telegram:1"
    assert [entry.name for entry in view.scandir("l1", limit=9)[0]] == ["a.txt", "l2"]


def test_a_circle_of_links_ends(view: WorkspaceView) -> None:
    (view.root / "a").symlink_to("b")
    (view.root / "b").symlink_to("a")
    with pytest.raises(PathRefused, match="too many links"):
        view.open_read("a")


def test_devices_pipes_and_sockets_are_refused_without_waiting(
    view: WorkspaceView, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(view.root / "pipe")
    monkeypatch.chdir(view.root)  # a socket's path may have 107 bytes only
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name in ("pipe", "socket"):
            with pytest.raises(PathRefused, match=f"^{name}: is not an ordinary file$"):
                view.open_read(name)
    assert {entry.name: entry.kind for entry in view.scandir(limit=9)[0]}["pipe"] == EntryKind.OTHER


def test_a_folder_is_listed_by_name_with_kind_and_size_up_to_the_limit(view: WorkspaceView) -> None:
    for index in range(20):
        (view.root / f"f{index:02}").write_text("x" * index)
    (view.root / "link").symlink_to("/etc")
    entries, total = view.scandir(limit=3)
    assert [(entry.name, entry.kind, entry.size_bytes) for entry in entries] == [
        ("f00", EntryKind.FILE, 0),
        ("f01", EntryKind.FILE, 1),
        ("f02", EntryKind.FILE, 2),
    ]
    assert total == 23  # 20 files, notes, link, shared
    kinds = {entry.name: entry.kind for entry in view.scandir(limit=99)[0]}
    assert (kinds["link"], kinds["notes"], kinds["shared"]) == (
        EntryKind.LINK,
        EntryKind.FOLDER,
        EntryKind.FOLDER,
    )


def test_swapping_a_folder_or_the_file_for_a_link_while_it_is_read_shows_nothing(
    view: WorkspaceView, workspace: Path
) -> None:
    (view.root / "box").mkdir()

    def outcome() -> str:
        try:
            shown = read(view, "box/secret")
            view.scandir("box", limit=9)
        except PathRefused:
            return "refused"
        assert shown == "harmless words\n"
        return "done"

    cycle = folder_and_file_for_links(view.root / "box", view.root / "box/secret", outside=workspace.parent / "outside")
    with Swapping(cycle).running() as swapping:
        swapping.storm(outcome)
        with swapping.held("honest"):
            assert outcome() == "done"
        for state in ("file", "folder"):
            with swapping.held(state):
                assert outcome() == "refused"


def test_no_descriptor_is_left_open(view: WorkspaceView) -> None:
    (view.root / "out").symlink_to("/etc")
    (view.root / "in").symlink_to("notes")
    before = sorted(Path("/proc/self/fd").iterdir())
    read(view, "in/a.txt")
    view.scandir("in", limit=9)
    for path in ("out/passwd", "nope/x", "notes", "notes/a.txt/x"):
        with pytest.raises(PathRefused):
            view.open_read(path)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_folders_are_made_for_this_user_only_and_making_them_again_is_fine(tmp_path: Path) -> None:
    view = WorkspaceView.of(tmp_path / "deep/ws", "console:local")
    view.make_dirs()
    view.make_dirs()
    for folder in (view.root, view.shared, view.root.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_in_place_of_the_own_folder_is_refused(tmp_path: Path) -> None:
    view = WorkspaceView.of(tmp_path, "console:local")
    view.root.parent.mkdir()
    view.root.symlink_to("/etc")
    with pytest.raises(PathRefused, match="is not a folder"):
        view.make_dirs()
    with pytest.raises(PathRefused):
        view.open_read("passwd")


# --- names -----------------------------------------------------------------------------------------------


def test_folder_names_are_readable() -> None:
    assert folder_name("telegram:-1001:42") == "telegram=3A-1001=3A42"
    assert folder_name("slack:C01AB/ü") == "slack=3AC01AB=2F=C3=BC"
    assert folder_name("-x") == "=2Dx"


@given(st.lists(st.text(min_size=1, max_size=300), unique=True, min_size=2, max_size=2))
def test_different_chats_get_different_folders_with_harmless_names(keys: list[str]) -> None:
    first, second = folder_name(keys[0]), folder_name(keys[1])
    assert first != second
    for name in (first, second):
        assert len(name) <= 120
        assert name.isascii()
        assert not set(name) & set("/.\0 \n:%$")
        assert not name.startswith(("-", "~"))


def test_long_keys_that_differ_at_the_end_get_different_folders() -> None:
    first, second = (folder_name("slack:" + "x" * 500 + end) for end in "ab")
    assert first != second
    assert folder_name(first) != first
    assert len(first) == 120
