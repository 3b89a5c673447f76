"""The way to `oauth`, which imports the SDK, for those who are built before any server is connected to."""

from __future__ import annotations

import importlib
from pathlib import Path
from threading import Lock
from typing import Any

from bot.config import McpSection
from bot.web.resolver import Resolver


class LateLogins:
    """See `asks.OAuthOf`; called in threads."""

    def __init__(self, data_dir: Path, resolver: Resolver | None = None) -> None:
        self._data_dir = data_dir
        self._resolver = resolver
        self._lock = Lock()
        self._logins: Any = None

    def __call__(self, server: str, section: McpSection) -> Any:
        """Return what sends a server's login along, None while nobody has logged in. Blocks."""
        with self._lock:
            if self._logins is None:
                # Importing it costs what the SDK costs, over a second.
                self._logins = importlib.import_module("bot.toolkit.mcp.oauth").Logins(self._data_dir, self._resolver)
            return self._logins.of(server, section)
