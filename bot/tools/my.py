"""The my tool: what the assistant can know of its own state, and the little it may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot import __version__
from bot.config.models import DEFAULT_PRESET
from bot.interfaces import Unit
from bot.messages import Replay, Risk
from bot.records import CallResult
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.catalogue import ToolListing
from bot.toolkit.context import RequestContext, ToolContext, current_call_id, current_request
from bot.toolkit.presets import preset_of, preset_problem
from bot.toolkit.settings import SETTINGS
from bot.zones import start_of_day_us

NOTES = 50
NOTE_CHARS = 2_000
"""Notes are for a word or a number between turns; texts belong into files."""

_KEY_CHARS = 64
_NOTE = "note."


@tool_parameters(
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["check", "set"], "description": "check (default) or set."},
            "key": {
                "type": "string",
                "minLength": 1,
                "maxLength": _KEY_CHARS,
                "description": (
                    "What to check or set: model, limits, usage, tools, jobs, notes; a setting "
                    f"({', '.join(SETTINGS)}; or model, this chat's preset); or note.NAME, a value kept for this "
                    "conversation. Default: everything."
                ),
            },
            "value": {
                "type": ["string", "integer"],
                "maxLength": NOTE_CHARS,
                "description": "The new value; without it, a setting is reset and a note is forgotten.",
            },
        },
        "additionalProperties": False,
    }
)
class MyTool(Tool):
    """Shows or changes the assistant's own state.

    Parameters: action (check, set), key, value. Checking shows version and model, limits, the tokens this chat
    used today, tools with their status, this chat's jobs, and notes. Setting takes two settings of `[limits]`
    (they hold for all chats and survive restarts), `model`, the preset that answers in this chat from the next turn
    on (these three only for owners in private chats), and `note.NAME` (50 notes of at
    most 2,000 characters for this conversation). Secrets are never shown. Errors: an unknown key, a value out of
    its bounds. Result: the state, or what was set.
    """

    name = "my"
    description = (
        "Check your own state: version, model, limits, tokens used, tools and their status, jobs, notes. Or set one of "
        "the settings, or keep a note (note.NAME) for later turns of this conversation."
    )
    risk = Risk.READ
    replay = Replay.KEYED

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    @classmethod
    def create(cls, ctx: ToolContext) -> MyTool:
        """See `Tool.create`."""
        return cls(ctx)

    def risk_for(self, params: dict[str, Any]) -> Risk:
        """See `Tool.risk_for`: a note concerns this conversation alone, a setting everybody."""
        if params.get("action") != "set":
            return Risk.READ
        return Risk.WRITE if str(params.get("key", "")).startswith(_NOTE) else Risk.ADMIN

    def only_looks(self, params: dict[str, Any]) -> bool:
        """See `Tool.only_looks`."""
        return params.get("action") != "set"

    async def execute(self, *, action: str = "check", key: str = "", value: str | int | None = None) -> ToolResult:
        """See the class."""
        request = current_request()
        if action == "check":
            return await self._check(request, key)
        if key.startswith(_NOTE) and len(key) > len(_NOTE):
            name, text = key.removeprefix(_NOTE), None if value is None else str(value)
            return await self._write(request, lambda unit: _set_note(unit, request, name, text))
        if key == "model":
            return await self._choose_model(request, "" if value is None else str(value))
        if key not in SETTINGS:
            known = ", ".join(("model", *SETTINGS))
            return ToolResult.error(f"key: {key or 'missing'}; what can be set: {known}, note.NAME")
        number = None if value is None else _number(value)
        bounds = SETTINGS[key]
        if value is not None and (number is None or not bounds.lowest <= number <= bounds.highest):
            return ToolResult.error(f"value: {key} takes a whole number from {bounds.lowest} to {bounds.highest}")

        holds = self._context.room.settings.configured(key) if number is None else number

        def work(unit: Unit) -> ToolResult:
            unit.put_setting(key, number)
            return ToolResult(f"{key} is {holds} from now on.")

        result = await self._write(request, work)
        self._context.room.settings.apply(await self._context.store.settings.all())
        return result

    async def _choose_model(self, request: RequestContext, name: str) -> ToolResult:
        if problem := preset_problem(self._context.llm, name, request):
            return ToolResult.error(problem)
        preset = preset_of(name)

        def work(unit: Unit) -> ToolResult:
            unit.choose_model(request.address, preset)
            return ToolResult(f"From the next turn on, {preset or DEFAULT_PRESET} answers in this chat.")

        return await self._write(request, work)

    async def _write(self, request: RequestContext, work: Callable[[Unit], ToolResult]) -> ToolResult:
        call_id = current_call_id()

        def once(unit: Unit) -> CallResult:
            result = work(unit)
            return CallResult(call_id=call_id, text=str(result), is_error=result.is_error)

        result = await self._context.store.steps.once(request.turn, call_id, once)
        return ToolResult(result.text, is_error=result.is_error)

    # --- checking

    async def _check(self, request: RequestContext, key: str) -> ToolResult:
        texts = {"model": await self._model(request), "limits": self._limits(), "tools": self._tools()}
        texts["usage"] = await self._usage(request)
        texts["jobs"] = await self._jobs(request)
        notes = await self._context.store.settings.notes(request.turn.session_id)
        texts["notes"] = "\n".join(f"note.{name} = {value}" for name, value in notes.items()) or "no notes"
        if not key:
            return ToolResult("\n\n".join(f"{name}:\n{text}" for name, text in texts.items()))
        if key in texts:
            return ToolResult(texts[key])
        if key in SETTINGS:
            return ToolResult(str(self._context.room.settings[key]))
        name = key.removeprefix(_NOTE)
        if key.startswith(_NOTE) and name in notes:
            return ToolResult(notes[name])
        known = [*texts, *SETTINGS, *(f"note.{name}" for name in notes)]
        return ToolResult.error(f"key: there is no {key!r}; there are {', '.join(known)}")

    async def _model(self, request: RequestContext) -> str:
        """Return what answers in this turn, and the presets with the one that the chat has chosen."""
        llm, used = self._context.llm, request.turn.model
        model = llm.resolved(used) if used in llm.presets else llm
        if model.provider == "offline":
            text = f"Dutiful {__version__}, no model: the offline provider answers"
        else:
            window = f"context window of {model.context_window_tokens:,} tokens"
            text = f"Dutiful {__version__}, model {model.model}, {window}"
        if not llm.presets:
            return text
        chosen = await self._context.store.settings.chosen_model(request.address) or DEFAULT_PRESET
        presets = [f"{DEFAULT_PRESET} ({llm.model})", *(f"{name} ({llm.resolved(name).model})" for name in llm.presets)]
        return f"{text}; presets: {', '.join(presets)}; this chat has chosen {chosen}"

    def _limits(self) -> str:
        settings = self._context.room.settings
        lines = []
        for name, setting in SETTINGS.items():
            changed = (
                "" if settings[name] == settings.configured(name) else f" (configured: {settings.configured(name)})"
            )
            lines.append(f"{name} = {settings[name]}{changed}: {setting.about}")
        return "\n".join(lines)

    def _tools(self) -> str:
        catalogue = self._context.room.catalogue
        rows = [] if catalogue is None else catalogue.listings()
        return "\n".join(f"{row.name} ({row.risk or 'plugin'}): {_status(row)}" for row in rows)

    async def _usage(self, request: RequestContext) -> str:
        midnight_us = start_of_day_us(self._context.clock.now_us(), request.tz)
        usage = await self._context.store.overview.usage(request.address, since_us=midnight_us)
        messages = await self._context.store.history.count(request.address)
        return (
            f"this chat today: {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out; "
            f"{messages} messages in this conversation"
        )

    async def _jobs(self, request: RequestContext) -> str:
        jobs = await self._context.store.jobs.list(request.address)
        return "\n".join(f"{job.id} ({job.state}): {job.title}, {job.schedule.describe()}" for job in jobs) or "no jobs"


def _status(row: ToolListing) -> str:
    """Return a tool's status for any chat: why a plugin failed may name files and hosts of the machine."""
    return row.status if row.risk else "off: it does not load; `dutiful tools` says why"


def _number(value: str | int) -> int | None:
    try:
        return int(value)
    except ValueError:
        return None


def _set_note(unit: Unit, request: RequestContext, name: str, value: str | None) -> ToolResult:
    session_id = request.turn.session_id
    notes = unit.notes(session_id)
    if value is not None and name not in notes and len(notes) >= NOTES:
        return ToolResult.error(f"there are {NOTES} notes already; forget one first (set without a value)")
    unit.put_note(session_id, name, value)
    return ToolResult(f"note.{name} is {'forgotten' if value is None else 'kept for this conversation'}.")
