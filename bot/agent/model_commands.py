"""`/model`: which models there are, and which one answers in this chat."""

from __future__ import annotations

from collections.abc import Mapping

from bot.agent.commands import CommandResult, Handler
from bot.agent.models import ModelShelf
from bot.config.models import DEFAULT_PRESET
from bot.interfaces import Store, Unit
from bot.messages import Role
from bot.records import CallResult, Turn
from bot.texts import say
from bot.toolkit.context import RequestContext
from bot.toolkit.presets import preset_of

_CALL_ID = "command"


class ModelCommands:
    """See `CommandGroup`. Everybody sees the models; only owners choose, since that spends their money."""

    def __init__(self, store: Store, models: ModelShelf) -> None:
        self._store = store
        self._models = models

    def handlers(self) -> Mapping[str, Handler]:
        """See `CommandGroup.handlers`."""
        return {"model": self._model}

    async def _model(self, turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        if not arguments:
            return CommandResult(text=await self._listing(request))
        if request.role is not Role.OWNER:
            return CommandResult(text=say(request.language, "owners_only"))
        name = preset_of(self._spelled(arguments))
        if not self._models.has(name):
            close = self._models.closest(name)
            similar = say(request.language, "model.similar", name=close) if close else ""
            return CommandResult(text=say(request.language, "model.unknown", name=name[:64], similar=similar))
        model = self._models.get(name)
        text = say(request.language, "model.set", name=name or DEFAULT_PRESET, model=model.model)

        def work(unit: Unit) -> CallResult:
            unit.choose_model(request.address, name)
            return CallResult(call_id=_CALL_ID, text=text)

        return CommandResult(text=(await self._store.steps.once(turn, _CALL_ID, work)).text)

    async def _listing(self, request: RequestContext) -> str:
        language, chosen = request.language, await self._store.settings.chosen_model(request.address)
        used = self._models.get(chosen)
        gone = "" if self._models.has(chosen) else say(language, "model.gone", name=chosen) + "\n"
        if not self._models.presets:
            return gone + say(language, "model.none", model=used.model)
        lines = [
            f"{'→' if model.name == used.name else '•'} {model.name or DEFAULT_PRESET}: {model.model}"
            for model in (self._models.default, *self._models.presets.values())
        ]
        return gone + say(language, "model.list", models="\n".join(lines))

    def _spelled(self, arguments: str) -> str:
        """Return a preset's name as it is configured, however it is written."""
        wanted = arguments.strip().strip("`\"'“”")
        names = (DEFAULT_PRESET, *self._models.presets)
        return wanted if wanted in names else next((name for name in names if name.lower() == wanted.lower()), wanted)
