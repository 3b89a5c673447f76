"""`[llm]`, its fallbacks and presets, and the models for sound: which endpoint is asked, with what numbers."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator

from bot.config.fields import Count, SecretText, Section, check_http_url

OPENAI_URL = "https://api.openai.com/v1"
"""Where a model without `base_url` is asked."""

DEFAULT_PRESET = "default"
"""What the model of `[llm]` itself is called where a preset is named."""

_PRESET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
Price = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class PricesSection(Section):
    """What a model costs, per million tokens, in a currency of the owner's choice."""

    input: Price = 0.0
    cached: Price | None = None  # input read from the provider's cache; None: as other input
    output: Price = 0.0


class EndpointSection(Section):
    """A model at an OpenAI-compatible endpoint. What is unset is decided by whoever has such a section."""

    model: str | None = Field(default=None, min_length=1, max_length=256)
    base_url: str | None = None
    api_key: SecretText | None = None

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        return value if value is None else check_http_url(value)


class FallbackSection(EndpointSection):
    """`[[llm.fallbacks]]`: who is asked when the model cannot be had; its key goes to its own address only."""

    model: str = Field(min_length=1, max_length=256)
    prices: PricesSection | None = None


class ModelSection(Section):
    """What a model and a preset have in common."""

    model: str = Field(default="gpt-5-mini", min_length=1, max_length=256)
    api_key: SecretText | None = None
    base_url: str | None = None
    context_window_tokens: Annotated[int, Field(ge=2_048, le=100_000_000)] = 128_000
    max_output_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    provider: Literal["openai", "offline"] = Field(
        default_factory=lambda data: "openai" if data["api_key"] or data["base_url"] else "offline"
    )
    vision: bool = True
    reasoning: Literal["auto", "replay", "drop", "minimal", "low", "medium", "high"] = "auto"
    prices: PricesSection = Field(default_factory=PricesSection)

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        return value if value is None else check_http_url(value)

    @model_validator(mode="after")
    def _room_for_input(self) -> ModelSection:
        if self.max_output_tokens and self.max_output_tokens > self.context_window_tokens - 1_024:
            raise ValueError("max_output_tokens leaves no room in context_window_tokens")
        return self


class PresetSection(ModelSection):
    """`[llm.presets.NAME]`: another model to choose; a key that is unset has the value of `[llm]`."""


class LlmSection(ModelSection):
    """`[llm]`: the model. `provider` is resolved: `openai` with a key or base_url, else `offline`."""

    fallbacks: list[FallbackSection] = Field(default_factory=list, max_length=8)
    presets: dict[str, PresetSection] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _usable(self) -> LlmSection:
        if self.provider == "openai" and not (self.api_key or self.base_url):
            raise ValueError("provider 'openai' needs api_key or base_url")
        if self.provider == "offline" and self.fallbacks:
            raise ValueError("fallbacks need a model to stand in for: set api_key or base_url")
        for name in self.presets:
            if not _PRESET_NAME.fullmatch(name):
                raise ValueError(f"presets.{name!r}: a name has letters, digits, '_', '-' and '.', at most 64")
            if name == DEFAULT_PRESET:
                raise ValueError(f"presets.{name}: this name stands for the model of [llm] itself")
            try:
                self.resolved(name)
            except ValidationError as error:
                raise ValueError(f"presets.{name}: {error.errors()[0]['ctx']['error']}") from None
        return self

    def resolved(self, name: str) -> ModelSection:
        """Return a preset with what it leaves out filled in from `[llm]`.

        Not filled in: the key where the preset's server is another one, which it must not be shown to, and the
        prices where the model is another one, whose they are not.
        """
        preset = self.presets[name]
        own = preset.model_fields_set
        values = {key: getattr(preset if key in own else self, key) for key in ModelSection.model_fields}
        if "api_key" not in own:
            values["api_key"] = self.key_for(values["base_url"])
        if "prices" not in own and values["model"] != self.model:
            values["prices"] = PricesSection()
        if "provider" not in own and (values["api_key"] or values["base_url"]):
            values["provider"] = "openai"
        return _Resolved.model_validate(values)

    def key_for(self, base_url: str | None) -> SecretStr | None:
        """Return `[llm]`'s key if a model without one of its own is asked at the same server, else None."""
        return self.api_key if base_url is None or _server(base_url) == _server(self.base_url) else None


class _Resolved(ModelSection):
    """A preset with nothing left out."""

    @model_validator(mode="after")
    def _usable(self) -> _Resolved:
        if self.provider == "openai" and not (self.api_key or self.base_url):
            raise ValueError("provider 'openai' needs api_key or base_url")
        return self


def _server(base_url: str | None) -> tuple[str, str]:
    parts = urlsplit(base_url or OPENAI_URL)
    return parts.scheme, parts.netloc.rpartition("@")[2]


class TranscriptionSection(EndpointSection):
    """`[transcription]`: the model that writes down voice messages; without one nobody does."""


class SpeechSection(EndpointSection):
    """`[speech]`: the model that reads answers aloud; without one nobody does."""
