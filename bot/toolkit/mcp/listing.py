"""Lists of a server, read leniently: a bad entry is left out and named, and the rest stays.

The SDK refuses a whole list for one bad entry. So each page is looked at before it: the entries as the server wrote
them are kept aside, and the SDK is given what little it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bot.security.untrusted import on_one_line
from bot.toolkit.mcp.aside import Aside
from bot.toolkit.mcp.offers import Json
from bot.toolkit.mcp.session import Limits

_NAME_CHARS = 100
_HEADER_WORD = b"x-mcp-header"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of list: its method, the key of its entries, the entries' own key, and the word for one."""

    method: str
    key: str
    named_by: str
    word: str


TOOLS = Kind(method="tools/list", key="tools", named_by="name", word="tool")
RESOURCES = Kind(method="resources/list", key="resources", named_by="uri", word="resource")
TEMPLATES = Kind(
    method="resources/templates/list", key="resourceTemplates", named_by="uriTemplate", word="resource template"
)
PROMPTS = Kind(method="prompts/list", key="prompts", named_by="name", word="prompt")
KINDS: Mapping[str, Kind] = {kind.method: kind for kind in (TOOLS, RESOURCES, TEMPLATES, PROMPTS)}


def for_sdk(kind: Kind, result: Json, aside: Aside) -> dict[str, Any]:
    """Return a page as the SDK takes it, with the server's own entries aside; `entries_of` reads them back."""
    entries = result.get(kind.key)
    raw = entries if isinstance(entries, list) else []
    page = {key: value for key, value in result.items() if key not in (kind.key, "nextCursor", "_meta")}
    cursor = result.get("nextCursor")
    if isinstance(cursor, str):
        page["nextCursor"] = cursor
    page[kind.key] = [_bare(entry) for entry in raw if kind is TOOLS and not fault_in(kind, entry)]
    page["_meta"] = aside.keep(raw)
    return page


def entries_of(meta: Mapping[str, Any] | None, aside: Aside) -> list[Any]:
    """Return the server's own entries of a page that went through `for_sdk`; once."""
    raw = aside.take(dict(meta or {}))
    return raw if isinstance(raw, list) else []


@dataclass(slots=True, kw_only=True)
class Listing:
    """The entries of one kind over all pages, within bounds, and what was left out."""

    kind: Kind
    entries: dict[str, Json] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    size_bytes: int = 0
    is_full: bool = False

    def add(self, raw: list[Any], *, left_out: Mapping[str, str] | None = None) -> None:
        """Take the entries of a page. `left_out` are names that the protocol forbids to use, with the reason."""
        for entry in raw:
            if self.is_full:
                return
            fault = fault_in(self.kind, entry)
            name = _name_of(self.kind, entry)
            if not fault and left_out and name in left_out:
                fault = left_out[name]
            if not fault and name in self.entries:
                fault = "it is listed twice"
            if fault:
                self.faults.append(f"{self.kind.word} {_shown(name)} is left out: {fault}")
                continue
            self._take(name, entry)

    def _take(self, name: str, entry: Json) -> None:
        try:
            size = len(orjson.dumps(entry))
        except TypeError:  # integers beyond 64 bits
            self.faults.append(f"{self.kind.word} {_shown(name)} is left out: it cannot be written as JSON")
            return
        if size > Limits.ENTRY_BYTES:
            self.faults.append(f"{self.kind.word} {_shown(name)} is left out: it has {size:,} bytes")
        elif len(self.entries) >= Limits.ENTRIES or self.size_bytes + size > Limits.LISTING_BYTES:
            self.cut(f"there are more than {Limits.ENTRIES:,}, or they are too long")
        else:
            self.entries[name] = entry
            self.size_bytes += size

    def cut(self, why: str) -> None:
        """Take no more."""
        self.is_full = True
        self.faults.append(f"the list of {self.kind.word}s is cut: {why}")


def fault_in(kind: Kind, entry: Any) -> str:
    """Return what makes an entry unusable, '' for nothing."""
    if not isinstance(entry, Mapping):
        return "it is no object"
    name = entry.get(kind.named_by)
    if not isinstance(name, str) or not name:
        return f"it has no {kind.named_by}"
    if kind is TOOLS:
        schema = entry.get("inputSchema")
        if not isinstance(schema, Mapping):
            return "it has no inputSchema"
        if schema.get("type", "object") != "object":
            return f"its inputSchema is for {str(schema['type'])[:50]!r}, not for an object"
    return ""


def _bare(entry: Json) -> dict[str, Any]:
    """Return what the SDK needs of a tool: the headers that 2026-07-28 mirrors are named in its input schema."""
    schema = entry["inputSchema"] if _names_headers(entry["inputSchema"]) else {}
    return {"name": entry["name"], "inputSchema": {**schema, "type": "object"}}


def _names_headers(schema: Json) -> bool:
    """Say whether a schema may name headers: the SDK walks such a schema, which takes long, and no other."""
    try:
        return _HEADER_WORD in orjson.dumps(schema)
    except TypeError:  # integers beyond 64 bits
        return True


def _name_of(kind: Kind, entry: Any) -> str:
    name = entry.get(kind.named_by) if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else ""


def _shown(name: str) -> str:
    return repr(on_one_line(name)[:_NAME_CHARS]) if name else "without a name"
