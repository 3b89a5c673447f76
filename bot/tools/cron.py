"""The cron tool: reminders and tasks of this chat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bot.errors import ScheduleError
from bot.interfaces import Topic, Unit
from bot.jobs import NAME_LIMIT_CHARS, TEXT_LIMIT_CHARS, JobDesk, find_job, list_jobs, may_change
from bot.messages import Origin, Replay, Risk
from bot.records import CallResult, Job, JobState
from bot.texts import say
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.context import RequestContext, ToolContext, current_call_id, current_request
from bot.toolkit.presets import preset_problem

_CHANGES = frozenset({"update", "remove", "pause", "resume", "run_now"})
_OWN = frozenset({"remove", "pause"})  # what a job's own turn may do to its job


@tool_parameters(
    {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["add", "list", "update", "remove", "pause", "resume", "run_now"],
            },
            "kind": {
                "type": "string",
                "enum": ["reminder", "task"],
                "description": "reminder (default): text is delivered as is. task: you work on text when it is due.",
            },
            "text": {"type": "string", "description": "What to say, or what to do.", "maxLength": TEXT_LIMIT_CHARS},
            "name": {"type": "string", "description": "A short name.", "maxLength": NAME_LIMIT_CHARS},
            "at": {"type": "string", "description": "Once: ISO time; without an offset it is the person's local time."},
            "in_seconds": {"type": "number", "description": "Once: seconds from now."},
            "every_seconds": {"type": "number", "description": "Repeating: seconds between firings."},
            "cron_expr": {"type": "string", "description": "Repeating: five crontab fields, 0 and 7 = Sunday."},
            "tz": {"type": "string", "description": "IANA zone for at and cron_expr; default: the person's own."},
            "until": {"type": "string", "description": "ISO time after which it does not fire any more."},
            "max_runs": {"type": "integer", "minimum": 1, "description": "How often it fires at most."},
            "jitter_s": {"type": "integer", "minimum": 0, "description": "Spread each firing over so many seconds."},
            "quiet_hours": {"type": "string", "description": "Local times without firings, e.g. 22:00-06:00."},
            "urgent": {"type": "boolean", "description": "Fires in quiet hours too."},
            "catch_up": {"type": "boolean", "description": "False: a firing that was missed is not made up for."},
            "model": {
                "type": "string",
                "maxLength": 64,
                "description": "For a task: a model preset (`my` lists them; owners only); default: the chat's.",
            },
            "job_id": {"type": "string", "description": "The job to update, remove, pause, resume or run now."},
        },
        "required": ["action"],
        "additionalProperties": False,
    }
)
class CronTool(Tool):
    """Sets, lists, changes and removes reminders and scheduled tasks of this chat.

    Parameters: action; for add kind, text and exactly one of at, in_seconds, every_seconds, cron_expr, and the
    optional fields, for a task also model (a preset; owners only); for the others job_id. Result: a receipt with id,
    next time, date, year and zone, stored before it is given. Errors: a bad field, a past time or an unknown zone,
    each with the current local time; too many jobs. Refused: another chat's job, or in a group another person's.
    """

    name = "cron"
    description = (
        "Set, list and change reminders and scheduled tasks of this chat. add takes exactly one of at, in_seconds, "
        "every_seconds, cron_expr. Nothing is scheduled without this tool's receipt; tell the person what it says."
    )
    risk = Risk.TALK
    replay = Replay.KEYED

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._desk = JobDesk(context.jobs, delivers=context.delivers_jobs)

    @classmethod
    def create(cls, ctx: ToolContext) -> CronTool:
        """See `Tool.create`."""
        return cls(ctx)

    def risk_for(self, params: dict[str, Any]) -> Risk:
        """See `Tool.risk_for`: own reminders are talk; a task lets the model act later, which is a write."""
        return Risk.WRITE if params.get("kind") == "task" else Risk.TALK

    def only_looks(self, params: dict[str, Any]) -> bool:
        """See `Tool.only_looks`."""
        return params.get("action") == "list"

    async def execute(self, **params: Any) -> ToolResult:
        """See the class."""
        request = current_request()
        if params["action"] == "list":
            return ToolResult(list_jobs(await self._context.store.jobs.list(request.address), request))
        call_id = current_call_id()
        if (name := params.get("model")) is not None and (problem := preset_problem(self._context.llm, name, request)):
            return ToolResult.error(problem)

        def work(unit: Unit) -> CallResult:
            try:
                return CallResult(call_id=call_id, text=self._act(unit, params, request))
            except ScheduleError as exc:
                return CallResult(call_id=call_id, text=str(exc), is_error=True)

        result = await self._context.store.steps.once(request.turn, call_id, work)
        self._context.signal.notify(Topic.JOBS)
        if params["action"] == "run_now":
            self._context.signal.notify(Topic.OUTBOUND)
            self._context.signal.notify(Topic.INBOUND)
        return ToolResult(result.text, is_error=result.is_error)

    def _act(self, unit: Unit, params: dict[str, Any], request: RequestContext) -> str:
        """Do one action inside the transaction; raises ScheduleError with the reason it cannot be done."""
        action = params["action"]
        if request.origin is Origin.JOB:
            self._check_own(action, params, request)
        if action == "add":
            return self._desk.add(unit, params, request)
        assert action in _CHANGES
        job = self._job(unit, params, request)
        language = request.language
        if action == "update":
            return self._desk.update(unit, job, params, request)
        if action == "resume":
            return self._desk.resume(unit, job, request)
        if action == "remove":
            unit.remove_job(job.id)
            return say(language, "job_removed", title=job.title, id=job.id)
        if action == "pause":
            unit.save_job(_paused(job))
            return say(language, "job_paused", title=job.title, id=job.id)
        unit.run_job_now(job.id, self._context.composer)
        return say(language, "job_started", title=job.title, id=job.id)

    def _check_own(self, action: str, params: dict[str, Any], request: RequestContext) -> None:
        """A scheduled turn may end or pause itself and nothing else, or reminders would breed reminders."""
        own_id = str(request.turn.meta.get("job_id", ""))
        named = str(params.get("job_id") or own_id)
        if action not in _OWN or named.removeprefix("job-") != own_id.removeprefix("job-"):
            raise ScheduleError(
                f"action {action}: this turn was started by job {own_id}; from here only remove and pause of "
                "that job are possible. Do the task itself and answer with its result."
            )
        params["job_id"] = own_id

    def _job(self, unit: Unit, params: dict[str, Any], request: RequestContext) -> Job:
        wanted = params.get("job_id")
        if not wanted:
            raise ScheduleError("job_id: say which job; action list shows their ids")
        job = find_job(unit.list_jobs(request.address), wanted)
        if job is None:
            raise ScheduleError(say(request.language, "no_such_job", id=str(wanted)[:64]))
        if not may_change(job, request):
            raise ScheduleError("only the person who made this job, or an owner, may change it")
        return job


def _paused(job: Job) -> Job:
    return replace(job, state=JobState.PAUSED, next_us=None)
