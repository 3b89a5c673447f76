"""The provider that needs no model: it understands reminders, and says honestly that it knows nothing else.

It answers through the same tool calls a model would make, so that receipts, limits and rights are the same.
Deterministic: the reply follows from the request alone. Reading sentences is the phrases modules' part.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import orjson

from bot.clock import Clock, SystemClock, from_us
from bot.interfaces import ModelReply, ModelRequest, Provider
from bot.messages import NO_REPLY, ToolCall
from bot.providers.phrases_intents import (
    Add,
    Ambiguous,
    Intent,
    KnownJob,
    ListJobs,
    NeedJobs,
    NotFound,
    Pause,
    Refuse,
    Remove,
    Resume,
)
from bot.providers.stand_in import STAND_IN_CALL_PREFIX
from bot.records import Message
from bot.texts import say

_CONTEXT = "\n\n[Runtime Context"
_QUOTE = re.compile(r"\A\[(Quoted message|Forwarded message|Earlier messages).*?\[/\1\](?:\n\n|\Z)", re.DOTALL)
_JOB_LINE = re.compile(r"^• (?P<title>.+) — .*\[(?P<id>job-\w+)\]$", re.MULTILINE)
_CALL_ID = re.compile(rf"{STAND_IN_CALL_PREFIX}(?P<index>\d+)-")
_REACTION = "[Reaction "
_TOOL = "cron"

_Call = tuple[int, dict[str, Any]]  # the place of the message it is made for, and its arguments


class OfflineProvider(Provider):
    """Answers without a network. `clock` tells the instant that relative times count from.

    `stands_in`: there is a model, which cannot be reached now; what needs it is told so.
    """

    name: ClassVar[str] = "offline"
    needs_network: ClassVar[bool] = False

    def __init__(self, clock: Clock | None = None, *, stands_in: bool = False) -> None:
        self._clock = clock or SystemClock()
        self._stands_in = stands_in

    async def warm_up(self) -> None:
        """See `Provider.warm_up`: the patterns of a language are compiled at its first use."""
        await asyncio.to_thread(_understand, "remind me tomorrow at 9 to begin", now=self._now("UTC"))

    def understands(self, request: ModelRequest) -> bool:
        """Say whether a message of the turn is about reminders and the tool for them is there."""
        if not _has_tool(request.tools):
            return False
        now = self._now(request.zone)
        return any(_understand(said.text, now=now, language=request.language) is not None for said in _said_in(request))

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`. Never raises `ProviderError`."""
        reply = await asyncio.to_thread(self._reply, request)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    def _reply(self, request: ModelRequest) -> ModelReply:
        """Do what the turn's messages ask for, then answer each in its order with what the tool said."""
        messages = _said_in(request)
        said = [one for one in messages if not one.text.startswith(_REACTION)]
        if messages and not said:
            return ModelReply(text=NO_REPLY)
        reading = _Reading(said, language=request.language, now=self._now(request.zone))
        if reading.calls and _has_tool(request.tools):
            return _call(reading.calls)
        if not any(one.done for one in said) and not _has_tool(request.tools):
            return ModelReply(text=self._unanswered(request.language))
        texts: list[str] = []
        for answer in reading.answers:
            text = self._unanswered(request.language) if answer is None else answer
            if text and text not in texts[-1:]:  # equal words side by side answer both
                texts.append(text)
        return ModelReply(text="\n".join(texts) or self._unanswered(request.language))

    def _unanswered(self, language: str) -> str:
        return say(language, "offline.model_down" if self._stands_in else "offline.no_model")

    def _now(self, zone: str) -> datetime:
        return from_us(self._clock.now_us(), ZoneInfo(zone))


def _understand(
    text: str, *, now: datetime, language: str = "en", jobs: Sequence[KnownJob] | None = None
) -> Intent | None:
    from bot.providers.phrases import understand  # its patterns compile for 60 ms, not at start

    return understand(text, now=now, language=language, jobs=jobs)


def _has_tool(tools: Sequence[Message]) -> bool:
    return any(tool.get("function", {}).get("name") == _TOOL for tool in tools)


def _call(wanted: Sequence[_Call]) -> ModelReply:
    # The runner makes ids unique where a conversation holds them already; their beginnings stay.
    calls = tuple(
        ToolCall(id=f"{STAND_IN_CALL_PREFIX}{index}-{number}", name=_TOOL, arguments=orjson.dumps(arguments).decode())
        for number, (index, arguments) in enumerate(wanted, start=1)
    )
    return ModelReply(text="", tool_calls=calls, finish_reason="tool_calls", may_repeat=True)


@dataclass(slots=True, kw_only=True)
class _Said:
    """A message of the turn. `done` has the results of calls made for it, as (action, text) pairs in order.

    `index` is its place among all messages of the turn. Calls that a model made belong to the last message
    before them, marked `by_model`: for which one they were is not known.
    """

    index: int
    text: str
    done: list[tuple[str, str]] = field(default_factory=list)
    by_model: bool = False

    @property
    def listed(self) -> str | None:
        """The list of jobs that was read for it."""
        return next((text for action, text in reversed(self.done) if action == "list"), None)

    @property
    def receipts(self) -> list[str]:
        """What the tool said to all that was done to jobs for it."""
        return [text for action, text in self.done if action not in ("", "list")]


def _said_in(request: ModelRequest) -> list[_Said]:
    """Return the messages of the turn at work, oldest first, with what was done for them."""
    rows = request.messages
    # Without a context a row is the runner's own, such as a hint to try again.
    places = [at for at, row in enumerate(rows) if row.get("role") == "user" and _CONTEXT in _text_of(row)]
    places = places[-request.turn_messages :]
    left_out = request.turn_messages - len(places)  # by a governor short of room
    said: list[_Said] = []
    calls: dict[str, tuple[_Said, str]] = {}
    for at, row in enumerate(rows[places[0] :], places[0]) if places else ():
        role = row.get("role")
        if at in places:
            words = _text_of(row).partition(_CONTEXT)[0]
            said.append(_Said(index=left_out + len(said), text=_own_words(words)))
        elif role == "assistant":
            for call in row.get("tool_calls") or ():
                match = _CALL_ID.match(str(call["id"]))
                index = int(match["index"]) if match else said[-1].index
                if one := next((one for one in said if one.index == index), None):
                    calls[call["id"]] = (one, _action(call))
                    one.by_model = one.by_model or match is None
        elif role == "tool" and (known := calls.get(str(row.get("tool_call_id")))):
            known[0].done.append((known[1], _text_of(row)))
    return said


class _Reading:
    """What the messages of a turn ask for, read in order: the next `calls`, and the `answers` if none were made.

    A message is handled after those before it, so that a list shows what they did. Where it depends on a list
    that was not read yet, the calls end with reading it. An answer of None: only a model could give one.
    """

    def __init__(self, said: Sequence[_Said], *, language: str, now: datetime) -> None:
        self.calls: list[_Call] = []
        self.answers: list[str | None] = []
        self._language = language
        self._now = now
        self._listed: str | None = None  # the list as it is at this message
        self._asked = False  # among the calls is one for a list, and none that changes it behind
        self._waits = False  # for that list, with all that follows
        begun = max((one.index for one in said if one.done), default=-1)
        self._by_model = max((one.index for one in said if one.by_model), default=-1)
        for one in said:
            self._read(one, is_open=one.index > begun or (one.index == begun and not one.receipts))

    def _read(self, one: _Said, *, is_open: bool) -> None:
        self._listed = one.listed or self._listed
        intent = _understand(one.text, now=self._now, language=self._language)
        if isinstance(intent, NeedJobs) and self._listed is not None:
            jobs = _jobs(self._listed)
            intent = _understand(one.text, now=self._now, language=self._language, jobs=jobs)
        self.answers.append(self._answer(one, intent))
        if is_open and not self._waits:
            self._plan(one, intent)
        if one.receipts:
            self._listed = None

    def _plan(self, one: _Said, intent: Intent | None) -> None:
        wanted: list[dict[str, Any]] = []
        match intent:
            case ListJobs() | NeedJobs():
                if self._listed is None and not self._asked and not one.done:
                    self.calls.append((one.index, {"action": "list"}))
                    self._asked = True
                self._waits = isinstance(intent, NeedJobs) and self._asked
            case Add() if not one.done:
                wanted = [{"action": "add", **intent.arguments}]
            case Remove():
                wanted = [{"action": "remove", "job_id": job_id} for job_id in intent.job_ids]
            case Pause():
                wanted = [{"action": "pause", "job_id": job_id} for job_id in intent.job_ids]
            case Resume():
                wanted = [{"action": "resume", "job_id": job_id} for job_id in intent.job_ids]
        if wanted:
            self.calls += [(one.index, arguments) for arguments in wanted]
            self._listed, self._asked = None, False

    def _answer(self, one: _Said, intent: Intent | None) -> str | None:
        """Return the words for one message; '' where a model's calls may have done it together with others."""
        lines = one.receipts
        if isinstance(intent, ListJobs) and self._listed is not None:
            lines = [*lines, self._listed]
        if not lines and intent is None:
            return None
        words = _words(intent, self._language)
        if not lines and not words and one.index >= self._by_model:
            words = say(self._language, "offline.too_much", text=one.text)
        return "\n".join([*lines, *filter(None, [words])])


def _words(intent: Intent | None, language: str) -> str:
    """Return what can only be said, '' for what is done by calls."""
    match intent:
        case Ambiguous():
            candidates = ", ".join(f"{job.name or job.text} [{job.id}]" for job in intent.candidates)
            return say(language, "offline.ambiguous", candidates=candidates)
        case NotFound():
            return say(language, "offline.not_found", wanted=intent.wanted)
        case Refuse():
            return say(language, f"offline.{intent.reason}")
    return ""


def _own_words(words: str) -> str:
    """Return what the person wrote, without what others wrote before it."""
    while (rest := _QUOTE.sub("", words)) != words:
        words = rest
    return words


def _action(call: Message) -> str:
    """Return what a call asked of the jobs, '' for a call of another tool."""
    if call["function"]["name"] != _TOOL:
        return ""
    try:
        arguments = orjson.loads(call["function"]["arguments"])
    except orjson.JSONDecodeError:
        return ""
    return str(arguments.get("action", "")) if isinstance(arguments, dict) else ""


def _text_of(row: Message) -> str:
    content = row.get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def _jobs(listed: str) -> list[KnownJob]:
    """Return the jobs that a list shows."""
    return [KnownJob(id=match["id"], name="", text=match["title"]) for match in _JOB_LINE.finditer(listed)]
