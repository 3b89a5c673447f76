"""The endpoint's troubles through the whole engine, in a chat that watches drafts (cases C094 to C097)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.providers.call_limits import CallLimits
from bot.providers.reasoning_fields import REPLAY_FIELDS
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply, last_user_text
from tests.support.engine import Rig, rig
from tests.support.memory_channel import DraftingChannel
from tests.support.model_calls import provider_for

LONG = "".join(f"Sentence number {number} says something of its own. " for number in range(20)).strip()


@asynccontextmanager
async def talking(folder: Path, **limits: float) -> AsyncIterator[tuple[Rig, OpenAIApi]]:
    """Have an engine whose model is a real endpoint on this machine."""
    times = CallLimits(**{"first_token_s": 5, "idle_s": 5, "total_s": 10, **limits})  # type: ignore[arg-type]
    async with OpenAIApi() as api, provider_for(api, limits=times) as provider:
        await provider.warm_up()
        async with rig(folder, provider, channels=(DraftingChannel(),)) as engine:
            yield engine, api
        assert api.violations == []


def drafts(engine: Rig) -> list[str]:
    """Return every text that the chat saw, on the way and at the end."""
    return [text for _, text in engine.channel.drafts] + engine.channel.texts("c1")


async def test_a_stream_that_falls_silent_is_continued_and_other_chats_never_wait(tmp_path: Path) -> None:
    """C094: after some text, with the socket open."""
    async with talking(tmp_path, idle_s=0.4) as (engine, api):
        api.script = [Reply(text=LONG, stall_after=30), Reply(text=LONG[464:])]
        api.when("quick", [Reply(text="Quick, then.")])
        await engine.says("tell me")
        await api.wait_for(lambda: api.open_streams == 1)
        assert await engine.asks("quick", chat="c2") == "Quick, then."
        await engine.reads(LONG)
        assert all(LONG.startswith(text) for text in drafts(engine))


@pytest.mark.parametrize("chunks", [2, 0])
async def test_a_stream_that_stays_silent_is_reported_and_the_chat_goes_on(tmp_path: Path, chunks: int) -> None:
    """C094: two chunks and nothing more, or nothing at all."""
    async with talking(tmp_path, idle_s=0.2, first_token_s=0.2) as (engine, api):
        rule = api.when("tell", lambda request: Reply(text="Good morning, everyone", stall_after=chunks))
        assert await engine.asks("tell me") == "The model took too long to answer. Please try again."
        assert rule.hits == 3
        await api.wait_for(lambda: api.open_streams == 0)
        assert await engine.asks("hello") == "hello"


async def test_a_drip_without_an_end_ends_and_is_told(tmp_path: Path) -> None:
    """C095; one character every 5 s would take as long as the limits of real life, so all is shorter here."""
    async with talking(tmp_path, total_s=0.8) as (engine, api):
        api.when("drip", [Reply(text="x" * 9_000, chunks="x" * 9_000, drip_s=0.05)])
        assert await engine.asks("drip") == "The model took too long to answer. Please try again."
        assert api.request_count == 1


async def test_a_cut_reply_is_one_text_in_history_too(tmp_path: Path) -> None:
    async with talking(tmp_path) as (engine, api):
        api.script = [Reply(text=LONG, cut_after=30), Reply(text=LONG[424:])]
        assert await engine.asks("tell me") == LONG
        assert [row["content"] for row in await engine.history()][-1] == LONG


async def test_half_an_answer_is_never_delivered_as_a_whole_one(tmp_path: Path) -> None:
    async with talking(tmp_path) as (engine, api):
        api.default = lambda request: Reply(text=LONG, cut_after=30)
        assert await engine.asks("tell me") == "The answer broke off. Please try again."


async def test_a_call_that_was_cut_off_is_not_run(tmp_path: Path) -> None:
    order = {"action": "add", "text": "x" * 200, "in_seconds": 600}
    async with talking(tmp_path) as (engine, api):
        api.when("remind", [Reply(tool_calls=[("cron", order)], cut_after=6), Reply(text="Once more, please.")])
        assert await engine.asks("remind me") == "Once more, please."
        assert await engine.jobs() == []


@pytest.mark.parametrize(
    "chunks",
    [
        ["<thi", "nk>the secret", " plan</thi", "nk>Hi the", "re"],
        ["<think>the secret plan, ", "<think>nested</think> and on", "</think>Hi there"],
        ["[THI", "NK]the secret plan[/TH", "INK]Hi there"],
    ],
)
async def test_hidden_reasoning_reaches_neither_drafts_nor_the_chat(tmp_path: Path, chunks: list[str]) -> None:
    async with talking(tmp_path) as (engine, api):
        api.when("hello", [Reply(text="".join(chunks), chunks=chunks, reasoning="the secret plan")])
        assert await engine.asks("hello") == "Hi there"
        assert not any("secret" in text or "nested" in text or "and on" in text for text in drafts(engine))
        row = (await engine.history())[-1]
        assert "secret" not in row["content"]
        assert "secret" in row["reasoning_content"]
        # It is the model's own business: what is sent back next time does not hold it.
        await engine.asks("and now?")
        assert "secret" not in str(api.requests[-1]["messages"])


async def test_signed_thoughts_of_a_call_go_back_with_it(tmp_path: Path) -> None:
    """Gemini refuses a call that comes back without its signature."""
    event = (
        '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":'
        '{"name":"cron","arguments":"{\\"action\\":\\"list\\"}"},'
        '"extra_content":{"google":{"thought_signature":"opaque"}}}]},"finish_reason":"tool_calls"}]}'
    )
    stream = f"data: {event}\n\ndata: [DONE]\n\n".encode()
    async with (
        OpenAIApi(validate=False) as api,
        provider_for(api) as provider,
        rig(tmp_path, provider, replay_fields=REPLAY_FIELDS) as engine,
    ):
        called = Reply(body=stream, headers={"Content-Type": "text/event-stream"})
        api.when("list", [called, Reply(text="None.")])
        assert await engine.asks("list them") == "None."
        (row,) = [row for row in api.requests[1]["messages"] if row.get("tool_calls")]
    assert row["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "opaque"}}
    assert "reasoning_model" not in row


async def test_a_declined_answer_leaves_the_conversation_usable(tmp_path: Path) -> None:
    """C097, with the refused message in the history that follows."""
    async with talking(tmp_path) as (engine, api):
        api.when("forbidden", lambda request: Reply(finish_reason="content_filter"))
        assert await engine.asks("forbidden") == "The model provider declined to answer this."
        assert api.request_count == 1
        assert await engine.asks("something else") == "something else"
        assert "something else" in last_user_text(api.requests[-1])


async def test_a_continuation_after_the_output_limit_shows_both_parts_as_one_draft(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with talking(tmp_path) as (engine, api):
        api.script = [
            Reply(text=LONG[:500], finish_reason="length"),
            Reply(text=LONG[480:], stall_after=20, stall_until=gate),
        ]
        await engine.says("tell me")
        await engine.until(lambda: any(len(text) > 600 for text in drafts(engine)))
        gate.set()
        await engine.reads(LONG)
        assert all(LONG.startswith(text.strip()) for text in drafts(engine))


async def test_a_plan_without_its_end_tag_reaches_neither_drafts_nor_the_chat(tmp_path: Path) -> None:
    """C046: the tag is split over two chunks, and there is a reasoning_content field."""
    chunks = ["<thi", "nk>plan without end", " tag <fin", "al>Hi</final>"]
    async with talking(tmp_path) as (engine, api):
        api.when("hello", [Reply(text="".join(chunks), chunks=chunks, reasoning="the plan", drip_s=0.2)])
        assert await engine.asks("hello") == "Hi"
        assert [text for text in drafts(engine) if text != "Hi"] == []


async def test_of_hidden_reasoning_and_a_long_answer_only_the_answer_grows(tmp_path: Path) -> None:
    """C046 once more, with an answer that is long enough to be shown."""
    go_on = asyncio.Event()
    chunks = ["<thi", "nk>the plan</th", "ink>", LONG[:400]]
    async with talking(tmp_path) as (engine, api):
        reply = Reply(text="".join(chunks) + LONG[400:], chunks=[*chunks, LONG[400:]], stall_after=5, stall_until=go_on)
        api.when("hello", [reply])
        await engine.says("hello")
        await engine.until(engine.channel.screen)
        go_on.set()
        await engine.reads(LONG)
        assert all(LONG.startswith(text.strip()) for text in drafts(engine))
        assert engine.channel.screen() == [LONG]


async def test_retries_of_a_failing_model_are_one_message(tmp_path: Path) -> None:
    """C050: a partial stream and an error, twice, then success."""
    async with talking(tmp_path) as (engine, api):
        error = {"message": "overloaded", "type": "server_error"}
        broken = [Reply(text=LONG[:150], drip_s=0.05, error_stream=error) for _ in range(2)]
        api.when("hello", [*broken, Reply(text=LONG)])
        assert await engine.asks("hello") == LONG
        await engine.idle()
        assert len(engine.channel.drafts) >= 1
        assert engine.channel.screen() == [LONG]
        assert len(api.requests) == 3
