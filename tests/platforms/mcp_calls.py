"""What a call of a scripted MCP tool does: log, progress, waiting, questions to the client, the result."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

from tests.platforms.mcp_peer import Peer, Refused, RequestId
from tests.platforms.mcp_record import Record
from tests.platforms.mcp_script import Ask, Call, Json, Tool, text

URL_ELICITATION_REQUIRED = -32042
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def _echo(call: Call) -> Json:
    return {"content": [text(str(call.arguments.get("text", "")))]}


def _add(call: Call) -> Json:
    total = call.arguments["a"] + call.arguments["b"]
    return {"content": [text(str(total))], "structuredContent": {"sum": total}}


def _answers(call: Call) -> Json:
    return {"content": [text(json.dumps(call.answers, sort_keys=True))]}


def _ticket(call: Call) -> Json:
    return {"content": [text(f"Ticket {call.performed} is open.")]}


def _name(call: Call) -> Json:
    return {"content": [text(call.tool)]}


def _arguments(call: Call) -> Json:
    return {"content": [text(json.dumps(call.arguments, sort_keys=True))]}


BEHAVIOURS: dict[str, Callable[[Call], Json]] = {
    "echo": _echo,
    "add": _add,
    "answers": _answers,
    "ticket": _ticket,
    "name": _name,
    "arguments": _arguments,
}


class InputRequired(Exception):
    """2026-07-28: the call has to come again with the client's answer."""

    def __init__(self, result: Json) -> None:
        super().__init__("input required")
        self.result = result


class CallDesk:
    """Performs the calls of one server, and holds those whose tool waits to be released."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._released: dict[str, asyncio.Event] = {}

    def release(self, name: str) -> None:
        """Let the held calls of a tool go on, those that wait now and those that come."""
        self._gate(name).set()

    def _gate(self, name: str) -> asyncio.Event:
        return self._released.setdefault(name, asyncio.Event())

    async def call(self, tool: Tool, params: Json, peer: Peer, identity: RequestId, *, modern: bool) -> Json:
        """Perform a call and return its result.

        Raises:
            Refused: the call ends with a JSON-RPC error.
        """
        await self._tell(tool, params, peer, identity, modern=modern)
        if tool.delay_s:
            await asyncio.sleep(tool.delay_s)
        if tool.hold:
            await self._gate(tool.name).wait()
        try:
            answers = self._rounds(tool, params) if modern else await self._ask_all(tool, peer, identity)
        except InputRequired as required:
            return required.result
        arguments = params.get("arguments") or {}
        self._record.add("performed", tool=tool.name, arguments=arguments)
        performed = self._record.performed(tool.name)
        return await _result(tool, Call(tool=tool.name, arguments=arguments, answers=answers, performed=performed))

    async def _tell(self, tool: Tool, params: Json, peer: Peer, identity: RequestId, *, modern: bool) -> None:
        """Send the tool's log messages and progress, as far as the client wants them."""
        for entry in tool.log:
            threshold = peer.log_level if modern else peer.log_level or "debug"
            if threshold is not None and LEVELS.index(entry["level"]) >= LEVELS.index(threshold):
                await peer.notify("notifications/message", entry, about=identity)
        token = (params.get("_meta") or {}).get("progressToken")
        if token is not None:
            for step in tool.progress:
                await peer.notify("notifications/progress", {"progressToken": token, **step}, about=identity)

    async def _ask_all(self, tool: Tool, peer: Peer, identity: RequestId) -> list[Any]:
        """2025-11-25: ask one after the other, by requests of the server's own."""
        answers = []
        for ask in tool.asks:
            if ask.as_error:
                data = {"elicitations": [ask.params]}
                raise Refused(URL_ELICITATION_REQUIRED, ask.params["message"], data)
            response = await peer.ask(ask.method, ask.params, about=identity)
            answers.append(response.get("result", {"error": response.get("error")}))
        return answers

    def _rounds(self, tool: Tool, params: Json) -> list[Any]:
        """2026-07-28: take the answers so far from the request's state, and ask the next question by the result."""
        answers: list[Any] = json.loads(params["requestState"]) if params.get("requestState") else []
        for key, answer in sorted((params.get("inputResponses") or {}).items()):
            if key == _key(len(answers)):
                answers.append(answer)
        if len(answers) < len(tool.asks):
            raise InputRequired(_input_required(tool.asks[len(answers)], answers))
        return answers


def _key(number: int) -> str:
    return f"question-{number}"


def _input_required(ask: Ask, answers: list[Any]) -> Json:
    params = {key: value for key, value in ask.params.items() if key != "elicitationId"}  # 2025-11-25 only
    return {
        "resultType": "input_required",
        "inputRequests": {_key(len(answers)): {"method": ask.method, "params": params}},
        "requestState": json.dumps(answers),
    }


async def _result(tool: Tool, call: Call) -> Json:
    if tool.answer is not None:
        computed = tool.answer(call)
        return await computed if inspect.isawaitable(computed) else computed
    if tool.does:
        return BEHAVIOURS[tool.does](call)
    result: Json = {"content": tool.content}
    if tool.structured is not None:
        result["structuredContent"] = tool.structured
    if tool.is_error:
        result["isError"] = True
    return result
