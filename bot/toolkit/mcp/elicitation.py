"""What a server asks a person in the middle of a call: its form asked field by field, or a page to be visited.

Only the person whose turn made the call (or an owner) answers. What is asked shows which server asks, in its own
words as data; how questions wait, and calls with them, is the business of `questions` and `waiting_calls`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from bot.errors import StoreError
from bot.log import get_logger
from bot.messages import OutboundMessage
from bot.security.untrusted import on_one_line
from bot.toolkit.mcp.asks import AskRefused, ElicitAction, ElicitAsk, ElicitMode, ElicitReply
from bot.toolkit.mcp.forms import Field, FormRefused, Misfit, read_form, read_yes_no
from bot.toolkit.mcp.offers import Json
from bot.toolkit.mcp.question_words import QuestionWords, misfit_words
from bot.toolkit.mcp.questions import DEFAULT, Answer, End, NotUnderstood, Question, Questions, Reader, Wording
from bot.toolkit.mcp.waiting_calls import CallInFlight, WaitingCalls

_log = get_logger(__name__)

_SKIPPED = object()  # a field that the person leaves out
_DECLINED = ElicitReply(action=ElicitAction.DECLINE)
_CANCELLED = ElicitReply(action=ElicitAction.CANCEL)

_NOTES: Mapping[End, str] = {
    End.DECLINED: "The person declined what the server asked.",
    End.EXPIRED: "The server's question to the person ran out without an answer.",
}


class Elicitor:
    """Answers `elicitation/create`."""

    def __init__(
        self, calls: WaitingCalls, questions: Questions, publish: Callable[[OutboundMessage], Awaitable[object]]
    ) -> None:
        self._calls = calls
        self._questions = questions
        self._publish = publish

    async def elicit(self, ask: ElicitAsk) -> ElicitReply:
        """See `asks.Elicit`."""
        call = self._calls.asking(ask.server)
        if call is None:
            _log.warning("question of an mcp server declined: it belongs to no certain call", server=ask.server)
            return _DECLINED
        if not call.may_ask:
            call.notes.append(
                f"The server asked a person “{on_one_line(ask.message)}”. It was declined: background work has nobody "
                "to ask. The person can have this done in a turn of their own."
            )
            return _DECLINED
        async with call.one_at_a_time:
            with call.waiting():
                try:
                    return await (self._visit(call, ask) if ask.mode is ElicitMode.URL else self._form(call, ask))
                except FormRefused as exc:
                    call.notes.append(f"The server asked the person something that cannot be asked in a chat: {exc}.")
                    return _DECLINED
                except StoreError as exc:
                    raise AskRefused(f"the person cannot be asked now: {exc}") from exc

    async def _form(self, call: CallInFlight, ask: ElicitAsk) -> ElicitReply:
        form = read_form(ask.schema)
        words = _words(call, ask)
        values: dict[str, Any] = {}
        if not form.fields:
            return await self._consent(call, ask, words.consent, content={})
        for number, field in enumerate(form.fields, start=1):
            place = (number, len(form.fields))
            answer = await self._ask(call, ask, partial(words.field, field, place), _reader(field, words.language))
            if answer.end is not End.ANSWERED:
                return _ended(call, answer)
            if answer.value is not _SKIPPED:
                values[field.name] = answer.value
        if errors := form.errors(values):
            raise FormRefused("the answers fit their fields, but not the form as a whole: " + "; ".join(errors))
        return ElicitReply(action=ElicitAction.ACCEPT, content=values)

    async def _visit(self, call: CallInFlight, ask: ElicitAsk) -> ElicitReply:
        return await self._consent(call, ask, partial(_words(call, ask).visit, _host(ask.url)), content=None)

    async def _consent(
        self, call: CallInFlight, ask: ElicitAsk, wording: Callable[[str], Wording], *, content: Json | None
    ) -> ElicitReply:
        answer = await self._ask(call, ask, wording, _yes_no_reader(call.request.language))
        if answer.end is End.ANSWERED and answer.value:
            return ElicitReply(action=ElicitAction.ACCEPT, content=content)
        return _ended(call, Answer(end=End.DECLINED) if answer.end is End.ANSWERED else answer)

    async def _ask(self, call: CallInFlight, ask: ElicitAsk, wording: Callable[[str], Wording], read: Reader) -> Answer:
        async def on_asked(name: str) -> None:
            await self._calls.detach(call, _told(ask, name))

        call.has_asked = True
        question = Question(
            owner=call, request=call.request, limit_s=ask.limit_s, wording=wording, read=read, on_asked=on_asked
        )
        return await self._questions.ask(question, self._publish)


def _told(ask: ElicitAsk, name: str) -> str:
    """Return what the turn gets in place of the call's result."""
    return (
        f"The MCP server {ask.server} asks the person before it goes on: “{on_one_line(ask.message)}” (question "
        f"{name}). The question is in the chat already, with how to answer it; the answer goes to the server. The "
        "call's result will come as a message of its own. Do not answer for the person and do not repeat the call: "
        "end this turn, saying in a sentence what waits for them."
    )


def _words(call: CallInFlight, ask: ElicitAsk) -> QuestionWords:
    return QuestionWords(ask=ask, tool=call.tool, language=call.request.language)


def _ended(call: CallInFlight, answer: Answer) -> ElicitReply:
    """Return the reply of a question that brought no value."""
    if answer.end in _NOTES:
        call.notes.append(_NOTES[answer.end])
    return _DECLINED if answer.end is End.DECLINED else _CANCELLED


def _reader(field: Field, language: str) -> Reader:
    def read(text: str) -> Any:
        if text.strip() == DEFAULT and field.may_skip:
            return field.default if field.has_default else _SKIPPED
        try:
            return field.read(text)
        except Misfit as misfit:
            raise NotUnderstood(misfit_words(misfit, language)) from None

    return read


def _yes_no_reader(language: str) -> Reader:
    def read(text: str) -> bool:
        try:
            return read_yes_no(text)
        except Misfit as misfit:
            raise NotUnderstood(misfit_words(misfit, language)) from None

    return read


def _host(url: str) -> str:
    """Return the host of a page, in ASCII, so that look-alike letters show.

    Raises:
        FormRefused: not an address of the web, or one that hides its host.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        raise FormRefused("the page's address cannot be read") from None
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.netloc or any(c.isspace() for c in url):
        raise FormRefused("the page's address is not a plain address of the web")
    try:
        shown = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise FormRefused("the page's address cannot be read") from None
    return shown if port is None else f"{shown}:{port}"
