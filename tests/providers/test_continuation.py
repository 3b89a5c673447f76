"""A reply in pieces becomes one text: nothing doubled, nothing lost."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.interfaces import ModelReply
from bot.messages import Usage
from bot.providers.call_limits import CallLimits
from bot.providers.continuation import RESUME_FROM_CHARS, Composition, join, join_growing
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply, last_user_text
from tests.support.model_calls import ask, complete, fail, provider_for

LONG = "".join(f"Sentence number {number} says something of its own. " for number in range(20))


@pytest.mark.parametrize(
    ("text", "more", "whole"),
    [
        ("", "Hi", "Hi"),
        ("Hi", "", "Hi"),
        ("Good morn", "ing", "Good morning"),
        ("Good mor", "morning", "Good morning"),
        ("Remor", "morning", "Remormorning"),  # in the middle of a word, and short: nobody can tell
        ("Hello wor", "world", "Hello world"),
        ("the cat and ", "and the dog", "the cat and the dog"),
        ("and so it goes on until the", "it goes on until the end", "and so it goes on until the end"),
        ("ha", "ha", "haha"),
        ("| 0 | 0 |\n| 0 | 0 |\n", "| 0 | 0 |\n| 1 | 1 |\n", "| 0 | 0 |\n| 0 | 0 |\n| 0 | 0 |\n| 1 | 1 |\n"),
        ("今天天气很好,我们", "我们去公园", "今天天气很好,我们我们去公园"),
        ("今天天气很好,我们可以", "我们可以去公园", "今天天气很好,我们可以去公园"),
        (LONG[:300], LONG, LONG),  # begun again from the start
    ],
)
def test_a_continuation_is_joined_without_what_it_repeats(text: str, more: str, whole: str) -> None:
    assert join(text, more) == whole


WORDS = st.lists(st.text(string.ascii_lowercase, min_size=4, max_size=9), min_size=12, max_size=40, unique=True)


@given(WORDS, st.data())
def test_wherever_a_text_is_cut_and_however_much_is_repeated_it_comes_out_whole(
    words: list[str], data: st.DataObject
) -> None:
    text = " ".join(words)
    cut = data.draw(st.integers(1, len(text)))
    repeated = data.draw(st.sampled_from([0, *(size for size in range(14, cut + 1))]))
    assert join(text[:cut], text[cut - repeated :]) == text


@given(WORDS, st.data())
def test_while_a_continuation_grows_no_word_is_ever_seen_twice(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    cut = data.draw(st.integers(30, len(text)))
    more = text[cut - data.draw(st.integers(14, cut)) :]
    for size in range(len(more) + 1):
        assert text.startswith(join_growing(text[:cut], more[:size]))


def test_little_text_is_not_worth_a_continuation() -> None:
    composition = Composition(ask(), None)
    composition.keep("x" * (RESUME_FROM_CHARS - 1), Usage())
    assert not composition.resumes
    composition.keep("x" * RESUME_FROM_CHARS, Usage())
    assert composition.resumes


def test_a_continuation_that_says_nothing_was_missing_adds_nothing() -> None:
    composition = Composition(ask(), None)
    composition.keep(LONG, Usage(input_tokens=3))
    whole = composition.finish(ModelReply(text=".", usage=Usage(input_tokens=4)))
    assert (whole.text, whole.usage) == (LONG, Usage(input_tokens=7))


def cut_at(events: int) -> Reply:
    return Reply(text=LONG, cut_after=events)


CUTS = {
    "socket closed": cut_at(30),
    "stream ended": Reply(text=LONG[:464], end_without_finish=True),
    "error inside": Reply(text=LONG[:464], error_stream={"message": "overloaded", "code": 503}),
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("repeated", [0, 40])
async def test_a_cut_stream_is_continued_where_it_stopped(cut: Reply, repeated: int) -> None:
    async with OpenAIApi() as api:
        api.script = [cut, Reply(text=LONG[464 - repeated :])]
        reply, shown = await complete(api)
        again = api.requests[1]["messages"]
        assert api.violations == []
    assert reply.text == shown[-1] == LONG
    assert all(LONG.startswith(text) for text in shown)
    assert again[-2] == {"role": "assistant", "content": LONG[:464]}
    assert "Continue exactly" in again[-1]["content"]


async def test_a_stream_that_stalls_is_continued_too() -> None:
    async with OpenAIApi() as api:
        api.script = [Reply(text=LONG, stall_after=30), Reply(text=LONG[464:])]

        reply, _ = await complete(api, limits=CallLimits(idle_s=0.3, first_token_s=5, total_s=10))
    assert reply.text == LONG


async def test_a_continuation_that_is_cut_again_is_continued_from_there() -> None:
    async with OpenAIApi() as api:
        api.script = [cut_at(20), Reply(text=LONG[304:], cut_after=20), Reply(text=LONG[608:])]
        reply, _ = await complete(api)
    assert reply.text == LONG


async def test_a_continuation_that_is_cut_within_what_it_repeats_doubles_nothing() -> None:
    async with OpenAIApi() as api:
        api.script = [cut_at(30), Reply(text=LONG[424:], cut_after=2), Reply(text=LONG[464:])]
        reply, shown = await complete(api)
        assert api.requests[2]["messages"][-2]["content"] == LONG[:464]
    assert reply.text == LONG
    assert all(LONG.startswith(text) for text in shown)


async def test_half_an_answer_is_never_given_as_a_whole_one() -> None:
    async with OpenAIApi() as api:
        error = await fail(api, cut_at(30))
        assert api.request_count == 3
    assert "no end" in error.detail or "Error" in error.detail


async def test_an_endpoint_that_takes_no_continuation_is_asked_for_the_whole_again() -> None:
    refused = Reply(status=400, body={"error": {"message": "Invalid: last assistant message"}})
    async with OpenAIApi() as api:
        api.script = [cut_at(30), refused, Reply(text=LONG)]
        reply, _ = await complete(api)
        assert len(api.requests[2]["messages"]) == 1
    assert reply.text == LONG


async def test_a_reply_cut_inside_a_call_begins_again_and_the_half_call_is_gone() -> None:
    called = Reply(
        text=LONG, tool_calls=[("cron", {"action": "list", "text": "x" * 100}, "c1")], cut_after=len(LONG) // 16 + 5
    )
    async with OpenAIApi() as api:
        api.script = [called, Reply(text="Done.")]
        reply, _ = await complete(api)
        assert last_user_text(api.requests[1]) == "hello"
    assert (reply.text, reply.tool_calls) == ("Done.", ())


async def test_a_reply_cut_inside_hidden_reasoning_begins_again() -> None:
    thinking = Reply(text=f"{LONG}<think>{LONG}</think>more", cut_after=len(LONG) // 16 + 9)
    async with OpenAIApi() as api:
        api.script = [thinking, Reply(text="Done.")]
        reply, shown = await complete(api)
        assert len(api.requests[1]["messages"]) == 1
    assert reply.text == "Done."
    assert not any("<think" in text for text in shown)


async def test_reasoning_in_a_continuation_stays_hidden() -> None:
    async with OpenAIApi() as api:
        api.script = [cut_at(30), Reply(text=f"<think>where was I</think>{LONG[464:]}")]
        reply, shown = await complete(api)
    assert reply.text == LONG
    assert not any("where was I" in text for text in shown)


async def test_a_continuation_may_go_on_with_a_call() -> None:
    async with OpenAIApi() as api:
        api.script = [cut_at(30), Reply(text=LONG[464:], tool_calls=[("cron", {"action": "list"}, "c1")])]
        reply, _ = await complete(api)
    assert reply.text == LONG
    assert [call.id for call in reply.tool_calls] == ["c1"]


async def test_an_endpoint_that_leaves_out_the_opening_tag_is_remembered() -> None:
    """From the second reply on its reasoning is not even seen in a draft."""

    async with OpenAIApi() as api, provider_for(api) as provider:
        api.default = lambda request: Reply(text="a plan of some length\n</think>\n\nHi")
        first: list[str] = []
        second: list[str] = []
        assert (await provider.complete(ask(), first.append)).text == "Hi"
        assert (await provider.complete(ask(), second.append)).text == "Hi"
    assert second == ["Hi"]
    assert first[-1] == "Hi"
