"""Which model a turn asks: its provider, and the numbers that go with it.

The shelf holds the model of `[llm]` and those of `[llm.presets]`. How an endpoint is spoken to, and who answers in
its place, is the providers' part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from bot.agent.governor import GovernorLimits
from bot.interfaces import Provider
from bot.log import get_logger
from bot.messages import Usage

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in the owner's currency."""

    input: float = 0.0
    cached: float | None = None  # of the input, what came out of the provider's cache; None: as other input
    output: float = 0.0

    def cost_micros(self, usage: Usage) -> int:
        """Return what a call cost, in millionths of the currency, rounded to the nearest.

        A price per million tokens is millionths per token, so there is no factor between them.
        """
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        cached_price = self.input if self.cached is None else self.cached
        return round(fresh * self.input + cached * cached_price + usage.output_tokens * self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model as a turn uses it. `name` is the preset's, "" for that of `[llm]`; `model` as the endpoint knows it.

    `prices` are by the name of the model that answered: a fallback has its own. `replay_fields` are the fields of
    rows that its provider may send back; `keeps_reasoning` says whether that goes for final answers, too.
    """

    name: str
    model: str
    provider: Provider
    limits: GovernorLimits
    max_output_tokens: int | None = None
    vision: bool = True
    replay_fields: Collection[str] = ()
    keeps_reasoning: bool = False
    prices: Mapping[str, Prices] = field(default_factory=dict)
    has_fallbacks: bool = False

    def cost_micros(self, usage: Usage, answered_by: str) -> int:
        """Return what a reply of a model cost; 0 where no price is known."""
        known = self.prices.get(answered_by or self.model)
        return 0 if known is None else known.cost_micros(usage)


class ModelShelf:
    """The models there are, by preset."""

    def __init__(self, default: Model, presets: Mapping[str, Model] | None = None) -> None:
        self.default = default
        self.presets: Mapping[str, Model] = dict(sorted((presets or {}).items()))
        self._missed: set[str] = set()
        self._windows: dict[str, int] = {}  # of models whose provider named a smaller one, by preset

    def get(self, name: str) -> Model:
        """Return the model of a preset; the default one for "" and for a preset that is gone, which is logged once."""
        model = self.presets.get(name, self.default)
        if name and not model.name and name not in self._missed:
            self._missed.add(name)
            _log.warning("a chosen model is not configured any more, the default one answers", preset=name)
        window = self._windows.get(model.name)
        if window is None or window >= model.limits.context_window_tokens:
            return model
        output = min(model.limits.max_output_tokens, window // 4)
        return replace(model, limits=replace(model.limits, context_window_tokens=window, max_output_tokens=output))

    def has(self, name: str) -> bool:
        """Say whether a preset is configured; the default model is under ""."""
        return not name or name in self.presets

    def closest(self, name: str) -> str:
        """Return the preset whose name is most like `name`, "" when none is."""
        by_lower = {known.lower(): known for known in self.presets}
        close = get_close_matches(name.lower(), by_lower, n=1)
        return by_lower[close[0]] if close else ""

    def learn_window(self, model: Model, window_tokens: int) -> None:
        """Note a window that turned out smaller than configured; not where a fallback may have named it."""
        if not model.has_fallbacks and window_tokens < model.limits.context_window_tokens:
            self._windows[model.name] = window_tokens

    async def warm_up(self) -> None:
        """See `Provider.warm_up`; the presets load what they need when they are first asked."""
        await self.default.provider.warm_up()

    async def close(self) -> None:
        """Let go of all connections; idempotent."""
        for model in (self.default, *self.presets.values()):
            await model.provider.close()
