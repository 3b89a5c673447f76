"""Landlock: what a restricted thread and its processes can still open, and that nobody else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.security.landlock import Access, Grant, LandlockError, abi_version, move_thread, restrict_thread

pytestmark = pytest.mark.skipif(not abi_version(), reason="this kernel has no Landlock")

LOOK = Access.READ_FILE | Access.READ_DIR
RUN = LOOK | Access.EXECUTE


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A folder to be granted; a secret lies beside it."""
    (tmp_path / "secret").write_text("TOP SECRET")
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/a.txt").write_text("mine")
    return tmp_path / "in"


def restricted(act: Callable[[], Any], folders: Sequence[tuple[Path, Access]]) -> Any:
    """Return what `act` returns or raises in a thread that may use only these folders."""
    outcome: list[Any] = []
    descriptors = [os.open(folder, os.O_PATH | os.O_CLOEXEC) for folder, _ in folders]

    def body() -> None:
        try:
            restrict_thread([Grant(descriptor=d, access=a) for d, (_, a) in zip(descriptors, folders, strict=True)])
            outcome.append(act())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(20)
    for descriptor in descriptors:
        os.close(descriptor)
    return outcome[0]


def names(folder: Path) -> Callable[[], list[str]]:
    return lambda: [path.name for path in folder.iterdir()]


def test_what_lies_in_the_granted_folder_can_be_read_and_nothing_else(inside: Path) -> None:
    assert restricted((inside / "deep/a.txt").read_text, [(inside, LOOK)]) == "mine"
    assert restricted(names(inside / "deep"), [(inside, LOOK)]) == ["a.txt"]
    for act in ((inside.parent / "secret").read_text, names(inside.parent), Path("/etc/passwd").read_text):
        assert isinstance(restricted(act, [(inside, LOOK)]), PermissionError)


def test_a_granted_folder_cannot_be_written(inside: Path) -> None:
    for act in (
        lambda: (inside / "deep/a.txt").write_text("x"),
        (inside / "new").touch,
        (inside / "deep/a.txt").unlink,
        (inside / "new").mkdir,
        lambda: os.truncate(inside / "deep/a.txt", 0),
    ):
        assert isinstance(restricted(act, [(inside, LOOK)]), PermissionError)
    assert (inside / "deep/a.txt").read_text() == "mine"


def test_a_link_or_a_swapped_folder_leads_nowhere(inside: Path) -> None:
    (inside / "link").symlink_to(inside.parent / "secret")
    assert isinstance(restricted((inside / "link").read_text, [(inside, LOOK)]), PermissionError)

    def swap_then_read() -> str:
        return (inside / "deep/secret").read_text()

    (inside / "deep").rename(inside / "gone")
    (inside / "deep").symlink_to(inside.parent)
    assert isinstance(restricted(swap_then_read, [(inside, LOOK)]), PermissionError)


def test_a_file_is_granted_by_itself(inside: Path) -> None:
    file = inside / "deep/a.txt"
    assert restricted(file.read_text, [(file, Access.READ_FILE)]) == "mine"
    assert isinstance(restricted(names(inside), [(file, Access.READ_FILE)]), PermissionError)


def test_a_process_started_by_the_thread_is_under_the_same_wall(inside: Path) -> None:
    def cat(path: Path) -> tuple[int, bytes]:
        done = subprocess.run(["cat", path], check=False, capture_output=True, stdin=subprocess.PIPE, timeout=10)
        return done.returncode, done.stdout

    system = [(Path(folder), RUN) for folder in ("/usr", "/lib", "/lib64", "/bin") if Path(folder).exists()]
    assert restricted(lambda: cat(inside / "deep/a.txt"), [*system, (inside, LOOK)]) == (0, b"mine")
    assert restricted(lambda: cat(inside.parent / "secret"), [*system, (inside, LOOK)]) == (1, b"")


def test_a_program_that_is_not_granted_does_not_start(inside: Path) -> None:
    start = lambda: subprocess.run([sys.executable, "-c", ""], check=False, stdin=subprocess.PIPE)  # noqa: E731
    assert isinstance(restricted(start, [(inside, LOOK)]), PermissionError)


def test_other_threads_stay_free(inside: Path) -> None:
    restricted(lambda: None, [(inside, LOOK)])
    assert (inside.parent / "secret").read_text() == "TOP SECRET"
    done = subprocess.run(["cat", inside.parent / "secret"], capture_output=True, check=True)
    assert done.stdout == b"TOP SECRET"


def test_a_rule_the_kernel_refuses_is_an_error_and_restricts_nothing(inside: Path) -> None:
    file = inside / "deep/a.txt"
    error = restricted(file.read_text, [(file, LOOK)])  # a file cannot be listed
    assert isinstance(error, LandlockError)
    assert "EINVAL" in str(error)


def test_no_descriptor_is_left_behind(inside: Path) -> None:
    before = sorted(names(Path("/proc/self/fd"))())
    for _ in range(5):
        restricted(lambda: None, [(inside, LOOK)])
    assert sorted(names(Path("/proc/self/fd"))()) == before


def test_a_thread_with_a_folder_of_its_own_leaves_the_others_where_they_are(inside: Path) -> None:
    here = Path.cwd()
    found: list[Path] = []
    descriptor = os.open(inside, os.O_RDONLY | os.O_CLOEXEC)

    def body() -> None:
        move_thread(descriptor)
        found.append(Path.cwd())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(20)
    os.close(descriptor)
    assert found == [inside]
    assert Path.cwd() == here
