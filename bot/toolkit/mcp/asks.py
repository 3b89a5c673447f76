"""What a server asks of us in the middle of a call: words of a person, an answer of the model. Plain values.

The connection hands such requests on (`Elicit`, `Sample`) and sends back what it gets. Whose call it is that asks is
found by `waiting_calls`, who runs the calls; the connection only bounds a call by `CallLimit`, which stands still
while a person is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from bot.config import McpSection
from bot.errors import DutifulError
from bot.toolkit.mcp.offers import Json


class ElicitMode(StrEnum):
    """How a server asks a person (https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation)."""

    FORM = "form"  # for values by a schema, answered through us
    URL = "url"  # to visit a page; what happens there stays between the person and the server


class ElicitAction(StrEnum):
    """What a person did with a question; the protocol's own words."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"  # no answer: it expired, was withdrawn or stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitAsk:
    """A server's question to a person: the `params` of `elicitation/create`."""

    server: str  # its name in the configuration
    message: str
    limit_s: float  # how long an answer is waited for; then the server gets "cancel"
    mode: ElicitMode = ElicitMode.FORM
    schema: Json = field(default_factory=dict)  # `requestedSchema`; form mode only
    url: str = ""  # URL mode only


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitReply:
    """The answer, as the protocol wants it: `content` (the values) belongs to an accepted form only."""

    action: ElicitAction
    content: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleAsk:
    """A server's request to the model: `params` are those of `sampling/createMessage`, as JSON by their own names."""

    server: str
    params: Json


class AskRefused(DutifulError):
    """A request that is not carried out. The text goes to the server as the message of a JSON-RPC error."""


Elicit = Callable[[ElicitAsk], Awaitable[ElicitReply]]
"""Asks the person. Takes as long as they need, up to its own limit; cancelled, it withdraws the question.

To be awaited in the task of the SDK's callback, whose context tells whose call it is. Raises `AskRefused`.
"""

Sample = Callable[[SampleAsk], Awaitable[Json]]
"""Asks the model; returns the JSON of a CreateMessageResult. Raises `AskRefused`."""

OAuthOf = Callable[[str, McpSection], Any]
"""Returns the SDK's auth object (httpx2.Auth) for a server, None when it has no OAuth. Imports the SDK: slow."""


class CallLimit:
    """Bounds one call at a server: `async with CallLimit(timeout_s, slots): ...`, raises TimeoutError.

    Give the SDK no time limit of its own for that call, since it would not know of a person who is waited for. The
    time stands still while the call waits for one. From then on it leaves its slot to others and does not take it back:
    an answer that a person gave must not queue. Without `slots` the number of calls is not bounded.
    """

    def __init__(self, timeout_s: float, slots: asyncio.Semaphore | None = None) -> None:
        self._timeout_s = timeout_s
        self._slots = slots
        self._has_slot = False
        self._timeout: asyncio.Timeout | None = None
        self._waits = 0

    async def __aenter__(self) -> Self:
        """Wait for a slot, within the limit, and let the time run."""
        holder = _holder.get()
        timeout = asyncio.timeout(self._timeout_s)
        await timeout.__aenter__()
        self._timeout = timeout
        try:
            if self._slots is not None:
                await self._slots.acquire()
                self._has_slot = True
        except asyncio.CancelledError as exc:
            self._timeout = None
            await timeout.__aexit__(type(exc), exc, exc.__traceback__)  # raises TimeoutError if it was the limit
            raise
        if holder is not None:
            holder.limit = self
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the slot back, and turn a cancellation by the limit into TimeoutError."""
        timeout, self._timeout = self._timeout, None
        self._leave_slot()
        assert timeout is not None
        await timeout.__aexit__(kind, exc, trace)

    def pause(self) -> None:
        """Stop the time: a person is waited for. Without effect after the end."""
        self._waits += 1
        self._leave_slot()
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(None)

    def resume(self) -> None:
        """Let the time run from the beginning, once nobody is waited for any more."""
        self._waits -= 1
        if self._timeout is not None and not self._waits and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._timeout_s)

    def _leave_slot(self) -> None:
        if self._has_slot and self._slots is not None:
            self._has_slot = False
            self._slots.release()


class LimitHolder:
    """Where the limit of the call that runs in this context is found by who makes it wait."""

    def __init__(self) -> None:
        self.limit: CallLimit | None = None
        self.has_asked = False  # a person, who is not to be asked the same again

    @property
    def is_detached(self) -> bool:
        """Whether the turn that made the call does not wait for it any more."""
        return False


_holder: ContextVar[LimitHolder | None] = ContextVar("dutiful_mcp_call", default=None)


def hold_limit(holder: LimitHolder) -> None:
    """Have the limits of calls made in this task from now on known to `holder`."""
    _holder.set(holder)


def current_holder() -> LimitHolder | None:
    """Return the holder of this context: that of the call in whose task, or descendant of it, we are; None outside."""
    return _holder.get()
