"""What the SDK calls when a server asks something: its requests as our questions, our replies as its results.

Imported only with the SDK. Who is asked, and how, is decided by whoever gives `elicit` and `sample`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.client.session import ClientRequestContext
from pydantic import BaseModel

from bot.log import get_logger
from bot.toolkit.mcp.asks import AskRefused, ElicitAsk, ElicitMode, SampleAsk
from bot.toolkit.mcp.offers import Json
from bot.toolkit.mcp.session import SessionSpec

_log = get_logger(__name__)


def asking_people(spec: SessionSpec) -> Any:
    """Return the SDK's callback for elicitation; None, which announces nothing, without anybody to ask."""
    elicit = spec.elicit
    if elicit is None:
        return None

    async def ask(params: Json) -> BaseModel:
        is_visit = params.get("mode") == ElicitMode.URL
        question = ElicitAsk(
            server=spec.name,
            message=str(params.get("message", "")),
            limit_s=spec.section.answer_timeout_s,
            mode=ElicitMode.URL if is_visit else ElicitMode.FORM,
            schema={} if is_visit else params.get("requestedSchema", {}),
            url=str(params.get("url", "")),
        )
        reply = await elicit(question)
        content = {} if reply.content is None else {"content": dict(reply.content)}
        return types.ElicitResult.model_validate({"action": reply.action.value, **content}, by_name=False)

    return _guarded(spec.name, ask)


def asking_the_model(spec: SessionSpec) -> Any:
    """Return the SDK's callback for sampling; None without a model to ask."""
    sample = spec.sample
    if sample is None:
        return None

    async def ask(params: Json) -> BaseModel:
        reply = await sample(SampleAsk(server=spec.name, params=params))
        return types.CreateMessageResult.model_validate(reply, by_name=False)

    return _guarded(spec.name, ask)


def _guarded(server: str, ask: Callable[[Json], Awaitable[BaseModel]]) -> Any:
    async def answer(context: ClientRequestContext, params: BaseModel) -> BaseModel:  # noqa: ARG001
        try:
            return await ask(as_json(params))
        except AskRefused as refusal:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(refusal))
        except Exception:  # noqa: BLE001 - a fault of ours must not take the session down
            _log.exception("question of an mcp server failed", server=server)
            return types.ErrorData(code=types.INTERNAL_ERROR, message="The question could not be answered")

    return answer


def as_json(value: BaseModel) -> dict[str, Any]:
    """Return a value of the SDK as the protocol's JSON."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)
