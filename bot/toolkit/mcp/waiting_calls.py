"""Calls of servers that may have to wait for a person: the turn ends, the call goes on, its result comes as a message.

Every call of a server's tool runs here in a task of its own. As long as nothing is asked the turn waits for it as for
any other tool. Once the server asks a person, the turn gets a result that says so; the call then belongs to this
module alone, and what it brings enters through the bus. A note on disk stands for each such call, so that after a
crash the chat hears that its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from bot.errors import StoreError
from bot.log import get_logger
from bot.messages import Address, ChatType, InboundMessage, Origin, new_id
from bot.security.untrusted import end_marks
from bot.toolkit.base import ToolResult
from bot.toolkit.mcp.asks import LimitHolder, current_holder, hold_limit
from bot.toolkit.mcp.private_file import write_private
from bot.toolkit.mcp.questions import End, Questions
from bot.toolkit.results import failure_text

if TYPE_CHECKING:  # it leads back here, by way of the room
    from bot.toolkit.context import RequestContext

ACCOUNT = "mcp"
"""Of the messages that tell a waiting call's outcome; with the call's reference it makes their identity."""

REPORT_CHARS = 16_000
"""Of a result that comes as a message; what is longer is cut."""

_RETRY_S = 5.0
_BACKGROUND = frozenset({Origin.JOB, Origin.MEMORY, Origin.HOOK})
_log = get_logger(__name__)

PublishInbound = Callable[[InboundMessage], Awaitable[object]]


class CallInFlight(LimitHolder):
    """One call under way. `outcome` is what the turn gets; done before the call's end, the call is on its own."""

    def __init__(self, server: str, tool: str, request: RequestContext) -> None:
        super().__init__()
        self.server = server
        self.tool = tool
        self.request = request
        self.reference = new_id("call-", 12)
        self.outcome: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self.one_at_a_time = asyncio.Lock()  # a person is asked one thing, then the next
        self.notes: list[str] = []  # for the model: what was asked in vain
        self.samples = 0  # requests to the model
        self.stopped = False
        self.task: asyncio.Task[None] | None = None

    @property
    def is_detached(self) -> bool:
        """Whether its turn does not wait for it any more."""
        return self.outcome.done()

    @property
    def may_ask(self) -> bool:
        """Whether a person is at hand: somebody's own turn, and not background work."""
        return self.request.scope == "core" and self.request.origin not in _BACKGROUND

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Keep the call's time limit from running while a person is waited for."""
        limit = self.limit
        if limit is None:
            yield
            return
        limit.pause()
        try:
            yield
        finally:
            limit.resume()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What is kept of a detached call, to report its outcome as unknown when the process does not live to see it."""

    message: InboundMessage
    path: Path


class WaitingCalls:
    """Runs servers' calls, and carries on those that wait for a person."""

    def __init__(self, folder: Path, questions: Questions) -> None:
        self._folder = folder
        self._questions = questions
        self._publish: PublishInbound | None = None
        self._in_flight: set[CallInFlight] = set()

    async def start(self, publish: PublishInbound) -> None:
        """Report the calls that an earlier process left waiting; from now on calls may be detached."""
        self._publish = publish
        for note in await asyncio.to_thread(_notes, self._folder):
            await publish(note.message)
            await asyncio.to_thread(note.path.unlink, missing_ok=True)

    async def close(self) -> None:
        """End all calls; the next process reports those that were detached. Idempotent."""
        tasks = [call.task for call in self._in_flight if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- calls

    async def run(
        self, server: str, tool: str, request: RequestContext, make: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run one call and return its result, or the words that say that it waits for a person.

        Cancelled before that, it cancels the call.
        """
        call = CallInFlight(server, tool, request)
        task = call.task = asyncio.create_task(self._work(call, make), name=f"mcp call of {server}: {tool}")
        self._in_flight.add(call)
        task.add_done_callback(lambda _: self._in_flight.discard(call))
        try:
            return await asyncio.shield(call.outcome)
        except asyncio.CancelledError:
            if not call.is_detached:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            raise

    async def _work(self, call: CallInFlight, make: Callable[[], Awaitable[ToolResult]]) -> None:
        hold_limit(call)
        try:
            result = await make()
        except asyncio.CancelledError:
            # Only now: a server that hears "cancel" to its question before it hears that the call is over may go on.
            self._questions.withdraw(call, End.STOPPED if call.stopped else End.LOST)
            if call.is_detached and call.stopped:
                await asyncio.shield(self._forget(call))  # who stopped it knows
            call.outcome.cancel()
            raise
        except Exception as exc:  # noqa: BLE001 - the boundary of one call whose turn may be over
            self._questions.withdraw(call, End.LOST)
            if not call.is_detached:
                call.outcome.set_exception(exc)
                return
            _log.exception("mcp call failed after its turn", server=call.server, tool=call.tool)
            result = ToolResult.error(f"{failure_text(exc)}. Whether the call had an effect is unknown.")
        self._questions.withdraw(call, End.LOST)
        if call.notes:
            result = result + "\n\n" + "\n".join(call.notes)
        if not call.is_detached:
            call.outcome.set_result(result)
            return
        await self._report(call, result)

    def asking(self, server: str) -> CallInFlight | None:
        """Return the call for whose sake a server asks something; None when that is not certain.

        Most requests come in the call's own context. Over pipes and the old SSE transport the protocol does not say
        what a request belongs to: then it is that of the one call which runs and has no question open.
        """
        holder = current_holder()
        if isinstance(holder, CallInFlight) and holder in self._in_flight and holder.server == server:
            return holder
        running = [call for call in self._in_flight if call.server == server and not self._questions.asks(call)]
        return running[0] if len(running) == 1 else None

    def stop(self, address: Address) -> int:
        """End the detached calls of a chat for /stop, with their questions; returns how many there were."""
        stopped = 0
        for call in self._in_flight:
            if call.is_detached and not call.stopped and call.request.address == address and call.task is not None:
                call.stopped = True
                self._questions.make_void(call, End.STOPPED)
                call.task.cancel()
                stopped += 1
        return stopped

    # --- after the turn

    async def detach(self, call: CallInFlight, words: str) -> None:
        """Let the turn of a call go on, with these words instead of a result."""
        if call.is_detached:
            return
        note = _Note(message=_message(call, _LOST, outcome="unknown"), path=self._path(call))
        await asyncio.to_thread(write_private, note.path, _written(note.message))
        if call.is_detached:  # it ended meanwhile
            await self._forget(call)
        else:
            call.outcome.set_result(ToolResult(words))

    async def _report(self, call: CallInFlight, result: ToolResult) -> None:
        """Hand in the outcome of a call whose turn is over."""
        assert self._publish is not None
        text = str(result)
        if len(text) > REPORT_CHARS:
            text = end_marks(text[:REPORT_CHARS]) + f"\n[cut here; the result has {len(text):,} characters]"
        if pictures := sum(block.get("type") == "image_url" for block in result.blocks):
            text += f"\n[{pictures} pictures of the result are left out]"
        message = _message(call, text, outcome="failed" if result.is_error else "done")
        while True:
            try:
                await self._publish(message)
                break
            except StoreError as exc:
                _log.error("outcome of an mcp call cannot be handed in now", server=call.server, error=str(exc))
                await asyncio.sleep(_RETRY_S)
        await self._forget(call)

    async def _forget(self, call: CallInFlight) -> None:
        await asyncio.to_thread(self._path(call).unlink, missing_ok=True)

    def _path(self, call: CallInFlight) -> Path:
        return self._folder / f"{call.reference}.json"


_LOST = (
    "The bot was restarted while this call waited for the person's answer. The question is void. Whether the call had "
    "an effect is unknown: say so, and do not repeat the call without asking the person."
)


def _message(call: CallInFlight, text: str, *, outcome: str) -> InboundMessage:
    """Return the outcome of a call as a message of its chat, with the rights of whose turn it was."""
    request = call.request
    return InboundMessage(
        address=request.address,
        account=ACCOUNT,
        message_id=call.reference,
        text=text,
        sender_id=request.sender_id,
        chat_type=request.chat_type,
        origin=Origin.APPROVAL,
        lane=request.turn.lane,
        reply_to=request.reply_to,
        meta={"outcome": outcome, "mcp_server": call.server, "mcp_tool": call.tool},
    )


def _written(message: InboundMessage) -> bytes:
    address = message.address
    return orjson.dumps(
        {
            "address": [address.channel, address.chat_id, address.thread_id],
            "message_id": message.message_id,
            "text": message.text,
            "sender_id": message.sender_id,
            "chat_type": message.chat_type,
            "lane": message.lane,
            "reply_to": message.reply_to,
            "meta": dict(message.meta),
        }
    )


def _read(content: bytes) -> InboundMessage:
    """Return what `_written` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    body: dict[str, Any] = orjson.loads(content)
    channel, chat_id, thread_id = body.pop("address")
    return InboundMessage(
        address=Address(channel=channel, chat_id=chat_id, thread_id=thread_id),
        account=ACCOUNT,
        origin=Origin.APPROVAL,
        chat_type=ChatType(body.pop("chat_type")),
        **body,
    )


def _notes(folder: Path) -> list[_Note]:
    """Return the notes of an earlier process. Blocks."""
    found = []
    for path in sorted(folder.glob("call-*.json")):
        try:
            found.append(_Note(message=_read(path.read_bytes()), path=path))
        except (OSError, ValueError, KeyError, TypeError) as exc:
            _log.warning("note of a waiting mcp call cannot be read", path=str(path), error=str(exc))
    return found
