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
from bot.messages import ToolCall
from bot.providers.fallback import STAND_IN_CALL_PREFIX
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
from bot.records import Message
from bot.texts import say

_CONTEXT = "\n\n[Runtime Context"
_QUOTE = re.compile(r"\A\[(Quoted|Forwarded) message.*?\[/\1 message\](?:\n\n|\Z)", re.DOTALL)
_JOB_LINE = re.compile(r"^• (?P<title>.+) — .*\[(?P<id>job-\w+)\]$", re.MULTILINE)
_TOOL = "cron"


class OfflineProvider(Provider):
    """Answers without a network. `clock` tells the instant that relative times count from."""

    name: ClassVar[str] = "offline"
    needs_network: ClassVar[bool] = False

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    async def warm_up(self) -> None:
        """See `Provider.warm_up`: the patterns of a language are compiled at its first use."""
        await asyncio.to_thread(_understand, "remind me tomorrow at 9 to begin", now=self._now("UTC"))

    def understands(self, request: ModelRequest) -> bool:
        """Say whether the last message is about reminders and the tool for them is there."""
        if not _has_tool(request.tools):
            return False
        now = self._now(request.zone)
        texts = _exchange(request.messages).texts
        return any(_understand(text, now=now, language=request.language) is not None for text in texts)

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`. Never raises `ProviderError`."""
        reply = await asyncio.to_thread(self._reply, request)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    def _reply(self, request: ModelRequest) -> ModelReply:
        """Do all that is asked for, the list of jobs first where it is needed, then answer with what the tool said."""
        language, now = request.language, self._now(request.zone)
        if not _has_tool(request.tools):
            return ModelReply(text=say(language, "offline.no_model"))
        exchange = _exchange(request.messages)
        listed = _listed_jobs(exchange.results)
        first = [_understand(text, now=now, language=language) for text in exchange.texts]
        if exchange.rounds == 0 and (calls := _calls(first)):
            return _call(*calls)
        intents = [
            _understand(text, now=now, language=language, jobs=listed) if isinstance(known, NeedJobs) else known
            for text, known in zip(exchange.texts, first, strict=True)
        ]
        if exchange.rounds == 1 and listed is not None:
            found = [intent for intent, known in zip(intents, first, strict=True) if isinstance(known, NeedJobs)]
            if calls := _calls(found):
                return _call(*calls)
        lines = [text for action, text in (*exchange.done, *exchange.results) if action not in ("", "list")]
        lines += [text for action, text in exchange.results if action == "list" and _wants_list(intents)]
        if exchange.done and not _wants_list(intents):
            before = [_understand(text, now=now, language=language) for text in exchange.before]
            lines += [text for action, text in exchange.done if action == "list" and _wants_list(before)][-1:]
        lines += [line for intent in intents if (line := _words(intent, language))]
        return ModelReply(text="\n".join(lines) or say(language, "offline.no_model"))

    def _now(self, zone: str) -> datetime:
        return from_us(self._clock.now_us(), ZoneInfo(zone))


def _understand(
    text: str, *, now: datetime, language: str = "en", jobs: Sequence[KnownJob] | None = None
) -> Intent | None:
    from bot.providers.phrases import understand  # its patterns compile for 60 ms, not at start

    return understand(text, now=now, language=language, jobs=jobs)


def _has_tool(tools: Sequence[Message]) -> bool:
    return any(tool.get("function", {}).get("name") == _TOOL for tool in tools)


def _call(*arguments: dict[str, Any]) -> ModelReply:
    # The runner makes ids unique where a conversation holds them already; the prefix is what counts.
    calls = tuple(
        ToolCall(id=f"{STAND_IN_CALL_PREFIX}{index}", name=_TOOL, arguments=orjson.dumps(item).decode())
        for index, item in enumerate(arguments, start=1)
    )
    return ModelReply(text="", tool_calls=calls, finish_reason="tool_calls")


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """What was said and done since the last answer. Results are (action, text) pairs.

    `texts` are the newest words of the person, several where lines came together; `results` belong to them,
    `done` to what was said `before`; `rounds` counts the steps made for `texts`.
    """

    texts: list[str] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    done: list[tuple[str, str]] = field(default_factory=list)
    rounds: int = 0


def _exchange(messages: Sequence[Message]) -> _Exchange:
    exchange, actions, moment, after_words = _Exchange(), dict[str, str](), "", False
    for row in messages:
        role = row.get("role")
        if role == "user":
            words, _, stamp = _text_of(row).partition(_CONTEXT)
            # Lines of one turn were received at one moment; an older line without an answer had its notice.
            if not (after_words and stamp == moment):
                exchange.before += exchange.texts
                exchange.done += exchange.results
                exchange.texts, exchange.results, exchange.rounds = [], [], 0
            exchange.texts.append(_own_words(words))
            moment = stamp
        elif role == "assistant" and row.get("tool_calls"):
            actions.update((call["id"], _action(call)) for call in row["tool_calls"])
            exchange.rounds += 1
        elif role == "assistant":
            exchange = _Exchange()
        elif role == "tool":
            exchange.results.append((actions.get(str(row.get("tool_call_id")), ""), _text_of(row)))
        after_words = role == "user"
    return exchange


def _calls(intents: Sequence[Intent | None]) -> list[dict[str, Any]]:
    """Return the arguments of the calls that do what is asked for; the list of jobs is read once."""
    calls: list[dict[str, Any]] = []
    for intent in intents:
        match intent:
            case Add():
                calls.append({"action": "add", **intent.arguments})
            case ListJobs() | NeedJobs():
                if {"action": "list"} not in calls:
                    calls.append({"action": "list"})
            case Remove():
                calls += [{"action": "remove", "job_id": job_id} for job_id in intent.job_ids]
            case Pause():
                calls += [{"action": "pause", "job_id": job_id} for job_id in intent.job_ids]
            case Resume():
                calls += [{"action": "resume", "job_id": job_id} for job_id in intent.job_ids]
    return calls


def _wants_list(intents: Sequence[Intent | None]) -> bool:
    return any(isinstance(intent, ListJobs) for intent in intents)


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


def _listed_jobs(results: list[tuple[str, str]]) -> list[KnownJob] | None:
    """Return the jobs of a list that was asked for in this exchange, None when there was none."""
    lists = [text for action, text in results if action == "list"]
    if not lists:
        return None
    return [KnownJob(id=match["id"], name="", text=match["title"]) for match in _JOB_LINE.finditer(lists[-1])]
