"""Commands about conversations: `/new` begins one, `/sessions` lists them and goes back, `/status` says how it stands.

A chat sees and continues its own conversations only; whoever may speak there may do either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from bot import __version__
from bot.agent.commands import CommandContext, CommandResult, Handler
from bot.agent.goal_words import goal_status
from bot.clock import US_PER_S
from bot.conversation import Session, SessionEntry
from bot.interfaces import Unit
from bot.messages import Role, Usage
from bot.records import CallResult, GoalState, Turn
from bot.texts import figure, say
from bot.toolkit.context import RequestContext
from bot.zones import local_text, start_of_day_us

PAGE = 10
"""Conversations in one answer of /sessions."""

_CALL_ID = "command"
_WANTED = re.compile(r"(#?)([0-9]{1,15})")  # more digits are no number to SQLite
_WANTED_PAGE = re.compile(r"page\s+([0-9]{1,6})", re.IGNORECASE)
_MICROS = 1_000_000


class SessionCommands:
    """See `CommandGroup`."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def handlers(self) -> Mapping[str, Handler]:
        """See `CommandGroup.handlers`."""
        return {"new": self._new, "sessions": self._sessions, "status": self._status}

    # --- /new

    async def _new(self, turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        title = " ".join(arguments.split())
        key = "new_session.titled" if title else "new_session"
        text = say(request.language, key, title=title)
        if turn.goal is not None:  # the ending closes it
            text += "\n" + say(request.language, "goal.stopped", title=turn.goal.title)
        return CommandResult(text=text, new_session=True, title=title)

    # --- /sessions

    async def _sessions(self, turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        if match := _WANTED_PAGE.fullmatch(arguments):
            return CommandResult(text=await self._listing(request, page=max(1, int(match[1]))))
        if match := _WANTED.fullmatch(arguments):
            return CommandResult(text=await self._switch(turn, request, int(match[2]), is_id=bool(match[1])))
        if arguments:
            return CommandResult(text=say(request.language, "sessions.usage"))
        return CommandResult(text=await self._listing(request, page=1))

    async def _listing(self, request: RequestContext, *, page: int) -> str:
        language, first = request.language, (page - 1) * PAGE
        found = await self._context.store.sessions.page(request.address, limit=PAGE, offset=first)
        if not found.entries:
            return say(language, "sessions.none" if page == 1 else "sessions.usage")
        lines = [say(language, "sessions.title"), *(self._line(entry, language) for entry in found.entries)]
        last = first + len(found.entries)
        if last < found.total:
            more = {"from_": first + 1, "to": last, "total": found.total, "page": page + 1}
            lines.append(say(language, "sessions.more", **more))
        if found.total > 1:
            lines.append(say(language, "sessions.how"))
        return "\n".join(lines)

    def _line(self, entry: SessionEntry, language: str) -> str:
        age_s = (self._context.clock.now_us() - entry.session.used_us) // US_PER_S
        line = say(
            language,
            "sessions.line",
            number=entry.number,
            title=_shown(entry.session, language),
            messages=entry.messages,
            age=_coarse(max(0, age_s)),
        )
        return line + say(language, "sessions.current") if entry.is_current else line

    async def _switch(self, turn: Turn, request: RequestContext, wanted: int, *, is_id: bool) -> str:
        """Go back to a conversation and archive the one that is left, with its goal, in one transaction."""
        language = request.language

        def work(unit: Unit) -> CallResult:
            number, session_id = (0, wanted) if is_id else (wanted, 0)
            session = unit.find_session(request.address, number=number, session_id=session_id) if wanted else None
            if session is None:
                name = f"#{wanted}" if is_id else str(wanted)
                return CallResult(call_id=_CALL_ID, text=say(language, "sessions.unknown", wanted=name))
            title = _shown(session, language)
            if session.id == turn.session_id:
                return CallResult(call_id=_CALL_ID, text=say(language, "sessions.already", title=title))
            unit.switch_session(request.address, session.id)
            lines = [say(language, "sessions.switched", title=title)]
            if (goal := unit.current_goal(turn.session_id)) is not None:
                unit.save_goal(replace(goal, state=GoalState.STOPPED))
                lines.append(say(language, "goal.stopped", title=goal.title))
            return CallResult(call_id=_CALL_ID, text="\n".join(lines))

        return (await self._context.store.steps.once(turn, _CALL_ID, work)).text

    # --- /status

    async def _status(self, turn: Turn, request: RequestContext, _arguments: str) -> CommandResult:
        context, language, now_us = self._context, request.language, self._context.clock.now_us()
        store = context.store
        status = await store.overview.status()
        state = await store.sessions.state(request.address)
        used = await store.overview.usage(request.address, since_us=start_of_day_us(now_us, request.tz))
        jobs = await store.jobs.list(request.address)
        due = [job.next_us for job in jobs if job.next_us is not None]
        soonest = local_text(min(due), request.tz, language) if due else ""
        model = context.models.get(state.model)
        window = model.limits.input_tokens
        text = say(
            language,
            "status",
            version=__version__,
            uptime=_duration((now_us - context.started_us) // US_PER_S),
            model=f"{model.model} ({model.name})" if model.name else model.model,
            messages=state.messages,
            title=say(language, "status.titled", title=state.title) if state.title else "",
            context=figure(language, state.context_tokens),
            window=figure(language, window),
            percent=round(100 * state.context_tokens / window),
            input=figure(language, used.input_tokens),
            cached=figure(language, used.cached_tokens),
            output=figure(language, used.output_tokens),
            cost=_cost(used, language),
            running=context.control.running(),
            queued=status.inbox_queued,
            jobs=len(jobs),
            next=say(language, "status.next", when=soonest) if due else "",
        )
        text += self._servers_away(request)
        if turn.goal is not None:
            text += "\n" + goal_status(turn.goal, language, now_us=now_us)
        return CommandResult(text=text)

    def _servers_away(self, request: RequestContext) -> str:
        """Return a line for each server that is not usable; why is told to owners only: it may name paths and hosts."""
        away = self._context.servers_away()
        if not away:
            return ""
        is_owner = request.role is Role.OWNER
        words = [f"{item.name} ({(is_owner and item.problem) or item.state})" for item in away]
        return "\n" + say(request.language, "status.servers", servers=", ".join(words))


def _shown(session: Session, language: str) -> str:
    return session.title or say(language, "sessions.untitled")


def _cost(used: Usage, language: str) -> str:
    """Return what was spent, in the unit that prices are given in; '' where nothing has a price."""
    if not used.cost_micros:
        return ""
    cost = used.cost_micros / _MICROS
    return say(language, "status.cost", cost=figure(language, cost, decimals=2 if cost >= 1 else 4))


def _coarse(seconds: int) -> str:
    """Return a span of time in its largest unit."""
    return _duration(seconds, parts=1)


def _duration(seconds: int, *, parts: int = 2) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, secs = divmod(rest, 60)
    if days:
        return " ".join((f"{days} d", f"{hours} h")[:parts])
    if hours:
        return " ".join((f"{hours} h", f"{minutes} min")[:parts])
    return f"{minutes} min" if minutes else f"{secs} s"
