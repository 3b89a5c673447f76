"""From the bot's text to Slack's parts: rich text blocks, cut to what one message takes.

Rich text says formatting in so many words, so that nothing in a text is taken for markup, a ping or an escape, and
posting and changing a message give the same picture. Imports the markdown parser, hence only loaded with the SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.log import get_logger
from bot.messages import OutboundKind, clean_text
from channels.slack.markdown import Kind, Piece, Run, linked, read_markdown
from channels.text import cut_at, utf16_length

PART_UNITS = 3_900
"""Of one message. Slack advises 4,000 characters and refuses to change a longer one with msg_too_long
(https://docs.slack.dev/reference/methods/chat.update, read 2026-11-30)."""

FALLBACK_BYTES = 3_900
"""Of the plain text beside the blocks, for notifications and search; counted strictly, as above."""

MOST_WEIGHT = 11_000
"""Characters of a message's blocks, their containers included. Slack refuses about 12,000 with msg_blocks_too_long;
what it counts is not documented (https://github.com/slackapi/bolt-js/issues/2509, read 2026-11-30)."""

QUICK_CHARS = 300
"""Text whose rendering may stall the loop; more of it, above all a table, takes up to 0.1 ms a character."""

_PIECE_WEIGHT, _RUN_WEIGHT = 80, 50

_GAP = {Kind.TEXT: "\n\n", Kind.HEADING: "\n"}
_SMALL_UNITS = 200  # a smaller rest of a message is left empty rather than filled with a scrap
_MARKDOWN_KINDS = frozenset({OutboundKind.REPLY, OutboundKind.MESSAGE})

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message's worth of text: the elements of its rich text block, and the same as plain text."""

    elements: tuple[dict[str, Any], ...]
    plain: str

    @property
    def fallback(self) -> str:
        """The `text` of the message, escaped as Slack wants it (https://docs.slack.dev/messaging/formatting-message-text)."""
        return fallback(self.plain)


def render(text: str, kind: OutboundKind) -> list[Part]:
    """Return the parts of a message, the same ones each time. No part is blank; blank text has no part."""
    text = clean_text(text)
    if not text.strip():
        return []
    pieces: list[Piece] = []
    if kind in _MARKDOWN_KINDS:
        try:
            pieces = read_markdown(text)
        except Exception as exc:  # noqa: BLE001  # an answer must not be lost to a markup library's bug
            _log.error("markdown not rendered, sent as plain text", error=f"{type(exc).__name__}: {exc}")
    if not any(piece.text.strip() for piece in pieces):
        pieces = [Piece(kind=Kind.TEXT, runs=tuple(linked(text)))]
    filled = (_part(some) for some in _fill(pieces))
    return [part for part in filled if part.plain.strip()]


def escape(text: str) -> str:
    """Return text with Slack's three control characters as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fallback(plain: str) -> str:
    """Return plain text escaped and cut to `FALLBACK_BYTES`."""
    escaped = escape(plain)
    if _size(escaped) <= FALLBACK_BYTES:
        return escaped
    return escape(plain[: cut_at(plain, 0, FALLBACK_BYTES - 3, length=_escaped_size)].rstrip()) + "…"


def _size(text: str) -> int:
    return len(text.encode())


def _escaped_size(text: str) -> int:
    return _size(escape(text))


def _fill(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces of each message, cutting those that do not fit."""
    part: list[Piece] = []
    room, weight_left = PART_UNITS, MOST_WEIGHT
    for whole in pieces:
        piece: Piece | None = whole
        while piece is not None:
            gap = len(_GAP.get(part[-1].kind, "\n")) if part else 0
            size, weight = utf16_length(piece.text) + gap, _weight(piece)
            if size <= room and weight <= weight_left:
                part.append(piece)
                room, weight_left = room - size, weight_left - weight
                break
            units = min(room - gap, _units_by_weight(piece, weight_left))
            fits_alone = size <= PART_UNITS and weight <= MOST_WEIGHT
            half_full = room < PART_UNITS // 2 or weight_left < MOST_WEIGHT // 2
            if not part or (units >= _SMALL_UNITS and not (fits_alone and half_full)):
                first, piece = _cut(piece, units)
                part.append(first)
            yield part
            part, room, weight_left = [], PART_UNITS, MOST_WEIGHT
    if part:
        yield part


def _weight(piece: Piece) -> int:
    """Return about how many characters a piece takes in blocks."""
    return _PIECE_WEIGHT + sum(_RUN_WEIGHT + len(run.text) + len(run.url) for run in piece.runs)


def _units_by_weight(piece: Piece, weight: int) -> int:
    """Return how many units of a piece's text weigh that much."""
    units = 0
    weight -= _PIECE_WEIGHT
    for run in piece.runs:
        weight -= _RUN_WEIGHT + len(run.url)
        if weight <= 0:
            break
        taken = min(utf16_length(run.text), weight)
        units, weight = units + taken, weight - taken
    return units


def _cut(piece: Piece, room: int) -> tuple[Piece, Piece | None]:
    """Return what of a piece fits into `room` units, and its rest."""
    at = cut_at(piece.text, 0, room)
    before: list[Run] = []
    after: list[Run] = []
    for run in piece.runs:
        if at > 0:
            before.append(replace(run, text=run.text[:at]))
        if len(run.text) > max(at, 0):
            after.append(replace(run, text=run.text[max(at, 0) :]))
        at -= len(run.text)
    rest = replace(piece, runs=tuple(after), is_rest=True) if after else None
    return replace(piece, runs=tuple(before)), rest


def _part(pieces: Sequence[Piece]) -> Part:
    elements: list[dict[str, Any]] = []
    plain: list[str] = []
    previous: Piece | None = None
    for piece in pieces:
        plain.append(_plain(piece, previous))
        runs = _elements(piece.runs)
        if not runs:
            continue
        _add(elements, piece, runs, previous)
        previous = piece
    return Part(elements=tuple(elements), plain="".join(plain).strip("\n"))


def _add(elements: list[dict[str, Any]], piece: Piece, runs: list[dict[str, Any]], previous: Piece | None) -> None:
    """Append a piece to the elements of a rich text block.

    https://docs.slack.dev/reference/block-kit/blocks/rich-text-block (read 2026-11-30)
    """
    match piece.kind:
        case Kind.CODE:
            elements.append({"type": "rich_text_preformatted", "elements": runs})
        case Kind.QUOTE:
            elements.append({"type": "rich_text_quote", "elements": runs})
        case Kind.ITEM:
            section = {"type": "rich_text_section", "elements": runs}
            if previous is not None and previous.follows_in_list(piece):
                elements[-1]["elements"].append(section)
                return
            made: dict[str, Any] = {"type": "rich_text_list", "style": "bullet" if piece.number is None else "ordered"}
            made |= {"indent": min(piece.indent, 8), "border": int(piece.quoted), "elements": [section]}
            if piece.number is not None and piece.number > 1:
                made["offset"] = piece.number - 1
            elements.append(made)
        case _:
            if previous is not None and previous.kind in _GAP:
                elements[-1]["elements"] += [{"type": "text", "text": _GAP[previous.kind]}, *runs]
            elif previous is not None and previous.kind is Kind.ITEM:
                elements.append({"type": "rich_text_section", "elements": [{"type": "text", "text": "\n"}, *runs]})
            else:
                elements.append({"type": "rich_text_section", "elements": runs})


def _elements(runs: Sequence[Run]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for run in runs:
        if not run.text:
            continue
        element: dict[str, Any] = {"type": "text", "text": run.text}
        if run.url:
            element = {"type": "link", "url": run.url, "text": run.text}
        if run.style:
            element["style"] = dict.fromkeys(sorted(run.style), True)
        made.append(element)
    return made


def _plain(piece: Piece, previous: Piece | None) -> str:
    gap = "" if previous is None else _GAP.get(previous.kind, "\n")
    mark = ""
    if piece.kind is Kind.ITEM and not piece.is_rest:
        mark = "  " * piece.indent + ("• " if piece.number is None else f"{piece.number}. ")
    return f"{gap}{mark}{piece.text}"
