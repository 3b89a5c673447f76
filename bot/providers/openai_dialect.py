"""The request body, and what one endpoint was found to refuse in it.

chat.completions endpoints disagree about parameters. Instead of a table of models, the 400 of the endpoint is
read once and remembered for the life of the provider. A difference is learned at most once, so that learning
always ends.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import orjson

from bot.errors import ProviderErrorKind
from bot.interfaces import ModelRequest
from bot.messages import clean_text
from bot.providers.openai_errors import Failure, kind_of, named_count
from bot.providers.reasoning_fields import PLAIN_FIELDS, REASONING_MODEL_FIELD, SIGNED_FIELDS
from bot.records import Message

OUTPUT_SHARE = 4
"""Without a configured limit, at most one in this many tokens of the window is asked for as output."""

DEFAULT_OUTPUT_TOKENS = 16_384
"""Without a configured limit, never more than this: more than most models can write in one reply."""

_REFUSED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted"
    r"|extra (?:inputs|fields)|not allowed|invalid (?:parameter|argument|field)|no endpoints found|deprecated"
    r"|does not accept|only the default"
    r"|cannot (?:both )?be (?:set|specified)|use 'max_",
    re.IGNORECASE,
)
_REASONING_FIELDS = frozenset({*PLAIN_FIELDS, *SIGNED_FIELDS})
_ABOUT_REASONING = re.compile(
    r"reasoning_(?:content|details)|extra_content|thought_signature|signature.{0,40}thinking|thinking.{0,40}signature"
    r"|['\"`]reasoning['\"`]",
    re.IGNORECASE,
)
_NO_STREAM = re.compile(
    r"stream(?:ing)?['\"`]? (?:is |must be |does )?(?:not (?:supported|allowed)|unsupported|false)|support stream"
)
_MISSING = re.compile(r"missing|is required|must be ?(?:passed|provided|included)", re.IGNORECASE)
_INPUT_TOKENS = re.compile(r"(?P<n>[\d,]{1,12}) (?:tokens )?(?:in|from) the (?:messages|input|prompt)", re.IGNORECASE)
_OUTPUT_CEILING = re.compile(
    r"at most (?P<a>[\d,]+) (?:completion|output) tokens"
    r"|range of max_(?:completion_)?tokens is \[\d+, ?(?P<b>[\d,]+)\]"
    r"|maximum allowed number of output tokens\D{0,80}? is (?P<c>[\d,]+)"
    r"|max_(?:completion_)?tokens\W{0,3} (?:must|should) be (?:less than or equal to|at most|<=)"
    r" `?(?P<d>[\d,]+)",
    re.IGNORECASE,
)


class Refused(StrEnum):
    """Parts of a request an endpoint may refuse."""

    LIMIT_NAME = "limit_name"  # knows the output limit by its other name
    LIMIT = "limit"  # knows it by neither name
    TEMPERATURE = "temperature"  # has a fixed temperature
    STREAM = "stream"  # answers as a whole only
    STREAM_OPTIONS = "stream_options"  # streams, but reports no usage
    TOOLS = "tools"  # the model cannot call tools
    EFFORT = "reasoning_effort"  # does not let its thinking be limited, or not to this
    REASONING = "reasoning"  # takes no earlier reasoning back


def output_limit_tokens(configured: int | None, window: int | None) -> int | None:
    """Return the output tokens to ask for, None to leave it to the endpoint.

    Never the whole window: endpoints count what is asked for, not what is written, and refuse when input plus
    output do not fit. Whoever fits the input into the window must subtract the same number.
    """
    if window is None:
        return configured
    if configured is None:
        return min(window // OUTPUT_SHARE, DEFAULT_OUTPUT_TOKENS)
    return min(configured, window // 2)


class Dialect:
    """How to speak to one endpoint; grows wiser with each 400."""

    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        temperature: float | None,
        output_tokens: int | None,
        reasoning_effort: str = "",
        replays_reasoning: bool = False,
    ) -> None:
        self._model = model
        self._effort = reasoning_effort
        self._replays_plain = replays_reasoning
        self._temperature = temperature
        self._output_tokens = output_tokens
        # OpenAI's newer models refuse the old name; other servers silently ignore the new one.
        official = (urlsplit(base_url).hostname or "").endswith("openai.com")
        self._limit_names = ("max_completion_tokens", "max_tokens")[:: 1 if official else -1]
        self._refused: set[Refused] = set()
        self._ceiling: int | None = None
        self.revision = 0  # counts what was learned

    @property
    def refused(self) -> frozenset[Refused]:
        """What the endpoint was found to refuse."""
        return frozenset(self._refused)

    def encode(self, request: ModelRequest, *, stream: bool) -> bytes:
        """Return the body; `request.tools_json` goes in as it is."""
        fields: dict[str, Any] = {"model": self._model}
        if self._temperature is not None and Refused.TEMPERATURE not in self._refused:
            fields["temperature"] = self._temperature
        effort = self._effort_for(request)
        if effort and Refused.EFFORT not in self._refused:
            fields["reasoning_effort"] = effort
        limit = self._limit(request)
        if limit is not None and Refused.LIMIT not in self._refused:
            fields[self._limit_names[Refused.LIMIT_NAME in self._refused]] = limit
        if stream and Refused.STREAM not in self._refused:
            fields["stream"] = True
            if Refused.STREAM_OPTIONS not in self._refused:
                fields["stream_options"] = {"include_usage": True}
        parts = [orjson.dumps(fields)[:-1], b',"messages":', _dumps(self._rows(request))]
        if request.tools and Refused.TOOLS not in self._refused:
            parts += (b',"tools":', request.tools_json or _dumps(list(request.tools)))
        parts.append(b"}")
        return b"".join(parts)

    def learn(self, failure: Failure, request: ModelRequest, *, stream: bool, revision: int) -> str:
        """Adapt to a refused request; returns what was learned, '' when sending it again would not help.

        `revision` is the dialect's when the request was encoded: calls run side by side, and what another one
        has learned meanwhile must not be taken for one more refusal.
        """
        if failure.status not in {400, 404, 422}:
            return ""
        if revision != self.revision:
            return "learned by another call"
        words = failure.words
        limit = self._limit(request)
        if limit is not None and (match := _OUTPUT_CEILING.search(words)):
            ceiling = named_count(match)
            if ceiling is not None and ceiling < limit:
                self._ceiling = ceiling
                self.revision += 1
                return f"at most {ceiling} output tokens"
        kind = kind_of(failure)
        if kind is ProviderErrorKind.CONTEXT_LENGTH:
            return self._learn_window(failure, limit)
        if kind not in {ProviderErrorKind.BAD_REQUEST, ProviderErrorKind.NOT_FOUND}:
            return ""
        if not _REFUSED.search(words) and not _ABOUT_REASONING.search(words):
            return ""
        if not self._replays_plain and "reasoning_content" in words and _MISSING.search(words):
            # DeepSeek's thinking models want it back with every call of a tool
            # (https://api-docs.deepseek.com/guides/thinking_mode, read 2026-11-30).
            self._replays_plain = True
            self.revision += 1
            return "wants its reasoning back"
        refused = self._refused_part(failure, request, stream=stream)
        if refused is None:
            return ""
        self._refused.add(refused)
        self.revision += 1
        return f"refuses {refused}"

    def _learn_window(self, failure: Failure, limit: int | None) -> str:
        """Ask for less output where input and output together were too much; a too long input stays an error."""
        window = failure.window_tokens
        if window is None or limit is None or limit <= (ceiling := max(1, window // OUTPUT_SHARE)):
            return ""
        self._ceiling = ceiling
        self.revision += 1
        given = _INPUT_TOKENS.search(failure.words)
        if given is not None and int(given["n"].replace(",", "")) + ceiling > window:
            return ""
        return f"a window of {window} tokens, from now on at most {ceiling} of output"

    def _rows(self, request: ModelRequest) -> list[Any]:
        """Return the messages as this model may get them: no reasoning but its own, and only what it takes."""
        return [self._own(row) if row.get("role") == "assistant" else row for row in request.messages]

    def _own(self, row: Message) -> Message:
        calls = row.get("tool_calls")
        if REASONING_MODEL_FIELD not in row:
            # Rows of others, or without a thought: the place must be there, what is in it is not checked.
            return {**row, "reasoning_content": ""} if self._replays_plain and calls else row
        kept = {key: value for key, value in row.items() if key != REASONING_MODEL_FIELD}
        is_mine = row[REASONING_MODEL_FIELD] == self._model and Refused.REASONING not in self._refused
        if is_mine and self._replays_plain:
            return kept
        dropped = PLAIN_FIELDS if is_mine else _REASONING_FIELDS
        kept = {key: value for key, value in kept.items() if key not in dropped}
        if calls and not is_mine:
            kept["tool_calls"] = [
                {key: value for key, value in call.items() if key not in _REASONING_FIELDS} for call in calls
            ]
        return {**kept, "reasoning_content": ""} if self._replays_plain and calls else kept

    def _effort_for(self, request: ModelRequest) -> str:
        return request.reasoning_effort if self._effort and request.reasoning_effort else self._effort

    def _limit(self, request: ModelRequest) -> int | None:
        limits = (request.max_output_tokens, self._output_tokens, self._ceiling)
        return min((limit for limit in limits if limit is not None), default=None)

    def _refused_part(self, failure: Failure, request: ModelRequest, *, stream: bool) -> Refused | None:
        about = f"{failure.param} {failure.words}".lower()
        known = self._refused
        if self._limit(request) is not None and re.search(r"max_(?:completion_)?tokens", about):
            if Refused.LIMIT_NAME not in known:
                return Refused.LIMIT_NAME
            if Refused.LIMIT not in known:
                return Refused.LIMIT
        if self._temperature is not None and "temperature" in about and Refused.TEMPERATURE not in known:
            return Refused.TEMPERATURE
        if self._effort and "effort" in about and Refused.EFFORT not in known:
            return Refused.EFFORT
        replays = any(REASONING_MODEL_FIELD in row for row in request.messages)
        about_reasoning = _ABOUT_REASONING.search(about) and not _MISSING.search(about)
        if replays and about_reasoning and Refused.REASONING not in known:
            return Refused.REASONING
        if stream and _NO_STREAM.search(about) and Refused.STREAM not in known:
            return Refused.STREAM
        if stream and "stream_options" in about and Refused.STREAM_OPTIONS not in known:
            return Refused.STREAM_OPTIONS
        if (
            request.tools
            and Refused.TOOLS not in known
            and re.search(r"\btools?\b.{0,40}not support|support.{0,20}\btools?\b|function calling", about)
        ):
            return Refused.TOOLS
        return None


def _dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_clean(value))


def _clean(value: Any) -> Any:
    """Return `value` with text that UTF-8 can carry: a lone surrogate must not end a conversation."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
