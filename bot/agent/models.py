"""Which model a turn asks: its provider, and the numbers that go with it.

The shelf holds the model of `[llm]` and those of `[llm.presets]`. How an endpoint is spoken to, and who answers in
its place, is the providers' part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.governor import GovernorLimits
from bot.interfaces import Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model as a turn uses it. `name` is the preset's, "" for that of `[llm]`; `model` as the endpoint knows it."""

    name: str
    model: str
    provider: Provider
    limits: GovernorLimits
    max_output_tokens: int | None = None
    vision: bool = True


class ModelShelf:
    """The models there are, by preset."""

    def __init__(self, default: Model, presets: Mapping[str, Model] | None = None) -> None:
        self.default = default
        self.presets: Mapping[str, Model] = dict(sorted((presets or {}).items()))

    def get(self, name: str) -> Model:
        """Return the model of a preset; the default one for "" and for a preset that is gone."""
        return self.presets.get(name, self.default)

    async def warm_up(self) -> None:
        """See `Provider.warm_up`; the presets load what they need when they are first asked."""
        await self.default.provider.warm_up()

    async def close(self) -> None:
        """Let go of all connections; idempotent."""
        for model in (self.default, *self.presets.values()):
            await model.provider.close()
