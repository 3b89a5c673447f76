"""The budget passes: what a request may hold, and what gives way first when it is too much.

A conversation is a row of *turns*: from a person's message to the answer. Three rules keep the request's
beginning the same from step to step and from turn to turn, since providers' prompt caches live off that:

- A turn that is over is settled once: its tool results get a small common budget, oldest shortened first.
- The replayed tail is cut when a message arrives and the history before it exceeds `replay_tokens`; then down
  to `hysteresis` of that, so that many turns pass until the next cut. The rule needs no memory: starting from
  the present cut, the same rows lead to the same later cuts.
- Within the running turn results are compacted as if the turn were replayed step by step, so that a later
  step never takes back an earlier choice.

All token numbers here are estimates by `bot.agent.tokens`; correcting them per model is left to the caller.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from bot.agent.governor_order import is_bridge, with_closing, with_opening
from bot.agent.governor_passes import strip_malformed_tool_calls
from bot.agent.governor_rows import (
    EMPTY_RESULT_TEXT,
    TOOL_OUTPUT_TEXT,
    Row,
    as_text,
    call_name,
    content_blocks,
    id_key,
    is_blank,
    is_request,
    is_tool_output,
    same_items,
    shape_row,
)
from bot.agent.governor_squeeze import cut_middle, squeeze
from bot.agent.tokens import estimate_message
from bot.security.untrusted import end_marks

OffloadWriter = Callable[[str, str], str]
"""Stores a text under its digest (SHA-256, hexadecimal) and returns the path the model can read it at.

Writing the same digest again must be harmless. Raises OSError when it cannot be written.
"""

SAFETY_TOKENS = 1_024
MIN_ROWS_TOKENS = 256  # a request holds at least this much conversation, however large the system prompt is
NOTE_CHARS = 400  # room for the note that stands in for what was cut
OFFLOAD_EXEMPT_TOOLS = frozenset({"read_file"})  # bounded itself; else reading on would offload what it read
SETTLED_SHARE = 4  # a settled turn's results may fill one part in four of the replayed tail


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorLimits:
    """The numbers a request is governed by (design 7)."""

    context_window_tokens: int
    max_output_tokens: int
    replay_tokens: int = 32_000
    tool_result_chars: int = 16_000
    preview_chars: int = 1_200
    inflight_ratio: float = 0.85
    hysteresis: float = 0.60
    is_uncut: bool = False  # history stays as far as the input holds it: a summary will take the place of what is old

    @property
    def input_tokens(self) -> int:
        """What a request may hold in all: the window less the longest answer and a margin; at least 0."""
        return max(0, self.context_window_tokens - self.max_output_tokens - SAFETY_TOKENS)

    @property
    def tail_tokens(self) -> int:
        """What the replayed history may hold: `replay_tokens`, or the input budget if that is smaller."""
        held = self.input_tokens if self.is_uncut else min(self.replay_tokens, self.input_tokens)
        return max(MIN_ROWS_TOKENS, held)

    @property
    def settled_tokens(self) -> int:
        """What the tool results of a turn that is over may hold together, however much history is replayed."""
        return max(MIN_ROWS_TOKENS, min(self.replay_tokens, self.input_tokens)) // SETTLED_SHARE


def normalize_tool_result(text: str, tool_name: str, *, limits: GovernorLimits, write: OffloadWriter) -> str:
    """Return a tool's output as it is recorded: itself, or a preview and the way to the full text.

    Output over `tool_result_chars` goes to `write` under its SHA-256; `read_file` is exempt. When writing
    fails the output is shortened in place, so that a full disk costs text but not the turn.
    """
    text = as_text(text)
    if is_blank(text):
        return EMPTY_RESULT_TEXT
    if len(text) <= limits.tool_result_chars or tool_name in OFFLOAD_EXEMPT_TOOLS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        path = write(digest, text)
    except OSError:
        return cut_middle(text, limits.tool_result_chars)
    preview = text[: limits.preview_chars]
    line = preview.count("\n") + 1
    return (
        f"{end_marks(preview)}\n[Preview: the first {len(preview):,} of {len(text):,} characters. "
        f"Full output: {path} - read on with read_file(path, offset={line}, limit=200) or grep it.]"
    )


def turn_starts(rows: list[Row]) -> list[int]:
    """Return where turns begin: 0, and every message that does not directly follow tool output.

    A message right behind tool output joined a turn that was still at work.
    """
    return [
        index
        for index, row in enumerate(rows)
        if index == 0 or (is_request(row) and not follows_tool_output(rows, index))
    ]


def follows_tool_output(rows: list[Row], index: int) -> bool:
    """Whether the row before `index` (a bridge between them apart) is a tool's result or its pictures."""
    before = index - 1
    if before > 0 and is_bridge(rows[before]):
        before -= 1
    return before >= 0 and (rows[before].get("role") == "tool" or is_tool_output(rows[before]))


def cap_results(rows: list[Row], limits: GovernorLimits) -> list[Row]:
    """Shorten each overlong result and move pictures out of tool messages, which may carry text alone."""
    out: list[Row] = []
    pictures: list[Row] = []
    exempt: set[str] = set()
    changed = False
    for row in rows:
        if row.get("role") != "tool":
            if row.get("tool_calls"):
                exempt = _exempt_ids(row["tool_calls"])
            if pictures:
                out.append(_tool_output(pictures))
                pictures = []
            out.append(row)
            continue
        content = row.get("content")
        text = content
        if isinstance(content, list):
            pictures += [block for block in content if isinstance(block, dict) and "image_url" in block]
            words = content_blocks(
                [b for b in content if not isinstance(b, dict) or "image_url" not in b], vision=False
            )
            text = words if isinstance(words, str) and words else "(picture, shown below)"
        if (
            isinstance(text, str)
            and len(text) > limits.tool_result_chars
            and id_key(row.get("tool_call_id")) not in exempt
        ):
            text = cut_middle(text, limits.tool_result_chars)
        if text is content:
            out.append(row)
        else:
            changed = True
            out.append({**row, "content": text})
    if pictures:
        out.append(_tool_output(pictures))
    return out if changed else rows


def _exempt_ids(calls: Any) -> set[str]:
    if not isinstance(calls, list):
        return set()
    return {id_key(call.get("id")) for call in calls if call_name(call) in OFFLOAD_EXEMPT_TOOLS}


def _tool_output(pictures: list[Row]) -> Row:
    return {"role": "user", "content": [{"type": "text", "text": TOOL_OUTPUT_TEXT}, *pictures]}


def shorten_result(row: Row, limits: GovernorLimits) -> Row | None:
    """Return the tool row cut to a preview, or None when that would not make it shorter."""
    content = row.get("content")
    if not isinstance(content, str) or len(content) <= limits.preview_chars + NOTE_CHARS:
        return None
    return {**row, "content": cut_middle(content, limits.preview_chars)}


def settle_turn(rows: list[Row], tokens: list[int], start: int, end: int, limits: GovernorLimits) -> None:
    """Shorten the results of the finished turn `rows[start:end]`, in place, to their share of the tail.

    Every result is held to `tool_result_chars`, also the exempt tools'; then results become previews, oldest
    first, until the rest fits. The turn's newest result is spared.
    """
    results = [index for index in range(start, end) if rows[index].get("role") == "tool"]
    for index in results:
        content = rows[index].get("content")
        if isinstance(content, str) and len(content) > limits.tool_result_chars:
            rows[index] = {**rows[index], "content": cut_middle(content, limits.tool_result_chars)}
            tokens[index] = estimate_message(rows[index])
    total = sum(tokens[index] for index in results)
    allowed = limits.settled_tokens
    for index in results[:-1]:
        if total <= allowed:
            return
        short = shorten_result(rows[index], limits)
        if short is not None:
            cost = estimate_message(short)
            if cost < tokens[index]:
                total += cost - tokens[index]
                rows[index], tokens[index] = short, cost


def apply_tool_result_budget(messages: list[Any], limits: GovernorLimits) -> list[Any]:
    """Hold tool results to their limits: one by one, and together in each turn that is over.

    The running turn keeps its results whole (up to `tool_result_chars` each); compaction sees to it.
    """
    rows = cap_results([row for row in messages if isinstance(row, dict)], limits)
    starts = turn_starts(rows)
    rows, tokens = list(rows), [estimate_message(row) for row in rows]
    for start, end in pairwise(starts):
        settle_turn(rows, tokens, start, end, limits)
    return messages if same_items(rows, messages) else rows


def replay_start(rows: list[Row], tokens: list[int], limits: GovernorLimits) -> int:
    """Return the index of the first row to replay: 0 or that of a person's message.

    A caller that loads rows from a store may begin at the row this returned before: the later cuts are the
    same as with the whole history.
    """
    return replay_cut([index for index, row in enumerate(rows) if is_request(row)], tokens, limits)


def replay_cut(requests: list[int], tokens: list[int], limits: GovernorLimits) -> int:
    """See `replay_start`; `requests` are the indices of people's messages, ascending."""
    before = [0, *accumulate(tokens)]
    limit = limits.tail_tokens
    low = int(limit * limits.hysteresis)
    start, candidate = 0, 0
    for index in requests:
        if before[index] - before[start] <= limit:
            continue
        while requests[candidate] < index and before[index] - before[requests[candidate]] > low:
            candidate += 1
        start = requests[candidate]
    return start


def compact_results(
    rows: list[Row], tokens: list[int], *, turn: int, start: int, budget: int, limits: GovernorLimits
) -> None:
    """Compact results of the running turn `rows[turn:]`, in place, so that `rows[start:]` fits `budget`.

    The turn is replayed group by group: whenever the request of that moment was over the budget, the largest
    results so far except the newest become previews until `inflight_ratio` of the budget is reached.
    """
    turn = max(turn, start)
    running = sum(tokens[start:turn])
    target = int(budget * limits.inflight_ratio)
    heap: list[tuple[int, int]] = []
    newest = -1
    for index in range(turn, len(rows)):
        running += tokens[index]
        if rows[index].get("role") != "tool":
            continue
        if newest >= 0:
            heapq.heappush(heap, (-tokens[newest], newest))
        newest = index
        inside_group = index + 1 < len(rows) and rows[index + 1].get("role") == "tool"
        if inside_group or running <= budget:
            continue
        while heap and running > target:
            largest = heapq.heappop(heap)[1]
            short = shorten_result(rows[largest], limits)
            cost = tokens[largest] if short is None else estimate_message(short)
            if short is not None and cost < tokens[largest]:
                running += cost - tokens[largest]
                rows[largest], tokens[largest] = short, cost


def compact_inflight_overflow(messages: list[Any], limits: GovernorLimits, *, budget: int) -> list[Any]:
    """Shorten the running turn's largest results, newest spared, when the request exceeds `budget`."""
    rows = [row for row in messages if isinstance(row, dict)]
    tokens = [estimate_message(row) for row in rows]
    start = replay_start(rows, tokens, limits)
    if sum(tokens[start:]) <= budget:
        return messages
    turn = max(turn_starts(rows), default=0)
    compact_results(rows, tokens, turn=turn, start=start, budget=budget, limits=limits)
    return rows


def hard_cut(
    requests: Iterable[int],
    tokens: list[int],
    *,
    start: int,
    current: int,
    budget: int,
    limits: GovernorLimits,
) -> int:
    """Return the first row to keep so that `tokens` from there fit `budget`, at most `current`.

    What is dropped grows in strides, so that the cut stays where it is for several steps.
    """
    excess = sum(tokens[start:]) - budget
    if excess <= 0:
        return start
    stride = max(1, int(budget * (1 - limits.hysteresis)))
    drop = math.ceil(excess / stride) * stride
    before = [0, *accumulate(tokens)]
    for index in requests:
        if start < index <= current and before[index] - before[start] >= drop:
            return index
    return current


def snip_history(messages: list[Any], limits: GovernorLimits, *, budget: int) -> list[Any]:
    """Return the tail of history that fits `budget` tokens and begins with a person's message.

    History is cut only before a person's message, so calls stay with their results. The last such message and
    all that follows it stay, shortened if they alone are too much. Where history begins with the bot's own
    words, a constant opening line stands before them.
    """
    system = [row for row in messages if isinstance(row, dict) and row.get("role") == "system"]
    shaped = [row for row in map(shape_row, messages) if row is not None]
    rows = with_closing(with_opening(strip_malformed_tool_calls(shaped)))
    tokens = [estimate_message(row) for row in rows]
    kept = system + cut_rows(rows, tokens, start=replay_start(rows, tokens, limits), budget=budget, limits=limits)
    return messages if same_items(kept, messages) else kept


def cut_rows(rows: list[Row], tokens: list[int], *, start: int, budget: int, limits: GovernorLimits) -> list[Row]:
    """Return `rows` from `start` or later so that they fit `budget`; the first must be a person's message."""
    requests = [index for index, row in enumerate(rows) if is_request(row)]
    current = requests[-1]
    start = hard_cut(requests, tokens, start=start, current=current, budget=budget, limits=limits)
    kept = rows[start:]
    if start == current and sum(tokens[start:]) > budget:
        return squeeze(kept, budget=budget, preview_chars=limits.preview_chars)
    return kept
