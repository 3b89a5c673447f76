"""What every command needs: its settings, its logging, its event loop, and the service beside it.

Late imports everywhere: `--help` must not wait for the engine's.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.errors import AlreadyRunning

if TYPE_CHECKING:
    from bot.config import Config

EXIT_FAILURE, EXIT_CONFIG = 1, 78


def load(path: Path | None, *, secrets: bool = True) -> Config:
    """Read the configuration, with its secrets unless a running service has read them. Raises `ConfigError`."""
    from bot.parts import load_settings  # pydantic is not needed for --help

    return load_settings(path, secrets=secrets)


def set_up_logging(settings: Config, *, quiet: bool) -> None:
    """Log as configured; `quiet`: errors only, unless more than warnings is asked for."""
    from bot.log import setup_logging  # structlog is not needed for --help

    level = "error" if quiet and settings.log.level in ("info", "warning") else settings.log.level
    setup_logging(level=level, format=settings.log.format, secrets=settings.secrets())


def run_main(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a service's main coroutine on uvloop, which halves the loop's own share of a turn."""
    import asyncio  # 100 ms that --help need not pay

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def run_command(main: Coroutine[Any, Any, Any], *, fast: bool = False) -> Any:
    """Run a command's coroutine; a signal cancels it, so that it puts everything back, and decides the exit code."""
    import asyncio  # 100 ms that --help need not pay

    caught: list[int] = []

    async def guarded() -> Any:
        task = asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            caught.append(number)
            if len(caught) == 1:  # a terminal that goes away sends several; the next would cut the clean-up short
                task.cancel()

        for number in stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        return await main

    try:
        return run_main(guarded()) if fast else asyncio.run(guarded())
    except asyncio.CancelledError:
        sys.exit(128 + caught[0] if caught else EXIT_FAILURE)


def stop_signals() -> list[signal.Signals]:
    """Return the signals that mean "end in order", without those that whoever started us has us ignore (nohup)."""
    wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    return [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]


def ends_with_terminal() -> bool:
    """Say whether this was started by hand in a terminal: SIGHUP means then that the terminal is gone."""
    return any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


async def ask(settings: Config, command: str, **arguments: Any) -> Any:
    """Ask the process that holds the data directory, or be it for a moment."""
    from bot.app import Engine  # as in `run`
    from bot.control import connect
    from bot.terminal import wait_for_engine

    connection = await connect(settings.bot.data_dir)
    if connection is not None:
        try:
            return await connection.request(command, **arguments)
        finally:
            await connection.close()
    set_up_logging(settings, quiet=True)
    try:
        engine = await Engine.open(settings, console_only=True, delivers=False)
    except AlreadyRunning:
        connection = await wait_for_engine(settings)
        try:
            return await connection.request(command, **arguments)
        finally:
            await connection.close()
    try:
        return await engine.desk.handlers()[command](dict(arguments))
    finally:
        await engine.close()


async def ask_running(settings: Config, command: str) -> Any:
    """Ask the running service; there is nothing to be asked of a stopped one."""
    from bot.control import ControlError, connect  # as in `run`

    connection = await connect(settings.bot.data_dir)
    if connection is None:
        raise ControlError("dutiful is not running; it reads its configuration when it starts")
    try:
        return await connection.request(command)
    finally:
        await connection.close()
