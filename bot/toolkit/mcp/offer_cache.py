"""What servers offered last time, kept so that their tools exist before they answer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from bot.config import McpSection
from bot.log import get_logger
from bot.toolkit.mcp.listing import PROMPTS, RESOURCES, TEMPLATES, TOOLS, fault_in
from bot.toolkit.mcp.offers import Offer

_MAX_BYTES = 64 * 1024 * 1024
_WORDS = frozenset({"instructions", "server_name", "server_version", "protocol_version"})

_log = get_logger(__name__)


def identity(section: McpSection) -> str:
    """Return a hash of what decides which server a section leads to; its secrets cannot be read from it."""
    parts = {
        "command": section.command,
        "args": section.args,
        "env": sorted((name, value.get_secret_value()) for name, value in section.env.items()),
        "cwd": str(section.cwd or ""),
        "url": section.url,
        "transport": section.transport,
        "headers": sorted((name, value.get_secret_value()) for name, value in section.headers.items()),
        "auth": section.auth,
    }
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()


class OfferCache:
    """One file for each server, `NAME.json`, for this user only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, name: str, section: McpSection) -> Offer | None:
        """Return what the server offered last; None when that is not known, or the section means another one now."""
        try:
            path = self._folder / f"{name}.json"
            if path.stat().st_size > _MAX_BYTES:
                return None
            stored = orjson.loads(path.read_bytes())
            return _offer(stored["offer"]) if stored["identity"] == identity(section) else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("kept tools of an mcp server cannot be read", server=name, error=str(error)[:200])
            return None

    def load_all(self, sections: Mapping[str, McpSection]) -> dict[str, Offer]:
        """Return what is known of these servers, by name."""
        found = {name: self.load(name, section) for name, section in sections.items()}
        return {name: offer for name, offer in found.items() if offer is not None}

    def save(self, name: str, section: McpSection, offer: Offer) -> None:
        """Keep an offer; a disk that is full is no reason to do without the server."""
        temporary = self._folder / f".{name}.{uuid4().hex}"
        try:
            data = orjson.dumps({"identity": identity(section), "offer": _plain(offer)})
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            temporary.replace(self._folder / f"{name}.json")
        except (OSError, TypeError) as error:
            _log.warning("tools of an mcp server cannot be kept", server=name, error=str(error)[:200])
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def forget(self, name: str) -> None:
        """Remove what is kept of a server."""
        with suppress(OSError):
            (self._folder / f"{name}.json").unlink(missing_ok=True)


def _plain(offer: Offer) -> dict[str, Any]:
    return {item.name: getattr(offer, item.name) for item in fields(offer)}  # `asdict` would copy every leaf


def _lists(values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [values[name] for name in ("tools", "resources", "resource_templates", "prompts")]


def _offer(stored: Any) -> Offer:
    values: dict[str, Any] = {}
    for item in fields(Offer):
        value = stored[item.name]
        if not isinstance(value, str if item.name in _WORDS else list):
            raise TypeError(f"{item.name} has an unexpected form")
        values[item.name] = value if isinstance(value, str) else tuple(value)
    for kind, entries in zip((TOOLS, RESOURCES, TEMPLATES, PROMPTS), _lists(values), strict=True):
        if any(fault_in(kind, entry) for entry in entries):
            raise TypeError(f"an entry is no {kind.word}")
    if not all(isinstance(fault, str) for fault in values["faults"]):
        raise TypeError("a fault is no sentence")
    return Offer(**values)
