"""What a scripted MCP server saw and did, in order: what tests wait for and count."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.platforms.mcp_script import Json


class Record:
    """The events of one server.

    Each is an object with `event`: "received" (method, params, id; over HTTP also headers), "answered" (by the client
    to one of the server's own requests: id, result or error), "performed" (tool, arguments), "cancelled" (id, method,
    by: "message" or "disconnect"), "matched" (fault); in a process also "started" (pid), "grandchild" (pid),
    "signal" (number), "ended" (reason, pid).
    """

    def __init__(self, listener: Callable[[Json], None] = lambda event: None) -> None:
        self.events: list[Json] = []
        self._listener = listener

    def add(self, event: str, **more: object) -> None:
        """Append an event and tell the listener."""
        self.append({"event": event, **more})

    def append(self, event: Json) -> None:
        """Append an event that is already an object."""
        self.events.append(event)
        self._listener(event)

    def of(self, event: str) -> list[Json]:
        """Return the events of one kind."""
        return [entry for entry in self.events if entry["event"] == event]

    def received(self, method: str) -> list[Json]:
        """Return the messages of a method that came from clients."""
        return [entry for entry in self.of("received") if entry["method"] == method]

    def calls(self, tool: str) -> list[Json]:
        """Return the arguments of each call of a tool that arrived, performed or not."""
        return [
            entry["params"].get("arguments") or {}
            for entry in self.received("tools/call")
            if entry["params"].get("name") == tool
        ]

    def performed(self, tool: str) -> int:
        """Return how many calls of a tool took effect."""
        return sum(entry["tool"] == tool for entry in self.of("performed"))

    def cancelled(self) -> list[Json]:
        """Return the requests that clients gave up."""
        return self.of("cancelled")


def read_log(path: Path) -> Record:
    """Return what the log file of a server in a process of its own tells, of all its runs; a missing file is empty."""
    record = Record()
    if path.exists():
        for line in path.read_text().splitlines():
            record.append(json.loads(line))
    return record
