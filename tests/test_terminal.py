"""A conversation in a real terminal: what a person sees, and how it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.program import COMMAND, Program
from tests.support.tmux import Terminal, needs_tmux, terminal

pytestmark = needs_tmux

PROMPT = "›"


@pytest.fixture
async def api() -> AsyncIterator[OpenAIApi]:
    async with OpenAIApi() as made:
        yield made
        assert made.violations == []


@pytest.fixture
def program(tmp_path: Path, api: OpenAIApi) -> Program:
    made = Program(tmp_path)
    made.configure(f'[llm]\nbase_url = "{api.url}"\nmodel = "scripted"\n')
    return made


@asynccontextmanager
async def chat(program: Program, *, columns: int = 80) -> AsyncIterator[Terminal]:
    command = (*COMMAND, "chat")
    async with terminal(command, folder=program.home, env=program.environment(), columns=columns) as window:
        await window.until(lambda lines: lines[-1:] == [PROMPT])
        yield window


async def ask(window: Terminal, text: str) -> None:
    await window.type(text)
    await window.press("Enter")


def prompt(lines: list[str]) -> str:
    """Return what stands in the prompt."""
    return lines[-1].removeprefix(PROMPT).strip()


async def test_an_answer_grows_above_a_prompt_that_stays_usable(program: Program, api: OpenAIApi) -> None:
    go_on = asyncio.Event()
    pieces = ["Buy **eggs**\n", "\n1. and ", "milk\n2. and tea"]
    api.when("shopping", [Reply(chunks=pieces, stall_after=3, stall_until=go_on)])
    async with chat(program) as window:
        await ask(window, "shopping")
        lines = await window.until_shown("1. and")
        assert lines[-5:] == [f"{PROMPT} shopping", "Buy **eggs**", "", "1. and", PROMPT]
        await ask(window, "and then")  # waits for its turn
        lines = await window.until(lambda lines: f"{PROMPT} and then" in lines and lines[-1] == PROMPT)
        assert lines[-5:-1] == [f"{PROMPT} and then", "Buy **eggs**", "", "1. and"]
        await window.type("half a sen")
        await window.until(lambda lines: prompt(lines) == "half a sen")
        go_on.set()
        await window.until_shown("2 and tea")
        lines = await window.until(lambda lines: "and then" in lines and lines[-1].startswith(PROMPT))
        assert prompt(lines) == "half a sen"
        text = "\n".join(lines)
        assert text.count("eggs") == 1  # nothing is left of the draft
        assert "Dutiful:\nBuy eggs\n\n 1 and milk\n 2 and tea\n" in text


async def test_a_reminder_arrives_while_the_chat_is_open(program: Program, api: OpenAIApi) -> None:
    async with chat(program) as window:
        await ask(window, "/remind in 1 second stretch your legs")
        await window.until_shown("Reminder set")
        await window.type("half a sen")
        lines = await window.until(lambda lines: "stretch your legs" in lines)
        assert "Dutiful (reminder):" in lines
        assert prompt(await window.until(lambda lines: lines[-1].startswith(PROMPT))) == "half a sen"
    assert api.requests == []


async def test_long_lines_are_wrapped_between_words(program: Program, api: OpenAIApi) -> None:
    words = [f"word{number}" for number in range(40)]
    api.when("long", [Reply(text=" ".join(words))])
    async with chat(program, columns=40) as window:
        await ask(window, "long")
        lines = await window.until(lambda lines: "Dutiful:" in lines and any("word39" in line for line in lines))
        start = lines.index("Dutiful:") + 1
        shown = [line for line in lines[start:] if line.startswith("word")]
        assert " ".join(line.strip() for line in shown).split() == words
        assert max(len(line.rstrip()) for line in shown) <= 40


async def test_lines_of_an_answer_stay_lines(program: Program, api: OpenAIApi) -> None:
    api.when("list", [Reply(text="Two things:\n• tea\n• bread")])
    async with chat(program) as window:
        await ask(window, "list")
        lines = await window.until(lambda lines: "Dutiful:" in lines and "• bread" in lines)
        start = lines.index("Dutiful:") + 1
        assert lines[start : start + 3] == ["Two things:", "• tea", "• bread"]


async def test_control_characters_of_a_message_are_not_obeyed(program: Program, api: OpenAIApi) -> None:
    api.when("trick", [Reply(text="before\x1b[2J\x1b[H after\x07\u009b3Jend")])
    async with chat(program) as window:
        await ask(window, "trick")
        lines = await window.until_shown("after")
        assert f"{PROMPT} trick" in lines
        assert "before[2J[H after3Jend" in lines


async def test_buttons_stand_below_their_message(program: Program, api: OpenAIApi) -> None:
    message = {"content": "Sure?", "buttons": [["Yes", "No\x1b[2J"], ["Later"]]}
    api.when("ask me", [Reply(tool_calls=[("message", message)]), Reply(text="")])
    async with chat(program) as window:
        await ask(window, "ask me")
        lines = await window.until_shown("[Later]")
        start = lines.index("Sure?")
        assert lines[start : start + 3] == ["Sure?", "[Yes] [No[2J]", "[Later]"]


async def test_ctrl_c_clears_the_line_then_says_how_to_end(program: Program) -> None:
    async with chat(program) as window:
        await window.type("never mind")
        await window.until(lambda lines: prompt(lines) == "never mind")
        await window.press("C-c")
        await window.until(lambda lines: prompt(lines) == "")
        await window.press("C-c")
        lines = await window.until_shown("Ctrl-D ends.")
        assert lines[-1] == PROMPT
        await window.press("C-d")
        lines = await window.until_shown("exit=0")
        assert not any("Traceback" in line for line in lines)


async def test_ctrl_c_stops_a_running_answer(program: Program, api: OpenAIApi) -> None:
    api.when("story", [Reply(chunks=["Once upon ", "a time"], stall_after=2)])
    async with chat(program) as window:
        await ask(window, "story")
        await window.until_shown("Once upon")
        await window.press("C-c")
        lines = await window.until_shown("Stopped")
        assert f"{PROMPT} /stop" in lines
        await ask(window, "hello again")
        await window.until(lambda lines: lines.count("hello again") == 1)


async def test_a_damaged_character_does_not_end_the_chat(program: Program) -> None:
    async with chat(program) as window:
        await window.press("-H", "63", "61", "66", "e9", "20", "6f", "6b", "0d")
        await window.until(lambda lines: any("ok" in line and not line.startswith(PROMPT) for line in lines))
        assert prompt(await window.until(lambda lines: lines[-1].startswith(PROMPT))) == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_chat_in_order(program: Program, api: OpenAIApi, number: signal.Signals) -> None:
    api.when("story", [Reply(chunks=["Once upon ", "a time"], stall_after=2)])
    async with chat(program) as window:
        await ask(window, "story")
        await window.until_shown("Once upon")
        pid = (program.data / "lock").read_text().strip()
        kill = await asyncio.create_subprocess_exec("kill", f"-{number.name[3:]}", pid)
        assert await kill.wait() == 0
        lines = await window.until_shown(f"exit={128 + number}")
        assert not any("Traceback" in line for line in lines)
        await window.type("seen")  # the terminal echoes again
        await window.until_shown("seen")


async def test_a_service_that_goes_away_ends_the_chat_with_a_sentence(program: Program) -> None:
    program.configure('[channels.console]\n[server]\nlisten = "off"\n[log]\nformat = "json"')
    async with program.service() as service, chat(program) as window:
        assert any("beside the service" in line for line in await window.screen())
        service.terminate()
        lines = await window.until_shown("exit=1")
        assert "dutiful has stopped; start this chat again to go on" in lines
