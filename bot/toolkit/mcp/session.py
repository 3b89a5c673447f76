"""What a connection knows of a session without the SDK: how it is opened, how its calls fail, when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from bot.config import McpSection
from bot.errors import DutifulError
from bot.toolkit.mcp.asks import Elicit, Sample
from bot.toolkit.mcp.offers import Json, Offer
from bot.toolkit.mcp.server_calls import ProgressListener
from bot.web.resolver import Resolver


class Fate(StrEnum):
    """What became of a request that brought no answer."""

    UNSENT = "unsent"  # the server never got it, or refused it unread: it may be sent again
    REFUSED = "refused"  # the server answered that it will not
    UNKNOWN = "unknown"  # the server may have carried it out


class CallFailed(DutifulError):
    """A request brought no result.

    `is_over`: the session is of no use any more. `wants_login`: see `SessionFailed`. `is_answer`: the server said so,
    by an error of the protocol.
    """

    def __init__(
        self, text: str, fate: Fate, *, is_over: bool = False, wants_login: bool = False, is_answer: bool = False
    ) -> None:
        super().__init__(text)
        self.fate = fate
        self.is_over = is_over
        self.wants_login = wants_login
        self.is_answer = is_answer


class SessionFailed(DutifulError):
    """A session could not be opened, in one sentence for the person. `wants_login`: they have to log in first."""

    def __init__(self, text: str, *, wants_login: bool = False) -> None:
        super().__init__(text)
        self.wants_login = wants_login


@dataclass(slots=True, kw_only=True)
class CallMark:
    """What the transport saw of one request; filled in on the way."""

    is_tried: bool = False  # over HTTP: it was on its way
    is_unsent: bool = False
    is_session_gone: bool = False  # the server does not know the session: it did not look at the request
    is_session_doubtful: bool = False  # it refused the request, perhaps for that reason
    status: int = 0  # of an HTTP answer that is an error; 0: none was seen
    problem: str = ""  # why it was not sent, where that is known better than from the status
    is_unauthorized: bool = False  # the server did not take the login, or misses one; nothing went well since
    lacks: str | None = None  # the scopes that the server wants beyond those of the login ("": it does not say which)


current_mark: ContextVar[CallMark | None] = ContextVar("dutiful_mcp_mark", default=None)
"""The mark of the request that this task, or the one that caused it, is about."""


class Signals:
    """What a session tells its owner as it happens."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.why = ""
        self.changed = asyncio.Event()
        self.doubt = asyncio.Event()
        """Whether the server still knows the session is not certain; it is to be asked."""
        self.look: Callable[[], None] = lambda: None
        """Asks whether the session is over by now; for transports that can tell at once."""

    def end(self, why: str) -> None:
        """Say that the session is over; the first reason stays."""
        if not self.over.is_set():
            self.why = why
            self.over.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """All that is needed to open a session. `oauth` makes an object of the SDK's HTTP library, None without a login.

    `elicit` and `sample` are None where the server is not to be told that it may ask.
    """

    name: str
    section: McpSection
    workspace: Path
    resolver: Resolver
    oauth: Callable[[], Any] | None = None
    elicit: Elicit | None = None
    sample: Sample | None = None


class Session(Protocol):
    """An open session. Requests may come from any task, and side by side."""

    @property
    def signals(self) -> Signals:
        """What it tells."""

    async def list_all(self) -> Offer:
        """Return everything the server lists. Raises `CallFailed`."""

    async def call_tool(self, tool: str, arguments: Json, on_progress: ProgressListener | None) -> Json:
        """Return a CallToolResult. Raises `CallFailed`."""

    async def read_resource(self, uri: str) -> Json:
        """Return a ReadResourceResult. Raises `CallFailed`."""

    async def get_prompt(self, prompt: str, arguments: Mapping[str, str]) -> Json:
        """Return a GetPromptResult. Raises `CallFailed`."""

    async def check(self) -> None:
        """Ask for something small, to see whether the server answers. Raises `CallFailed`."""

    async def watch(self) -> None:
        """Listen for changes of the lists until cancelled, where the protocol needs a request for that."""


Opener = Callable[[SessionSpec, Signals], AbstractAsyncContextManager[Session]]
"""Opens a session; enter and leave in one task. Entering raises `SessionFailed`."""


class Limits:
    """Bounds of what a server may send; beyond them a server is broken or hostile."""

    MESSAGE_BYTES = 16 * 1024 * 1024  # one message, so also one answer: a few pictures
    PAGES = 100
    ENTRIES = 1_000  # of one kind
    ENTRY_BYTES = 256 * 1024
    LISTING_BYTES = 8 * 1024 * 1024  # of one kind
