"""Who may speak after whom: the order of roles that the strictest chat templates insist on.

- A conversation begins with a person's message and does not end with the bot's own.
- User and assistant take turns: "After the optional system message, conversation roles must alternate" is what
  Mistral's and Gemma's templates say otherwise, on any server that renders them (vLLM issue 6862).
- Between tool output and a user message the assistant speaks: "Unexpected role 'user' after role 'tool'" is Mistral's
  refusal (avante.nvim issue 2562, hermes-agent issue 20154; all read 2026-11-30).

So a constant line of the assistant, a *bridge*, is put between two user messages (somebody wrote again before there was
an answer) and between tool output and a user message. They are not joined to one: history is cut between them, and who
reads a request finds each message of the turn. Neighbours of the assistant (an answer and a reminder) become one
message, since no line of a person may be invented.

Calls and their results are left to `governor_passes`, sizes to `governor_budget`.
"""

from __future__ import annotations

from bot.agent.governor_rows import (
    BRIDGE_TEXT,
    CALL_TEXT,
    CONTINUE_TEXT,
    OPENING_TEXT,
    Row,
    is_request,
)


def with_opening(rows: list[Row]) -> list[Row]:
    """Return the rows with a person's message first: a constant line where history begins otherwise."""
    if rows and is_request(rows[0]):
        return rows
    return [{"role": "user", "content": OPENING_TEXT}, *rows]


def with_closing(rows: list[Row]) -> list[Row]:
    """Return the rows with a constant request behind a last message of the bot's own.

    Some models refuse a conversation that ends with the assistant.
    """
    if rows and rows[-1].get("role") == "assistant":
        return [*rows, {"role": "user", "content": CONTINUE_TEXT}]
    return rows


def is_bridge(row: Row) -> bool:
    """Whether this row is the constant line between two user messages, or tool output and a user message."""
    return row.get("content") == BRIDGE_TEXT and row.get("role") == "assistant" and not row.get("tool_calls")


def with_bridges(rows: list[Row], before: Row | None = None) -> list[Row]:
    """Return the rows with a line of the assistant before each user row that follows a user's or a tool's.

    `before` is the row that precedes them in the conversation. Bridges that are among `rows` already must have been
    taken out (`strip_placeholder_assistant_messages` does); the same list is returned when none is needed.
    """
    out: list[Row] = []
    last = None if before is None else before.get("role")
    for row in rows:
        role = row.get("role")
        if role == "user" and last in ("user", "tool"):
            out.append({"role": "assistant", "content": BRIDGE_TEXT})
        out.append(row)
        last = role
    return rows if len(out) == len(rows) else out


def join_answers(rows: list[Row]) -> list[Row]:
    """Return governed rows with neighbours of the assistant as one message; it costs no more than they did."""
    out: list[Row] = []
    for row in rows:
        if out and row["role"] == "assistant" == out[-1]["role"]:
            out[-1] = _joined(out[-1], row)
        else:
            out.append(row)
    return rows if len(out) == len(rows) else out


def with_hint(rows: list[Row], hint: str) -> list[Row]:
    """Return a governed request with one more user message, the system's own, in the right order."""
    if rows and rows[-1].get("content") == CONTINUE_TEXT:
        rows = rows[:-1]  # the hint is the request that this stands for
    return [*rows, *with_bridges([{"role": "user", "content": hint}], rows[-1] if rows else None)]


def _joined(first: Row, second: Row) -> Row:
    texts = [row["content"] for row in (first, second) if row["content"] != CALL_TEXT] or [CALL_TEXT]
    return {**first, **second, "content": "\n\n".join(texts)}
