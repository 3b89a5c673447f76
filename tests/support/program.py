"""The command `dutiful` as a process of its own, with an empty home and nothing of this machine's settings."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT_S = 30.0

COMMAND = (sys.executable, "-m", "bot.cli")

WITHOUT_ROOT_POWERS: tuple[str, ...] = (
    ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--") if os.geteuid() == 0 else ()
)
"""Before a command: permissions bind it, also when the tests run as root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a process left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, parsed."""
        return json.loads(self.out)


class Program:
    """Starts `dutiful` with one home folder, and a configuration if one was written."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / "dutiful.toml"
        self.data = home / "data"
        self.env: dict[str, str] = {}
        self.prefix: Sequence[str] = ()

    def configure(self, text: str = "") -> None:
        """Write the configuration; the data folder is the home's."""
        self.config.write_text(f'[bot]\ndata_dir = "{self.data}"\ntimezone = "Europe/Berlin"\n{text}\n')

    def environment(self) -> dict[str, str]:
        """Return the process's whole environment."""
        kept = {name: value for name, value in os.environ.items() if name.startswith("COV_CORE_") or name == "PATH"}
        return {**kept, "HOME": str(self.home), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default", **self.env}

    async def start(self, *arguments: str) -> Process:
        """Start a command; its standard streams are pipes."""
        return await asyncio.create_subprocess_exec(
            *self.prefix,
            *COMMAND,
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=self.home,
            env=self.environment(),
        )

    async def run(self, *arguments: str, stdin: bytes = b"") -> Finished:
        """Run a command to its end."""
        process = await self.start(*arguments)
        return await finish(process, stdin)

    @asynccontextmanager
    async def service(self) -> AsyncIterator[Process]:
        """Have `dutiful run` running and ready."""
        process = await self.start("run")
        assert process.stderr is not None
        lines: list[bytes] = []
        try:
            async with asyncio.timeout(LIMIT_S):
                while line := await process.stderr.readline():
                    lines.append(line)
                    if b'"ready"' in line:
                        break
                else:
                    raise AssertionError(b"".join(lines).decode())
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await finish(process)


async def finish(process: Process, stdin: bytes = b"") -> Finished:
    """Wait for a process to end, kill it when it does not."""
    try:
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate(stdin)
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
        raise AssertionError(f"did not end: {out.decode()!r} {err.decode()!r}") from None
    assert process.returncode is not None
    return Finished(code=process.returncode, out=out.decode(), err=err.decode())
