"""Slash commands that need no model. A command is a turn like any other; it only never asks a provider.

`/stop` and `/status` act at once, in a lane beside the chat's; the others wait for their place in the chat.
Texts that begin with a slash but name no command are left to the model only if they are no command at all
(a path such as /etc/hosts).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bot.agent.models import ModelShelf
from bot.clock import Clock
from bot.errors import ScheduleError
from bot.interfaces import MenuCommand, Signal, Store, Topic, TurnControl, Unit
from bot.jobs import JobDesk, find_job, list_jobs, may_change
from bot.messages import Role
from bot.records import CallResult, GoalState, Turn
from bot.texts import keys, say
from bot.toolkit.context import RequestContext
from bot.zones import load_zone, local_text, similar_zones

_COMMAND = re.compile(r"^/([a-zA-Z][a-zA-Z_]{0,31})(?:@\S+)?(?:\s+(.*))?$", re.DOTALL)
_IMMEDIATE = frozenset({"stop", "status"})
_FIRST_IN_HELP = ("new", "stop", "status", "help", "remind", "reminders", "cancel", "timezone")
_CALL_ID = "command"


def parse_command(text: str) -> tuple[str, str] | None:
    """Return (name in lower case, arguments) of a command, None for any other text."""
    match = _COMMAND.match(text.strip())
    return None if match is None else (match[1].lower(), (match[2] or "").strip())


def is_immediate(text: str) -> bool:
    """Say whether a text is a command that must not wait behind the chat's running turn."""
    parsed = parse_command(text)
    return parsed is not None and parsed[0] in _IMMEDIATE


class ReminderReader(Protocol):
    """Understands "in 10 minutes stretch"; returns the cron tool's arguments or why not (a text key)."""

    def __call__(self, text: str, *, now_us: int, zone: str, language: str) -> Mapping[str, object] | str:
        """Return the arguments, or the key of the sentence that says why there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What the commands work with."""

    store: Store
    signal: Signal
    clock: Clock
    control: TurnControl
    read_reminder: ReminderReader
    desk: JobDesk
    request_restart: Callable[[], None]
    end_programs: Callable[[str], Awaitable[int]]  # ends a lane's programs in the background; returns how many
    models: ModelShelf
    started_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """A command's answer and what else its ending carries."""

    text: str
    new_session: bool = False
    title: str = ""  # of the new session
    afterwards: Callable[[], None] | None = None  # run once the ending is committed


Handler = Callable[[Turn, RequestContext, str], Awaitable[CommandResult]]
"""Runs one command of (turn, request, arguments). Run again after a crash it must have no further effect."""


class CommandGroup(Protocol):
    """Commands of one subject. Each has its line for /help in the catalogue, under `help.NAME`."""

    def handlers(self) -> Mapping[str, Handler]:
        """Return them by name, in the order of /help."""


class Commands:
    """Runs slash commands."""

    def __init__(self, context: CommandContext, groups: Iterable[CommandGroup] = ()) -> None:
        self._context = context
        self._of_groups: dict[str, Handler] = {}
        for group in groups:
            self._of_groups |= group.handlers()
        self._handlers: dict[str, Handler] = {
            "stop": self._stop,
            "help": self._help,
            "start": self._help,  # what Telegram sends when somebody opens the chat
            "remind": self._remind,
            "reminders": self._reminders,
            "cancel": self._cancel,
            "timezone": self._timezone,
            "restart": self._restart,
            **self._of_groups,
        }

    def menu(self, language: str) -> Sequence[MenuCommand]:
        """Return the commands that everybody may use, in the order of /help."""
        names = dict.fromkeys((*_FIRST_IN_HELP, *self._of_groups))
        return tuple(MenuCommand(name=name, description=say(language, f"help.{name}")) for name in names)

    def knows(self, text: str) -> bool:
        """Say whether a text is ours to answer: a command, known or not."""
        return parse_command(text) is not None

    async def run(self, turn: Turn, request: RequestContext) -> CommandResult:
        """Run the command of a turn. Running it again after a crash has no further effect."""
        parsed = parse_command(turn.messages[0].message.text)
        assert parsed is not None
        name, arguments = parsed
        handler = self._handlers.get(name)
        if handler is None:
            return CommandResult(text=say(request.language, "unknown_command", command=f"/{name}"))
        return await handler(turn, request, arguments)

    async def _stop(self, turn: Turn, request: RequestContext, _arguments: str) -> CommandResult:
        language = request.language

        def work(unit: Unit) -> CallResult:
            lines = [say(language, "stopped")] if unit.withdraw_subagents(request.address) else []
            for goal in unit.goals_of(request.address):
                unit.save_goal(replace(goal, state=GoalState.STOPPED))
                lines.append(say(language, "goal.stopped", title=goal.title))
            return CallResult(call_id=_CALL_ID, text="\n".join(lines))

        # What is queued first: it must not begin once the running turn is stopped.
        lines = (await self._context.store.steps.once(turn, _CALL_ID, work)).text.splitlines()
        if self._context.control.stop(request.address) and say(language, "stopped") not in lines:
            lines.insert(0, say(language, "stopped"))
        if not lines and (ended := await self._context.end_programs(request.address.key)):
            # Only now: who stops a turn may well want to keep the server that was started for them.
            lines.append(say(language, "programs_ended", count=ended))
        return CommandResult(text="\n".join(lines) or say(language, "nothing_to_stop"))

    async def _help(self, _turn: Turn, request: RequestContext, _arguments: str) -> CommandResult:
        menu = list(self.menu(request.language))
        if request.role is Role.OWNER:
            menu.append(MenuCommand(name="restart", description=say(request.language, "help.restart")))
        lines = "\n".join(f"/{item.name} — {item.description}" for item in menu)
        # Where a platform keeps bare commands for itself, people are told first how to write ours.
        if (hint := f"help.on.{request.address.channel}") in keys():
            lines = f"{say(request.language, hint)}\n{lines}"
        return CommandResult(text=say(request.language, "help", commands=lines))

    async def _remind(self, turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        language = request.language
        if not arguments:
            return CommandResult(text=say(language, "remind_usage"))
        now_us = self._context.clock.now_us()
        wanted = self._context.read_reminder(arguments, now_us=now_us, zone=request.zone, language=language)
        if isinstance(wanted, str):
            return CommandResult(text=say(language, wanted))

        def work(unit: Unit) -> CallResult:
            try:
                return CallResult(call_id=_CALL_ID, text=self._context.desk.add(unit, wanted, request))
            except ScheduleError as exc:
                return CallResult(call_id=_CALL_ID, text=str(exc), is_error=True)

        result = await self._context.store.steps.once(turn, _CALL_ID, work)
        self._context.signal.notify(Topic.JOBS)
        return CommandResult(text=result.text)

    async def _reminders(self, _turn: Turn, request: RequestContext, _arguments: str) -> CommandResult:
        jobs = await self._context.store.jobs.list(request.address)
        return CommandResult(text=list_jobs(jobs, request))

    async def _cancel(self, turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        language = request.language
        if not arguments:
            return CommandResult(text=say(language, "cancel_usage"))

        def work(unit: Unit) -> CallResult:
            job = find_job(unit.list_jobs(request.address), arguments)
            if job is None:
                return CallResult(call_id=_CALL_ID, text=say(language, "no_such_job", id=arguments[:64]), is_error=True)
            if not may_change(job, request):
                return CallResult(call_id=_CALL_ID, text=say(language, "owners_only"), is_error=True)
            unit.remove_job(job.id)
            return CallResult(call_id=_CALL_ID, text=say(language, "job_removed", title=job.title, id=job.id))

        result = await self._context.store.steps.once(turn, _CALL_ID, work)
        self._context.signal.notify(Topic.JOBS)
        return CommandResult(text=result.text)

    async def _timezone(self, _turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        now_us = self._context.clock.now_us()
        if not arguments:
            now = local_text(now_us, request.tz, request.language)
            return CommandResult(text=say(request.language, "timezone_is", zone=request.zone, now=now))
        try:
            zone = load_zone(arguments)
        except ScheduleError:
            similar = ", ".join(similar_zones(arguments))
            hint = say(request.language, "timezone_similar", zones=similar) if similar else ""
            text = say(request.language, "timezone_unknown", name=arguments[:64], similar=hint)
            return CommandResult(text=text)
        person = await self._context.store.people.get(request.channel, request.sender_id)
        await self._context.store.people.save(replace(person, zone=zone.key))
        now = local_text(now_us, zone, request.language)
        return CommandResult(text=say(request.language, "timezone_set", zone=zone.key, now=now))

    async def _restart(self, _turn: Turn, request: RequestContext, _arguments: str) -> CommandResult:
        if request.role is not Role.OWNER:
            return CommandResult(text=say(request.language, "owners_only"))
        # Only after the ending is committed: the command is over before the process is, so that it cannot
        # come back and restart the next one.
        return CommandResult(text=say(request.language, "restarting"), afterwards=self._context.request_restart)
