"""The whole service as a process of its own, started and ended the way an operator or a supervisor does it.

    async with Service(folder, telegram=api, model=ai) as service:
        await service.start()
        ...
        assert await service.stop() == 0

Nothing here looks into the process: it is asked through its command line, its health server and the
supervisor's notifications, and read through its standard error and exit code.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.platforms.bot_api import BotApi
from tests.platforms.discord_api import DiscordApi
from tests.platforms.loopback import Bell
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.slack_api import SlackApi

ROOT = Path(__file__).parents[2]
START_S = 45.0  # generous: machines that run tests are busy
EXIT_S = 45.0

Json = dict[str, Any]

_PR_SET_PDEATHSIG = 1  # prctl(2)
_libc = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """Ask the kernel to kill this process with the one that runs the tests, however that one ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Notifications(asyncio.DatagramProtocol):
    """The supervisor's end of NOTIFY_SOCKET: everything the service reported, in order."""

    def __init__(self, bell: Bell) -> None:
        self.seen: list[str] = []
        self._bell = bell

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Keep one report."""
        self.seen.append(data.decode())
        self._bell.ring()


class Service:
    """One installation: a folder with configuration and data, and at most one running process."""

    def __init__(
        self,
        folder: Path,
        *,
        telegram: BotApi | None = None,
        discord: DiscordApi | None = None,
        slack: SlackApi | None = None,
        model: OpenAIApi | None = None,
        sections: Mapping[str, Mapping[str, Any]] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.config = folder / "dutiful.toml"
        self.data_dir = folder / "data"
        self.log = folder / "service.log"
        self.wrapper = tuple(wrapper)
        self.notified: list[str] = []
        self._bell = Bell()
        self._servers = [server for server in (telegram, discord, slack, model) if server is not None]
        for server in self._servers:
            server.patience_s = START_S  # what they wait for may begin with a start
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[int] | None = None
        self._transport: asyncio.DatagramTransport | None = None
        self._address = f"dutiful-test-{uuid.uuid4().hex}"
        folder.mkdir(parents=True, exist_ok=True)
        self.sections: Mapping[str, Mapping[str, Any]] = {}  # what the configuration file says now
        platforms = {**_discord_section(discord), **_slack_section(slack)}
        self.configure(_defaults(self.data_dir, telegram, model), platforms, sections or {})

    def configure(self, *layers: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the configuration file; later layers add to earlier ones and replace their keys."""
        merged: dict[str, dict[str, Any]] = {}
        for layer in layers:
            for name, values in layer.items():
                merged.setdefault(name, {}).update(values)
        lines: list[str] = []
        for name, values in merged.items():
            lines.append(f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]  # TOML's own spelling of these
        self.config.write_text("\n".join(lines) + "\n")
        self.sections = merged

    # --- life

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind("\0" + self._address)  # abstract: no file, and no limit on the folder's length
        self._transport, protocol = await loop.create_datagram_endpoint(
            lambda: Notifications(self._bell), sock=listener
        )
        self.notified = protocol.seen
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.kill()
        if self._transport is not None:
            self._transport.close()

    async def start(self, *, fault: str = "", env: Mapping[str, str] | None = None) -> None:
        """Start `dutiful run` and wait until it reports READY; with a fault armed it may die before or after.

        Raises:
            AssertionError: it ended instead.
        """
        await self.launch(fault=fault, env=env)
        await self.wait_notified("READY=1")

    async def launch(self, *, fault: str = "", env: Mapping[str, str] | None = None) -> None:
        """Start `dutiful run` and return at once."""
        assert self._process is None, "the service runs already"
        self.notified.clear()
        extra = {"NOTIFY_SOCKET": f"@{self._address}", **({"DUTIFUL_FAULT": fault} if fault else {}), **(env or {})}
        with self.log.open("ab") as log:
            self._process = await self._spawn(
                "run", env=extra, stderr=log, stdout=log, stdin=asyncio.subprocess.DEVNULL
            )
        self._watch = asyncio.create_task(self._watch_exit(self._process), name="watch the service")

    async def _watch_exit(self, process: asyncio.subprocess.Process) -> int:
        code = await process.wait()
        for bell in (self._bell, *(server.bell for server in self._servers)):
            asyncio.get_running_loop().call_soon(bell.ring)  # once `running` says so
        return code

    async def _spawn(self, *arguments: str, env: Mapping[str, str], **streams: Any) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self.wrapper,
            sys.executable,
            "-m",
            "bot.cli",
            *arguments,
            "--config",
            str(self.config),
            cwd=self.folder,
            env=_environment(self.folder, env),
            preexec_fn=_die_with_parent,  # safe beside threads: one system call, no locks
            **streams,
        )

    @property
    def pid(self) -> int:
        """The process id of what runs now."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._watch is not None and not self._watch.done()

    async def wait_notified(self, state: str, *, count: int = 1) -> None:
        """Return once the supervisor was told `state` (`count` times) in this start."""
        await self._bell.wait_for(lambda: self.notified.count(state) >= count or not self.running, timeout_s=START_S)
        assert self.notified.count(state) >= count, f"ended instead of {state}:\n{self.tail()}"

    async def wait_exit(self) -> int:
        """Wait until the process has ended by itself; return its exit code, negative for a signal."""
        assert self._watch is not None, "the service does not run"
        async with asyncio.timeout(EXIT_S):
            code = await asyncio.shield(self._watch)
        self._process = self._watch = None
        return code

    async def die(self) -> None:
        """Wait until the armed fault has killed the process; fails if it ended in any other way."""
        code = await self.wait_exit()
        assert code == -signal.SIGKILL, f"ended with {code}:\n{self.tail()}"

    def terminate(self) -> None:
        """Send SIGTERM and return at once."""
        os.kill(self.pid, signal.SIGTERM)

    async def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.terminate()
        return await self.wait_exit()

    async def kill(self) -> None:
        """End the process with SIGKILL, if there is one."""
        if self._process is None:
            return
        if self.running:
            self._process.kill()
        await self.wait_exit()

    # --- beside it

    async def cli(self, *arguments: str, stdin: str | None = None, limit_s: float = 30.0) -> Finished:
        """Run a command of this installation to its end."""
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await self._spawn(*arguments, env={}, stdout=pipe, stderr=pipe, stdin=null if stdin is None else pipe)
        try:
            async with asyncio.timeout(limit_s):
                out, err = await process.communicate(None if stdin is None else stdin.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Finished(code=process.returncode, out=out.decode(), err=err.decode())

    async def ask(self, *arguments: str) -> Any:
        """Run a command with `--json` and return what it printed."""
        done = await self.cli(*arguments, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    async def status(self) -> Json:
        """Return `dutiful status --json`."""
        report: Json = await self.ask("status")
        return report

    async def health(self, path: str) -> tuple[int, Json]:
        """Return status code and body of the health server's `/healthz` or `/readyz`."""
        port = self.health_port()
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.json()

    def health_port(self) -> int:
        """Return the port of `[server] listen`."""
        return int(str(self.sections["server"]["listen"]).rpartition(":")[2])

    def log_text(self) -> str:
        """Return what the service wrote to standard error in all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, limit_chars: int = 4_000) -> str:
        """Return the end of `log_text`, for failure messages."""
        return self.log_text()[-limit_chars:]


def free_port() -> int:
    """Return a port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _defaults(data_dir: Path, telegram: BotApi | None, model: OpenAIApi | None) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {
        "bot": {"data_dir": str(data_dir), "timezone": "Europe/Berlin"},
        "server": {"listen": "off"},
        "log": {"format": "json"},
    }
    if model is not None:
        sections["llm"] = {"base_url": model.url, "model": "test-model"}
    if telegram is not None:
        sections["channels.telegram"] = {"token": telegram.token, "api_url": telegram.url, "allow_from": "*"}
    return sections


def _discord_section(discord: DiscordApi | None) -> dict[str, dict[str, Any]]:
    if discord is None:
        return {}
    urls = {"api_url": discord.url, "gateway_url": discord.gateway_url}
    return {"channels.discord": {"token": discord.token, **urls, "allow_from": "*"}}


def _slack_section(slack: SlackApi | None) -> dict[str, dict[str, Any]]:
    if slack is None:
        return {}
    tokens = {"bot_token": slack.token, "app_token": slack.app_token}
    return {"channels.slack": {**tokens, "api_url": slack.url, "allow_from": "*"}}


def _environment(folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process: ours, without what would reach into the installation."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DUTIFUL_", "XDG_", "OPENAI_"))
        and name not in {"NOTIFY_SOCKET", "STATE_DIRECTORY", "WATCHDOG_USEC", "WATCHDOG_PID"}
    }
    return {**kept, "HOME": str(folder), "PYTHONPATH": str(ROOT), **extra}
