"""The circumstances of a turn: whose rights it has, in which scope it runs, and which tools exist in it."""

from __future__ import annotations

from collections.abc import Callable

from bot.access.policy import AccessPolicy
from bot.agent.memory_runs import RUN_CHAT_TYPE, RUN_ROLE
from bot.log import get_logger
from bot.messages import InboundMessage, Origin
from bot.records import Turn
from bot.toolkit.base import Tool
from bot.toolkit.context import RequestContext
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.results import failure_text

_log = get_logger(__name__)


class Circumstances:
    """Says what a turn may do, in code and not in a prompt (design G8)."""

    def __init__(
        self,
        policy: AccessPolicy,
        registry: ToolRegistry,
        *,
        default_zone: str,
        language: str,
        tools_away: Callable[[], str] = str,
    ) -> None:
        """`tools_away` says which tools cannot be used now, and why, in one line for the model; '' for none."""
        self._policy = policy
        self._registry = registry
        self._default_zone = default_zone
        self._language = language
        self._tools_away = tools_away

    def request_of(self, turn: Turn) -> RequestContext:
        """Return the circumstances as tools and prompts see them; the rights are those of this moment."""
        message = turn.messages[0].message
        is_own = turn.origin is Origin.MEMORY  # the bot's own work, by nobody's rights
        role = RUN_ROLE if is_own else self._policy.role_of(turn.address.channel, message.sender_id)
        return RequestContext(
            turn=turn,
            address=turn.address,
            chat_type=RUN_CHAT_TYPE if is_own else message.chat_type,
            sender_id=message.sender_id,
            role=role,
            zone=turn.zone or self._default_zone,
            language=self._language,
            message_id=message.message_id,
            reply_to=message.reply_to,
            scope=_scope(message),
            tools_away=self._tools_away(),
        )

    def tools_of(self, request: RequestContext) -> frozenset[str]:
        """Return the names of the tools that exist in this turn: by scope, role and chat type."""
        names = []
        for name in self._registry.tool_names:
            tool = self._registry.get(name)
            if tool is not None and self._has(tool, request):
                names.append(name)
        return frozenset(names)

    def _has(self, tool: Tool, request: RequestContext) -> bool:
        try:
            if tool.unavailable or request.scope not in tool._scopes:  # noqa: SLF001 - a contract
                return False
            return not self._policy.refusal(request.role, request.chat_type, tool.risk)
        except Exception as exc:  # noqa: BLE001 - a plugin's own code: one tool less, and the turn goes on
            _log.error("tool left out of a turn", tool=type(tool).__name__, error=failure_text(exc))
            return False


def _scope(message: InboundMessage) -> str:
    if message.origin is Origin.MEMORY:
        return "memory"
    return "subagent" if message.origin is Origin.SUBAGENT and "outcome" not in message.meta else "core"
