"""Questions of servers that wait for a person: asked in the chat with buttons or for a reply, answered by a command.

A question is known by an id of its own (`ask-k3x9aq`), different in every process, so that a late answer never
meets another question. Which call asks, and what its form means, is decided elsewhere: here a question is one
message and one value.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from bot.errors import DutifulError
from bot.messages import Button, InboundMessage, Origin, OutboundKind, OutboundMessage, Role, new_id

if TYPE_CHECKING:  # it leads back here, by way of the room
    from bot.toolkit.context import RequestContext

DECLINE, DEFAULT = "!decline", "-"
"""What stands for no answer at all, and for leaving a value to the server."""

_BEGINNING_CHARS = 80  # of a question, to tell it from another
_KEPT_ENDS = 200  # how many closed questions are remembered, to say what became of them

_ID = re.compile(r"ask-[a-z2-9]{6}")
_LEADING_ID = re.compile(r"\W*(ask-[a-z2-9]{6})\b")

Reader = Callable[[str], Any]
"""Reads the value from a person's words. Raises `NotUnderstood`."""

Publish = Callable[[OutboundMessage], Awaitable[object]]


class NotUnderstood(DutifulError):
    """An answer that does not fit. The text is for the person, in their language; the question stays open."""


class End(StrEnum):
    """How a question ended; also text keys below `mcp.answer`."""

    ANSWERED = "answered"
    DECLINED = "declined"
    EXPIRED = "expired"
    STOPPED = "stopped"  # by /stop
    LOST = "lost"  # the server went away or gave the call up
    UNKNOWN = "unknown"  # never was, long ago, or before a restart
    ALREADY = "already"  # answered before
    FORBIDDEN = "forbidden"  # somebody else's


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a question ended, and the value it brought; None unless it is `ANSWERED`."""

    end: End
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A question in words: its text, and the buttons below it, row by row."""

    text: str
    buttons: tuple[tuple[Button, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be asked in the chat of a request.

    `owner` is whom `Questions.withdraw` knows it by. `wording` is made for the question's id. `on_asked` is told that
    id once the question is on its way.
    """

    owner: object
    request: RequestContext
    limit_s: float
    wording: Callable[[str], Wording]
    read: Reader
    on_asked: Callable[[str], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class _Open:
    """A question that waits. Once it is `void` no answer counts, though its server may not know yet."""

    question: Question
    answer: asyncio.Future[Answer]
    void: End | None = None


class Questions:
    """The open questions of this process. Each waits up to its own limit for its answer."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._ends: OrderedDict[str, End] = OrderedDict()

    async def ask(self, question: Question, publish: Publish) -> Answer:
        """Ask in the chat and return how it ended. Cancelled, the question is withdrawn.

        Raises:
            StoreUnavailable: it could not be put on its way.
        """
        request = question.request
        name = new_id("ask-")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[name] = _Open(question=question, answer=future)
        answer = Answer(end=End.LOST)
        try:
            words = question.wording(name)
            await publish(
                OutboundMessage(
                    address=request.address,
                    text=f"{name} · {words.text}",
                    kind=OutboundKind.NOTICE,
                    reply_to=request.reply_to,
                    buttons=words.buttons,
                )
            )
            await question.on_asked(name)
            async with asyncio.timeout(question.limit_s):
                answer = await future
        except TimeoutError:
            answer = Answer(end=End.EXPIRED)
        finally:
            void = self._open.pop(name).void
            if future.done() and not future.cancelled():  # also when what ended it cancels us, too
                answer = future.result()
            elif void is not None:
                answer = Answer(end=void)
            self._ends[name] = answer.end
            if len(self._ends) > _KEPT_ENDS:
                self._ends.popitem(last=False)
        return answer

    def make_void(self, owner: object, end: End) -> None:
        """Let no answer to the questions of an owner count any more; they still have to be withdrawn."""
        for waiting in self._open.values():
            if waiting.question.owner is owner and waiting.void is None:
                waiting.void = end

    def withdraw(self, owner: object, end: End) -> None:
        """End the questions of an owner without an answer."""
        for waiting in self._open.values():
            if waiting.question.owner is owner and not waiting.answer.done():
                waiting.answer.set_result(Answer(end=end))

    def asks(self, owner: object) -> bool:
        """Say whether a question of this owner waits."""
        return any(waiting.question.owner is owner for waiting in self._open.values())

    def answerable(self, request: RequestContext) -> dict[str, str]:
        """Return the open questions that this person may answer here: their ids, each with how it begins."""
        waiting = [(name, item.question) for name, item in self._open.items() if item.void is None]
        return {
            name: question.wording(name).text.strip().partition("\n")[0][:_BEGINNING_CHARS]
            for name, question in waiting
            if _may_answer(question.request, request)
        }

    def answer(self, name: str, text: str, request: RequestContext) -> End:
        """Take an answer to a question. Returns how that question stands now, or why the answer counts for nothing.

        Raises:
            NotUnderstood: the text means no value; the question stays open.
        """
        waiting = self._open.get(name)
        if waiting is None or waiting.answer.done():
            end = self._ends.get(name, End.UNKNOWN) if waiting is None else waiting.answer.result().end
            return End.ALREADY if end is End.ANSWERED else end
        if not _may_answer(waiting.question.request, request):
            return End.FORBIDDEN
        if waiting.void is not None:
            return waiting.void
        if text.strip() == DECLINE:
            answer = Answer(end=End.DECLINED)
        else:
            answer = Answer(end=End.ANSWERED, value=waiting.question.read(text))
        waiting.answer.set_result(answer)
        return answer.end


def _may_answer(asked: RequestContext, request: RequestContext) -> bool:
    """Say whether a person may answer: whose turn it was, or an owner, and only in the chat where it was asked."""
    same_chat = (asked.channel, asked.chat_id) == (request.channel, request.chat_id)
    return same_chat and (asked.sender_id == request.sender_id or request.role is Role.OWNER)


def split_answer(arguments: str) -> tuple[str, str]:
    """Return (question's id, or "" where none is named; the answer) of what follows `/answer`."""
    first, _, rest = arguments.partition(" ") if " " in arguments.split("\n", 1)[0] else arguments.partition("\n")
    return (first, rest.strip()) if _ID.fullmatch(first) else ("", arguments.strip())


def as_answer(message: InboundMessage) -> str:
    """Return the command that a person's reply to a question amounts to; the message's own text for all others.

    A reply is known by the question's id, with which its text begins. Only our own messages count as questions.
    """
    quote = message.quote
    if message.origin is not Origin.USER or quote is None or quote.author != "bot" or message.text.startswith("/"):
        return message.text
    found = _LEADING_ID.match(quote.text)
    return message.text if found is None or not message.text.strip() else f"/answer {found[1]} {message.text.strip()}"
