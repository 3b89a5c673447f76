"""From the bot's text to Discord's: Markdown as it is shown there, cut to the platform's limit.

Discord formats most Markdown by itself. Changed is what it would show raw: tables become fixed-width text, pictures
links, small headings bold lines. Reminders and notices are escaped, so that they are shown word for word.
Imports the Markdown parser (20 ms), hence only loaded with the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyromark

from bot.log import get_logger
from bot.messages import OutboundKind, clean_text
from channels.tables import columns
from channels.text import cut_at, split_text

TEXT_LIMIT = 2000
"""Characters (code points) of one message (https://docs.discord.com/developers/resources/message#create-message, read
2026-11-30)."""

_MARKDOWN_KINDS = frozenset({OutboundKind.REPLY, OutboundKind.MESSAGE})
_OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
_RULE = "\\_\\_\\_"
_SMALL_HEADINGS = frozenset({"H4", "H5", "H6"})  # Discord knows three sizes

_SPECIAL = r"\\*_~`|\[\]<>#+\-.)"
_ESCAPABLE = re.compile(
    r"(?P<link>https?://[^\s<]+[^\s<.,:;\"'\])])"  # a backslash would become part of the address
    r"|(?P<mark>[\\*_~`|\[\]<])"
    r"|^(?P<space>[ \t]*)(?P<line>[>#+\-])"  # quotes, headings and lists exist only at the beginning of a line
    r"|^(?P<number>[ \t]*\d+)(?P<dot>[.)])",
    re.MULTILINE,
)
_COUNTED = re.compile(f"[{_SPECIAL}]")
_BORDER_MARKS = 2  # a part may begin where no line began: its first mark is escaped as well

_log = get_logger(__name__)


def render(text: str, kind: OutboundKind, *, limit: int = TEXT_LIMIT) -> list[str]:
    """Return the texts of a message's parts, the same ones each time. No part is blank; blank text has no part."""
    text = clean_text(text)
    if not text.strip():
        return []
    if kind in _MARKDOWN_KINDS:
        return [part for part in split_text(_markdown(text), limit, length=len) if part.strip()]
    return [escape(part) for part in _pieces(text, limit - _BORDER_MARKS)]


def escape(text: str) -> str:
    """Return text that Discord shows word for word."""
    return _ESCAPABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    if found["link"]:
        return found[0]
    if found["mark"]:
        return f"\\{found['mark']}"
    if found["line"]:
        return f"{found['space']}\\{found['line']}"
    return f"{found['number']}\\{found['dot']}"


def _escaped_length(text: str) -> int:
    """Return the most characters a text can have once it is escaped."""
    return len(text) + len(_COUNTED.findall(text))


def _pieces(text: str, limit: int) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = cut_at(text, at, limit, length=_escaped_length)
        if text[at:end].strip():  # a blank message is refused
            yield text[at:end]
        at = end


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A stretch of the source, in bytes, and what takes its place."""

    start: int
    end: int
    text: str


def _markdown(text: str) -> str:
    try:
        changes = list(_changes(text))
    except Exception as exc:  # noqa: BLE001  # an answer must not be lost to a markup library's bug
        _log.error("markdown not read, sent as it is", error=f"{type(exc).__name__}: {exc}")
        return text
    source = text.encode()
    out = bytearray()
    at = 0
    for change in changes:
        if change.start < at:
            continue  # inside one that was changed already
        out += source[at : change.start] + change.text.encode()
        at = change.end
    return (out + source[at:]).decode()


def _changes(text: str) -> Iterator[_Change]:
    """Yield what has to be changed, in order."""
    source = text.encode()
    events = iter(pyromark.events_with_range(text, options=_OPTIONS))
    for event, place in events:
        start, end = place["start"], place["end"]
        if event == "Rule":
            yield _Change(start=start, end=end, text=f"{_RULE}{_line_end(source, end)}")
            continue
        if not isinstance(event, dict):
            continue
        opened = event.get("Start")
        if "TaskListMarker" in event:
            yield _Change(start=start, end=end, text="☑" if event["TaskListMarker"] else "☐")
        elif isinstance(opened, dict) and "Table" in opened:
            table = _table(events, opened["Table"])
            yield _Change(start=start, end=end, text=f"```\n{table}\n```{_line_end(source, end)}")
        elif isinstance(opened, dict) and "Image" in opened:
            label = source[start:end].decode().partition("![")[2].partition("]")[0]
            address = str(opened["Image"]["dest_url"])
            yield _Change(start=start, end=end, text=f"[{label}]({address})" if label else address)
        elif isinstance(opened, dict) and "Heading" in opened and opened["Heading"]["level"] in _SMALL_HEADINGS:
            words = source[start:end].decode().strip().strip("#").strip()
            bold = words if "**" in words else f"**{words}**"
            yield _Change(start=start, end=end, text=f"{bold}{_line_end(source, end)}" if words else "")


def _line_end(source: bytes, end: int) -> str:
    return "\n" if source[end - 1 : end] == b"\n" else ""


def _table(events: Iterator[Any], alignments: Any) -> str:
    """Return a table as fixed-width text; takes its events up to its end."""
    rows: list[list[str]] = []
    for event, _ in events:
        if event in ({"Start": "TableHead"}, {"Start": "TableRow"}):
            rows.append([])
        elif event == {"Start": "TableCell"}:
            rows[-1].append("")
        elif isinstance(event, dict) and ("Text" in event or "Code" in event):
            rows[-1][-1] += event.get("Text") or event.get("Code") or ""
        elif isinstance(event, dict) and isinstance(event.get("End"), str) and event["End"] == "Table":
            break
    return columns([[cell.replace("```", "'''") for cell in row] for row in rows], [str(side) for side in alignments])
