"""Markdown as pieces: paragraphs, list items, quotes and code, each a row of styled runs. Knows nothing of blocks.

Tables become text in columns, since Slack takes one table a message and shows it apart from the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyromark

from channels.tables import columns

_OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_URL = re.compile(r"https?://[^\s<>\"'`|\u3000-\u303f\uff00-\uffef]+", re.IGNORECASE)
_URL_END = ".,:;!?)]}*_~'\""
_LINKS = re.compile(r"(?:https?://|mailto:|tel:)[^\s<>]{1,2900}", re.IGNORECASE)
_STYLES = {"Strong": "bold", "Emphasis": "italic", "Strikethrough": "strike"}
_RULE = "─" * 16


class Kind(StrEnum):
    """What a piece is."""

    TEXT = "text"
    HEADING = "heading"
    ITEM = "item"
    QUOTE = "quote"
    CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Text in one style (bold, italic, strike, code), perhaps a link."""

    text: str
    style: frozenset[str] = frozenset()
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A paragraph or the like. `number`, `indent` and `quoted` are a list item's; `is_rest` one that was cut."""

    kind: Kind
    runs: tuple[Run, ...]
    indent: int = 0
    number: int | None = None
    quoted: bool = False
    is_rest: bool = False

    @property
    def text(self) -> str:
        """What it says, without styles."""
        return "".join(run.text for run in self.runs)

    def follows_in_list(self, item: Piece) -> bool:
        """Say whether `item` stands in the same list right after this one."""
        same = (self.kind, self.indent, self.quoted) == (item.kind, item.indent, item.quoted)
        if self.number is None or item.number is None:
            return same and self.number is item.number
        return same and item.number == self.number + 1


def read_markdown(text: str) -> list[Piece]:
    """Return the pieces of a Markdown text; HTML is text as any other."""
    walker = _Walker()
    for event in pyromark.events(text, options=_OPTIONS):
        walker.take(event)
    walker.flush()
    return walker.pieces


def linked(text: str, style: frozenset[str] = frozenset()) -> Iterator[Run]:
    """Yield the runs of plain text: addresses of pages become links that read as they are."""
    at = 0
    for match in _URL.finditer(text):
        url = match[0].rstrip(_URL_END)
        if match[0][len(url) :].startswith(")") and url.count("(") > url.count(")"):
            url += ")"
        end = match.start() + len(url)
        if not _LINKS.fullmatch(url) or "://" not in url or url.endswith("://"):
            continue
        if match.start() > at:
            yield Run(text=text[at : match.start()], style=style)
        yield Run(text=url, style=style, url=url)
        at = end
    if at < len(text):
        yield Run(text=text[at:], style=style)


class _Walker:
    """Turns the parser's events into pieces."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._runs: list[Run] = []
        self._styles: list[str] = []
        self._lists: list[int | None] = []  # the number of the next item, None for bullets
        self._number: list[int | None] = []  # of the items that are open
        self._fresh = False  # nothing of the open item is out yet
        self._quotes = 0
        self._heading = False
        self._code: list[str] | None = None
        self._urls: list[tuple[str, int]] = []  # address, and how many runs stood before the link
        self._alignments: tuple[str, ...] = ()
        self._rows: list[list[str]] = []
        self._in_table = False

    def take(self, event: Any) -> None:
        """Take the next event: a string, or an object with one key."""
        if isinstance(event, str):
            self._mark(event)
            return
        ((name, value),) = event.items()
        match name:
            case "Start":
                self._start(*_tag(value))
            case "End":
                self._end(*_tag(value))
            case "Text" if self._code is not None:
                self._code.append(str(value))
            case "Text":
                self._say(str(value))
            case "Code":
                self._add(str(value), "code")
            case "Html" | "InlineHtml":
                self._say("\n" if _BREAK.fullmatch(str(value).strip()) else str(value))
            case "TaskListMarker":
                self._add("☑ " if value else "☐ ")
            case _:
                self._say(str(value))

    def flush(self) -> None:
        """End the piece that is open."""
        runs, self._runs = _trimmed(self._runs), []
        if not runs:
            return
        if self._number and self._fresh:
            self._fresh = False
            indent, number = len(self._number) - 1, self._number[-1]
            item = Piece(kind=Kind.ITEM, runs=runs, indent=indent, number=number, quoted=self._quotes > 0)
            self.pieces.append(item)
            return
        kind = Kind.QUOTE if self._quotes else Kind.HEADING if self._heading else Kind.TEXT
        self.pieces.append(Piece(kind=kind, runs=runs))

    def _mark(self, name: str) -> None:
        if name in {"SoftBreak", "HardBreak"}:
            self._add("\n")
        elif name == "Rule":
            self.flush()
            self.pieces.append(Piece(kind=Kind.TEXT, runs=(Run(text=_RULE),)))

    def _start(self, name: str, value: Any) -> None:
        match name:
            case "Paragraph" if self._runs:
                self._add("\n")  # the second one of a list item or a quote
            case "Heading":
                self.flush()
                self._heading = True
                self._styles.append("bold")
            case "List":
                self.flush()
                self._lists.append(value)
            case "Item":
                self._number.append(self._lists[-1])
                if self._lists[-1] is not None:
                    self._lists[-1] += 1
                self._fresh = True
            case "BlockQuote":
                self.flush()
                self._quotes += 1
            case "CodeBlock":
                self.flush()
                self._code = []
            case "Link" | "Image":
                self._urls.append((str(value["dest_url"]), len(self._runs)))
            case "Table":
                self.flush()
                self._alignments, self._rows, self._in_table = tuple(value), [], True
            case "TableHead" | "TableRow":
                self._rows.append([])
            case _ if name in _STYLES:
                self._styles.append(_STYLES[name])

    def _end(self, name: str, value: Any) -> None:
        del value
        match name:
            case "Paragraph" if not self._number and not self._quotes:
                self.flush()
            case "HtmlBlock":
                self.flush()
            case "Heading":
                self._styles.pop()
                self.flush()
                self._heading = False
            case "Item":
                self.flush()
                self._number.pop()
                self._fresh = False
            case "List":
                self._lists.pop()
            case "BlockQuote":
                self.flush()
                self._quotes -= 1
            case "CodeBlock":
                self._preformatted("".join(self._code or ()).rstrip("\n"))
                self._code = None
            case "Link" | "Image":
                self._end_link(*self._urls.pop())
            case "TableCell":
                self._rows[-1].append("".join(run.text for run in self._runs).strip())
                self._runs = []
            case "Table":
                self._in_table = False
                self._preformatted(columns(self._rows, self._alignments))
            case _ if name in _STYLES:
                self._styles.pop()

    def _preformatted(self, text: str) -> None:
        if text.strip():
            self.pieces.append(Piece(kind=Kind.CODE, runs=(Run(text=text),)))

    def _end_link(self, url: str, since: int) -> None:
        label = self._runs[since:]
        text = "".join(run.text for run in label)
        if not _LINKS.fullmatch(url):  # a place nobody can go to from here, such as a file's path
            if url and url not in text:
                self._add(f" ({url})" if text else url)
            return
        if self._in_table or not text.strip():
            shown = f" ({url})" if text.strip() and text.strip() != url else "" if text.strip() else url
            self._runs[since:] = [*label, Run(text=shown)] if self._in_table else [Run(text=url, url=url)]
            return
        self._runs[since:] = [Run(text=run.text, style=run.style, url=url) for run in label]

    def _say(self, text: str) -> None:
        if self._urls or self._in_table:
            self._add(text)
        else:
            self._runs.extend(linked(text, frozenset(self._styles)))

    def _add(self, text: str, *styles: str) -> None:
        self._runs.append(Run(text=text, style=frozenset([*self._styles, *styles])))


def _tag(value: Any) -> tuple[str, Any]:
    """Return name and content of a tag: `"Strong"` or `{"Heading": {...}}`."""
    if isinstance(value, str):
        return value, None
    ((name, content),) = value.items()
    return str(name), content


def _trimmed(runs: list[Run]) -> tuple[Run, ...]:
    """Return runs without line ends at either side; neighbours of one style are joined."""
    joined: list[Run] = []
    for run in runs:
        if joined and not run.url and not joined[-1].url and joined[-1].style == run.style:
            joined[-1] = Run(text=joined[-1].text + run.text, style=run.style)
        else:
            joined.append(run)
    if joined:
        joined[0] = Run(text=joined[0].text.lstrip("\n"), style=joined[0].style, url=joined[0].url)
        joined[-1] = Run(text=joined[-1].text.rstrip("\n"), style=joined[-1].style, url=joined[-1].url)
    return tuple(run for run in joined if run.text)
