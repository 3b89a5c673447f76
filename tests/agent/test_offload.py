"""Offload of long tool output: into the chat's own folder, whole, and through no link out of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bot.agent.runner import offload_to
from bot.security.workspace import WorkspaceView
from tests.support.contexts import request_context

ME = request_context("1")
TEXT = "many words\n" * 3
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()
NAME = f"tool-output/{DIGEST[:32]}.txt"


@pytest.fixture
def view(tmp_path: Path) -> WorkspaceView:
    (tmp_path / "outside").mkdir()
    view = WorkspaceView.of(tmp_path / "workspace", ME.address.rate_key)
    view.make_dirs()
    return view


def test_output_is_kept_once_under_its_digest(view: WorkspaceView) -> None:
    write = offload_to(lambda _request: view)
    assert write(ME, DIGEST, TEXT) == NAME
    inode = (view.root / NAME).stat().st_ino
    assert write(ME, DIGEST, TEXT) == NAME
    assert (view.root / NAME).read_text() == TEXT
    assert (view.root / NAME).stat().st_ino == inode


@pytest.mark.parametrize("linked", ["folder", "file"])
def test_c080_a_link_in_its_place_lets_no_byte_out(view: WorkspaceView, tmp_path: Path, linked: str) -> None:
    """C080."""
    if linked == "folder":
        (view.root / "tool-output").symlink_to(tmp_path / "outside")
    else:
        (view.root / "tool-output").mkdir()
        (view.root / NAME).symlink_to(tmp_path / "outside" / "new")
    with pytest.raises(OSError, match="link that leads out"):
        offload_to(lambda _request: view)(ME, DIGEST, TEXT)
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("before", ["half of it", "more than there was\n" * 9])
def test_other_bytes_under_the_name_are_replaced(view: WorkspaceView, before: str) -> None:
    (view.root / "tool-output").mkdir()
    (view.root / NAME).write_text(before)
    offload_to(lambda _request: view)(ME, DIGEST, TEXT)
    assert (view.root / NAME).read_text() == TEXT


def test_a_file_in_the_folders_place_is_an_os_error(view: WorkspaceView) -> None:
    (view.root / "tool-output").write_text("x")
    with pytest.raises(OSError, match="tool-output"):
        offload_to(lambda _request: view)(ME, DIGEST, TEXT)
