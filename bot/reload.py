"""Follows the configuration file while the service runs, as far as that is possible: the servers of [mcp.*].

A file with a problem changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bot.config import Config
from bot.log import get_logger, setup_logging
from bot.parts import load_settings
from bot.toolkit.mcp.manager import McpManager, ServerChanges

_FOLLOWED = frozenset({"mcp"})
_NO_SECTIONS = frozenset({"path", "unread", "plugins"})

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a new configuration did. `needs_restart` are the sections that count only after a restart."""

    servers: ServerChanges
    needs_restart: tuple[str, ...] = ()


async def follow(path: Path | None, running: Config, mcp: McpManager) -> tuple[Config, Reloaded]:
    """Read the file again and let the servers follow it. Returns the configuration that counts now.

    Raises:
        ConfigError: the file has problems; nothing was changed.
    """
    fresh = await asyncio.to_thread(load_settings, path)
    config = replace(running, mcp=fresh.mcp)
    if added := fresh.secrets() - running.secrets():  # before anybody can say them
        secrets = running.secrets() | added
        setup_logging(level=running.log.level, format=running.log.format, secrets=secrets)
    servers = await mcp.reload(fresh.mcp)
    waiting = _changed(running, fresh)
    if waiting:
        _log.warning("sections of the configuration count only after a restart", sections=waiting)
    return config, Reloaded(servers=servers, needs_restart=tuple(waiting))


def _changed(running: Config, fresh: Config) -> list[str]:
    """Return the names of the sections that differ."""
    found: list[str] = []
    for item in fields(Config):
        if item.name in _FOLLOWED | _NO_SECTIONS:
            continue
        before, after = getattr(running, item.name), getattr(fresh, item.name)
        if item.name == "channels":
            found += _changed_keys("channels.", before, after)
        elif before != after:
            found.append(item.name)
    plugins = (
        {name: value for name, value in config.plugins.items() if not name.startswith("channels.")}
        for config in (running, fresh)
    )
    return sorted([*found, *_changed_keys("", *plugins)])


def _changed_keys(prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    names = before.keys() | after.keys()
    return [f"{prefix}{name}" for name in names if before.get(name) != after.get(name)]
