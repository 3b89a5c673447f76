"""How turns end: what goes to the chat, to the history, to jobs and subagents, as one value.

Pure: it composes `Ending` values, the loop writes them. A turn of a job or a subagent has a lane of its own;
what its chat gets to know is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from bot.agent.commands import CommandResult
from bot.agent.hearing import as_written
from bot.agent.runs import RunOutcome, StopReason
from bot.errors import ProviderError, ProviderErrorKind
from bot.messages import InboundMessage, Origin, OutboundKind, OutboundMessage, Usage
from bot.records import Ending, GoalState, GoalStep, Message, RunState, SubagentState, Turn, TurnState, outcome_id
from bot.texts import say
from bot.toolkit.context import RequestContext
from bot.zones import local_text

_QUOTED_CHARS = 200
_LONGEST_IN_SECONDS = 120  # a longer wait is told in minutes
_NO_USAGE = Usage()

OrderReader = Callable[[InboundMessage, str, str], str]
"""Says of (message, zone, language) what it orders of reminders: "add", "remove", or "" for neither."""


class EndingWriter:
    """Composes endings."""

    def __init__(self, *, read_order: OrderReader) -> None:
        self._read_order = read_order

    def answered(self, outcome: RunOutcome, request: RequestContext) -> Ending:
        """Return the ending of a run that ended by itself, with or without a final text."""
        turn = outcome.turn
        text = outcome.text or self._closing_words(outcome, request)
        if outcome.notice:
            text = f"{text}\n\n{outcome.notice}"
        ok = outcome.stop is StopReason.ANSWERED
        if turn.origin is Origin.JOB:
            return self._job_ending(outcome, text, ok=ok)
        if request.scope == "subagent":
            state = SubagentState.DONE if ok else SubagentState.UNFINISHED
            return self._subagent_ending(turn, state, text, rows=outcome.rows, usage=outcome.unrecorded)
        if turn.origin is Origin.USER and (note := self._contradiction(outcome, request)):
            text = f"{text}\n\n{note}"
        silent = (outcome.answered_by_tool and ok) or outcome.silent
        return Ending(
            state=TurnState.DONE,
            rows=tuple(outcome.rows),
            outbound=() if silent else (reply(turn, text),),
            usage=outcome.unrecorded,
            error="" if ok else outcome.stop,
        )

    def command(self, turn: Turn, result: CommandResult) -> Ending:
        """Return the ending of a slash command; it leaves no rows in the model's history."""
        return Ending(
            state=TurnState.DONE,
            outbound=(notice(turn, result.text),),
            new_session=result.new_session,
            session_title=result.title,
            goal=_goal_end(turn, GoalState.STOPPED) if result.new_session else None,
        )

    def stopped(self, turn: Turn) -> Ending:
        """Return the ending of a turn that /stop ended; the command itself answers."""
        return Ending(
            state=TurnState.STOPPED,
            error="stopped by /stop",
            run_id=turn.meta.get("run_id"),
            run_state=RunState.FAILED if "run_id" in turn.meta else None,
            subagent_id=str(turn.meta.get("subagent_id", "")),
            subagent_state=SubagentState.INTERRUPTED if _is_subagent(turn) else None,
        )

    def stale(self, turn: Turn, request: RequestContext) -> Ending:
        """Return the ending of a message that waited longer than it stays meaningful."""
        when = local_text(turn.messages[-1].received_us, request.tz, request.language)
        return Ending(state=TurnState.DONE, outbound=(notice(turn, say(request.language, "stale", when=when)),))

    def dead(self, turn: Turn, request: RequestContext, *, attempts: int) -> Ending:
        """Return the ending of a turn that was cut short too often."""
        excerpt = turn.messages[0].message.text[:_QUOTED_CHARS]
        text = say(request.language, "fail.dead", attempts=attempts, text=excerpt)
        return self._failure(turn, request, text, state=TurnState.DEAD, error=f"cut short {attempts} times")

    def failed(self, turn: Turn, request: RequestContext, exc: Exception) -> Ending:
        """Return the ending of a turn that met a bug; the message becomes a dead letter."""
        error = f"{type(exc).__name__}: {exc}"
        return self._failure(turn, request, say(request.language, "fail.internal"), state=TurnState.DEAD, error=error)

    def provider_failed(self, outcome: RunOutcome, request: RequestContext, exc: ProviderError) -> Ending:
        """Return the ending of a turn whose model could not be had; its notice is not part of the history."""
        text = _sentence(exc, request.language)
        ending = self._failure(outcome.turn, request, text, state=TurnState.FAILED, error=exc.detail, rows=outcome.rows)
        return replace(ending, usage=outcome.unrecorded)

    def revoked(self, turn: Turn, request: RequestContext) -> Ending:
        """Return the ending of work whose sender may no longer speak here; a stranger gets no answer."""
        if turn.origin is Origin.USER:
            return Ending(state=TurnState.DEAD, error="its sender may not speak here any more")
        error = "its creator may not use this bot any more"
        if turn.origin is not Origin.JOB:
            return self._failure(turn, request, say(request.language, "revoked"), state=TurnState.FAILED, error=error)
        text = say(request.language, "job_revoked", title=turn.meta.get("title", ""), id=turn.meta.get("job_id", ""))
        return Ending(
            state=TurnState.FAILED,
            outbound=(notice(turn, text),),
            error=error,
            run_id=turn.meta["run_id"],
            run_state=RunState.FAILED,
            pause_job=True,
        )

    # --- kinds of work

    def _job_ending(self, outcome: RunOutcome, text: str, *, ok: bool) -> Ending:
        """A run's final text belongs to its chat, in the outbox and in the chat's history."""
        turn = outcome.turn
        silent = outcome.answered_by_tool and ok
        return Ending(
            state=TurnState.DONE,
            rows=tuple(outcome.rows),
            chat_rows=_report_rows(turn, outcome.tool_words if silent else text),
            outbound=() if silent else (reply(turn, text),),
            usage=outcome.unrecorded,
            run_id=turn.meta["run_id"],
            run_state=RunState.OK if ok else RunState.FAILED,
            error="" if ok else str(outcome.stop),
        )

    def _subagent_ending(
        self,
        turn: Turn,
        state: SubagentState,
        text: str,
        *,
        rows: Sequence[Message] = (),
        usage: Usage = _NO_USAGE,
    ) -> Ending:
        """A subagent's outcome goes back through the bus to the lane that spawned it."""
        meta = turn.meta
        subagent_id = str(meta["subagent_id"])
        outcome = InboundMessage(
            address=turn.address,
            account="subagents",
            message_id=outcome_id(subagent_id),
            text=text,
            sender_id=turn.messages[0].message.sender_id,
            chat_type=turn.messages[0].message.chat_type,
            origin=Origin.SUBAGENT,
            lane=str(meta["parent_lane"]),
            reply_to=turn.messages[0].message.reply_to,
            meta={
                "outcome": str(state),
                "label": meta.get("label", ""),
                "subagent_id": subagent_id,
                "session_id": meta.get("session_id"),
            },
        )
        return Ending(
            state=TurnState.DONE if state is SubagentState.DONE else TurnState.FAILED,
            rows=tuple(rows),
            inbound=(outcome,),
            subagent_id=subagent_id,
            subagent_state=state,
            usage=usage,
        )

    def _failure(
        self,
        turn: Turn,
        request: RequestContext,
        text: str,
        *,
        state: TurnState,
        error: str,
        rows: Sequence[Message] = (),
    ) -> Ending:
        meta = turn.meta
        if turn.origin is Origin.MEMORY:  # nobody asked for it, so nobody is told
            return Ending(state=state, rows=tuple(rows), error=error)
        if _is_subagent(turn):
            subagent_state = SubagentState.INTERRUPTED if state is TurnState.DEAD else SubagentState.FAILED
            return self._subagent_ending(turn, subagent_state, text, rows=rows)
        if turn.origin is Origin.SUBAGENT:  # the parent's model is away: the chat gets the outcome as it is
            text = outcome_text(turn, request)
        if turn.origin is Origin.JOB:
            text = say(request.language, "task_failed", title=meta.get("title", ""), reason=text)
        buries_goal = state is TurnState.DEAD and turn.origin is Origin.GOAL
        if buries_goal and turn.goal is not None:
            text = say(request.language, "goal.failed", title=turn.goal.title, reason=text)
        return Ending(
            state=state,
            rows=tuple(rows),
            outbound=(notice(turn, text),),
            error=error,
            run_id=meta.get("run_id"),
            run_state=RunState.FAILED if "run_id" in meta else None,
            goal=_goal_end(turn, GoalState.FAILED) if buries_goal else None,
        )

    # --- words

    def _closing_words(self, outcome: RunOutcome, request: RequestContext) -> str:
        language = request.language
        if request.origin is Origin.SUBAGENT and request.scope == "core":
            return outcome_text(outcome.turn, request)
        match outcome.stop:
            case StopReason.REPEAT:
                return say(language, "fail.repeat", tool=outcome.culprit)
            case StopReason.BROKEN_CALL:
                return say(language, "fail.broken_call", tool=outcome.culprit)
            case StopReason.STEPS:
                done = ", ".join(f"{name} ×{count}" for name, count in outcome.used.most_common()) or "—"
                return say(language, "fail.steps", steps=outcome.turn.step, done=done)
            case _:
                return say(language, "fail.empty")

    def _contradiction(self, outcome: RunOutcome, request: RequestContext) -> str:
        """Return the note an answer needs: something was ordered, no job call did anything, and it asks nothing."""
        if outcome.changed["cron"] or not outcome.text or outcome.text.rstrip().endswith(("?", "？")):
            return ""
        messages = [as_written(item.message) for item in outcome.turn.messages]
        orders = {self._read_order(message, request.zone, request.language) for message in messages}
        if "add" in orders:
            return say(request.language, "nothing_scheduled")
        return say(request.language, "nothing_removed") if "remove" in orders else ""


def outcome_text(turn: Turn, request: RequestContext) -> str:
    """Return a subagent's outcome as the bot's own sentence."""
    meta, text = turn.meta, turn.messages[0].message.text
    state, label = str(meta.get("outcome", "")), str(meta.get("label", ""))
    if state == SubagentState.DONE:
        return say(request.language, "subagent.done", label=label, text=text)
    if state == SubagentState.UNFINISHED:
        return say(request.language, "subagent.unfinished", label=label, text=text)
    return say(request.language, "subagent.failed", label=label, reason=text)


def _is_subagent(turn: Turn) -> bool:
    return turn.origin is Origin.SUBAGENT and "outcome" not in turn.meta


def reply(turn: Turn, text: str) -> OutboundMessage:
    """Return a turn's answer."""
    message = turn.messages[-1].message
    return OutboundMessage(address=turn.address, text=text, reply_to=message.reply_to, answers=message.message_id)


def notice(turn: Turn, text: str) -> OutboundMessage:
    """Return the bot's own sentence in answer to a turn's message."""
    message = turn.messages[-1].message
    return OutboundMessage(
        address=turn.address,
        text=text,
        kind=OutboundKind.NOTICE,
        reply_to=message.reply_to,
        answers=message.message_id,
    )


def _goal_end(turn: Turn, state: GoalState) -> GoalStep | None:
    goal = turn.goal
    return None if goal is None else GoalStep(goal_id=goal.id, state=state, is_turn=turn.origin is Origin.GOAL)


def _report_rows(turn: Turn, text: str) -> tuple[Message, ...]:
    """Return the chat's memory of a job's report: the order it came from, then the report."""
    if not text:
        return ()
    title = str(turn.meta.get("title", ""))
    order = f"[Scheduled task “{title}” ({turn.meta.get('job_id', '')}) ran; its report follows.]"
    return ({"role": "user", "content": order}, {"role": "assistant", "content": text})


def _sentence(exc: ProviderError, language: str) -> str:
    if exc.kind is not ProviderErrorKind.RATE_LIMIT:
        return say(language, f"fail.{exc.kind}")
    return say(language, "fail.rate_limit", wait=_wait(exc.retry_after_s, language))


def _wait(seconds: float | None, language: str) -> str:
    """Return when to try again: rounded up, since a try before that is refused too."""
    if not seconds:
        return say(language, "fail.wait_later")
    if seconds <= _LONGEST_IN_SECONDS:
        return say(language, "fail.wait", seconds=ceil(seconds))
    return say(language, "fail.wait_minutes", minutes=ceil(seconds / 60))
