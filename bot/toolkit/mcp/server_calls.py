"""The seam between a server's tools and its connection: how calls are made and how they fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from bot.errors import DutifulError

ProgressListener = Callable[[float, float | None, str], None]
"""Takes (done so far, total or None, the server's words) of a running call; must not block or raise."""


class ServerState(StrEnum):
    """How a server stands."""

    STARTING = "starting"  # not connected yet, trying
    READY = "ready"  # its calls are answered
    OFFLINE = "offline"  # lost or not reachable, trying again
    LOGIN = "login"  # waits for `dutiful mcp login NAME`
    OFF = "off"  # switched off in the configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """One server for `/mcp`, `dutiful mcp list` and `dutiful status`; free of secrets."""

    name: str
    transport: str  # "stdio", "http" or "sse"
    state: ServerState
    problem: str = ""
    retry_in_s: float | None = None
    tools: int = 0
    resources: int = 0
    prompts: int = 0
    faults: tuple[str, ...] = ()


class McpCallError(DutifulError):
    """A call that brought no answer. The text is for the model: what happened, and what it means.

    `outcome_unknown`: the server may have carried it out; it must not be repeated blindly. `wants_login`: a person
    has to log in, or to agree to more, before it can be made. `is_answer`: the server answered by an error.
    """

    def __init__(
        self, text: str, *, outcome_unknown: bool = False, wants_login: bool = False, is_answer: bool = False
    ) -> None:
        super().__init__(text)
        self.outcome_unknown = outcome_unknown
        self.wants_login = wants_login
        self.is_answer = is_answer


class ServerCalls(Protocol):
    """What the tools of one server need of its connection. Results are the protocol's JSON."""

    @property
    def name(self) -> str:
        """The server's name in the configuration."""

    @property
    def state(self) -> ServerState:
        """How it stands now."""

    @property
    def problem(self) -> str:
        """Why it is not ready, in words for the person; '' when it is."""

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        may_repeat: bool,
        on_progress: ProgressListener | None = None,
    ) -> Mapping[str, Any]:
        """Call a tool by the server's own name and return its CallToolResult.

        A server that is just being connected is waited for, within the limits of the configuration. With
        `may_repeat` (the tool only reads, or is idempotent) a call whose answer got lost is made once more.
        Cancelling the caller cancels the call on the server.

        Raises:
            McpCallError: not connected, over the time limit (named), lost, or refused by the protocol.
        """

    async def read_resource(self, uri: str) -> Mapping[str, Any]:
        """Return the ReadResourceResult of a resource. Raises `McpCallError`."""

    async def get_prompt(self, prompt: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the GetPromptResult of a prompt. Raises `McpCallError`."""
