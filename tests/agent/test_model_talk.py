"""Final words are whole, or say that they are not; and what the model thought stays between it and its history."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply
from bot.messages import ToolCall
from tests.support.engine import calls, last_user, rig, said
from tests.support.providers import ScriptedProvider
from tests.support.tools import MadeTool

DOWN = ProviderError(ProviderErrorKind.SERVER, "HTTP 500")
CUT_NOTE = "(The answer is longer than the model may write at once; this is where it stopped. Say “continue” for more.)"


def cut(text: str) -> ModelReply:
    return said(text, finish_reason="length")


async def test_what_a_continuation_repeats_is_not_said_twice(tmp_path: Path) -> None:
    provider = ScriptedProvider(cut("One, two, three, and then comes"), said("and then comes four."))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("count") == "One, two, three, and then comes four."


async def test_after_three_continuations_the_person_learns_that_the_answer_goes_on(tmp_path: Path) -> None:
    provider = ScriptedProvider(*(cut(f"part {number}, ") for number in range(9)))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("all of it") == f"part 0, part 1, part 2, part 3,\n\n{CUT_NOTE}"
        assert len(provider.requests) == 4
        rows = await engine.history()
        assert rows[-1]["content"] == "part 0, part 1, part 2, part 3,"  # the note is not the model's


async def test_a_continuation_that_fails_keeps_what_is_there_and_says_so(tmp_path: Path) -> None:
    provider = ScriptedProvider(cut("The first half"), DOWN)
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("both halves") == f"The first half\n\n{CUT_NOTE}"


async def test_thinking_that_used_up_the_output_limit_is_followed_by_a_short_answer(tmp_path: Path) -> None:
    provider = ScriptedProvider(ModelReply(text="", reasoning="on and on", finish_reason="length"), said("It is 4."))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("2 + 2?") == "It is 4."
        assert "used up the whole output limit" in last_user(provider.requests[1])
        assert provider.requests[1].reasoning_effort == "low"


async def test_an_answer_the_providers_filter_broke_off_is_not_given_as_whole(tmp_path: Path) -> None:
    """C097, with some text before the filter struck."""
    provider = ScriptedProvider(said("Once upon a time", finish_reason="content_filter"))
    async with rig(tmp_path, provider) as engine:
        assert await engine.asks("a story") == (
            "Once upon a time\n\n(The provider's content filter broke off this answer.)"
        )


async def test_a_window_the_provider_names_is_shrunk_to(tmp_path: Path) -> None:
    """Half of a wrongly configured window would not fit either."""
    named = ProviderError(ProviderErrorKind.CONTEXT_LENGTH, "maximum context length is 8192", window_tokens=8_192)
    provider = ScriptedProvider(*(said("word " * 3_000) for _ in range(6)), named, said("Fits."))
    async with rig(tmp_path, provider) as engine:
        for number in range(6):
            await engine.asks(f"tell me a lot, part {number}")
        assert await engine.asks("and?") == "Fits."
        before, after = (len(str(request.messages)) for request in provider.requests[-2:])
        assert before > 40_000
        assert after < 26_000  # 8,192 less the answer, in tokens of some four characters


async def test_a_run_that_had_to_shrink_stays_shrunk_for_its_other_steps(tmp_path: Path) -> None:
    """A window that nobody names is refused once, not again at each step of the turn."""
    tool = MadeTool("look")
    too_long = ProviderError(ProviderErrorKind.CONTEXT_LENGTH, "the prompt is too long")
    past = [said("word " * 3_000) for _ in range(6)]
    provider = ScriptedProvider(*past, too_long, calls(("look", {})), said("Done."))
    async with rig(tmp_path, provider, tools=(tool,), window_tokens=32_000) as engine:
        for number in range(6):
            await engine.asks(f"tell me a lot, part {number}")
        assert await engine.asks("look") == "Done."
        refused, taken, following = (len(str(request.messages)) for request in provider.requests[-3:])
        assert taken < refused / 1.5
        assert following < taken + 2_000


@pytest.mark.parametrize("named", [None, 2_048])
async def test_a_window_that_does_not_even_hold_the_instructions_is_told_as_that(
    tmp_path: Path, named: int | None
) -> None:
    """Neither /compact nor /new could help: a first "hi" does not fit either."""
    too_long = ProviderError(ProviderErrorKind.CONTEXT_LENGTH, "the prompt is too long", window_tokens=named)
    async with rig(tmp_path, ScriptedProvider(too_long), window_tokens=128_000 if named else 2_048) as engine:
        told = await engine.asks("hi")
    assert told.startswith("The model's context window is too small for my instructions and tools.")
    assert "/compact" not in told


async def test_a_conversation_that_is_too_long_for_a_window_with_room_is_told_as_that(tmp_path: Path) -> None:
    too_long = ProviderError(ProviderErrorKind.CONTEXT_LENGTH, "the prompt is too long")
    async with rig(tmp_path, ScriptedProvider(too_long)) as engine:
        assert "/compact" in await engine.asks("hi")


# --- reasoning

SIGNED = {"reasoning_details": [{"type": "reasoning.text", "text": "plan", "signature": "sig"}]}
THOUGHT = {"google": {"thought_signature": "opaque"}}


async def test_reasoning_is_kept_as_it_came_with_the_model_it_belongs_to(tmp_path: Path) -> None:
    call = ToolCall(id="c1", name="look", arguments="{}", extra_content=THOUGHT)
    step = ModelReply(
        text="",
        tool_calls=(call,),
        finish_reason="tool_calls",
        model="thinker",
        reasoning="plan",
        reasoning_fields=SIGNED,
    )
    provider = ScriptedProvider(step, ModelReply(text="Done.", model="thinker", reasoning="so it is"))
    async with rig(tmp_path, provider, tools=[MadeTool("look")]) as engine:
        assert await engine.asks("look") == "Done."
        _, first, _, last = await engine.history()
    assert (first["reasoning_details"], first["reasoning_model"]) == (SIGNED["reasoning_details"], "thinker")
    assert first["tool_calls"][0]["extra_content"] == THOUGHT
    assert (last["reasoning_content"], last["reasoning_model"]) == ("so it is", "thinker")


async def test_rows_of_a_model_that_does_not_think_stay_plain(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(("look", {})), ModelReply(text="Done.", model="plain"))
    async with rig(tmp_path, provider, tools=[MadeTool("look")]) as engine:
        await engine.asks("look")
        _, first, _, last = await engine.history()
    assert last == {"role": "assistant", "content": "Done."}
    assert first.keys() == {"role", "tool_calls"}


@pytest.mark.parametrize("reasoning", ["the secret plan", "a" * 5_000])
async def test_reasoning_never_reaches_the_chat(tmp_path: Path, reasoning: str) -> None:
    provider = ScriptedProvider(ModelReply(text="Hi.", reasoning=reasoning, model="thinker"))
    async with rig(tmp_path, provider) as engine:
        await engine.asks("hello")
        assert engine.channel.texts("c1") == ["Hi."]
