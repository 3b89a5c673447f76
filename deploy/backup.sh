#!/bin/sh
# Backs up a data directory while the bot runs: databases by SQLite's online backup, everything else as files.
set -eu

usage() {
    cat <<'USAGE'
Usage: backup.sh [--data-dir DIR] [--workspace DIR] [--keep N] [--python PROGRAM] TARGET_DIR

Writes TARGET_DIR/dutiful-DATE.tar.gz (readable for its owner only) and prints its path.
  --data-dir   the bot's data directory (default: /var/lib/dutiful)
  --workspace  the workspace, if it is outside of the data directory
  --keep       afterwards delete all but the newest N backups in TARGET_DIR
  --python     Python 3.11 or newer (default: /opt/dutiful/venv/bin/python, else python3)
The bot may run meanwhile. How to restore: deploy/RUNBOOK.md.
USAGE
}

fail() {
    echo "backup.sh: $*" >&2
    exit 1
}

data=/var/lib/dutiful
workspace=
keep=0
python=/opt/dutiful/venv/bin/python
[ -x "$python" ] || python=python3
target=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --data-dir | --workspace | --keep | --python)
            [ $# -ge 2 ] || fail "$1 needs a value"
            case $1 in
                --data-dir) data=$2 ;;
                --workspace) workspace=$2 ;;
                --keep) keep=$2 ;;
                --python) python=$2 ;;
            esac
            shift 2 ;;
        -*) usage >&2; fail "unknown option: $1" ;;
        *) [ -z "$target" ] || fail "more than one target"; target=$1; shift ;;
    esac
done
[ -n "$target" ] || { usage >&2; fail "say where the backup goes"; }
[ -d "$data" ] || fail "there is no folder $data"
[ -z "$workspace" ] || [ -d "$workspace" ] || fail "there is no folder $workspace"
case $keep in '' | *[!0-9]*) fail "--keep needs a number" ;; esac

umask 077
mkdir -p "$target"
exec "$python" - "$data" "$workspace" "$keep" "$target" <<'PYTHON'
import os
import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

data, workspace, keep, target = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]).resolve()
inside = data.resolve()


def is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def copy_database(path: Path, copy: Path) -> None:
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source:
            with closing(sqlite3.connect(copy)) as out:
                source.backup(out)
                (verdict,) = out.execute("PRAGMA integrity_check").fetchone()
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        sys.exit(f"backup.sh: {path} is damaged: {verdict}")


def files(folder: Path):
    for where, folders, names in os.walk(folder):
        # Never put earlier backups into the new one.
        folders[:] = [name for name in folders if (Path(where) / name).resolve() != target]
        for name in [*folders, *names]:
            path = Path(where) / name
            if path.is_symlink() or path.is_dir() or path.is_file():  # no sockets, pipes, devices
                yield path


def add(archive: tarfile.TarFile, folder: Path, name: str, scratch: Path) -> None:
    for path in files(folder):
        relative = f"{name}/{path.relative_to(folder)}"
        if path.name.endswith(("-wal", "-shm", "-journal")) and path.with_name(path.name.rpartition("-")[0]).exists():
            continue  # belongs to a database, whose copy is complete without it
        try:
            if path.is_file() and not path.is_symlink() and is_database(path):
                copy_database(path, scratch)
                archive.add(scratch, relative)
                scratch.unlink()
            else:
                archive.add(path, relative, recursive=False)
        except FileNotFoundError:
            print(f"backup.sh: {path} vanished meanwhile", file=sys.stderr)


stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S%fZ")
final = target / f"dutiful-{stamp}.tar.gz"
with tempfile.TemporaryDirectory(dir=target, prefix=".dutiful-") as scratch:
    partial = Path(scratch) / "partial.tar.gz"
    with tarfile.open(partial, "w:gz") as archive:
        add(archive, inside, "data", Path(scratch) / "copy.db")
        if workspace:
            add(archive, Path(workspace).resolve(), "workspace", Path(scratch) / "copy.db")
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.rename(final)
if keep:
    for old in sorted(target.glob("dutiful-*Z.tar.gz"))[:-keep]:
        old.unlink()
print(final)
PYTHON
