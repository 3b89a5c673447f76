"""The control socket: how commands on this machine reach the process that holds the data directory.

One JSON object a line in both directions over a unix socket of mode 0600. A request names a command and gets
one answer, `{"ok": …}` or `{"error": "…"}`; the command `chat` turns the connection into a terminal. The
client's half is here too, so that the protocol stands in one place.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from bot.errors import DutifulError
from bot.log import get_logger

Json = dict[str, Any]
Handler = Callable[[Json], Awaitable[Any]]
Dialogue = Callable[["Connection"], Awaitable[None]]

LINE_LIMIT_BYTES = 4 * 1024 * 1024
CONNECT_S = 5.0
ANSWER_S = 30.0

_log = get_logger(__name__)


class ControlError(DutifulError):
    """The other side refused a request or is gone; the text is for the person at the terminal."""


class Connection:
    """One JSON object a line, both ways."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, value: Any) -> None:
        """Write one object.

        Raises:
            ControlError: the other side is gone.
        """
        try:
            self._writer.write(orjson.dumps(value) + b"\n")
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as exc:
            raise ControlError("the connection to dutiful is gone") from exc

    async def receive(self) -> Json | None:
        """Read one object; None at the end.

        Raises:
            ControlError: not the protocol, or the connection broke.
        """
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except (ConnectionError, asyncio.LimitOverrunError) as exc:
            raise ControlError(f"the control connection broke: {exc}") from exc
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as exc:
            raise ControlError("not a JSON line") from exc
        if not isinstance(value, dict):
            raise ControlError("not a JSON object")
        return value

    async def request(self, command: str, **arguments: Any) -> Any:
        """Send a command and return its answer.

        Raises:
            ControlError: refused, or no answer in time.
        """
        await self.send({"cmd": command, **arguments})
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self.receive()
        except TimeoutError as exc:
            raise ControlError(f"dutiful did not answer within {ANSWER_S:g} s") from exc
        if answer is None:
            raise ControlError("dutiful went away without an answer")
        if "error" in answer:
            raise ControlError(str(answer["error"]))
        return answer.get("ok")

    async def close(self) -> None:
        """Close; idempotent."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class ControlServer:
    """Listens while its context is open. `handlers` by command; `chat` gets the whole connection."""

    def __init__(self, data_dir: Path, handlers: Mapping[str, Handler], chat: Dialogue) -> None:
        self._data_dir = data_dir
        self._handlers = handlers
        self._chat = chat
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. The caller holds the directory's lock, so a socket that is there is a dead process's."""
        with _socket_path(self._data_dir) as path:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - one system call, before anything else runs
            mask = os.umask(0o177)
            try:
                self._server = await asyncio.start_unix_server(self._serve, path, limit=LINE_LIMIT_BYTES)
            finally:
                os.umask(mask)

    async def close(self) -> None:
        """Stop listening and end open connections; idempotent."""
        if self._server is not None:
            self._server.close()
            for task in list(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            self._server = None
        (self._data_dir / "control.sock").unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        connection = Connection(reader, writer)
        try:
            while (request := await connection.receive()) is not None:
                if request.get("cmd") == "chat":
                    await self._chat(connection)
                    break
                await connection.send(await self._answer(request))
        except ControlError as exc:
            _log.debug("control connection ended", error=str(exc))
        except asyncio.CancelledError:
            if not task.cancelling():
                raise
        finally:
            self._open.discard(task)
            await connection.close()

    async def _answer(self, request: Json) -> Json:
        command = str(request.pop("cmd", ""))
        handler = self._handlers.get(command)
        if handler is None:
            return {"error": f"unknown command {command!r}; this dutiful knows {', '.join(sorted(self._handlers))}"}
        try:
            return {"ok": await handler(request)}
        except (DutifulError, KeyError, TypeError, ValueError) as exc:
            return {"error": str(exc)}


async def connect(data_dir: Path) -> Connection | None:
    """Return a connection to the process that holds the data directory; None when nobody listens.

    Raises:
        ControlError: somebody listens but does not let us in.
    """
    try:
        with _socket_path(data_dir) as path:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_unix_connection(path, limit=LINE_LIMIT_BYTES)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return None  # what is wrong with the folder is said by who tries to use it
    except PermissionError as exc:
        raise ControlError(f"{data_dir}/control.sock belongs to another user; run this as that user") from exc
    except (OSError, TimeoutError) as exc:
        raise ControlError(f"cannot reach the running dutiful: {exc}") from exc
    return Connection(reader, writer)


class _socket_path:  # noqa: N801 - used as a function
    """The socket's path, short enough for the kernel's 108 bytes however long the directory's is."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._folder = -1

    def __enter__(self) -> str:
        self._folder = os.open(self._data_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._folder}/control.sock"

    def __exit__(self, *exc: object) -> None:
        os.close(self._folder)
