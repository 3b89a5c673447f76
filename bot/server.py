"""Health over HTTP: `/healthz` says whether the process works, `/readyz` whether it can serve right now.

A dead network makes the bot unready, never unhealthy: restarting would not help. Unhealthy means that a loop
of ours has stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bot.errors import ConfigError

if TYPE_CHECKING:
    from aiohttp import web

Report = Callable[[], tuple[bool, dict[str, Any]]]


class HealthServer:
    """Serves two reports, each a pair of (well, details)."""

    def __init__(self, host: str, port: int, *, health: Report, readiness: Report) -> None:
        self._host = host
        self._port = port
        self._reports = {"/healthz": health, "/readyz": readiness}
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address cannot be used.
        """
        from aiohttp import web  # 160 ms of import that a terminal chat need not pay

        app = web.Application()
        for path in self._reports:
            app.router.add_get(path, self._answer)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as exc:
            await self.close()
            raise ConfigError(
                f"[server] listen: cannot listen on {self._host}:{self._port}: {exc.strerror or exc}; "
                'choose another address, or "off"'
            ) from exc

    async def close(self) -> None:
        """Stop listening; idempotent."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web  # loaded by `start`

        well, details = self._reports[request.path]()
        return web.json_response({"ok": well, **details}, status=200 if well else 503)
