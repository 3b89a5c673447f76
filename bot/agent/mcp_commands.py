"""The commands /mcp and /answer: how MCP servers stand, and answers to what they ask of a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from bot.agent.commands import CommandResult, Handler
from bot.messages import ChatType, Role
from bot.records import Turn
from bot.security.untrusted import on_one_line
from bot.texts import say
from bot.toolkit.context import RequestContext
from bot.toolkit.mcp.questions import NotUnderstood, split_answer
from bot.toolkit.mcp.server_asks import ServerAsks
from bot.toolkit.mcp.server_calls import ServerState, ServerStatus


class McpCommands:
    """See `CommandGroup`. `statuses` are those of all configured servers."""

    def __init__(self, asks: ServerAsks, statuses: Callable[[], Sequence[ServerStatus]]) -> None:
        self._asks = asks
        self._statuses = statuses

    def handlers(self) -> Mapping[str, Handler]:
        """See `CommandGroup.handlers`."""
        return {"mcp": self._mcp, "answer": self._answer}

    async def _mcp(self, _turn: Turn, request: RequestContext, _arguments: str) -> CommandResult:
        language = request.language
        # Problems tell of machines and addresses; they are for those who run them.
        in_full = request.role is Role.OWNER and request.chat_type is ChatType.PRIVATE
        lines = [_line(status, language, in_full=in_full) for status in self._statuses()]
        if not lines:
            return CommandResult(text=say(language, "mcp.none"))
        return CommandResult(text=say(language, "mcp.list", servers="\n".join(lines)))

    async def _answer(self, _turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        language = request.language
        name, text = split_answer(arguments)
        if not text:
            return CommandResult(text=say(language, "mcp.answer.usage"))
        open_ones = {} if name else self._asks.questions.answerable(request)
        if len(open_ones) > 1:
            lines = [f"- {name} · {words}" for name, words in open_ones.items()]
            return CommandResult(text=say(language, "mcp.answer.which", questions="\n".join(lines)))
        try:
            end = self._asks.answer(name, text, request)
        except NotUnderstood as exc:
            return CommandResult(text=str(exc))
        return CommandResult(text=say(language, f"mcp.answer.{end}"))


def _line(status: ServerStatus, language: str, *, in_full: bool) -> str:
    state = say(language, f"mcp.state.{status.state}")
    if status.state is ServerState.READY:
        state = f"{state}, {say(language, 'mcp.server.ready', count=status.tools)}"
    elif status.retry_in_s is not None:
        state = f"{state}, {say(language, 'mcp.server.retry', seconds=ceil(status.retry_in_s))}"
    lines = [say(language, "mcp.server", name=status.name, state=state)]
    if in_full:
        lines += [f"  {on_one_line(words)}" for words in (status.problem, *status.faults) if words]
    return "- " + "\n".join(lines)
