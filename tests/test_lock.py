"""One engine per data directory, whatever happens to the process that held it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bot.errors import AlreadyRunning, ConfigError
from bot.lock import DataLock
from tests.support.program import ROOT

HOLD = (
    "import sys, signal\nfrom pathlib import Path\nfrom bot.lock import DataLock\n"
    "lock = DataLock.take(Path(sys.argv[1]))\nprint('held', flush=True)\nsignal.pause()\n"
)


def test_the_second_one_is_told_who_holds_it(tmp_path: Path) -> None:
    lock = DataLock.take(tmp_path)
    with pytest.raises(AlreadyRunning, match=rf"{tmp_path} is in use by another dutiful \(process {os.getpid()}\)"):
        DataLock.take(tmp_path)
    lock.release()


def test_after_a_release_it_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        lock = DataLock.take(tmp_path)
        lock.release()
        lock.release()


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    DataLock.take(folder).release()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "lock").stat().st_mode & 0o777 == 0o600


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunning, match=rf"process {holder.pid}\)"):
            DataLock.take(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        DataLock.take(tmp_path).release()


def test_programs_that_are_started_do_not_keep_it(tmp_path: Path) -> None:
    lock = DataLock.take(tmp_path)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        lock.release()
        DataLock.take(tmp_path).release()
        child.communicate()


@pytest.mark.parametrize("kind", ["file", "folder_as_lock"])
def test_a_folder_that_cannot_be_used_is_a_mistake_in_the_configuration(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "data"
    if kind == "file":
        folder.write_text("")
    else:
        (folder / "lock").mkdir(parents=True)
    with pytest.raises(ConfigError, match=rf"^\[bot\] data_dir: {folder} cannot be used: "):
        DataLock.take(folder)
