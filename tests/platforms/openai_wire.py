"""A scripted reply in the words of the chat-completions protocol: a completion, or the chunks of a stream.

Shapes: https://platform.openai.com/docs/api-reference/chat (object and streaming chunk, read 2026-11-29).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from tests.platforms.loopback import encode_json
from tests.platforms.openai_endpoint import CHARS_PER_TOKEN
from tests.platforms.openai_script import Json, Reply

CHUNK_CHARS = 16
DONE = b"data: [DONE]\n\n"


class Answer:
    """One reply on its way to one request; `serial` makes ids unique in a server's life."""

    def __init__(self, reply: Reply, request: Json, *, serial: int, raw_bytes: int) -> None:
        self.reply = reply
        self.request = request
        self._id = f"chatcmpl-{serial}"
        self._created = int(time.time())
        self._calls = [self._call(call, f"call_{serial}_{index}") for index, call in enumerate(reply.tool_calls)]
        options = request.get("stream_options") or {}
        self._with_usage = bool(options.get("include_usage"))
        self._raw_bytes = raw_bytes

    @staticmethod
    def _call(call: tuple[Any, ...], default_id: str) -> Json:
        name, arguments = call[0], call[1]
        encoded = arguments if isinstance(arguments, str) else encode_json(dict(arguments)).decode()
        call_id = call[2] if len(call) > 2 else default_id
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": encoded}}

    @property
    def finish_reason(self) -> str:
        """Return why the reply ends."""
        return self.reply.finish_reason or ("tool_calls" if self._calls else "stop")

    def usage(self) -> Mapping[str, Any]:
        """Return the token counts, estimated from sizes unless the script gives them."""
        if self.reply.usage is not None:
            return self.reply.usage
        given = self._raw_bytes // CHARS_PER_TOKEN
        made = len(self.reply.text) // CHARS_PER_TOKEN + 1
        return {
            "prompt_tokens": given,
            "completion_tokens": made,
            "total_tokens": given + made,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def completion(self) -> bytes:
        """Return the whole answer to a request without `stream`."""
        message: Json = {"role": "assistant", "content": self.reply.text or None, "refusal": None}
        if self._calls:
            message["tool_calls"] = self._calls
        if self.reply.reasoning:
            message["reasoning_content"] = self.reply.reasoning
        finish = None if self.reply.no_finish_reason or self.reply.end_without_finish else self.finish_reason
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        body = {
            "id": self._id,
            "object": "chat.completion",
            "created": self._created,
            "model": self.request.get("model"),
            "choices": [] if self.reply.empty_choices else [choice],
            "usage": self.usage(),
        }
        encoded = encode_json(body)
        return encoded[: len(encoded) // 2] if self.reply.broken_json else encoded

    def content_events(self) -> Iterator[bytes]:
        """Yield the server-sent events of a stream up to its end."""
        reply = self.reply
        if reply.empty_choices:
            yield self._event([])
        yield self._delta({"role": "assistant", "content": "", "refusal": None})
        if reply.null_delta:
            yield self._delta(None)
        for piece in _pieces(reply.reasoning):
            yield self._delta({"reasoning_content": piece})
        pieces = _pieces(reply.text) if reply.chunks is None else list(reply.chunks)
        for index, piece in enumerate(pieces):
            event = self._delta({"content": piece})
            yield (event[: len(event) // 2] + b"\n\n" if reply.broken_json and index == len(pieces) - 1 else event)
        yield from self._call_events()
        if reply.error_stream is not None:
            yield b"data: " + encode_json({"error": dict(reply.error_stream)}) + b"\n\n"

    def closing_events(self) -> Iterator[bytes]:
        """Yield what ends a stream: finish_reason, usage, [DONE]."""
        reply = self.reply
        if reply.end_without_finish or reply.error_stream is not None:
            return
        if not reply.no_finish_reason:
            yield self._delta({}, self.finish_reason)
        if self._with_usage:
            yield self._event([], self.usage())
        elif reply.empty_choices:
            yield self._event([])
        yield DONE

    def _call_events(self) -> Iterator[bytes]:
        for index, call in enumerate(self._calls):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            opening = {**call, "index": index, "function": {"name": name, "arguments": ""}}
            yield self._delta({"tool_calls": [opening]})
            for piece in _pieces(arguments):
                yield self._delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def _delta(self, delta: Json | None, finish_reason: str | None = None) -> bytes:
        return self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}])

    def _event(self, choices: list[Json], usage: Mapping[str, Any] | None = None) -> bytes:
        chunk: Json = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self.request.get("model"),
            "choices": choices,
        }
        if self._with_usage:
            chunk["usage"] = usage
        return b"data: " + encode_json(chunk) + b"\n\n"


def _pieces(text: str) -> list[str]:
    return [text[at : at + CHUNK_CHARS] for at in range(0, len(text), CHUNK_CHARS)]
