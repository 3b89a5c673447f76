"""The command line. Each command does its late imports itself: `--help` must not wait for the engine's."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import NoReturn

from bot.cli.commands import app
from bot.cli.process import EXIT_CONFIG, EXIT_FAILURE, run_main
from bot.errors import ConfigError, DutifulError

__all__ = ["app", "main", "run_main"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def main() -> None:
    """Entry point: errors of ours become one message and an exit code, never a traceback."""
    if sys.stdout is None or sys.stderr is None:  # started with >&- or 2>&-
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # lives as long as the process
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode still shows the rest
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # `dutiful status | head`: nobody reads on. Python flushes again at exit, and that must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(EXIT_FAILURE)
    except ConfigError as exc:
        _fail(exc, EXIT_CONFIG)
    except DutifulError as exc:
        _fail(exc, EXIT_FAILURE)
    except OSError as exc:
        if exc.errno not in _FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _fail(f"the output cannot be written: {exc.strerror}", EXIT_FAILURE)


def _fail(exc: DutifulError | str, code: int) -> NoReturn:
    print(f"dutiful: {exc}", file=sys.stderr)
    sys.exit(code)
