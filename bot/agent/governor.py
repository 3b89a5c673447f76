"""The context governor: from stored rows to a request that any provider accepts and that fits its window.

`ContextGovernor.prepare_for_model` works on copies; stored history is never changed. It runs nine passes in
a fixed order (`PASSES` names them); each is a pure function that can be called alone. What the rows look like
is decided in `governor_rows`, repairs are in `governor_passes`, budgets in `governor_budget`, the order of roles in
`governor_order`. Which fields a provider wants back, when to shrink harder, and where full tool output is kept
are left to the callers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from bot.agent.governor_budget import (
    MIN_ROWS_TOKENS,
    GovernorLimits,
    OffloadWriter,
    apply_tool_result_budget,
    cap_results,
    compact_inflight_overflow,
    compact_results,
    cut_rows,
    follows_tool_output,
    normalize_tool_result,
    replay_cut,
    settle_turn,
    snip_history,
)
from bot.agent.governor_order import join_answers, with_bridges, with_closing, with_hint, with_opening
from bot.agent.governor_passes import (
    Pairing,
    backfill_missing_tool_results,
    drop_orphan_tool_results,
    is_tidy,
    strip_malformed_tool_calls,
    strip_placeholder_assistant_messages,
    unique_call_ids,
)
from bot.agent.governor_rows import Row, id_key, is_request, shape_row, system_text
from bot.agent.tokens import ROW_OVERHEAD_TOKENS, Calibration, estimate_message, estimate_text

__all__ = ["PASSES", "ContextGovernor", "GovernorLimits", "OffloadWriter", "govern"]

PASSES = (
    "strip_placeholder_assistant_messages",
    "strip_malformed_tool_calls",
    "drop_orphan_tool_results",
    "backfill_missing_tool_results",
    "apply_tool_result_budget",
    "compact_inflight_overflow",
    "snip_history",
    "drop_orphan_tool_results",
    "backfill_missing_tool_results",
)
_REMEMBERED_SESSIONS = 64
_HINT_OVERHEAD_TOKENS = 16  # its row, and a bridge before it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What besides the rows decides how they are shaped and settled."""

    limits: GovernorLimits
    vision: bool
    replay_fields: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Prefix:
    """The governed form of the rows seen so far, before anything depends on the request's budget."""

    terms: _Terms
    source: list[Any] = field(default_factory=list)  # shallow copies: a changed row is noticed
    rows: list[Row] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)  # where people's messages stand in `rows`
    joints: list[int] = field(default_factory=list)  # rows that are sent as one with the row before
    turn: int = 0  # where the running turn begins
    taken: dict[str, int] = field(default_factory=dict)  # call ids in use
    unanswered: set[str] = field(default_factory=set)  # ids a later result may still answer
    estimate: int = 0  # tokens of the last request, uncorrected

    def extend(self, messages: list[Any]) -> bool:
        """Govern the rows that follow those seen so far; False if they reach back into them.

        That is the case when a result answers a call whose place was filled with a note already. The prefix
        must be thrown away then and made anew.
        """
        terms = self.terms
        shaped = [
            row
            for message in messages
            if (row := shape_row(message, vision=terms.vision, replay_fields=terms.replay_fields)) is not None
        ]
        tidy = is_tidy(shaped)
        if self.unanswered or not tidy:
            pairing = Pairing(shaped)
            for index, row in enumerate(shaped):
                loose = row["role"] == "tool" and index not in pairing.owners
                if loose and id_key(row.get("tool_call_id")) in self.unanswered:
                    return False
            self.unanswered = (self.unanswered - pairing.declared) | pairing.unanswered
        rows = unique_call_ids(shaped, self.taken, tidy=tidy)
        rows = strip_malformed_tool_calls(strip_placeholder_assistant_messages(rows))
        if not (tidy and rows is shaped):
            rows = backfill_missing_tool_results(drop_orphan_tool_results(rows))
        rows = cap_results(rows, terms.limits)
        if rows and not self.rows:
            rows = with_opening(rows)
        rows = with_bridges(rows, self.rows[-1] if self.rows else None)
        self.source += [dict(message) if isinstance(message, dict) else message for message in messages]
        first = len(self.rows)
        self.rows += rows
        self.tokens += map(estimate_message, rows)
        self._settle(first)
        return True

    def _settle(self, first: int) -> None:
        before = self.rows[first - 1].get("role") if first else None
        for index, row in enumerate(self.rows[first:], first):
            role = row["role"]
            if role == "assistant" == before:
                self.joints.append(index)
            before = role
            if role != "user" or not is_request(row):
                continue
            self.requests.append(index)
            if index > 0 and not follows_tool_output(self.rows, index):
                settle_turn(self.rows, self.tokens, self.turn, index, self.terms.limits)
                self.turn = index

    def request(self, budget: int) -> list[Row]:
        """Return the rows to send within `budget` tokens; the prefix itself stays as it is."""
        limits = self.terms.limits
        if not self.rows:
            kept = with_opening([])
            self.estimate = sum(map(estimate_message, kept))
            return kept
        start = replay_cut(self.requests, self.tokens, limits)
        cost = sum(self.tokens[start:])
        rows = with_closing(self.rows)
        tokens = self.tokens
        if rows is not self.rows:
            tokens = [*tokens, estimate_message(rows[-1])]
            cost += tokens[-1]
        if cost <= budget:
            self.estimate = cost
            kept = rows[start:]
            return join_answers(kept) if self.joints and self.joints[-1] > start else kept
        rows, tokens = list(rows), list(tokens)
        compact_results(rows, tokens, turn=self.turn, start=start, budget=budget, limits=limits)
        kept = join_answers(cut_rows(rows, tokens, start=start, budget=budget, limits=limits))
        self.estimate = sum(map(estimate_message, kept))
        return kept


def govern(
    messages: list[Any],
    *,
    limits: GovernorLimits,
    budget: int,
    vision: bool = True,
    replay_fields: Collection[str] = (),
) -> list[Row]:
    """Run the nine passes one after the other over rows without system messages; the plain definition.

    `prepare_for_model` gives the same rows, faster. `budget` is what these rows may cost in estimated tokens.
    """
    rows: list[Any] = [
        row
        for message in messages
        if (row := shape_row(message, vision=vision, replay_fields=replay_fields)) is not None
    ]
    rows = unique_call_ids(rows, {})
    rows = strip_placeholder_assistant_messages(rows)
    rows = strip_malformed_tool_calls(rows)
    rows = drop_orphan_tool_results(rows)
    rows = backfill_missing_tool_results(rows)
    rows = with_closing(with_bridges(with_opening(cap_results(rows, limits))))
    rows = apply_tool_result_budget(rows, limits)
    rows = compact_inflight_overflow(rows, limits, budget=budget)
    rows = snip_history(rows, limits, budget=budget)
    rows = drop_orphan_tool_results(rows)
    return join_answers(backfill_missing_tool_results(rows))


class ContextGovernor:
    """Prepares requests and remembers, per session, the part that is governed already."""

    strip_placeholder_assistant_messages = staticmethod(strip_placeholder_assistant_messages)
    strip_malformed_tool_calls = staticmethod(strip_malformed_tool_calls)
    drop_orphan_tool_results = staticmethod(drop_orphan_tool_results)
    backfill_missing_tool_results = staticmethod(backfill_missing_tool_results)
    apply_tool_result_budget = staticmethod(apply_tool_result_budget)
    compact_inflight_overflow = staticmethod(compact_inflight_overflow)
    snip_history = staticmethod(snip_history)
    normalize_tool_result = staticmethod(normalize_tool_result)

    def __init__(self, *, remembered_sessions: int = _REMEMBERED_SESSIONS) -> None:
        self.calibration = Calibration()
        self._remembered_sessions = remembered_sessions
        self._prefixes: OrderedDict[str, _Prefix] = OrderedDict()
        self._system: tuple[str, int] = ("", 0)

    def prepare_for_model(
        self,
        messages: list[Any],
        *,
        limits: GovernorLimits,
        system: str | None = None,
        tools_tokens: int = 0,
        shrink: float = 1.0,
        session_key: str | None = None,
        model: str = "",
        vision: bool = True,
        replay_fields: Collection[str] = (),
        hint: str = "",
    ) -> list[Row]:
        """Return the messages of one request; never raises for any list, never changes what is in it.

        The result holds at most one system message (first), then rows that begin with a person's message and
        cost, with the system text and `tools_tokens` (`tokens.estimate_tools`), no more than
        `limits.input_tokens * shrink`, corrected by what `model` reported before. If the system text and
        tools alone come near that, the rows still get 256 tokens. Governing a result again changes nothing.

        Args:
            messages: stored rows and the current turn's rows, oldest first. With `session_key`, rows given
                before are expected again, equal, so that only new ones are worked on; anything else is
                noticed and costs a full run. (Values nested inside a row must not be changed in place.)
            limits: the numbers of the model in use.
            system: the system prompt. Then system rows in `messages` are left out; without it the leading
                ones are kept as one.
            tools_tokens: estimated tokens of the tool definitions.
            shrink: the part of the budget to use; below 1 after a context-length error.
            session_key: whose prefix to remember; None: remember nothing.
            model: the key that `calibration` learned under.
            vision: False turns pictures into notes.
            replay_fields: extra fields of assistant rows and calls to send back (reasoning, signatures).
            hint: a short message of the system's own that follows all rows, in this request only.
        """
        text, skipped = system_text(messages, system)
        rows = messages[skipped:] if skipped else messages
        fixed = tools_tokens + self._system_tokens(text)
        if hint:
            fixed += estimate_text(hint) + _HINT_OVERHEAD_TOKENS
        allowed = int(limits.input_tokens * shrink / self.calibration.factor(model))
        terms = _Terms(limits=limits, vision=vision, replay_fields=tuple(sorted(replay_fields)))
        prefix = self._prefix(session_key, terms, rows)
        out = prefix.request(max(MIN_ROWS_TOKENS, allowed - fixed))
        prefix.estimate += fixed
        if hint:
            out = with_hint(out, hint)
        if text:
            out.insert(0, {"role": "system", "content": text})
        return out

    def estimated_tokens(self, session_key: str) -> int | None:
        """Return the uncorrected estimate of the session's last request; `calibration.observe` takes it."""
        prefix = self._prefixes.get(session_key)
        return None if prefix is None else prefix.estimate

    def forget(self, session_key: str) -> None:
        """Drop what is remembered of a session; its next request costs a full run."""
        self._prefixes.pop(session_key, None)

    def _prefix(self, session_key: str | None, terms: _Terms, messages: list[Any]) -> _Prefix:
        known = self._prefixes.get(session_key) if session_key is not None else None
        if known is not None and known.terms == terms:
            seen = len(known.source)
            if messages[:seen] == known.source and known.extend(messages[seen:]):
                self._prefixes.move_to_end(session_key or "")
                return known
        fresh = _Prefix(terms=terms)
        fresh.extend(messages)
        if session_key is not None:
            self._prefixes[session_key] = fresh
            self._prefixes.move_to_end(session_key)
            if len(self._prefixes) > self._remembered_sessions:
                self._prefixes.popitem(last=False)
        return fresh

    def _system_tokens(self, text: str) -> int:
        if text and self._system[0] != text:
            self._system = (text, estimate_text(text) + ROW_OVERHEAD_TOKENS)
        return self._system[1] if text else 0
