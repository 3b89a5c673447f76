"""Commands in a shell that cannot read the service's secrets, as an operator's shell seldom can."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.support.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.mark.parametrize("token", ["env:BOT_TOKEN", "file:no-such-file", "credential:telegram_token"])
async def test_what_is_stored_is_shown_without_the_secrets(program: Program, token: str) -> None:
    program.configure(f'[llm]\nprovider = "openai"\napi_key = "env:MODEL_KEY"\n[channels.telegram]\ntoken = "{token}"')
    status = await program.run("status")
    assert (status.code, status.err) == (0, "")
    assert status.out.splitlines()[0].endswith("not running; this is what is stored")
    jobs = await program.run("jobs", "list", "--json")
    assert (jobs.code, jobs.json, jobs.err) == (0, [], "")


async def test_a_running_service_is_reached_without_its_secrets(program: Program) -> None:
    async with BotApi(token="123:ABC") as telegram, OpenAIApi() as model:
        program.configure(
            f'[llm]\nbase_url = "{model.url}"\napi_key = "env:MODEL_KEY"\nmodel = "scripted"\n'
            '[server]\nlisten = "off"\n'
            f'[channels.telegram]\ntoken = "env:BOT_TOKEN"\napi_url = "{telegram.url}"'
        )
        program.env = {"BOT_TOKEN": "123:ABC", "MODEL_KEY": "sk-loopback"}
        async with program.service():
            program.env = {}
            status = await program.run("status")
            said = await program.run("chat", "-m", "good morning")
    assert (status.code, status.err) == (0, "")
    assert "(run)" in status.out.splitlines()[0]
    assert (said.code, said.out, said.err) == (0, "good morning\n", "")


async def test_a_chat_of_its_own_needs_the_models_key_but_no_channels_token(program: Program) -> None:
    channel = '[channels.telegram]\ntoken = "env:BOT_TOKEN"'
    program.configure(channel)
    said = await program.run("chat", "-m", "/reminders")
    assert (said.code, said.err) == (0, "")
    program.configure(f'[llm]\napi_key = "env:MODEL_KEY"\n{channel}')
    refused = await program.run("chat", "-m", "good morning")
    assert (refused.code, refused.out) == (78, "")
    assert refused.err == "dutiful: dutiful.toml: llm.api_key: the environment variable 'MODEL_KEY' is not set\n"


@pytest.mark.parametrize("command", ["check", "run"])
async def test_a_secret_that_is_missing_stops_the_start(program: Program, command: str) -> None:
    program.configure('[channels.telegram]\ntoken = "env:BOT_TOKEN"')
    result = await program.run(command)
    assert (result.code, result.out) == (78, "")
    assert result.err == (
        "dutiful: dutiful.toml: channels.telegram.token: the environment variable 'BOT_TOKEN' is not set\n"
    )


async def test_a_secret_that_is_written_wrongly_is_a_mistake_for_every_command(program: Program) -> None:
    program.configure('[channels.telegram]\ntoken = "123: ABC"')
    result = await program.run("status")
    assert (result.code, result.out) == (78, "")
    assert result.err == "dutiful: dutiful.toml: channels.telegram.token: has white space inside\n"
