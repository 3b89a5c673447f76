"""`[llm]`, its fallbacks and presets: what is refused, what is filled in, and which key goes where."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.clock import SystemClock
from bot.config import Config, load_config
from bot.errors import ConfigError
from bot.messages import Usage
from bot.parts import build_models
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_endpoint import Endpoint
from tests.platforms.openai_script import Reply
from tests.support.model_calls import ask

LLM = '[llm]\nbase_url = "https://one.example/v1"\napi_key = "key-of-one"\n'


def load(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "c.toml"
    file.write_text(text)
    return load_config(file, sections={})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[llm.presets.strong]\nmodell = 'x'", "llm.presets.strong.modell: unknown key"),
        ("[llm.presets.strong]\ntemperature = 'hot'", "llm.presets.strong.temperature: must be a number, not text"),
        ("[llm.presets.strong]\napi_key = 'env:NO_SUCH_KEY'", "'NO_SUCH_KEY' is not set"),
        ("[llm.presets.strong]\nbase_url = 'here'", "llm.presets.strong.base_url"),
        ("[llm.presets.strong]\nreasoning = 'hard'", "llm.presets.strong.reasoning: must be 'auto'"),
        ("[llm.presets.strong]\nprices = { input = -1 }", "llm.presets.strong.prices.input"),
        ("[llm.presets.small]\ncontext_window_tokens = 4096\nmax_output_tokens = 4000", "leaves no room"),
        ("[llm.presets.default]\nmodel = 'x'", "this name stands for the model of [llm] itself"),
        ("[llm.presets.'no spaces']\nmodel = 'x'", "presets.'no spaces': a name has letters, digits,"),
        ("[[llm.fallbacks]]\nbase_url = 'http://x/v1'", "llm.fallbacks[0].model: is required"),
        ("[[llm.fallbacks]]\nmodel = 'x'\nkey = 'y'", "llm.fallbacks[0].key: unknown key"),
        ("[[llm.fallbacks]]\nmodel = 'x'\napi_key = 'env:NO_SUCH_KEY'", "'NO_SUCH_KEY' is not set"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_it(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, LLM + text)
    (line,) = str(caught.value).splitlines()
    assert problem in line


def test_a_preset_that_fits_alone_but_not_with_what_it_inherits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"presets\.small: max_output_tokens leaves no room"):
        load(tmp_path, f"{LLM}max_output_tokens = 8000\n[llm.presets.small]\ncontext_window_tokens = 8192")


def test_fallbacks_without_a_model_to_stand_in_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fallbacks need a model"):
        load(tmp_path, "[[llm.fallbacks]]\nmodel = 'x'\nbase_url = 'http://127.0.0.1:1/v1'")


def test_secrets_of_presets_and_fallbacks_are_known_for_redaction(tmp_path: Path) -> None:
    presets = "[llm.presets.strong]\napi_key = 'key-of-strong'\n[[llm.fallbacks]]\nmodel = 'x'\napi_key = 'key-of-x'"
    assert load(tmp_path, LLM + presets).secrets() >= {"key-of-one", "key-of-strong", "key-of-x"}


def test_a_preset_has_what_llm_has_where_it_says_nothing(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        f"{LLM}temperature = 0.3\nvision = false\nprices = {{ input = 1.0 }}\n"
        "[llm.presets.strong]\nmodel = 'big'\n[llm.presets.careful]\ntemperature = 0.0",
    )
    strong, careful = config.llm.resolved("strong"), config.llm.resolved("careful")
    assert (strong.model, strong.base_url, strong.temperature, strong.vision) == (
        "big",
        "https://one.example/v1",
        0.3,
        False,
    )
    assert strong.provider == "openai"
    assert careful.temperature == 0.0
    # Another model has other prices, the same one has the same.
    assert strong.prices.input == 0.0
    assert careful.prices.input == 1.0


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("base_url = 'https://one.example/other'", "key-of-one"),
        ("", "key-of-one"),
        ("base_url = 'https://two.example/v1'", None),
        ("base_url = 'http://one.example/v1'", None),
        ("base_url = 'https://two.example/v1'\napi_key = 'its-own'", "its-own"),
    ],
)
def test_a_key_is_shown_to_its_own_server_only(tmp_path: Path, address: str, key: str | None) -> None:
    config = load(tmp_path, f"{LLM}[llm.presets.other]\nmodel = 'big'\n{address}")
    found = config.llm.resolved("other").api_key
    assert (found and found.get_secret_value()) == key


async def test_the_chain_is_asked_in_its_order_each_with_its_own_model_and_key(tmp_path: Path) -> None:
    async with OpenAIApi(endpoint=Endpoint(api_key="k1")) as one, OpenAIApi(endpoint=Endpoint(api_key="k2")) as two:
        one.default = lambda request: Reply(status=402)
        two.default = lambda request: Reply(text=f"by {request['model']}", usage={"prompt_tokens": 1_000})
        config = load(
            tmp_path,
            f'[llm]\nmodel = "m1"\nbase_url = "{one.url}"\napi_key = "k1"\nprices = {{ input = 5.0 }}\n'
            f'[[llm.fallbacks]]\nmodel = "m0"\n'
            f'[[llm.fallbacks]]\nmodel = "m2"\nbase_url = "{two.url}"\napi_key = "k2"\nprices = {{ input = 2.0 }}\n',
        )
        model = build_models(config, SystemClock()).default
        reply = await model.provider.complete(ask())
        await model.provider.close()
    assert (reply.text, reply.model) == ("by m2", "m2")
    assert [request["model"] for request in one.requests] == ["m1", "m0"]
    assert model.cost_micros(Usage(input_tokens=1_000), "m2") == 2_000
    assert model.cost_micros(Usage(input_tokens=1_000), "m1") == 5_000
    assert model.cost_micros(Usage(input_tokens=1_000), "m0") == 0  # nobody said what it costs


def test_a_preset_is_built_with_its_own_numbers(tmp_path: Path) -> None:
    """C098: the default output limit leaves room, in the request and in the governor's budget alike."""
    shelf = build_models(
        load(
            tmp_path,
            f"{LLM}context_window_tokens = 262144\n[llm.presets.small]\nmodel = 'm'\ncontext_window_tokens = 8192",
        ),
        SystemClock(),
    )
    assert shelf.default.limits.max_output_tokens == 16_384
    assert shelf.default.limits.input_tokens == 262_144 - 16_384 - 1_024
    small = shelf.get("small").limits
    assert (small.context_window_tokens, small.max_output_tokens) == (8_192, 2_048)


@pytest.mark.parametrize(
    ("reasoning", "effort", "replays", "keeps"),
    [
        ("auto", None, True, False),
        ("replay", None, True, True),
        ("drop", None, False, False),
        ("low", "low", True, False),
    ],
)
async def test_reasoning_says_what_goes_back_and_how_hard_to_think(
    tmp_path: Path, reasoning: str, effort: str | None, *, replays: bool, keeps: bool
) -> None:
    async with OpenAIApi() as api:
        config = load(tmp_path, f'[llm]\nbase_url = "{api.url}"\nreasoning = "{reasoning}"')
        model = build_models(config, SystemClock()).default
        await model.provider.complete(ask())
        await model.provider.close()
        assert api.requests[0].get("reasoning_effort") == effort
    assert bool(model.replay_fields) is replays
    assert model.keeps_reasoning is keeps


def test_a_preset_whose_key_no_header_can_carry_is_named(tmp_path: Path) -> None:
    config = load(tmp_path, f"{LLM}[llm.presets.strong]\napi_key = 'schlüssel'")
    with pytest.raises(ConfigError, match=r"llm\.presets\.strong\.api_key") as caught:
        build_models(config, SystemClock())
    assert "schlüssel" not in str(caught.value)


def test_a_fallback_whose_key_no_header_can_carry_is_named(tmp_path: Path) -> None:
    config = load(tmp_path, f"{LLM}[[llm.fallbacks]]\nmodel = 'x'\napi_key = 'schlüssel'")
    with pytest.raises(ConfigError, match=r"llm\.fallbacks\[0\]\.api_key"):
        build_models(config, SystemClock())


def test_no_secret_is_in_what_configuration_prints(tmp_path: Path) -> None:
    config = load(tmp_path, f"{LLM}[llm.presets.strong]\napi_key = 'key-of-strong'")
    assert isinstance(config.llm.presets["strong"].api_key, SecretStr)
    assert "key-of" not in repr(config.llm)
