"""Channels are found by their files, and the provider follows from the configuration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import channels
from bot.clock import SystemClock
from bot.config import load_config
from bot.errors import ConfigError
from bot.interfaces import ModelRequest
from bot.parts import build_provider, channel_classes, config_sections
from bot.providers.offline import OfflineProvider
from bot.providers.stand_in import StandInProvider
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.program import ROOT

PLUGIN = """
from typing import ClassVar
from pydantic import BaseModel
from bot.interfaces import Channel

class PigeonConfig(BaseModel):
    loft: str

class PigeonChannel(Channel):
    name: ClassVar[str] = "pigeon"
    config_cls: ClassVar[type[BaseModel]] = PigeonConfig

    @classmethod
    def create(cls, context): return cls()
    async def run(self): pass
    async def send(self, message, progress): pass
"""


def test_every_channel_there_is_has_a_section() -> None:
    assert {"console", "telegram"} <= channel_classes().keys()
    assert config_sections().keys() == {f"channels.{name}" for name in channel_classes()}


def test_finding_channels_loads_no_platform() -> None:
    code = "import sys\nfrom bot.parts import config_sections\nconfig_sections()\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert set(result.stdout.split()).isdisjoint({"telegram", "discord", "slack_bolt", "openai", "mcp", "httpx"})


def test_a_channel_is_added_by_its_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pigeon.py").write_text(PLUGIN)
    monkeypatch.setattr(channels, "__path__", [*channels.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "channels.pigeon", raising=False)
    file = tmp_path / "c.toml"
    file.write_text('[channels.pigeon]\nloft = "roof"')
    loaded = load_config(file, sections=config_sections())
    assert loaded.channels["pigeon"].model_dump() == {"loft": "roof"}
    file.write_text("[channels.pigeon]\nlofts = 3")
    with pytest.raises(ConfigError, match=r"channels\.pigeon"):
        load_config(file, sections=config_sections())
    sys.modules.pop("channels.pigeon")


def test_without_key_and_endpoint_the_provider_is_offline(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("")
    assert isinstance(build_provider(load_config(file, sections={}), SystemClock()), OfflineProvider)


async def test_a_configured_endpoint_is_asked_as_configured(tmp_path: Path) -> None:
    async with OpenAIApi() as api:
        api.script = [Reply(text="hi")]
        file = tmp_path / "c.toml"
        llm = f'[llm]\nbase_url = "{api.url}"\nmodel = "m-1"\napi_key = "k"\ntemperature = 0.5\nmax_output_tokens = 77'
        file.write_text(llm)
        provider = build_provider(load_config(file, sections={}), SystemClock())
        assert isinstance(provider, StandInProvider)
        reply = await provider.complete(
            ModelRequest(messages=[{"role": "user", "content": "hello"}], max_output_tokens=77)
        )
        await provider.close()
    assert reply.text == "hi"
    (request,) = api.requests
    assert (request["model"], request["temperature"]) == ("m-1", 0.5)
    assert 77 in (request.get("max_tokens"), request.get("max_completion_tokens"))
