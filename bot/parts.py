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

from pydantic import BaseModel

import channels
from bot.agent.governor import GovernorLimits
from bot.agent.models import Model, ModelShelf
from bot.clock import Clock
from bot.config import Config, UnusedSection, load_config, may_be_plugin_section
from bot.errors import ConfigError
from bot.interfaces import Channel, Provider
from bot.providers.fallback import StandInProvider
from bot.providers.offline import OfflineProvider
from bot.providers.openai_dialect import output_limit_tokens
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


OUTPUT_RESERVE_TOKENS = 4_096
"""Room kept for the answer when no output limit is configured."""


def build_models(config: Config, clock: Clock) -> ModelShelf:
    """Return the configured models; no network is used."""
    llm, limits = config.llm, config.limits
    output_tokens = output_limit_tokens(llm.max_output_tokens, llm.context_window_tokens) or OUTPUT_RESERVE_TOKENS
    return ModelShelf(
        Model(
            name="",
            model="offline" if llm.provider == "offline" else llm.model,
            provider=build_provider(config, clock),
            limits=GovernorLimits(
                context_window_tokens=llm.context_window_tokens,
                max_output_tokens=output_tokens,
                replay_tokens=config.sessions.replay_tokens,
                tool_result_chars=limits.tool_result_chars,
                preview_chars=limits.preview_chars,
            ),
            max_output_tokens=llm.max_output_tokens,
            vision=llm.vision,
        )
    )


def build_provider(config: Config, clock: Clock) -> Provider:
    """Return the configured provider; a network one with the offline provider as its stand-in."""
    if config.llm.provider == "offline":
        return OfflineProvider(clock)
    # Only here: a chat without a model needs none of it.
    from bot.providers.openai_compatible import CallLimits, OpenAIProvider

    limits = config.limits
    primary = OpenAIProvider(
        model=config.llm.model,
        api_key=config.llm.api_key.get_secret_value() if config.llm.api_key else "",
        base_url=config.llm.base_url or "",
        temperature=config.llm.temperature,
        max_output_tokens=config.llm.max_output_tokens,
        context_window_tokens=config.llm.context_window_tokens,
        limits=CallLimits(first_token_s=limits.first_token_s, idle_s=limits.stream_idle_s, total_s=limits.call_total_s),
        clock=clock,
    )
    offline = OfflineProvider(clock, stands_in=True)
    return StandInProvider(primary, offline, notice=_stand_in_notice, clock=clock)


def _stand_in_notice(language: str) -> str:
    return say(language, "stand_in")
