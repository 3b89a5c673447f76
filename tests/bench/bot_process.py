"""`dutiful run` as a process, configured for a bench; ready is told over a notification socket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

TOKEN = "123:ABC"


@dataclass(frozen=True, slots=True, kw_only=True)
class BotProcess:
    """A process that said READY after `ready_s` seconds."""

    pid: int
    ready_s: float
    folder: Path


@asynccontextmanager
async def bot_process(
    *, telegram_url: str = "", model_url: str = "", seed: Path | None = None
) -> AsyncIterator[BotProcess]:
    with tempfile.TemporaryDirectory() as name:
        folder = seed or Path(name)
        lines = [
            "[bot]",
            f'data_dir = "{folder}/data"',
            'timezone = "Europe/Berlin"',
            "[server]",
            'listen = "127.0.0.1:0"',
            "[channels.console]",
        ]
        if telegram_url:
            lines += [
                "[channels.telegram]",
                f'token = "{TOKEN}"',
                f'api_url = "{telegram_url}"',
                'allow_from = ["111"]',
            ]
        if model_url:
            lines += ["[llm]", f'base_url = "{model_url}"', 'model = "bench"']
        config = folder / "dutiful.toml"
        config.write_text("\n".join(lines) + "\n")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            address = str(Path(name) / "notify")
            bell.bind(address)
            bell.setblocking(False)
            began = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "bot.cli",
                "run",
                "--config",
                str(config),
                env={**os.environ, "NOTIFY_SOCKET": address},
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(bell, 100), 30)
                assert data == b"READY=1", data
                yield BotProcess(pid=process.pid, ready_s=time.perf_counter() - began, folder=folder)
            finally:
                process.send_signal(signal.SIGTERM)
                await asyncio.wait_for(process.wait(), 30)
