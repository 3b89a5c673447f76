"""Consolidation: older rows of a conversation give way to a summary that the model writes of them.

It happens after a turn, beside everything else, and may fail without anybody noticing but the log: until a summary
is committed the rows stay in every request, and afterwards they stay in the table. When a turn asks the model, and
what a prompt shows of a summary, is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from bot.agent.governor_rows import is_request
from bot.agent.models import Model
from bot.agent.summary_words import SummaryFailed, ask_for_summary
from bot.agent.tokens import estimate_message
from bot.agent.transcript import line_of, portions
from bot.clock import Clock
from bot.conversation import HistoryRow, NewSummary, Uncovered
from bot.errors import ProviderError, StoreError
from bot.interfaces import ModelReply, Summaries
from bot.log import get_logger
from bot.records import Turn

AT_ONCE = 2
"""Conversations that are summarised at the same time; the others have their chance after their next turn."""

KEPT_SHARE = 0.6
"""How much of the replayed tail's budget the rows still fill afterwards: many turns pass until the next time."""

KEPT_TURNS = 3
"""The newest turns that /compact leaves as they are."""

_BACKOFF_S = 60
_BACKOFF_MAX_S = 6 * 3600
_REMEMBERED_FAILURES = 1_000
_PORTION_TOKENS = 16_000  # of rows in one call
_CHARS_PER_TOKEN = 2  # as in text that costs most, so that a portion fits whatever it is written in
_PORTION_MIN_CHARS = 2_000

_log = get_logger(__name__)

Saver = Callable[[NewSummary, int], Coroutine[Any, Any, bool]]
"""Commits the last summary of a consolidation, with the number of messages summarised; False as `Summaries.save`."""


_CutOf = Callable[[Uncovered, Sequence[int]], int | None]
"""Chooses, of the places where a conversation may be cut, the first row to keep; None to leave it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is to be summarised: the text of the rows in portions, and how many messages people see in them."""

    portions: Sequence[tuple[str, int]]
    messages: int


class Consolidator:
    """Summarises conversations, each by one task at a time. `close` ends all of them."""

    def __init__(
        self, summaries: Summaries, clock: Clock, *, replay_tokens: int, zone: str, call_limit_s: float
    ) -> None:
        self._summaries = summaries
        self._clock = clock
        self._replay_tokens = replay_tokens
        self._zone = ZoneInfo(zone)
        self._call_limit_s = call_limit_s
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failures: OrderedDict[int, tuple[int, float]] = OrderedDict()  # session: how many, and not before when
        self._closed = False

    @staticmethod
    def fitted(model: Model) -> Model:
        """Return the model with the limits of its requests: what a summary will cover stays in until it does.

        A model without network writes no summaries; its conversations are cut at `[sessions] replay_tokens`.
        """
        if not model.provider.needs_network:
            return model
        return replace(model, limits=replace(model.limits, is_uncut=True))

    def turn_ended(self, turn: Turn, model: Model, *, estimated_tokens: int | None) -> None:
        """Consider the conversation of a turn that has ended; returns at once.

        `estimated_tokens` is what its last request held in all, None where nobody knows.
        """
        session_id = turn.session_id
        if self._closed or not model.provider.needs_network or session_id in self._tasks:
            return
        if estimated_tokens is not None and estimated_tokens <= self._replay_tokens:
            return
        _, not_before_s = self._failures.get(session_id, (0, -math.inf))
        if len(self._tasks) >= AT_ONCE or self._clock.monotonic_s() < not_before_s:
            return
        task = asyncio.create_task(self._consolidate(turn, model), name=f"summarise session {session_id}")
        self._tasks[session_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(session_id, None))

    async def compact(self, turn: Turn, model: Model, save: Saver) -> int:
        """Summarise all but the newest turns of a conversation now; returns how many messages, 0 if there are none.

        `save` commits the summary that ends it; those of a long conversation before that are committed as they come.

        Raises:
            SummaryFailed, ProviderError: there is no new summary.
        """
        if (task := self._tasks.get(turn.session_id)) is not None:
            await asyncio.wait([task])
        uncovered = await self._summaries.uncovered(turn.session_id)
        plan = await asyncio.to_thread(self._plan, uncovered, _cut_by_turns, model)
        if plan is None:
            return 0
        await self._write(uncovered, plan, turn, model, save)
        self._failures.pop(turn.session_id, None)
        return plan.messages

    async def settled(self) -> None:
        """Wait until nothing is being summarised."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def close(self) -> None:
        """Begin no more, and end what is under way; what was not committed is begun anew after another turn."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        await self.settled()

    # --- one conversation

    async def _consolidate(self, turn: Turn, model: Model) -> None:
        """Summarise what is older than the tail. A boundary: whatever fails here is no turn's affair."""
        session_id = turn.session_id
        try:
            uncovered = await self._summaries.uncovered(session_id)
            plan = await asyncio.to_thread(self._plan, uncovered, self._cut_by_tokens, model)
            if plan is None:
                return
            await self._write(uncovered, plan, turn, model)
            _log.info("conversation summarised", session=session_id, messages=plan.messages)
            self._failures.pop(session_id, None)
        except (SummaryFailed, ProviderError, StoreError) as exc:
            self._note_failure(session_id, str(exc))
        except Exception as exc:  # noqa: BLE001 - a task of its own, which nobody waits for
            _log.exception("conversation cannot be summarised", session=session_id)
            self._note_failure(session_id, type(exc).__name__)

    def _note_failure(self, session_id: int, why: str) -> None:
        count = self._failures.pop(session_id, (0, 0.0))[0] + 1
        wait_s = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(count - 1, 20))
        self._failures[session_id] = (count, self._clock.monotonic_s() + wait_s)
        if len(self._failures) > _REMEMBERED_FAILURES:
            self._failures.popitem(last=False)
        _log.warning("conversation not summarised, its messages stay", session=session_id, error=why, wait_s=wait_s)

    def _cut_by_tokens(self, uncovered: Uncovered, starts: Sequence[int]) -> int | None:
        """Return the first row to keep: enough goes that the rest fills its share; None while all may stay."""
        tokens = [estimate_message(row.message) for row in uncovered.rows]
        left = sum(tokens)
        if left <= self._replay_tokens or not starts:
            return None
        for before, start in pairwise((0, *starts)):
            left -= sum(tokens[before:start])
            if left <= self._replay_tokens * KEPT_SHARE:
                return start
        return starts[-1]

    def _plan(self, uncovered: Uncovered, cut_of: _CutOf, model: Model) -> _Plan | None:
        """Return what is to be done about a conversation, None for nothing; takes long for very many rows."""
        starts = _turn_starts(uncovered)
        cut = cut_of(uncovered, starts)
        if cut is None:
            return None
        old = uncovered.rows[:cut]
        turns = [old[a:b] for a, b in pairwise((0, *(start for start in starts if start < cut), cut))]
        room_tokens = min(model.limits.input_tokens // 2, _PORTION_TOKENS)
        return _Plan(
            portions=portions(
                [(self._text(rows), rows[-1].id) for rows in turns],
                max(_PORTION_MIN_CHARS, room_tokens * _CHARS_PER_TOKEN),
            ),
            messages=sum(bool(row.text) for row in old),
        )

    def _text(self, rows: Sequence[HistoryRow]) -> str:
        return "\n".join(line for row in rows if (line := line_of(row, self._zone)))

    async def _write(
        self, uncovered: Uncovered, plan: _Plan, turn: Turn, model: Model, save: Saver | None = None
    ) -> None:
        """Read the portions into the summary one after the other, committing wherever a turn ends.

        Raises:
            SummaryFailed: a reply cannot be used, or somebody else was faster.
            ProviderError: the model cannot be had.
        """
        text, upto = uncovered.summary, uncovered.upto
        for number, (portion, last) in enumerate(plan.portions, start=1):
            if portion:
                text = await self._summary(text, portion, turn, model)
            if last <= upto:
                continue
            if not text:
                raise SummaryFailed("there is nothing to summarise")
            new = NewSummary(session_id=uncovered.session_id, text=text, upto=last, replaces_upto=upto)
            is_last = number == len(plan.portions)
            saved = await (save(new, plan.messages) if is_last and save is not None else self._summaries.save(new))
            if not saved:
                raise SummaryFailed("another summary was committed meanwhile")
            upto = last

    async def _summary(self, before: str, portion: str, turn: Turn, model: Model) -> str:
        async def charge(reply: ModelReply) -> None:
            cost_micros = model.cost_micros(reply.usage, reply.model)
            await self._summaries.charge(turn.id, replace(reply.usage, cost_micros=cost_micros))

        try:
            async with asyncio.timeout(self._call_limit_s):
                return await ask_for_summary(model, charge, before=before, portion=portion)
        except TimeoutError:
            raise SummaryFailed(f"no summary within {self._call_limit_s:g} s") from None


def _turn_starts(uncovered: Uncovered) -> list[int]:
    """Return where a conversation may be cut: before a person's message, with no turn on both sides; never 0.

    What another turn put between, such as a task's report, is no part of the turn around it.
    """
    rows = uncovered.rows
    last_of = {row.turn_id: index for index, row in enumerate(rows)}
    starts, end = [], -1
    for index, row in enumerate(rows):
        if 0 <= end < index and is_request(row.message):
            starts.append(index)
        end = max(end, last_of[row.turn_id])
    return starts


def _cut_by_turns(_uncovered: Uncovered, starts: Sequence[int]) -> int | None:
    """Return where the newest turns begin."""
    return starts[-KEPT_TURNS] if len(starts) >= KEPT_TURNS else None
