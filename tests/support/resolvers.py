"""A resolver whose answers a test writes down, and every connection that this process tries to make."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bot.web.resolver import Resolver


class ScriptedResolver(Resolver):
    """Answers each name's lookups in turn, the last one again and again; other names are not known."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("__", "-").replace("_", "."): list(lists) for name, lists in answers.items()}
        self.lookups: list[str] = []

    async def lookup(self, host: str, port: int) -> Sequence[str]:
        self.lookups.append(host)
        waiting = self.answers.get(host)
        if not waiting:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    def close(self) -> None:
        pass


_recording: list[list[Any]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _recording and not isinstance(arguments[1], (str, bytes)):
        _recording[-1].append(arguments[1][:2])


sys.addaudithook(_note)  # the interpreter's own view: it cannot be gone around, nor be taken away again


@contextmanager
def connections_tried() -> Iterator[list[tuple[str, int]]]:
    """Give the list of (address, port) that sockets of this process are connected to meanwhile."""
    tried: list[tuple[str, int]] = []
    _recording.append(tried)
    try:
        yield tried
    finally:
        _recording.remove(tried)
