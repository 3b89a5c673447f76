"""The bot ends, suddenly or in order: no command of it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from bot.config.tools import ExecSection
from tests.support.commands import PATIENCE_S, Rope, both_modes
from tests.support.program import ROOT

BOT = """
import asyncio, signal, sys
from pathlib import Path
from bot.config.tools import ExecSection
from tests.support.commands import OWNER, commands

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    section = ExecSection(sandbox=sys.argv[2], unsandboxed=sys.argv[2] == "off")
    async with commands(Path(sys.argv[1]), section) as desk:
        launch = await desk.shell.prepare(OWNER, ["bash", "-c", sys.argv[3]])
        await desk.shell.start(launch)
        await stop.wait()

if sys.argv[4] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""

HOLD_ON = "(setsid sh -c '(sleep 4321 &); exit' &); trap '' TERM INT HUP; sleep 4321 & sleep 4321"


@both_modes
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_no_child_outlives_the_bot(
    tmp_path: Path, section: ExecSection, number: signal.Signals, loop: str
) -> None:
    """C083; and kill -9 of the bot."""
    root = tmp_path / "workspace" / "chats" / "telegram=3A1"
    root.mkdir(parents=True, mode=0o700)
    rope = Rope(root)
    bot = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BOT, str(tmp_path), section.sandbox, f"{rope.hold}; {HOLD_ON}", loop),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=PIPE,
    )
    try:
        await rope.held()
    finally:
        bot.send_signal(number)
    async with asyncio.timeout(PATIENCE_S):
        _, err = await bot.communicate()
    assert bot.returncode == (0 if number is signal.SIGTERM else -signal.SIGKILL), err.decode()
    await rope.released()
