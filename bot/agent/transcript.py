"""Stored rows as text for a model that reads them as data: who said what, which tools did what, on bounded room.

What people and the bot said is kept whole as far as any room goes; what tools returned is what gives way.
"""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from bot.agent.governor_squeeze import cut_middle
from bot.clock import from_us
from bot.conversation import HistoryRow
from bot.records import Message

SAID_CHARS = 12_000  # of one message; longer ones lose their middle
ARGUMENTS_CHARS = 400
RESULT_CHARS = 800


def line_of(row: HistoryRow, zone: ZoneInfo) -> str:
    """Return a row as text with its local time, '' when nothing in it is worth reading."""
    said = cut_middle(row.text, SAID_CHARS)
    role = row.message.get("role")
    if role == "tool":
        content = row.message.get("content")
        text = content if isinstance(content, str) else "(picture)"
        return f"[tool result] {_indented(cut_middle(text.strip(), RESULT_CHARS))}" if text.strip() else ""
    when = f"{from_us(row.at_us, zone):%Y-%m-%d %H:%M}"
    calls = [
        f"[bot calls {_indented(name)}] {_indented(cut_middle(arguments, ARGUMENTS_CHARS))}"
        for name, arguments in _calls(row.message)
    ]
    if role == "user" and said:
        who = f"user {row.sender_id}" if row.sender_id else "user"
        return f"[{when}] {who}: {_indented(said)}"
    if role == "assistant":
        return "\n".join(([f"[{when}] bot: {_indented(said)}"] if said else []) + calls)
    return ""


def portions(parts: Iterable[tuple[str, int]], limit_chars: int) -> list[tuple[str, int]]:
    """Return the parts (text, last row) joined to portions of at most `limit_chars`, each with the last row it ends.

    A part that is longer is spread over several portions; those that do not hold its end have the row before it.
    """
    out: list[tuple[str, int]] = []
    text, last = "", 0
    for part, row_id in parts:
        rest = part
        if text and len(text) + 1 + len(rest) > limit_chars:
            out.append((text, last))
            text = ""
        while len(rest) > limit_chars:
            out.append((rest[:limit_chars], last))
            rest = rest[limit_chars:]
        text, last = (f"{text}\n{rest}" if text and rest else text or rest), row_id
    if text or (last and (not out or out[-1][1] != last)):
        out.append((text, last))
    return out


def _indented(text: str) -> str:
    """Return a text with all lines but the first moved in: at the margin begin ours alone, which say who speaks."""
    return "\n  ".join(text.splitlines())


def _calls(message: Message) -> list[tuple[str, str]]:
    """Return name and arguments of each call; a row may have anything in their place."""
    calls = message.get("tool_calls")
    found = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            found.append((str(function.get("name", "")), str(function.get("arguments", ""))))
    return found
