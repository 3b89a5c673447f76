"""Which channels and providers exist: found by file name, built from configuration.

Adding one is one new file: nothing here names any of them, but for the two providers that `[llm] provider`
can mean.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, SecretStr

import channels
from bot.agent.governor import GovernorLimits
from bot.agent.models import Model, ModelShelf, Prices
from bot.clock import Clock
from bot.config import Config, UnusedSection, load_config, may_be_plugin_section
from bot.config.models import ModelSection, PricesSection
from bot.errors import ConfigError
from bot.interfaces import Channel, Provider
from bot.providers.offline import OfflineProvider
from bot.providers.openai_address import shown_address, usable_base_url
from bot.providers.openai_dialect import output_limit_tokens
from bot.providers.reasoning_fields import REPLAY_FIELDS
from bot.providers.stand_in import StandInProvider
from bot.texts import say
from bot.toolkit.loader import ToolLoader


def channel_classes() -> Mapping[str, type[Channel]]:
    """Return every channel by name; importing them must not import their SDKs."""
    found: dict[str, type[Channel]] = {}
    for info in pkgutil.iter_modules(channels.__path__):
        module = importlib.import_module(f"channels.{info.name}")
        for _, item in inspect.getmembers(module, inspect.isclass):
            if issubclass(item, Channel) and not inspect.isabstract(item):
                found[item.name] = item
    return found


def config_sections() -> dict[str, type[BaseModel]]:
    """Return the config sections of the channels and of the tools that have one of their own, for the loader."""
    loader = ToolLoader()
    tools = loader.config_sections()
    # A plugin that does not load must not stop the start by the section that is there for it.
    unused = {name: UnusedSection for name in loader.failures if may_be_plugin_section(name)}
    return unused | tools | {f"channels.{name}": cls.config_cls for name, cls in channel_classes().items()}


def load_settings(path: Path | None, *, secrets: bool = True) -> Config:
    """Load the configuration as `load_config` does, with the sections of all plugins.

    Raises:
        ConfigError: as `load_config`; also when `[tools] disabled` names no tool: the one that was meant would stay.
    """
    config = load_config(path, sections=config_sections(), secrets=secrets)
    disabled = [name for name in config.tools.main.disabled if not name.startswith("mcp_")]  # servers may come later
    if disabled:
        known = ToolLoader().known_names()
        problems = [
            f"{config.path}: tools.disabled: unknown tool {name!r}{_hint(name, known)}"
            for name in disabled
            if name not in known
        ]
        if problems:
            raise ConfigError("\n".join(problems))
    return config


def _hint(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else "; `dutiful tools` lists those there are"


_NO_EFFORTS = ("auto", "replay", "drop")  # the other values of `[llm] reasoning` are efforts

OUTPUT_RESERVE_TOKENS = 4_096
"""Room kept for the answer when no output limit is configured."""


def build_models(config: Config, clock: Clock) -> ModelShelf:
    """Return the configured models; no network is used.

    Raises:
        ConfigError: an address or a key that can never work.
    """
    llm = config.llm
    presets = {name: _model(config, clock, name, llm.resolved(name)) for name in llm.presets}
    return ModelShelf(_model(config, clock, "", llm), presets)


def _model(config: Config, clock: Clock, name: str, section: ModelSection) -> Model:
    limits = config.limits
    is_offline = section.provider == "offline"
    output_tokens = output_limit_tokens(section.max_output_tokens, section.context_window_tokens)
    fallbacks = () if is_offline else config.llm.fallbacks
    try:
        provider = _build_provider(config, clock, section)
    except ConfigError as error:
        own = name and "fallbacks" not in str(error)
        raise ConfigError(str(error).replace("llm.", f"llm.presets.{name}.", 1) if own else str(error)) from None
    return Model(
        name=name,
        model="offline" if is_offline else section.model,
        provider=provider,
        limits=GovernorLimits(
            context_window_tokens=section.context_window_tokens,
            max_output_tokens=output_tokens or OUTPUT_RESERVE_TOKENS,
            replay_tokens=config.sessions.replay_tokens,
            tool_result_chars=limits.tool_result_chars,
            preview_chars=limits.preview_chars,
        ),
        max_output_tokens=section.max_output_tokens,
        vision=section.vision,
        replay_fields=() if section.reasoning == "drop" else REPLAY_FIELDS,
        keeps_reasoning=section.reasoning == "replay",
        prices={entry.model: _prices(entry.prices) for entry in (*fallbacks, section) if entry.prices is not None},
        has_fallbacks=bool(fallbacks),
    )


def _prices(section: PricesSection) -> Prices:
    return Prices(input=section.input, cached=section.cached, output=section.output)


def build_provider(config: Config, clock: Clock) -> Provider:
    """Return the provider of `[llm]`: its model and the fallbacks, with the offline provider as their stand-in.

    Raises:
        ConfigError: as `build_models`.
    """
    return _build_provider(config, clock, config.llm)


def _build_provider(config: Config, clock: Clock, section: ModelSection) -> Provider:
    if section.provider == "offline":
        return OfflineProvider(clock)
    # Only here: a chat without a model needs none of it.
    from bot.providers.call_limits import CallLimits
    from bot.providers.fallback import Entry, FallbackProvider
    from bot.providers.openai_compatible import OpenAIProvider

    fallbacks, times = config.llm.fallbacks, config.limits
    limits = CallLimits(
        first_token_s=times.first_token_s,
        idle_s=times.stream_idle_s,
        total_s=times.call_total_s,
        tries=2 if fallbacks else 3,
        waits_again=not fallbacks,
    )

    def entry(model: str, base_url: str | None, api_key: SecretStr | None) -> Entry:
        provider = OpenAIProvider(
            model=model,
            api_key=api_key.get_secret_value() if api_key else "",
            base_url=base_url or "",
            temperature=section.temperature,
            max_output_tokens=section.max_output_tokens,
            context_window_tokens=section.context_window_tokens,
            reasoning_effort="" if section.reasoning in _NO_EFFORTS else section.reasoning,
            replays_reasoning=section.reasoning == "replay",
            limits=limits,
            clock=clock,
        )
        return Entry(label=f"{model} at {shown_address(usable_base_url(base_url or ''))}", provider=provider)

    chain = [entry(section.model, section.base_url, section.api_key)]
    for index, item in enumerate(fallbacks):
        address = item.base_url or config.llm.base_url
        try:
            chain.append(entry(item.model, address, item.api_key or config.llm.key_for(address)))
        except ConfigError as error:
            raise ConfigError(str(error).replace("llm.", f"llm.fallbacks[{index}].", 1)) from None
    primary = FallbackProvider(chain, total_s=limits.total_s, clock=clock) if fallbacks else chain[0].provider
    return StandInProvider(
        primary, OfflineProvider(clock, stands_in=True), notice=lambda language: say(language, "stand_in"), clock=clock
    )
