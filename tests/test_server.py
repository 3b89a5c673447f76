"""The health endpoints over a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from bot.errors import ConfigError
from bot.server import HealthServer

Report = tuple[bool, dict[str, Any]]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Reports:
    """What the engine would say."""

    health: Report = (True, {"stopped": []})
    readiness: Report = (True, {"channels": {}})


@asynccontextmanager
async def serving(reports: Reports) -> AsyncIterator[str]:
    port = free_port()
    server = HealthServer("127.0.0.1", port, health=lambda: reports.health, readiness=lambda: reports.readiness)
    server.bind()
    await server.serve()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.close()


async def get(url: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.json(content_type=None)


async def test_both_reports_are_true_to_the_moment() -> None:
    reports = Reports()
    async with serving(reports) as url:
        assert await get(f"{url}/healthz") == (200, {"ok": True, "stopped": []})
        reports.health = (False, {"stopped": ["delivery"]})
        assert await get(f"{url}/healthz") == (503, {"ok": False, "stopped": ["delivery"]})
        assert await get(f"{url}/readyz") == (200, {"ok": True, "channels": {}})
        reports.readiness = (False, {"channels": {"telegram": "offline"}})
        assert await get(f"{url}/readyz") == (503, {"ok": False, "channels": {"telegram": "offline"}})
        reports.health = reports.readiness = (True, {})
        assert (await get(f"{url}/healthz"))[0] == (await get(f"{url}/readyz"))[0] == 200


async def test_who_asks_before_the_server_is_ready_waits_for_its_answer() -> None:
    port = free_port()
    server = HealthServer("127.0.0.1", port, health=lambda: (True, {}), readiness=lambda: (False, {}))
    server.bind()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as early:
            early.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            await server.serve()
            answer = await asyncio.to_thread(early.recv, 1000)
        assert answer.startswith(b"HTTP/1.0 503")
    finally:
        await server.close()


async def test_an_ipv6_address_will_do() -> None:
    server = HealthServer("::1", 0, health=lambda: (True, {}), readiness=lambda: (True, {}))
    server.bind()
    await server.close()


async def test_nothing_else_is_served() -> None:
    async with serving(Reports()) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/") as response:
            assert response.status == 404
        async with session.post(f"{url}/healthz") as response:
            assert response.status == 405


async def test_an_address_in_use_is_a_mistake_in_the_configuration() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = HealthServer("127.0.0.1", port, health=lambda: (True, {}), readiness=lambda: (True, {}))
        with pytest.raises(ConfigError, match=rf"\[server\] listen: cannot listen on 127\.0\.0\.1:{port}: .*in use"):
            server.bind()
        await server.close()


async def test_closing_frees_the_port_and_may_be_repeated() -> None:
    port = free_port()
    server = HealthServer("127.0.0.1", port, health=lambda: (True, {}), readiness=lambda: (True, {}))
    await server.close()
    for _ in range(2):
        server.bind()
        await server.serve()
        assert (await get(f"http://127.0.0.1:{port}/healthz"))[0] == 200
        await server.close()
        await server.close()
    with pytest.raises(aiohttp.ClientConnectorError):
        await get(f"http://127.0.0.1:{port}/healthz")
