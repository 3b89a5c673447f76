"""Health over HTTP: `/healthz` says whether the process works, `/readyz` whether it can serve right now.

A dead network makes the bot unready, never unhealthy: restarting would not help. Unhealthy means that a loop
of ours has stopped.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bot.errors import ConfigError

if TYPE_CHECKING:
    from aiohttp import web

Report = Callable[[], tuple[bool, dict[str, Any]]]


class HealthServer:
    """Serves two reports, each a pair of (well, details). First `bind`, then `serve`."""

    def __init__(self, host: str, port: int, *, health: Report, readiness: Report) -> None:
        self._host = host
        self._port = port
        self._reports = {"/healthz": health, "/readyz": readiness}
        self._socket: socket.socket | None = None
        self._runner: web.AppRunner | None = None

    def bind(self) -> None:
        """Take the address. From now on connections wait in the kernel until `serve` answers them.

        Raises:
            ConfigError: the address cannot be used.
        """
        try:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            self._socket = socket.create_server((self._host, self._port), family=family)
        except OSError as exc:
            raise ConfigError(
                f"[server] listen: cannot listen on {self._host}:{self._port}: {exc.strerror or exc}; "
                'choose another address, or "off"'
            ) from exc

    async def serve(self) -> None:
        """Answer requests until `close`. Loads aiohttp in a thread, 0.15 s that nobody should wait for."""
        await asyncio.to_thread(importlib.import_module, "aiohttp.web")
        from aiohttp import web  # loaded in the line above

        assert self._socket is not None, "bind comes first"
        app = web.Application()
        for path in self._reports:
            app.router.add_get(path, self._answer)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket).start()

    async def close(self) -> None:
        """Stop listening; idempotent."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web  # loaded by `serve`

        well, details = self._reports[request.path]()
        return web.json_response({"ok": well, **details}, status=200 if well else 503)
