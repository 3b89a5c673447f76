"""The provider that needs no model: it understands reminders, and says honestly that it knows nothing else.

It answers through the same tool calls a model would make, so that receipts, limits and rights are the same.
Deterministic: the reply follows from the request alone. Reading sentences is the phrases modules' part.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
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
        text, _ = _exchange(request.messages)
        return _understand(text, now=self._now(request.zone), language=request.language) is not None

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`. Never raises `ProviderError`."""
        reply = await asyncio.to_thread(self._reply, request)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply

    def _reply(self, request: ModelRequest) -> ModelReply:
        text, results = _exchange(request.messages)
        language = request.language
        if not _has_tool(request.tools):
            return ModelReply(text=say(language, "offline.no_model"))
        listed = _listed_jobs(results)
        done = [result for name, result in results if name != "list"]
        if done:
            return ModelReply(text="\n".join(done))
        intent = _understand(text, now=self._now(request.zone), language=language, jobs=listed)
        if isinstance(intent, ListJobs) and results:
            return ModelReply(text=results[-1][1])
        return self._act(intent, language)

    def _act(self, intent: Intent | None, language: str) -> ModelReply:
        match intent:
            case Add():
                return _call({"action": "add", **intent.arguments})
            case ListJobs() | NeedJobs():
                return _call({"action": "list"})
            case Remove():
                return _call(*({"action": "remove", "job_id": job_id} for job_id in intent.job_ids))
            case Pause():
                return _call(*({"action": "pause", "job_id": job_id} for job_id in intent.job_ids))
            case Resume():
                return _call(*({"action": "resume", "job_id": job_id} for job_id in intent.job_ids))
            case Ambiguous():
                candidates = ", ".join(f"{job.name or job.text} [{job.id}]" for job in intent.candidates)
                return ModelReply(text=say(language, "offline.ambiguous", candidates=candidates))
            case NotFound():
                return ModelReply(text=say(language, "offline.not_found", wanted=intent.wanted))
            case Refuse():
                return ModelReply(text=say(language, f"offline.{intent.reason}"))
            case _:
                return ModelReply(text=say(language, "offline.no_model"))

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


def _exchange(messages: Sequence[Message]) -> tuple[str, list[tuple[str, str]]]:
    """Return the person's last text, and the (action, result) pairs of the calls made since."""
    start = max((index for index, row in enumerate(messages) if row.get("role") == "user"), default=-1)
    if start < 0:
        return "", []
    actions: dict[str, str] = {}
    results: list[tuple[str, str]] = []
    for row in messages[start + 1 :]:
        for call in row.get("tool_calls") or ():
            actions[call["id"]] = _action(call)
        if row.get("role") == "tool":
            results.append((actions.get(str(row.get("tool_call_id")), ""), _text_of(row)))
    return _own_words(_text_of(messages[start])), results


def _action(call: Message) -> str:
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


def _own_words(text: str) -> str:
    """Return what the person wrote, without what others wrote before it and the context block after it."""
    words = text.partition(_CONTEXT)[0]
    while (rest := _QUOTE.sub("", words)) != words:
        words = rest
    return words


def _listed_jobs(results: list[tuple[str, str]]) -> list[KnownJob] | None:
    """Return the jobs of a list that was asked for in this exchange, None when there was none."""
    lists = [text for action, text in results if action == "list"]
    if not lists:
        return None
    return [KnownJob(id=match["id"], name="", text=match["title"]) for match in _JOB_LINE.finditer(lists[-1])]
