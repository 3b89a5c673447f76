"""Puts a reply together from chat.completions JSON: whole bodies, and chunks as they stream in.

Endpoints differ in details that are harmless alone and fatal to a strict reader: no `choices` in usage
chunks, null deltas, calls without ids or indexes, arguments as objects, content as a list of parts. All of
that is read here; what cannot be read is MALFORMED, what is missing its end is CUT.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply
from bot.messages import ToolCall, Usage, clean_text, new_id
from bot.providers.lenient_json import read_json, write_json
from bot.providers.openai_errors import reported_error
from bot.providers.reasoning_fields import ReasoningFields, merge_into
from bot.providers.think_tags import ThinkTags

_FINISH_REASONS = {
    "": "",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "safety": "content_filter",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
}
"""Names that some endpoints use for the four reasons of chat.completions."""

_BROKEN_OFF = frozenset({"insufficient_system_resource", "abort", "aborted", "cancelled"})
"""Reasons that stand where the answer breaks off: DeepSeek's (https://api-docs.deepseek.com/api/create-chat-completion)
and those of servers that ended the request themselves."""

_MOST_TOKENS = 1_000_000_000
"""No call uses as many; a larger number is a mistake, and one beyond 64 bits could not be stored."""


@dataclass(slots=True)
class _Call:
    """One tool call while its pieces arrive."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


class ReplyReader:
    """Collects one reply. Feed chunks in order, then take `reply` once.

    `unopened`: see `ThinkTags`.
    """

    def __init__(self, *, unopened: bool = False) -> None:
        self.begun = False  # text, reasoning or a call arrived; role-only chunks do not count
        self._tags = ThinkTags(unopened=unopened)
        self._fields = ReasoningFields()
        self._reasoning: list[str] = []  # as parts of the content
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._malformed = 0
        self._finish = ""
        self._choice_seen = False
        self._pieces_seen = False  # deltas with something in them
        self._usage = Usage()

    @property
    def text(self) -> str:
        """The text so far that can be shown."""
        return self._tags.shown

    @property
    def usage(self) -> Usage:
        """The tokens reported so far."""
        return self._usage

    @property
    def closed_unopened(self) -> bool:
        """Whether the reply held reasoning whose opening tag was missing."""
        return self._tags.closed_unopened

    def salvage(self) -> str:
        """Return the text that a reply cut off here can be continued from, '' where it has to begin again.

        That is the case in the middle of reasoning, and once a call began: half of one means nothing.
        """
        if self._calls or self._malformed or self._refusal or not self._tags.settled:
            return ""
        return clean_text(self._tags.text)

    @property
    def finished(self) -> bool:
        """Whether the endpoint said why it stopped."""
        return bool(self._finish)

    def feed(self, chunk: Any) -> None:
        """Take one streamed chunk.

        Raises:
            ProviderError: the chunk reports an error, or is no chat.completions chunk.
        """
        self._take(chunk, "delta")

    def read(self, body: Any) -> ModelReply:
        """Return the reply of a body that was not streamed.

        Raises:
            ProviderError: as `feed` and `reply`; MALFORMED without choices.
        """
        self._take(body, "message")
        return self.reply(ended=True)

    def reply(self, *, ended: bool) -> ModelReply:
        """Return the reply; `ended` says that the transfer came to its proper end.

        Raises:
            ProviderError: CUT when the end is missing, MALFORMED when nothing arrived, CONTENT_FILTER when
                the provider declined and sent no text.
        """
        if not self._choice_seen:
            kind = ProviderErrorKind.MALFORMED if ended else ProviderErrorKind.CUT
            raise ProviderError(kind, "the reply has no choices")
        if not self._finish and not (ended and self._whole_calls()):
            kind = ProviderErrorKind.MALFORMED if ended and not self.begun else ProviderErrorKind.CUT
            raise ProviderError(kind, "the reply has no end")
        self._tags.finish()
        text = clean_text(self._tags.text)
        calls = self._usable_calls()
        self._raise_if_declined(text, calls)
        return ModelReply(
            text=text,
            tool_calls=calls,
            finish_reason=self._finish_reason(calls),
            usage=self._usage,
            reasoning=clean_text(
                "\n".join((self._fields.text, "".join(self._reasoning), self._tags.reasoning))
            ).strip(),
            reasoning_fields=self._fields.fields,
            malformed_calls=self._malformed,
        )

    def _take(self, chunk: Any, part: str) -> None:
        if not isinstance(chunk, dict):
            raise ProviderError(ProviderErrorKind.MALFORMED, f"expected a JSON object, got {type(chunk).__name__}")
        if _is_error(chunk):
            raise reported_error(chunk)
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return
        choice = choices[0]
        if not isinstance(choice, dict):
            raise ProviderError(ProviderErrorKind.MALFORMED, "a choice that is not an object")
        if choice.get("error"):
            raise reported_error(choice)
        self._choice_seen = True
        # A few endpoints send the whole message under `message` even in a chunk, others beside its last piece or
        # after it: behind pieces it says nothing new.
        message = choice.get(part)
        if message is None and not self._pieces_seen:
            message = choice.get("message")
        elif part == "delta" and message:
            self._pieces_seen = self._pieces_seen or _says_something(message)
        if isinstance(message, dict):
            self._take_message(message)
        self._take_finish(choice.get("finish_reason"))

    def _take_finish(self, reason: Any) -> None:
        if not isinstance(reason, str):
            return
        reason = reason.lower()
        if reason == "error":
            raise ProviderError(ProviderErrorKind.SERVER, "the endpoint ended the reply with an error")
        if reason in _BROKEN_OFF:
            raise ProviderError(ProviderErrorKind.CUT, f"the endpoint broke the reply off: {reason}")
        self._finish = _FINISH_REASONS.get(reason, reason) or self._finish

    def _take_message(self, message: dict[str, Any]) -> None:
        self._take_content(message.get("content"))
        if self._fields.take(message):
            self.begun = True
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            self.begun = True  # words of the model, if not for the person
            self._refusal.append(refusal)
        calls = message.get("tool_calls")
        if calls:
            for call in calls if isinstance(calls, list) else [calls]:
                self._take_call(call)
        elif message.get("function_call"):  # the form before tools, which some gateways still answer in
            self._take_call({"function": message["function_call"]})

    def _take_content(self, content: Any) -> None:
        if isinstance(content, str):
            if content:
                self.begun = True
                self._tags.feed(content)
        elif isinstance(content, list):
            for item in content:
                if isinstance(item, str):
                    self._take_content(item)
                elif isinstance(item, dict):
                    self._take_part(item)

    def _take_part(self, part: dict[str, Any]) -> None:
        if part.get("type") in {"text", "output_text"} and isinstance(part.get("text"), str):
            self._take_content(part["text"])
        elif part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
            self._refusal.append(part["refusal"])
        elif part.get("type") in {"thinking", "reasoning"}:
            self.begun = True
            self._reasoning.extend(_texts(part.get("thinking") or part.get("text")))

    def _take_call(self, delta: Any) -> None:
        if not isinstance(delta, dict):
            self._malformed += 1
            return
        self.begun = True
        function = delta.get("function")
        if not isinstance(function, dict):
            function = delta  # flat, without the wrapping
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        call_id = delta.get("id")
        call_id = call_id if isinstance(call_id, str) else ""
        arguments = _arguments(function.get("arguments"))
        if call_id and arguments and self._is_repeat(delta.get("index"), call_id, name, arguments):
            return
        call = self._call_for(delta.get("index"), call_id, name, arguments)
        call.id = call.id or call_id
        if name and name != call.name:
            call.name = name if name.startswith(call.name) else call.name + name
        if arguments:
            call.arguments.append(arguments)
        extra = delta.get("extra_content")
        if isinstance(extra, dict):
            merge_into(call.extra, extra)

    def _is_repeat(self, index: Any, call_id: str, name: str, arguments: str) -> bool:
        """Tell a whole call that is sent again, as a summary at the end of a stream: it must not be run twice."""
        known = self._by_index.get(index) if isinstance(index, int) else self._calls[-1] if self._calls else None
        if known is None or known.id != call_id or name not in ("", known.name):
            return False
        return "".join(known.arguments) == arguments and arguments.lstrip().startswith("{") and _is_whole(known)

    def _call_for(self, index: Any, call_id: str, name: str, arguments: str) -> _Call:
        """Return the call that a piece belongs to; a new one when the piece begins one."""
        known: _Call | None
        if isinstance(index, int):
            known = self._by_index.get(index)
            if known and name and _is_another(known, call_id, name, arguments):
                known = None
        elif call_id:
            known = next((call for call in reversed(self._calls) if call.id == call_id), None)
            if known and name and _is_another(known, call_id, name, arguments):
                known = None
            elif known is None and not name and self._calls and not self._calls[-1].id:
                known = self._calls[-1]
        else:
            known = None if name or not self._calls else self._calls[-1]
        if known is None:
            known = _Call()
            self._calls.append(known)
            if isinstance(index, int):
                self._by_index[index] = known
        return known

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        self._usage = Usage(
            input_tokens=_count(usage.get("prompt_tokens")),
            output_tokens=_count(usage.get("completion_tokens")),
            cached_tokens=_count(cached if cached is not None else usage.get("prompt_cache_hit_tokens")),
        )

    def _whole_calls(self) -> bool:
        return self.begun and all(_is_whole(call) for call in self._calls)

    def _usable_calls(self) -> tuple[ToolCall, ...]:
        usable = [call for call in self._calls if call.name.strip()]
        self._malformed += len(self._calls) - len(usable)
        self._calls = usable
        taken: set[str] = set()
        calls: list[ToolCall] = []
        for call in usable:
            # Two calls under one id could not be told apart when their results come.
            call_id = call.id if call.id and call.id not in taken else new_id("call-", 12)
            taken.add(call_id)
            arguments = clean_text("".join(call.arguments))
            name = clean_text(call.name.strip())
            calls.append(ToolCall(id=call_id, name=name, arguments=arguments, extra_content=call.extra))
        return tuple(calls)

    def _raise_if_declined(self, text: str, calls: tuple[ToolCall, ...]) -> None:
        refusal = "".join(self._refusal).strip()
        if text.strip() or calls:
            return
        if refusal or self._finish == "content_filter":
            raise ProviderError(ProviderErrorKind.CONTENT_FILTER, refusal[:500] or "the content filter left nothing")

    def _finish_reason(self, calls: tuple[ToolCall, ...]) -> str:
        if calls and self._finish in {"", "stop"}:
            return "tool_calls"
        if not calls and self._finish in {"", "tool_calls"}:
            return "stop"
        return self._finish


def _is_another(known: _Call, call_id: str, name: str, arguments: str) -> bool:
    """Tell a new call under an old index or id: some endpoints count every call as index 0, or name all alike."""
    if call_id and known.id and call_id != known.id:
        return True
    if name == known.name:
        # The name may come with each piece; another call begins where the arguments so far are whole already.
        return bool(known.arguments) and arguments.lstrip().startswith("{") and _is_whole(known)
    # A name comes in pieces before the arguments, if at all.
    return bool(known.arguments) and (not call_id or _is_whole(known))


def _is_whole(call: _Call) -> bool:
    try:
        read_json("".join(call.arguments).encode(errors="replace") or b"{}")
    except ValueError:
        return False
    return True


def _says_something(delta: Any) -> bool:
    return isinstance(delta, dict) and any(value for key, value in delta.items() if key != "role")


def _is_error(chunk: dict[str, Any]) -> bool:
    """Say whether a chunk reports an error, in any of the shapes that endpoints have for it."""
    if chunk.get("error") or chunk.get("object") == "error":
        return True
    return "choices" not in chunk and any(isinstance(chunk.get(key), str) for key in ("message", "detail"))


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else write_json(value)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    return [item["text"] for item in value if isinstance(item, dict) and isinstance(item.get("text"), str)]


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if 0 < value <= _MOST_TOKENS else 0
