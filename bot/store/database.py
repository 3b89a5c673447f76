"""One SQLite file, one writer thread, one reader thread.

A unit of work is a plain function over a `sqlite3.Connection`; it runs whole on the writer's thread inside
BEGIN IMMEDIATE. Units that wait while another one runs are committed together, each in a savepoint of its
own, so that one commit serves a burst. What the tables mean is the business of the modules beside this one.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from bot.errors import DutifulError, StoreError, StoreUnavailable

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

BUSY_TIMEOUT_S = 10.0
"""How long a write waits for another process's transaction before it gives up."""

_RETRY_S = 0.01

_GROUP_MAX = 256
"""Units in one commit; bounds how long the first of a burst waits for its answer."""


class _Thread(aiosqlite.Connection):
    """An aiosqlite connection that runs a whole function on its thread instead of one statement.

    aiosqlite's public calls cost a thread hop per statement (about 50 us each); a transaction of five
    statements is one hop this way. Its own `_execute` is the mechanism, kept behind this one method.
    """

    async def call(self, function: Callable[[sqlite3.Connection], T]) -> T:
        result: T = await self._execute(function, self._conn)  # type: ignore[no-untyped-call]
        return result

    def post(self, function: Callable[[sqlite3.Connection], None]) -> None:
        """Run a function on the thread without an answer: one that tells the loop itself need not wake it twice."""
        self._tx.put_nowait((None, partial(function, self._conn)))

    def let_go(self) -> None:
        """Let the process end without waiting for this thread, should it ever die before it can close."""
        self._thread.daemon = True

    async def gone(self) -> None:
        """Wait for the thread of a connection that could not be made: it still reports to this loop."""
        await asyncio.to_thread(self._thread.join)


class _Pending:
    """One unit that waits for the writer."""

    __slots__ = ("durable", "error", "future", "result", "work")

    def __init__(self, work: Work[Any], durable: bool, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.durable = durable
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Hand the outcome to the waiter; on the loop's thread."""
        if self.future.done():  # the waiter was cancelled; the commit stands all the same
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Database:
    """Open with `open`, close with `close`; `write` and `read` in between."""

    def __init__(self, writer: _Thread, reader: _Thread, path: Path) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._pending: deque[_Pending] = deque()
        self._draining = False
        self._reads_ended = False
        self._writes_ended = False
        self._synchronous = ""
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, path: Path) -> Database:
        """Open or create the file and bring its schema up to date.

        Raises:
            StoreUnavailable: the folder or file cannot be written.
            StoreError: the file is no database, is damaged, or was written by a newer version.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            writer = await _connect(path)
        except (OSError, sqlite3.Error) as exc:
            raise _translate(exc, path) from exc
        try:
            await writer.call(_migrate)
            reader = await _connect(path)
            await reader.call(lambda conn: conn.execute("PRAGMA query_only = ON").close())
        except BaseException as exc:
            await writer.close()
            if isinstance(exc, sqlite3.Error):
                raise _translate(exc, path) from exc
            raise
        return cls(writer, reader, path)

    async def write(self, work: Work[T], *, durable: bool = False) -> T:
        """Run a unit in a transaction and return its result after the commit.

        `durable` commits with synchronous=FULL: the result survives power loss, not only the process. An
        exception of the unit rolls back this unit alone and is raised here.

        Raises:
            StoreUnavailable: full disk, read-only file, or another process kept the lock too long.
            StoreError: the database is closed.
        """
        if self._writes_ended:
            raise self._is_closed()
        pending = _Pending(work, durable, self._loop.create_future())
        self._pending.append(pending)
        try:
            if not self._draining:
                self._draining = True  # before the thread may run and take it back
                self._writer.post(self._drain)
            result: T = await pending.future
        except asyncio.CancelledError:
            pending.future.cancel()  # nobody waits any more; an error must not be reported as never retrieved
            raise
        return result

    async def read(self, work: Work[T]) -> T:
        """Run a query function on the reader's thread.

        Raises:
            StoreError: the database is closed, or damaged.
        """
        if self._reads_ended:
            raise self._is_closed()
        try:
            return await self._reader.call(work)
        except sqlite3.Error as exc:
            raise _translate(exc, self.path) from exc

    def read_soon(self, work: Work[None]) -> None:
        """Run a function on the reader's thread without waiting for it; a closed database does nothing."""
        if not self._reads_ended:
            self._reader.post(work)

    async def close(self) -> None:
        """Finish what is queued and close both connections; idempotent."""
        # Before each end: a closing thread answers nobody who asks it later, and they would wait for ever.
        self._reads_ended = True
        await self._reader.close()
        self._writes_ended = True
        await self._writer.close()

    def _is_closed(self) -> StoreError:
        return StoreError(f"{self.path}: the database is closed")

    def _drain(self, conn: sqlite3.Connection) -> None:
        """Commit everything that waits; on the writer's thread."""
        self._draining = False  # before the first pop: whoever appends from now on starts the next round
        while self._pending:
            group = [self._pending.popleft() for _ in range(min(len(self._pending), _GROUP_MAX))]
            try:
                self._commit(conn, group)
            except BaseException as exc:  # noqa: BLE001 - a bug of ours: whoever waits must hear of it
                for unit in group:
                    unit.error = unit.error or exc
            self._loop.call_soon_threadsafe(_settle, group)

    def _commit(self, conn: sqlite3.Connection, group: list[_Pending]) -> None:
        mode = "FULL" if any(unit.durable for unit in group) else "NORMAL"
        try:
            if mode != self._synchronous:
                conn.execute(f"PRAGMA synchronous = {mode}")
                self._synchronous = mode
            conn.execute("BEGIN IMMEDIATE")
            for unit in group:
                self._run(conn, unit, alone=len(group) == 1)
            if conn.in_transaction:
                conn.execute("COMMIT")
        except sqlite3.Error as exc:
            error = _translate(exc, self.path)
            for unit in group:
                unit.error = error
            if conn.in_transaction:
                conn.execute("ROLLBACK")

    def _run(self, conn: sqlite3.Connection, unit: _Pending, *, alone: bool) -> None:
        """Run one unit; its own failure undoes only itself."""
        if not alone:
            conn.execute("SAVEPOINT unit")
        try:
            unit.result = unit.work(conn)
        except sqlite3.OperationalError:
            raise  # disk full, I/O error: the whole transaction is in doubt
        except Exception as exc:  # noqa: BLE001 - handed to the waiter, see _Pending.settle
            unit.error = _translate(exc, self.path) if isinstance(exc, sqlite3.Error) else exc
            conn.execute("ROLLBACK" if alone else "ROLLBACK TO unit")
        if not alone:
            conn.execute("RELEASE unit")


def _settle(group: list[_Pending]) -> None:
    for unit in group:
        unit.settle()


async def _connect(path: Path) -> _Thread:
    def connect() -> sqlite3.Connection:
        # Made beforehand for its mode, which the files beside it inherit: conversations are nobody else's.
        # Only where there is none: closing a file that SQLite has open would drop its locks.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        conn = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        _use_wal(conn)
        conn.execute("PRAGMA foreign_keys = ON")
        return conn

    thread = _Thread(connect, iter_chunk_size=64)
    thread.let_go()
    try:
        await thread
    except BaseException:
        await thread.gone()
        raise
    return thread


def _use_wal(conn: sqlite3.Connection) -> None:
    """Switch the file to WAL, which SQLite refuses at once, without its usual wait, while another process does so."""
    until = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            conn.execute("PRAGMA journal_mode = WAL").close()
        except sqlite3.OperationalError as exc:
            # The extended codes tell kinds of busy apart; the lowest byte is what they have in common.
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def _migrate(conn: sqlite3.Connection) -> None:
    """Run the numbered migrations the file has not seen, each in its own transaction."""
    folder = resources.files("bot.store").joinpath("migrations")
    scripts = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    scripts.sort(key=lambda entry: entry.name)
    while True:
        conn.execute("BEGIN IMMEDIATE")  # the version is read under the lock: two processes may start at once
        try:
            known = int(conn.execute("PRAGMA user_version").fetchone()[0])
            if known > len(scripts):
                raise StoreError(
                    f"the database is at schema version {known}, this version of dutiful knows {len(scripts)}; "
                    "install the newer dutiful or restore a backup"
                )
            if known == len(scripts):
                return
            for statement in _statements(scripts[known].read_text()):
                conn.execute(statement)
            conn.execute(f"PRAGMA user_version = {known + 1}")
            conn.execute("COMMIT")
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements; `executescript` would commit before its first one."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _translate(exc: BaseException, path: Path) -> DutifulError:
    """Return our error for one of SQLite's or the file system's."""
    text = str(exc)
    if isinstance(exc, sqlite3.OperationalError | OSError):
        return StoreUnavailable(f"{path}: {text}")
    return StoreError(f"{path}: {text}")
