"""The deployment scripts: portable, self-explaining, and a backup that can be restored."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
SCRIPTS = [DEPLOY / "install.sh", DEPLOY / "backup.sh"]


def run(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", script, *arguments], capture_output=True, text=True, check=False)


def backup(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run(DEPLOY / "backup.sh", "--python", sys.executable, *arguments)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid_posix_shell_and_can_be_run(script: Path) -> None:
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    assert script.read_text().startswith("#!/bin/sh\n")
    assert os.access(script, os.X_OK)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    done = subprocess.run(["shellcheck", "-s", "sh", script], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_explain_themselves_and_refuse_what_they_do_not_know(script: Path) -> None:
    done = run(script, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: {script.name}")
    unknown = run(script, "--nonsense")
    assert unknown.returncode == 1
    assert "unknown option: --nonsense" in unknown.stderr


def test_a_checkout_is_installed_with_the_versions_of_its_lock_file(tmp_path: Path) -> None:
    source, python = tmp_path / "checkout", tmp_path / "to/opt/dutiful/venv/bin/python"
    source.mkdir()
    (source / "requirements.lock").write_text(
        "aiohttp==3.14.5 \\\n    --hash=sha256:06 \\\n    --hash=sha256:92\n"
        "colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:4f\n"
    )
    python.parent.mkdir(parents=True)
    python.write_text(  # stands for pip, and shows what it was told
        '#!/bin/sh\nwhile [ $# -gt 0 ]; do if [ "$1" = -c ] && [ -f "$2" ]; then cat "$2" >&2; fi; shift; done\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        ["sh", DEPLOY / "install.sh", "--source", source, "--python", sys.executable],
        env={**os.environ, "DESTDIR": str(tmp_path / "to")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "aiohttp==3.14.5\ncolorama==0.4.6 ; sys_platform == 'win32'\n")
    assert "Dutiful is installed." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "say where the backup goes"),
        (["--data-dir", "/nonexistent", "t"], "there is no folder /nonexistent"),
        (["--data-dir", "/tmp", "--keep", "x", "t"], "--keep needs a number"),
        (["a", "b"], "more than one target"),
        (["--keep"], "--keep needs a value"),
    ],
)
def test_a_backup_that_cannot_be_made_says_why(arguments: list[str], problem: str) -> None:
    done = backup(*arguments)
    assert done.returncode == 1
    assert problem in done.stderr


def test_a_backup_of_a_live_database_restores_all_that_was_committed(tmp_path: Path) -> None:
    data = tmp_path / "data dir? 100%"
    (data / "workspace/chats").mkdir(parents=True)
    (data / "workspace/chats/note.txt").write_text("kept")
    (data / "workspace/chats/link").symlink_to("/etc/hostname")
    with (
        closing(sqlite3.connect(data / "dutiful.db")) as live,
        socket.socket(socket.AF_UNIX) as control,
    ):
        control.bind(os.path.relpath(data / "s"))
        live.execute("PRAGMA journal_mode=WAL")
        live.execute("PRAGMA wal_autocheckpoint=0")
        live.execute("CREATE TABLE t (v)")
        live.execute("INSERT INTO t VALUES ('committed')")
        live.commit()
        live.execute("INSERT INTO t VALUES ('open')")
        done = backup("--data-dir", data, tmp_path / "to")
    assert done.stderr == ""
    archive = Path(done.stdout.strip())
    assert archive.parent == tmp_path / "to"
    assert archive.stat().st_mode & 0o777 == 0o600
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python 3.11.2 of Debian 12 has none yet
        tar.extractall(tmp_path / "restored")
    restored = tmp_path / "restored/data"
    assert sorted(path.name for path in restored.iterdir()) == ["dutiful.db", "workspace"]
    with closing(sqlite3.connect(restored / "dutiful.db")) as connection:
        assert connection.execute("SELECT v FROM t").fetchall() == [("committed",)]
    assert (restored / "workspace/chats/note.txt").read_text() == "kept"
    assert (restored / "workspace/chats/link").is_symlink()
    assert [path.name for path in (tmp_path / "to").iterdir()] == [archive.name]


def test_only_the_newest_backups_are_kept_and_none_contains_another(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "files"
    data.mkdir()
    elsewhere.mkdir()
    (data / "a").write_text("x")
    (elsewhere / "b").write_text("y")
    made = []
    for _ in range(3):
        done = backup("--data-dir", data, "--workspace", elsewhere, "--keep", "2", data / "backups")
        made.append(Path(done.stdout.strip()))
    assert sorted((data / "backups").iterdir()) == made[1:]
    with tarfile.open(made[-1]) as tar:
        assert sorted(tar.getnames()) == ["data/a", "workspace/b"]


def test_a_damaged_database_makes_the_backup_fail_and_leaves_no_archive(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with closing(sqlite3.connect(data / "d.db")) as connection:
        connection.execute("CREATE TABLE t (v)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 500)
        connection.commit()
    with (data / "d.db").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 8192)
    done = backup("--data-dir", data, tmp_path / "to")
    assert done.returncode == 1
    assert f"{data / 'd.db'} is damaged" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "to").iterdir()) == []
