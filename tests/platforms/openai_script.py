"""What the scripted model says: replies, and the rules that choose one for a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Call = tuple[str, Mapping[str, Any] | str] | tuple[str, Mapping[str, Any] | str, str]

CONTEXT_MARK = "[Runtime Context"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """One answer of the model, with what goes wrong on its way.

    A call is (name, arguments[, id]); arguments given as a string go out as they are. A chunk is one SSE
    event; the counts of `cut_after` and `stall_after` include the opening one that carries
    the role; a count beyond the content strikes before the end.
    """

    text: str = ""
    tool_calls: Sequence[Call] = ()
    finish_reason: str | None = None  # None: "tool_calls" or "stop"
    reasoning: str = ""  # sent as reasoning_content, before the text
    usage: Mapping[str, Any] | None = None  # None: estimated
    chunks: Sequence[str] | None = None  # how a stream splits the text; None: every 16 characters
    hold: asyncio.Event | None = None  # nothing is answered before the test sets it
    status: int = 200  # with `body`: the whole answer; a status without body makes an error object
    body: Mapping[str, Any] | bytes | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    drop_before: bool = False  # close the connection without an answer
    cut_after: int | None = None  # chunks, then the socket closes (not streaming: half of the body)
    stall_after: int | None = None  # chunks, then silence with the socket open (not streaming: at once)
    stall_until: asyncio.Event | None = None  # ends the silence; None: only the client does
    drip_s: float = 0.0  # wait before each chunk
    error_stream: Mapping[str, Any] | None = None  # sent as {"error": ...} after the text instead of an end
    end_without_finish: bool = False  # the stream just ends: no finish_reason, no [DONE]
    no_finish_reason: bool = False  # finish_reason stays null, [DONE] comes
    broken_json: bool = False  # the last chunk of the text (the body) is cut in the middle
    empty_choices: bool = False  # chunks with choices [] first and last
    null_delta: bool = False  # a chunk with delta null after the first


@dataclass(slots=True)
class Rule:
    """Replies for requests whose last user message contains `fragment`; used up one by one."""

    fragment: str
    replies: list[Reply] | Callable[[Json], Reply | None]
    hits: int = 0

    def choose(self, request: Json, last_text: str) -> Reply | None:
        """Return the next reply if this rule applies and has one."""
        if self.fragment not in last_text:
            return None
        if callable(self.replies):
            reply = self.replies(request)
        else:
            reply = self.replies.pop(0) if self.replies else None
        self.hits += reply is not None
        return reply


@dataclass(slots=True)
class Script:
    """Chooses the reply for a request: rules in order of their adding, then `replies`, then `default`."""

    replies: list[Reply] | Callable[[Json], Reply | None] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    default: Callable[[Json], Reply] = field(default=lambda request: Reply(text=echo(request)))

    def choose(self, request: Json) -> Reply:
        """Return the reply for a request, taking it out of its queue."""
        if self.rules:
            text = last_user_text(request)
            for rule in self.rules:
                if (reply := rule.choose(request, text)) is not None:
                    return reply
        if callable(self.replies):
            chosen = self.replies(request)
        else:
            chosen = self.replies.pop(0) if self.replies else None
        return self.default(request) if chosen is None else chosen


def text_of(message: Json) -> str:
    """Return the text of a message, whether its content is a string or parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content or ""


def last_user_text(request: Json) -> str:
    """Return the text of the last user message, with its runtime context."""
    for message in reversed(request.get("messages", [])):
        if message.get("role") == "user":
            return text_of(message)
    return ""


def echo(request: Json) -> str:
    """Return the first line of what the user said last, without the runtime context."""
    said = last_user_text(request).partition(CONTEXT_MARK)[0].strip()
    return said.partition("\n")[0] or "(nothing said)"
