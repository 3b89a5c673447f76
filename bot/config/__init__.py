"""Configuration: one TOML file becomes one typed value, or one `ConfigError` listing all that is wrong.

`fields` has the types, `sections` the keys, `loader` finds and reads the file. Plugins own their sections:
the roof collects `{"channels.telegram": TelegramConfig, ...}` and hands the mapping to `load_config`; nothing
here knows a plugin or touches the network.
"""

from __future__ import annotations

from bot.config.checking import UnusedSection, may_be_plugin_section
from bot.config.conversation import MemorySection, SessionsSection, SkillsSection
from bot.config.fields import (
    Count,
    FilePath,
    Seconds,
    SecretText,
    Section,
    check_http_url,
    check_zone,
)
from bot.config.loader import Config, default_config_text, find_config, load_config
from bot.config.mcp import McpSection
from bot.config.models import (
    EndpointSection,
    FallbackSection,
    LlmSection,
    ModelSection,
    PresetSection,
    PricesSection,
    SpeechSection,
    TranscriptionSection,
)
from bot.config.sections import (
    AccessSection,
    BotSection,
    JobsSection,
    LimitsSection,
    LogSection,
    ServerSection,
    default_data_dir,
    machine_zone,
)
from bot.config.tools import (
    CliAppSection,
    ExecSection,
    FilesSection,
    ImageSection,
    SearchEngine,
    ToolsConfig,
    ToolsSection,
    WebSection,
)

__all__ = [
    "AccessSection",
    "BotSection",
    "CliAppSection",
    "Config",
    "Count",
    "EndpointSection",
    "ExecSection",
    "FallbackSection",
    "FilePath",
    "FilesSection",
    "ImageSection",
    "JobsSection",
    "LimitsSection",
    "LlmSection",
    "LogSection",
    "McpSection",
    "MemorySection",
    "ModelSection",
    "PresetSection",
    "PricesSection",
    "SearchEngine",
    "Seconds",
    "SecretText",
    "Section",
    "ServerSection",
    "SessionsSection",
    "SkillsSection",
    "SpeechSection",
    "ToolsConfig",
    "ToolsSection",
    "TranscriptionSection",
    "UnusedSection",
    "WebSection",
    "check_http_url",
    "check_zone",
    "default_config_text",
    "default_data_dir",
    "find_config",
    "load_config",
    "machine_zone",
    "may_be_plugin_section",
]
