"""The control socket: requests and answers, what is refused, and who may connect."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.control import LINE_LIMIT_BYTES, Connection, ControlError, ControlServer, connect
from bot.errors import StoreUnavailable

Json = dict[str, Any]


async def echo(request: Json) -> Json:
    return request


async def fail(_request: Json) -> Json:
    raise StoreUnavailable("the disk is full")


async def chat(connection: Connection) -> None:
    await connection.send({"ok": "talk"})
    while (event := await connection.receive()) is not None:
        await connection.send({"heard": event["say"]})


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[ControlServer]:
    server = ControlServer(folder, {"echo": echo, "fail": fail}, chat)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Connection]:
    connection = await connect(folder)
    assert connection is not None
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ControlServer]:
    async with listening(tmp_path) as made:
        yield made


async def test_a_request_gets_its_answer(server: ControlServer, tmp_path: Path) -> None:
    async with connected(tmp_path) as connection:
        assert await connection.request("echo", text="naïve\n", number=3) == {"text": "naïve\n", "number": 3}
        assert await connection.request("echo") == {}


async def test_an_error_of_ours_comes_back_as_its_text_and_the_connection_goes_on(
    server: ControlServer, tmp_path: Path
) -> None:
    async with connected(tmp_path) as connection:
        with pytest.raises(ControlError, match=r"^the disk is full$"):
            await connection.request("fail")
        assert await connection.request("echo", n=1) == {"n": 1}


async def test_an_unknown_command_names_those_there_are(server: ControlServer, tmp_path: Path) -> None:
    async with connected(tmp_path) as connection:
        with pytest.raises(ControlError, match="unknown command 'eco'; this dutiful knows echo, fail"):
            await connection.request("eco")


async def test_chat_hands_over_the_whole_connection(server: ControlServer, tmp_path: Path) -> None:
    async with connected(tmp_path) as connection:
        await connection.send({"cmd": "chat"})
        assert await connection.receive() == {"ok": "talk"}
        for text in ("one", "two"):
            await connection.send({"say": text})
            assert await connection.receive() == {"heard": text}


async def test_connections_are_served_side_by_side(server: ControlServer, tmp_path: Path) -> None:
    async with connected(tmp_path) as first, connected(tmp_path) as second:
        await first.send({"cmd": "chat"})
        assert await first.receive() == {"ok": "talk"}
        assert await second.request("echo", n=2) == {"n": 2}


@pytest.mark.parametrize("sent", [b"no json\n", b"[1]\n", b"\xff\xfe\n", b"x" * (LINE_LIMIT_BYTES + 10) + b"\n"])
async def test_what_is_not_the_protocol_ends_that_connection_only(
    server: ControlServer, tmp_path: Path, sent: bytes
) -> None:
    reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock")
    writer.write(sent)
    try:
        async with asyncio.timeout(10):
            assert await reader.read() == b""
    except ConnectionResetError:
        pass  # the server did not want to read the rest
    writer.close()
    async with connected(tmp_path) as connection:
        assert await connection.request("echo", n=1) == {"n": 1}


async def test_only_the_owner_of_the_data_can_connect(server: ControlServer, tmp_path: Path) -> None:
    assert (tmp_path / "control.sock").stat().st_mode & 0o777 == 0o600


async def test_the_socket_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "control.sock"))
    assert await connect(tmp_path) is None
    async with listening(tmp_path), connected(tmp_path) as connection:
        assert await connection.request("echo", n=1) == {"n": 1}


async def test_nobody_listens_where_there_is_no_folder_socket_or_server(tmp_path: Path) -> None:
    assert await connect(tmp_path / "missing") is None
    (tmp_path / "file").write_text("")
    assert await connect(tmp_path / "file") is None
    async with listening(tmp_path):
        pass
    assert await connect(tmp_path) is None
    assert not (tmp_path / "control.sock").exists()


async def test_a_folder_with_a_long_name_will_do(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)  # a socket's own path is limited to 108 bytes
    folder.mkdir()
    async with listening(folder), connected(folder) as connection:
        assert await connection.request("echo", n=1) == {"n": 1}


async def test_closing_ends_open_connections(tmp_path: Path) -> None:
    async with listening(tmp_path) as server, connected(tmp_path) as idle, connected(tmp_path) as talking:
        await talking.send({"cmd": "chat"})
        assert await talking.receive() == {"ok": "talk"}
        await server.close()
        assert await idle.receive() is None
        assert await talking.receive() is None


async def test_a_side_that_goes_away_is_told_apart_from_an_answer(server: ControlServer, tmp_path: Path) -> None:
    async with connected(tmp_path) as connection:
        await connection.request("echo")
        await server.close()
        with pytest.raises(ControlError):
            await connection.request("echo")
