"""The agent loop: claims turns, runs each to its end, and ends it in one transaction.

Turns of different lanes run side by side, up to a limit; one lane has one turn at a time, which the claim sees
to. What happens between the model and its tools is the runner's part, words are `bot/texts`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from bot.access.policy import AccessPolicy
from bot.agent.arrivals import Arrivals
from bot.agent.circumstances import Circumstances
from bot.agent.commands import Commands
from bot.agent.consolidation import Consolidator
from bot.agent.draft_pace import DraftPace
from bot.agent.drafting import DraftParts
from bot.agent.endings import EndingWriter
from bot.agent.goals import GoalKeeper
from bot.agent.hearing import Listener
from bot.agent.memory_runs import MemoryKeeper
from bot.agent.models import Model
from bot.agent.presence import Presence
from bot.agent.prompt import ContextBuilder, TurnPrompt
from bot.agent.runner import AgentRunner
from bot.agent.runs import RunOutcome, RunSpec
from bot.agent.user_row import user_row
from bot.agent.voice import Voice
from bot.bus import MessageBus
from bot.clock import US_PER_S, Clock
from bot.config import LimitsSection
from bot.errors import StaleLease, StoreError, StoreUnavailable
from bot.faults import fault_point
from bot.interfaces import Channel, Store, Topic
from bot.log import bind, get_logger
from bot.messages import Address, Origin, Role
from bot.records import Ending, Message, QueuedMessage, Turn, TurnState
from bot.toolkit.context import RequestContext
from bot.toolkit.idle import IdleSessions

MAX_ATTEMPTS = 3
"""Claims after which a turn is buried instead of tried again (design, G1)."""

_RENEW_S = 10.0  # a third of the lease
_STORE_RETRY_S = 1.0
_SECONDS_AN_HOUR = 3600

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Numbers and names the loop goes by."""

    limits: LimitsSection
    default_zone: str
    language: str
    catch_up_max_age_h: float
    channels: Collection[str] | None = None  # None: turns of all channels


class TurnEnded(Protocol):
    """Called after a turn's ending is committed; `replied` says that an answer is in the outbox."""

    def __call__(self, channel: str, message_ids: list[str], *, replied: bool) -> None:
        """Take note; must not block or raise."""


@dataclass(slots=True, kw_only=True)
class _Running:
    """A turn under way in this process."""

    turn: Turn
    task: asyncio.Task[None]
    stopped: bool = False
    ended: bool = False  # its ending is committed


class AgentLoop:
    """Runs turns until it is told to drain. Implements `TurnControl`."""

    def __init__(
        self,
        *,
        bus: MessageBus,
        store: Store,
        clock: Clock,
        policy: AccessPolicy,
        runner: AgentRunner,
        builder: ContextBuilder,
        endings: EndingWriter,
        consolidator: Consolidator,
        memory: MemoryKeeper,
        listener: Listener,
        voice: Voice,
        channels: Mapping[str, Channel],
        settings: LoopSettings,
        idle_sessions: IdleSessions,
        on_end: TurnEnded,
        tools_away: Callable[[], str] = str,
    ) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._circumstances = Circumstances(
            policy,
            runner.parts.registry,
            default_zone=settings.default_zone,
            language=settings.language,
            tools_away=tools_away,
        )
        self._runner = runner
        self._builder = builder
        self._endings = endings
        self._consolidator = consolidator
        self._memory = memory
        self._listener = listener
        self._voice = voice
        self._goals = GoalKeeper(store, clock, policy)
        self._channels = channels
        self._arrivals = Arrivals(channels, store.outbox)
        self._drafts = DraftParts(turns=store.turns, outbox=store.outbox, clock=clock, pace=DraftPace(), ring=bus.ring)
        self._settings = settings
        self._idle_sessions = idle_sessions
        self._on_end = on_end
        # By claim, not by turn: a claim that was lost may still be winding up while the turn is resumed here.
        self._running: dict[tuple[int, int], _Running] = {}
        self._busy = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._hurried = asyncio.Event()
        self.commands: Commands | None = None  # set by the roof: commands need the loop as their control

    # --- control

    def stop(self, address: Address) -> bool:
        """See `TurnControl.stop`: everything at work for the address ends but commands and memory runs beside it."""
        stopped = False
        for running in self._running.values():
            if running.ended or running.turn.lane.startswith("now:") or running.turn.origin is Origin.MEMORY:
                continue
            if running.turn.address == address:
                running.stopped = True
                running.task.cancel()
                stopped = True
        return self._voice.stop(address) or stopped

    def running(self) -> int:
        """See `TurnControl.running`."""
        return sum(not item.turn.lane.startswith("now:") for item in self._running.values())

    def hurry(self) -> None:
        """End a shutdown's patience with running turns; they go on at the next start."""
        self._hurried.set()

    # --- life

    async def run(self) -> None:
        """Claim and run turns until cancelled; then no new turn begins, running ones are left to `drain`."""
        async with asyncio.TaskGroup() as group:
            renewal = group.create_task(self._renew(), name="renew leases")
            try:
                while True:
                    try:
                        turns = await self._bus.consume_inbound(self._room, self._settings.channels)
                    except StoreUnavailable as exc:
                        _log.error("no turn can be claimed now", error=str(exc))
                        await asyncio.sleep(_STORE_RETRY_S)
                        continue
                    fault_point("claimed")
                    for turn in turns:
                        self._start(group, turn)
            except asyncio.CancelledError:
                await self._drain()
                raise
            finally:
                await self._voice.close()
                await self._consolidator.close()
                renewal.cancel()

    def _room(self) -> int:
        """Return how many more turns may begin; those that wait for a subagent leave it their place."""
        waits = self._runner.parts.waits
        waiting = sum(item.turn.id in waits for item in self._running.values())
        return self._settings.limits.turns_at_once - self.running() + waiting

    def _start(self, group: asyncio.TaskGroup, turn: Turn) -> None:
        task = group.create_task(self._turn(turn), name=f"turn {turn.id}")
        self._running[turn.id, turn.fence] = _Running(turn=turn, task=task)
        self._idle.clear()
        self._busy.set()

    async def _drain(self) -> None:
        """Let running turns end, up to the grace; what is left is cancelled and goes on at the next start."""
        waits = [
            asyncio.create_task(self._idle.wait(), name="turns end"),
            asyncio.create_task(self._hurried.wait(), name="no patience left"),
        ]
        grace_s = self._settings.limits.shutdown_grace_s
        await asyncio.wait(waits, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self._running:
            _log.warning("turns cut by shutdown, they go on at the next start", count=len(self._running))

    async def _renew(self) -> None:
        while True:
            await self._busy.wait()  # no waking up while nothing runs
            await asyncio.sleep(_RENEW_S)
            try:
                if self._running:
                    await self._store.turns.renew([item.turn.id for item in self._running.values()])
            except StoreUnavailable as exc:
                _log.error("leases cannot be renewed now", error=str(exc))

    # --- one turn

    async def _turn(self, turn: Turn) -> None:
        """Run one turn. One of the four places that catch everything: the next turn must get its chance."""
        try:
            with bind(channel=turn.address.channel, session=turn.session_id, turn=turn.id):
                await self._guarded(turn)
        except StoreError as exc:
            # Not even the ending could be written. The lease runs out and the turn is resumed.
            _log.error("turn could not be ended", turn=turn.id, error=str(exc))
        finally:
            if self._room() <= 0 or turn.attempt > 1 or turn.origin is Origin.MEMORY:
                self._bus.ring(Topic.INBOUND)  # work may have waited for this place, or for this suspect's end
            del self._running[turn.id, turn.fence]
            if not self._running:
                self._idle.set()
                self._busy.clear()

    async def _guarded(self, turn: Turn) -> None:
        try:
            await self._handle(turn)
        except asyncio.CancelledError:
            await asyncio.shield(self._cancelled(turn))
            if not self._running[turn.id, turn.fence].stopped:
                raise
        except StaleLease:
            _log.warning("turn was taken over by another worker")
        except StoreUnavailable as exc:
            _log.error("turn cannot be recorded now", error=str(exc))
            await asyncio.sleep(_STORE_RETRY_S)
            # It counts, or a turn that alone cannot be recorded would ask its model without end.
            await self._store.turns.release(turn, counts=True)
            self._bus.ring(Topic.INBOUND)
        except Exception as exc:  # noqa: BLE001 - one of the four boundaries (design 10.6)
            _log.exception("turn failed")
            await self._finish(turn, self._endings.failed(turn, self._circumstances.request_of(turn), exc))

    async def _cancelled(self, turn: Turn) -> None:
        """Last write of a turn that was cancelled: ended by /stop, or given back for the next start."""
        running = self._running[turn.id, turn.fence]
        if running.ended:
            return
        if running.stopped:
            await self._finish(turn, self._endings.stopped(turn))
        else:
            await self._store.turns.release(turn)

    async def _handle(self, turn: Turn) -> None:
        request = self._circumstances.request_of(turn)
        if turn.attempt > MAX_ATTEMPTS:
            _log.error("turn buried", attempts=turn.attempt - 1)
            ending = self._endings.dead(turn, request, attempts=turn.attempt - 1)
            await self._finish(turn, self._memory.given_up(turn, ending) if turn.origin is Origin.MEMORY else ending)
            return
        if turn.origin is Origin.MEMORY:
            tools, model = self._circumstances.tools_of(request), self._model_of(turn)
            await self._finish(turn, await self._memory.run(turn, request, tools, model))
            return
        if turn.origin is Origin.GOAL and (refusal := self._goals.refusal(turn, request)) is not None:
            await self._finish(turn, refusal)
            return
        if request.role is Role.STRANGER:
            await self._finish(turn, self._endings.revoked(turn, request))
            return
        message = turn.messages[0].message
        if turn.origin is Origin.USER and self.commands is not None and self.commands.knows(message.text):
            result = await self.commands.run(turn, request)
            await self._finish(turn, self._endings.command(turn, result))
            if result.afterwards is not None:
                result.afterwards()
            return
        if self._is_stale(turn):
            await self._finish(turn, self._endings.stale(turn, request))
            return
        await self._converse(turn, request)

    async def _converse(self, turn: Turn, request: RequestContext) -> None:
        channel = self._channels.get(turn.address.channel)
        async with Presence(channel, self._drafts, turn) as presence:
            with self._idle_sessions.using(turn.session_id, goes_on=turn.lane == turn.address.key):
                outcome = await self._ask(turn, request, presence)
                await presence.settle()
            if outcome.error is not None:
                _log.warning("model failed", kind=outcome.error.kind, detail=outcome.error.detail)
                ending = self._endings.provider_failed(outcome, request, outcome.error)
            else:
                ending = self._endings.answered(outcome, request)
            ending = replace(ending, context_tokens=outcome.context_tokens)
            ending = await self._goals.settle(ending, outcome, request)
            await self._finish(outcome.turn, ending)
            self._voice.turn_ended(ending)
            estimated_tokens = self._runner.parts.governor.estimated_tokens(str(turn.session_id))
            self._consolidator.turn_ended(outcome.turn, self._model_of(turn), estimated_tokens=estimated_tokens)

    def _model_of(self, turn: Turn) -> Model:
        return self._consolidator.fitted(self._runner.parts.models.get(turn.model))

    async def _ask(self, turn: Turn, request: RequestContext, presence: Presence) -> RunOutcome:
        limits = self._settings.limits
        model = self._model_of(turn)
        window = await self._store.history.window(turn.session_id, limit_tokens=model.limits.tail_tokens)
        begins = not window.rows
        messages = [await self._arrivals.completed(item, begins=begins) for item in turn.messages]
        turn = replace(turn, messages=tuple(messages))
        turn = await self._listener.heard(turn, request)
        prompt = await self._builder.for_turn(request, window.past, window_tokens=model.limits.context_window_tokens)
        fresh = [] if turn.has_rows else self._user_rows(turn, request, prompt)
        spec = RunSpec(
            request=request,
            system=prompt.system,
            history=window.rows,
            fresh=fresh,
            compose=lambda item: self._user_row(item, request, prompt),
            tools=self._circumstances.tools_of(request),
            model=model,
            on_text=presence.show if presence.shows_drafts else None,
            time_limit_s=limits.subagent_timeout_s if request.scope == "subagent" else None,
            is_spent=self._goals.is_spent,
        )
        outcome = await self._runner.run(turn, spec)
        outcome.context_tokens = self._runner.context_tokens(turn.session_id, spec.model)
        return outcome

    def _user_rows(self, turn: Turn, request: RequestContext, prompt: TurnPrompt) -> list[Message]:
        late = len(turn.messages) > 1
        return [self._user_row(item, request, prompt, late=late) for item in turn.messages]

    def _user_row(
        self, item: QueuedMessage, request: RequestContext, prompt: TurnPrompt, *, late: bool = False
    ) -> Message:
        now_us = self._clock.now_us()
        return user_row(item, request, now_us=now_us, late=late, skills=prompt.skills, shared=prompt.shared)

    async def _finish(self, turn: Turn, ending: Ending) -> None:
        """End the turn. Once begun this is carried through: a cancellation takes effect after it."""
        ending_task = asyncio.create_task(self._end(turn, ending), name=f"end turn {turn.id}")
        try:
            await asyncio.shield(ending_task)
        except asyncio.CancelledError:
            await asyncio.wait([ending_task])
            if not ending_task.cancelled() and (error := ending_task.exception()) is not None:
                _log.error("turn could not be ended", error=str(error))
            raise

    async def _end(self, turn: Turn, ending: Ending) -> None:
        more = await self._store.turns.finish(turn, ending)
        self._running[turn.id, turn.fence].ended = True
        fault_point("finished")
        if more:
            self._bus.ring(Topic.INBOUND)
        self._bus.ring(Topic.OUTBOUND)  # also without an answer: a draft may have to go
        message_ids = [item.message.message_id for item in turn.messages]
        self._on_end(turn.address.channel, message_ids, replied=bool(ending.outbound))
        if ending.state is not TurnState.DONE:
            _log.info("turn ended", state=ending.state, error=ending.error)

    # --- circumstances

    def _is_stale(self, turn: Turn) -> bool:
        """Say whether the message waited so long that acting on it would surprise its sender."""
        if turn.origin is not Origin.USER or turn.has_rows:
            return False
        age_us = self._clock.now_us() - turn.messages[-1].received_us
        return age_us > self._settings.catch_up_max_age_h * _SECONDS_AN_HOUR * US_PER_S
