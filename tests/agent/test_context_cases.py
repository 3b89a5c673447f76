"""Conversations that outgrow the model or meet its refusal: the whole engine against a strict endpoint over HTTP."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from bot.agent.tokens import estimate_message
from bot.config import LimitsSection, SessionsSection
from bot.messages import Address
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_endpoint import Endpoint, error
from tests.platforms.openai_script import Json, Reply
from tests.support.conversations import said, user
from tests.support.engine import OWNER, Rig, rig
from tests.support.model_calls import provider_for
from tests.support.stored_rows import session_of, store_rows, stored_bodies
from tests.support.tools import MadeTool

TOO_LONG = Reply(
    status=400,
    body=error(
        "This model's maximum context length is 200000 tokens. However, your messages resulted in 245113 tokens.",
        param="messages",
        code="context_length_exceeded",
    ),
)
USED_TOKENS = 130_000
HUGE = "one line of a long report\n" * 15_754  # 400 KB
assert 400 <= len(HUGE) / 1024 < 401


def messages(request: Json) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = request["messages"]
    return rows


def results(request: Json) -> list[str]:
    return [row["content"] for row in messages(request) if row["role"] == "tool"]


async def use_130k(engine: Rig) -> None:
    """Let the conversation hold 130,000 tokens before it goes on."""
    await engine.asks("hello", sender=OWNER)
    session_id = await session_of(engine.store, Address(channel=engine.channel.name, chat_id="c1"))
    pair = [user("a plain line of words. " * 500), said("another plain line of words. " * 500)]
    turns = USED_TOKENS // sum(map(estimate_message, pair))
    await store_rows(engine.store, session_id, pair * turns)


async def report(_: dict[str, Any]) -> str:
    return HUGE


def in_detail(tmp_path: Path) -> dict[str, Any]:
    return {
        "folder": tmp_path,
        "window_tokens": 200_000,
        "sessions": SessionsSection(replay_tokens=150_000),
        "tools": [MadeTool("report", run=report)],
    }


async def test_c058_a_refusal_is_shown_and_is_no_part_of_what_follows(tmp_path: Path) -> None:
    """C058: the provider returns 400 once; then the person writes again."""
    async with OpenAIApi(strict=True) as api, provider_for(api) as provider, rig(tmp_path, provider) as engine:
        refusal = "Invalid value: 'frobnicate' in your request."
        api.script = [Reply(status=400, body=error(refusal)), Reply(text="Hello again.")]
        shown = await engine.asks("first")
        assert shown == "The model refused the request as malformed. The log has the details."
        assert await engine.asks("second") == "Hello again."
        last = api.raw_requests[-1].decode()
        assert "frobnicate" not in last
        assert shown not in last
        said_then = [row["content"] for row in messages(api.requests[-1]) if row["role"] == "user"]
        assert [text.partition("\n")[0] for text in said_then] == ["first", "second"]
        assert api.violations == []


async def test_c059_a_huge_result_is_capped_when_recorded_and_the_next_message_works(tmp_path: Path) -> None:
    """C059: a tool returns 400 KB when 130k of 200k tokens are used."""
    endpoint = Endpoint(context_window=200_000)
    async with (
        OpenAIApi(strict=True, endpoint=endpoint) as api,
        provider_for(api, max_output_tokens=4_096) as provider,
        rig(provider=provider, **in_detail(tmp_path)) as engine,
    ):
        await use_130k(engine)
        api.script = [Reply(tool_calls=[("report", {})]), Reply(text="It is long.")]
        assert await engine.asks("get the report", sender=OWNER) == "It is long."
        assert len(api.raw_requests[-1]) > 400_000  # 130k tokens were there indeed
        (preview,) = results(api.requests[-1])
        digest = hashlib.sha256(HUGE.encode()).hexdigest()
        path = f"tool-output/{digest[:32]}.txt"
        assert len(preview) < 2_000
        assert f"of {len(HUGE):,} characters. Full output: {path}" in preview
        (kept,) = engine.workspace.glob(f"**/{path}")
        assert kept.read_text() == HUGE
        row = next(row for row in await engine.history() if row["role"] == "tool")
        assert row["content"] == preview  # it is stored as short as it was sent
        assert "hi" in await engine.asks("hi", sender=OWNER)
        assert api.violations == []


async def test_c059_an_overflow_is_met_by_one_harder_shrink_and_one_retry(tmp_path: Path) -> None:
    """C059: the provider answers 400 context length all the same, since its window is smaller than was told."""
    endpoint = Endpoint(context_window=120_000)
    async with (
        OpenAIApi(strict=True, endpoint=endpoint) as api,
        provider_for(api, max_output_tokens=4_096) as provider,
        rig(provider=provider, **in_detail(tmp_path)) as engine,
    ):
        await use_130k(engine)
        api.script = [Reply(tool_calls=[("report", {})]), Reply(text="It is long.")]
        before = api.request_count
        assert await engine.asks("get the report", sender=OWNER) == "It is long."
        assert api.request_count == before + 3  # refused, then shorter; the next step is short at once
        sizes = [len(raw) for raw in api.raw_requests[before:]]
        assert max(sizes[1:]) < sizes[0]
        assert len(results(api.requests[-1])) == 1
        assert "hi" in await engine.asks("hi", sender=OWNER)
        assert api.violations == []


@pytest.mark.parametrize("limit_chars", [16_000, 50_000])
async def test_c060_twelve_results_of_40_kb_fit_and_the_oldest_give_way_first(tmp_path: Path, limit_chars: int) -> None:
    """C060: twelve results of 40 KB in one turn; with the default limit, and with one that allows each of them."""

    async def page(params: dict[str, Any]) -> str:
        return f"page {params['number']}: some plain words here\n" * 1_340

    number = {"type": "object", "properties": {"number": {"type": "integer"}}}
    async with (
        OpenAIApi(strict=True, endpoint=Endpoint(context_window=64_000)) as api,
        provider_for(api, max_output_tokens=4_096) as provider,
        rig(
            tmp_path,
            provider,
            window_tokens=64_000,
            limits=LimitsSection(tool_result_chars=limit_chars),
            tools=[MadeTool("page", number, run=page)],
        ) as engine,
    ):
        assert 40_000 <= len(await page({"number": 1})) < 41_000
        wanted: list[Any] = [("page", {"number": count}) for count in range(12)]
        api.script = [Reply(tool_calls=wanted), Reply(text="They differ.")]
        assert await engine.asks("compare these", sender=OWNER) == "They differ."
        sent = results(api.requests[-1])
        assert [text.partition(":")[0] for text in sent] == [f"page {count}" for count in range(12)]
        rows = await stored_bodies(engine.store, await _session(engine))
        stored = [len(body) for body in rows if b'"role":"tool"' in body]
        assert (max(stored) < 2_000) if limit_chars == 16_000 else (min(stored) > 40_000)
        assert "hi" in await engine.asks("hi", sender=OWNER)
        later = [len(text) for text in results(api.requests[-1])]
        assert len(later) == 12  # history is not wiped
        assert sum(later) < 64_000
        assert later == sorted(later)  # the oldest gave way first
        assert (later[-1] > 40_000) is (limit_chars == 50_000)  # the newest as it was recorded
        assert "They differ." in str(messages(api.requests[-1]))
        assert (await stored_bodies(engine.store, await _session(engine)))[: len(rows)] == rows
        assert api.violations == []


async def _session(engine: Rig) -> int:
    return await session_of(engine.store, Address(channel=engine.channel.name, chat_id="c1"))


@pytest.mark.parametrize("language", ["en", "de", "zh"])
async def test_c061_an_overflow_without_end_is_told_with_the_way_out(tmp_path: Path, language: Any) -> None:
    """C061: the provider always answers 400 context length."""
    async with (
        OpenAIApi(strict=True) as api,
        provider_for(api) as provider,
        rig(tmp_path, provider, language=language) as engine,
    ):
        api.script = lambda _: TOO_LONG
        shown = await engine.asks("hello")
        assert "/new" in shown
        assert "/compact" in shown
        assert "200000" not in shown  # the provider's words are for the log
        assert api.request_count == 2
        await engine.idle()
        assert api.request_count == 2
        assert len(engine.channel.texts("c1")) == 1
        api.script = [Reply(text="Better.")]
        assert await engine.asks("again") == "Better."
        assert shown not in api.raw_requests[-1].decode()
