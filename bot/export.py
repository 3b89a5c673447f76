"""`dutiful export` and `dutiful sessions`: conversations as JSON lines, and a list of them.

Everything is read from the file as it goes, so that a history of any length fits; a running service is not asked.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

import orjson

from bot.clock import from_us
from bot.errors import DutifulError
from bot.store.export import ExportedRow, ExportedSession, ExportScope, HistoryReader, open_history

Json = dict[str, Any]


class ExportError(DutifulError):
    """Nothing fits what was asked for, or the output cannot be written; the text is for the person at the terminal."""


def export(database: Path, scope: ExportScope, output: Path | None, zone: ZoneInfo) -> None:
    """Write conversations as JSON lines to a file, or to standard output when `output` is None.

    A conversation is a line of type "session", followed by a line of type "message" for each of its rows, oldest
    first. The file appears whole, with mode 0600, or not at all; one that is there is replaced. What is no file, e.g. a
    pipe or a device, is written to as it is.

    Raises:
        ExportError: no conversation is meant, or the file cannot be made.
        OSError: standard output took no more, e.g. because the disk is full.
        StoreError: the database cannot be read.
    """
    with open_history(database) as reader:
        sessions = reader.sessions(scope)
        if not sessions:
            raise ExportError(_nothing(scope))
        with _sink(output) as sink:
            for item in sessions:
                for line in _lines(reader, item, zone):
                    sink.write(orjson.dumps(line) + b"\n")


def list_sessions(database: Path, scope: ExportScope, zone: ZoneInfo) -> list[Json]:
    """Return a summary of each conversation, as `export` writes in its first line.

    Raises:
        StoreError: the database cannot be read.
    """
    with open_history(database) as reader:
        return [_header(item, zone) for item in reader.sessions(scope)]


def _nothing(scope: ExportScope) -> str:
    if scope.session_id is not None:
        where = f" in {scope.chat}" if scope.chat else ""
        return f"there is no conversation {scope.session_id}{where}; `dutiful sessions` lists them"
    if scope.chat:
        return f"there is no conversation in {scope.chat}; `dutiful sessions` lists chats as CHANNEL:CHAT[:THREAD]"
    return "there are no conversations yet"


def _lines(reader: HistoryReader, item: ExportedSession, zone: ZoneInfo) -> Iterator[Json]:
    yield _header(item, zone)
    for row in reader.rows(item.session.id):
        yield _row(row, item, zone)


def _header(item: ExportedSession, zone: ZoneInfo) -> Json:
    session = item.session
    return {
        "type": "session",
        "session": session.id,
        "address": item.address.key,
        "lane": session.lane,
        "title": session.title,
        "created": _iso(session.created_us, zone),
        "used": _iso(session.used_us, zone),
        "archived": None if session.archived_us is None else _iso(session.archived_us, zone),
        "summary": session.summary,
        "rows": item.rows,
    }


def _row(row: ExportedRow, item: ExportedSession, zone: ZoneInfo) -> Json:
    own: Json = {
        "type": "message",
        "session": item.session.id,
        "address": item.address.key,
        "row": row.id,
        "turn": row.turn_id,
        "time": _iso(row.at_us, zone),
        "role": row.body.get("role"),
        "content": row.body.get("content"),
    }
    return own | {name: value for name, value in row.body.items() if name not in own}


def _iso(instant_us: int, zone: ZoneInfo) -> str:
    return from_us(instant_us, zone).isoformat()


@contextmanager
def _sink(output: Path | None) -> Iterator[BinaryIO]:
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    try:
        if output.exists() and not output.is_file():  # a device or a pipe is written to, never put away; a folder fails
            with output.open("wb") as file:
                yield file
            return
        descriptor, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)  # made with mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(output)
        except BaseException:
            with suppress(FileNotFoundError):
                Path(name).unlink()
            raise
    except OSError as exc:
        raise ExportError(f"{output} cannot be written: {exc.strerror}") from exc
