"""Answers of the model for MCP servers that may ask it (`sampling = true`): a server's own messages, nothing of ours.

No tools, no system prompt of ours and no history: the server gets what its words bring, at the expense of the turn
whose call it is. Tokens and time are bounded whatever it asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from bot.agent.models import Model, ModelShelf
from bot.errors import ProviderError
from bot.interfaces import ModelReply, ModelRequest
from bot.log import get_logger
from bot.messages import Usage
from bot.records import Message
from bot.toolkit.context import RequestContext
from bot.toolkit.mcp.asks import AskRefused, SampleAsk

MAX_OUTPUT_TOKENS = 2_000
"""Most tokens of one answer, however many a server asks for."""

MAX_REQUEST_CHARS = 200_000
"""Longest request, with pictures as they are sent."""

_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_STOP_REASONS: Mapping[str, str] = {"length": "maxTokens", "stop": "endTurn"}

Charge = Callable[[int, Usage], Awaitable[None]]
"""Adds usage to a turn, by its id."""

Json = Mapping[str, Any]
_log = get_logger(__name__)


class ServerSampler:
    """See `bot.toolkit.mcp.server_asks.Sampler`."""

    def __init__(self, models: ModelShelf, charge: Charge, *, limit_s: float) -> None:
        self._models = models
        self._charge = charge
        self._limit_s = limit_s

    async def answer(self, request: RequestContext, ask: SampleAsk) -> Json:
        """Return a CreateMessageResult for the params of a request.

        Raises:
            AskRefused: it has what cannot be sent, or the model cannot be had.
        """
        model = self._models.get(request.turn.model)
        messages = _messages(ask.params, vision=model.vision)
        if len(orjson.dumps(messages)) > MAX_REQUEST_CHARS:
            raise AskRefused(f"the request is longer than {MAX_REQUEST_CHARS:,} bytes")
        wanted = ModelRequest(
            messages=messages,
            max_output_tokens=_tokens(ask.params, model),
            zone=request.zone,
            language=request.language,
        )
        try:
            async with asyncio.timeout(self._limit_s):
                reply = await model.provider.complete(wanted)
        except TimeoutError:
            raise AskRefused(f"the model did not answer within {self._limit_s:g} s") from None
        except ProviderError as exc:
            raise AskRefused(f"the model cannot be had: {exc.kind}") from exc
        await self._count(request, ask, model, reply)
        return {
            "role": "assistant",
            "content": {"type": "text", "text": reply.text},
            "model": reply.model or model.model,
            "stopReason": _STOP_REASONS.get(reply.finish_reason, "endTurn"),
        }

    async def _count(self, request: RequestContext, ask: SampleAsk, model: Model, reply: ModelReply) -> None:
        usage = replace(reply.usage, cost_micros=model.cost_micros(reply.usage, reply.model))
        _log.info(
            "an mcp server asked the model",
            server=ask.server,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
        )
        await self._charge(request.turn_id, usage)


def _tokens(params: Json, model: Model) -> int:
    wanted = params.get("maxTokens")
    bounds = [MAX_OUTPUT_TOKENS, model.limits.max_output_tokens]
    if isinstance(wanted, int) and wanted > 0:
        bounds.append(wanted)
    return min(bounds)


def _messages(params: Json, *, vision: bool) -> list[Message]:
    """Return the rows of a request: the server's system prompt, if it has one, and its messages."""
    rows: list[Message] = []
    system = params.get("systemPrompt")
    if isinstance(system, str) and system.strip():
        rows.append({"role": "system", "content": system})
    messages = params.get("messages")
    for entry in messages if isinstance(messages, list) else []:
        if not isinstance(entry, Mapping) or entry.get("role") not in {"user", "assistant"}:
            raise AskRefused("a message is neither the user's nor the assistant's")
        rows.append({"role": entry["role"], "content": _content(entry.get("content"), vision=vision)})
    if not rows or rows[-1]["role"] == "system":
        raise AskRefused("there is no message to answer")
    if params.get("tools"):
        raise AskRefused("tools cannot be used")
    return rows


def _content(content: Any, *, vision: bool) -> str | list[dict[str, Any]]:
    """Return one message's content, of one block or several; text alone as a string."""
    blocks = [_block(block, vision=vision) for block in (content if isinstance(content, list) else [content])]
    if all(block["type"] == "text" for block in blocks):
        return "\n\n".join(block["text"] for block in blocks)
    return blocks


def _block(block: Any, *, vision: bool) -> dict[str, Any]:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "image" and isinstance(block.get("data"), str) and block.get("mimeType") in _IMAGE_TYPES:
        if not vision:
            raise AskRefused("the model takes no pictures")
        return {"type": "image_url", "image_url": {"url": f"data:{block['mimeType']};base64,{block['data']}"}}
    raise AskRefused("a message has something other than text and pictures")
