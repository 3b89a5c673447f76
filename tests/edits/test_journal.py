"""The journal: changes of several files happen whole or not at all, in one process and across its death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bot.edits.change_record import ChangeRecord, ChangeState
from bot.edits.journal import KEPT_BYTES, KEPT_CHANGES, KEPT_S, ChangeFailed, ChangeJournal, ChangeStopped
from bot.security.workspace import WorkspaceView
from tests.support.clock import FakeClock
from tests.support.journal_worker import BY, CHAT, changes_to

ROOT = Path(__file__).resolve().parents[2]
OLD: Mapping[str, str] = {"a": "old a", "sub/b": "old b", "gone": "old gone"}
WANTED: Mapping[str, str | None] = {"a": "new a", "sub/b": "new b", "made/by/us": "new c", "gone": None}


class Desk:
    """A chat's files with the texts of `OLD`, and a journal."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.workspace = folder / "workspace"
        self.folder = folder / "changes"
        self.journal = ChangeJournal(self.folder, self.clock)
        self.view = WorkspaceView.of(self.workspace, CHAT)
        self.view.make_dirs()
        for path, text in OLD.items():
            self.put(path, text)

    def put(self, path: str, text: str) -> Path:
        file = self.view.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def texts(self) -> dict[str, str]:
        """Return what the chat has, without the temporary files that a killed process leaves."""
        files = [file for file in self.view.root.rglob("*") if file.is_file() and file.suffix != ".tmp"]
        return {str(file.relative_to(self.view.root)): file.read_text() for file in files}

    def carry_out(self, texts: Mapping[str, str | None] = WANTED) -> None:
        self.journal.carry_out(self.view, BY, changes_to(self.view, texts))

    def recover(self) -> None:
        """Do what a new process does at its start."""
        ChangeJournal(self.folder, self.clock).recover(
            lambda chat, all_chats: WorkspaceView(
                root=self.workspace / "chats" / chat, shared=self.workspace / "shared", all_chats=all_chats
            )
        )

    def records(self) -> list[ChangeRecord]:
        return [ChangeRecord(folder) for folder in sorted(self.folder.glob("*/*"))]

    @property
    def worker(self) -> list[str]:
        """The command of a process that carries out a change."""
        return [sys.executable, "-m", "tests.support.journal_worker", str(self.workspace), str(self.folder)]

    def killed_at(self, point: str) -> None:
        """Carry out `WANTED` in a process that dies there."""
        worker = subprocess.run(
            self.worker,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "DUTIFUL_FAULT": point},
            input=json.dumps(dict(WANTED)).encode(),
            check=False,
        )
        assert worker.returncode == -signal.SIGKILL


NEW = {**OLD, **WANTED}
NEW_TEXTS = {path: text for path, text in NEW.items() if text is not None}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_change_creates_replaces_and_removes_and_is_kept(desk: Desk) -> None:
    desk.carry_out()
    assert desk.texts() == NEW_TEXTS
    (record,) = desk.records()
    assert record.state is ChangeState.COMMITTED
    manifest = record.manifest()
    assert manifest.author == BY
    assert (manifest.chat, manifest.at_us) == (desk.view.root.name, desk.clock.now_us())
    assert [file.path for file in manifest.files] == list(WANTED)
    befores = [file.before and record.before(index, file.before) for index, file in enumerate(manifest.files)]
    assert befores == [b"old a", b"old b", None, b"old gone"]


def test_modes_are_kept_and_set(desk: Desk) -> None:
    (desk.view.root / "a").chmod(0o640)
    (change,) = changes_to(desk.view, {"a": "new a"})
    desk.journal.carry_out(desk.view, BY, [change])
    assert (desk.view.root / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("path", OLD)
@pytest.mark.parametrize("text", ["new", "longer than the old text", "OLD A"])
def test_a_file_that_changed_since_it_was_read_undoes_the_whole_change(desk: Desk, path: str, text: str) -> None:
    changes = changes_to(desk.view, WANTED)
    desk.put(path, text)
    with pytest.raises(ChangeFailed) as caught:
        desk.journal.carry_out(desk.view, BY, changes)
    assert str(caught.value) == f"{path}: has changed meanwhile. Nothing was changed"
    assert desk.texts() == {**OLD, path: text}
    assert desk.records() == []


def test_a_file_that_appeared_where_one_is_to_be_made_stays(desk: Desk) -> None:
    changes = changes_to(desk.view, WANTED)
    desk.put("made/by/us", "theirs")
    with pytest.raises(ChangeFailed, match="exists already"):
        desk.journal.carry_out(desk.view, BY, changes)
    assert desk.texts() == {**OLD, "made/by/us": "theirs"}


def test_a_change_can_be_called_off_before_it_touches_a_file(desk: Desk) -> None:
    with pytest.raises(ChangeStopped):
        desk.journal.carry_out(desk.view, BY, changes_to(desk.view, WANTED), is_called_off=lambda: True)
    assert desk.texts() == OLD
    assert desk.records() == []


def test_a_journal_that_cannot_be_written_lets_no_file_be_touched(desk: Desk) -> None:
    desk.folder.write_text("in the way")
    with pytest.raises(ChangeFailed, match="the change cannot be prepared"):
        desk.carry_out()
    assert desk.texts() == OLD


@pytest.mark.parametrize(
    ("point", "is_done"),
    [
        ("change-prepared", False),
        *((f"change-under-way:{number}", False) for number in range(1, len(WANTED) + 1)),
        ("change-committed", True),
    ],
)
def test_a_process_killed_at_any_point_leaves_all_or_nothing_after_the_next_start(
    desk: Desk, point: str, is_done: bool
) -> None:
    (desk.view.root / "a").chmod(0o640)
    desk.killed_at(point)
    desk.recover()
    assert desk.texts() == (NEW_TEXTS if is_done else OLD)
    assert (desk.view.root / "a").stat().st_mode & 0o777 == 0o640
    desk.recover()  # and once more, with nothing left to do
    assert desk.texts() == (NEW_TEXTS if is_done else OLD)
    assert len(desk.records()) == is_done


def test_a_disk_that_takes_no_more_leaves_every_file_as_it_was(desk: Desk) -> None:
    texts = {**WANTED, "made/by/us": "x" * 100_000}
    worker = subprocess.run(
        # A limit of the size of files, in units of 1,024 bytes, stands for the full disk.
        ["bash", "-c", 'ulimit -f 16; exec "$@"', "bash", *desk.worker],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        input=json.dumps(texts).encode(),
        capture_output=True,
        check=False,
    )
    assert b"ChangeFailed: made/by/us: cannot be written: File too large. Nothing was changed" in worker.stderr
    assert desk.texts() == OLD
    assert desk.records() == []


def test_a_file_where_a_folder_is_needed_undoes_the_whole_change(desk: Desk) -> None:
    with pytest.raises(ChangeFailed, match=r"is not a folder\. Nothing was changed$"):
        desk.carry_out({"a": "new a", "made": "file", "made/below": "x", "sub/b": "new b"})
    assert desk.texts() == OLD
    assert desk.records() == []


def test_a_folder_that_became_a_link_before_its_turn_undoes_the_others(desk: Desk, tmp_path: Path) -> None:
    changes = changes_to(desk.view, {"a": "new a", "sub/b": "new b"})
    (tmp_path / "outside").mkdir()
    (desk.view.root / "sub").rename(desk.view.root / "moved")
    (desk.view.root / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(ChangeFailed, match=r"leads out of this chat's files\. Nothing was changed$"):
        desk.journal.carry_out(desk.view, BY, changes)
    assert (desk.view.root / "a").read_text() == OLD["a"]
    assert desk.records() == []


def test_what_can_be_restored_is_restored_although_another_file_cannot(desk: Desk, tmp_path: Path) -> None:
    desk.killed_at(f"change-under-way:{len(WANTED)}")
    (tmp_path / "outside").mkdir()
    (desk.view.root / "sub").rename(desk.view.root / "moved")
    (desk.view.root / "sub").symlink_to(tmp_path / "outside")
    desk.recover()
    assert (desk.view.root / "a").read_text() == OLD["a"]
    assert (desk.view.root / "gone").read_text() == OLD["gone"]
    assert desk.records()[0].state is ChangeState.PREPARED  # for sub/b


def test_recovery_leaves_alone_what_somebody_else_changed_after_the_crash(desk: Desk) -> None:
    desk.killed_at(f"change-under-way:{len(WANTED)}")
    theirs = {"a": "they", "sub/b": "longer than ours", "gone": "here again", "made/by/us": "other"}
    for path, text in theirs.items():
        desk.put(path, text)
    desk.recover()
    assert desk.texts() == {**OLD, **theirs}
    (record,) = desk.records()
    assert record.state is ChangeState.ABANDONED  # the old bytes are still to be had
    assert record.before(0, record.manifest().files[0].before or pytest.fail("no image")) == b"old a"


def test_a_file_that_was_being_created_is_removed_while_it_has_no_bytes_yet(desk: Desk) -> None:
    desk.killed_at("change-under-way:2")
    desk.put("made/by/us", "")
    desk.recover()
    assert desk.texts() == OLD


def test_recovery_removes_the_new_bytes_that_never_took_their_place(desk: Desk) -> None:
    desk.killed_at("change-under-way")
    mine = [desk.put(f"{folder}.dutiful-{'0a' * 8}.tmp", "half") for folder in ("", "sub/")]
    others = [desk.put(name, "theirs") for name in (".dutiful-notes.tmp", f"elsewhere/.dutiful-{'0a' * 8}.tmp")]
    desk.recover()
    assert not any(file.exists() for file in mine)
    assert all(file.exists() for file in others)


def test_recovery_follows_no_link_that_took_a_folders_place(desk: Desk, tmp_path: Path) -> None:
    desk.killed_at(f"change-under-way:{len(WANTED)}")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b").write_text("new b")  # the very bytes that the change wrote
    (desk.view.root / "sub").rename(desk.view.root / "moved")
    (desk.view.root / "sub").symlink_to(outside)
    desk.recover()
    assert (outside / "b").read_text() == "new b"
    assert desk.records()[0].state is ChangeState.PREPARED  # tried again at the next start
    (desk.view.root / "sub").unlink()
    (desk.view.root / "moved").rename(desk.view.root / "sub")
    desk.recover()
    assert desk.texts() == OLD


def test_a_record_without_manifest_is_removed(desk: Desk) -> None:
    folder = desk.folder / desk.view.root.name / "00000000000000001-abcd"
    folder.mkdir(parents=True)
    (folder / "0.before").write_text("x")
    desk.recover()
    assert desk.records() == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", "\xff", '{"version": 2}'])
def test_a_damaged_manifest_is_left_and_stops_no_start(desk: Desk, text: str) -> None:
    desk.killed_at("change-under-way")
    (desk.records()[0].folder / "prepared.json").write_text(text)
    desk.recover()
    assert desk.records()[0].state is ChangeState.PREPARED
    assert desk.texts() == {**OLD, "a": "new a"}


def test_a_damaged_before_image_is_not_put_back(desk: Desk) -> None:
    desk.killed_at("change-under-way")
    (desk.records()[0].folder / "0.before").write_text("garbage")
    desk.recover()
    assert desk.texts() == {**OLD, "a": "new a"}


def test_paths_and_senders_may_be_any_text(desk: Desk) -> None:
    name = os.fsdecode(b"\xff \n%41")
    by = BY.model_copy(update={"sender_id": "ünï\n"})
    desk.journal.carry_out(desk.view, by, changes_to(desk.view, {name: "x"}))
    manifest = desk.records()[0].manifest()
    assert manifest.files[0].path == name
    assert manifest.author == by


def test_kept_changes_are_bounded_in_number(desk: Desk) -> None:
    for number in range(KEPT_CHANGES + 3):
        desk.clock.advance(1)
        desk.carry_out({"a": f"text {number}"})
    kept = [record.before(0, file) for record in desk.records() if (file := record.manifest().files[0].before)]
    assert kept == [f"text {number}".encode() for number in range(2, KEPT_CHANGES + 2)]


def test_kept_changes_are_bounded_in_bytes_but_for_the_newest(desk: Desk) -> None:
    desk.put("a", "x" * (KEPT_BYTES // 2 + 1))
    desk.carry_out({"a": "y" * (KEPT_BYTES + 1)})
    desk.clock.advance(1)
    desk.carry_out({"a": "small"})
    assert len(desk.records()) == 1
    desk.clock.advance(1)
    desk.carry_out({"a": "smaller"})
    assert len(desk.records()) == 1
    desk.clock.advance(1)
    desk.carry_out({"a": "smallest"})
    assert len(desk.records()) == 2


def test_kept_changes_are_bounded_in_age(desk: Desk) -> None:
    desk.carry_out({"a": "1"})
    desk.clock.advance(KEPT_S - 1)
    desk.recover()
    assert len(desk.records()) == 1
    desk.clock.advance(2)
    desk.recover()
    assert desk.records() == []


def test_one_chats_changes_do_not_push_out_anothers(desk: Desk) -> None:
    other = WorkspaceView.of(desk.workspace, "telegram:2")
    other.make_dirs()
    desk.journal.carry_out(other, BY, changes_to(other, {"x": "1"}))
    for number in range(KEPT_CHANGES + 1):
        desk.clock.advance(1)
        desk.carry_out({"a": f"{number}"})
    assert len(list((desk.folder / other.root.name).iterdir())) == 1


def test_the_journal_is_for_this_user_only(desk: Desk) -> None:
    desk.carry_out()
    folder = desk.records()[0].folder
    assert {path.stat().st_mode & 0o077 for path in (folder, folder.parent, *folder.iterdir())} == {0}
