"""What servers ask of us, in one place: the calls that may have to wait, the open questions, persons and the model.

Cheap to build. `connect` gives it the bus and the model before it starts; until then servers are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bot.log import get_logger
from bot.messages import Address, OutboundMessage
from bot.toolkit.mcp.asks import AskRefused, ElicitAsk, ElicitReply, SampleAsk
from bot.toolkit.mcp.elicitation import Elicitor
from bot.toolkit.mcp.offers import Json
from bot.toolkit.mcp.questions import End, Questions
from bot.toolkit.mcp.waiting_calls import PublishInbound, WaitingCalls

if TYPE_CHECKING:  # it leads back here, by way of the room
    from bot.toolkit.context import RequestContext

_MAX_SAMPLES = 10
"""Model calls for the sake of one call: more is a circle, or somebody's way to a free model."""

Sampler = Callable[["RequestContext", SampleAsk], Awaitable[Json]]
"""Asks the model of a turn; returns a CreateMessageResult. Raises `AskRefused`."""

_log = get_logger(__name__)


class ServerAsks:
    """Implements `asks.Elicit` and `asks.Sample` as methods."""

    def __init__(self, folder: Path) -> None:
        self.questions = Questions()
        self.calls = WaitingCalls(folder, self.questions)
        self._inbound: PublishInbound | None = None
        self._elicitor: Elicitor | None = None
        self._sampler: Sampler | None = None

    def connect(
        self,
        *,
        inbound: PublishInbound,
        outbound: Callable[[OutboundMessage], Awaitable[object]],
        sampler: Sampler,
    ) -> None:
        """Give it the bus and the model; before `start`."""
        self._inbound = inbound
        self._elicitor = Elicitor(self.calls, self.questions, outbound)
        self._sampler = sampler

    async def start(self) -> None:
        """Report what an earlier process left waiting."""
        if self._inbound is not None:
            await self.calls.start(self._inbound)

    async def close(self) -> None:
        """End all calls; idempotent."""
        await self.calls.close()

    # --- servers ask

    async def elicit(self, ask: ElicitAsk) -> ElicitReply:
        """See `asks.Elicit`."""
        if self._elicitor is None:
            raise AskRefused("nobody can be asked here")
        return await self._elicitor.elicit(ask)

    async def sample(self, ask: SampleAsk) -> Json:
        """See `asks.Sample`."""
        call = self.calls.asking(ask.server)
        if self._sampler is None or call is None:
            _log.warning("request of an mcp server to the model refused", server=ask.server)
            raise AskRefused("the request belongs to no call of this client that is certainly known")
        if call.samples >= _MAX_SAMPLES:
            raise AskRefused(f"this call has asked the model {_MAX_SAMPLES} times already")
        call.samples += 1
        with call.waiting():  # the time is ours, not the server's
            return await self._sampler(call.request, ask)

    # --- persons answer

    def answer(self, name: str, text: str, request: RequestContext) -> End:
        """See `Questions.answer`; without a name it is the one question that the person may answer here.

        Raises:
            NotUnderstood: the text does not fit the question, which stays open.
        """
        open_ones = [] if name else list(self.questions.answerable(request))
        return self.questions.answer(open_ones[0] if len(open_ones) == 1 else name, text, request)

    def stop(self, address: Address) -> int:
        """See `WaitingCalls.stop`."""
        return self.calls.stop(address)
