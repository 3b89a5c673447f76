"""No endpoint, however slow, keeps a call for ever."""

from __future__ import annotations

import asyncio

import pytest

from bot.errors import ProviderErrorKind
from bot.providers.call_limits import CallLimits
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.model_calls import ask, complete, fail, provider_for

ONE_TRY = {"first_token_s": 5.0, "idle_s": 5.0, "total_s": 10.0, "tries": 1}


def limits(**changes: float) -> CallLimits:
    return CallLimits(**{**ONE_TRY, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [True, False])
async def test_silence_after_accepting_ends_at_the_first_token_limit(stream: bool) -> None:
    async with OpenAIApi() as api:
        error = await fail(api, Reply(stall_after=0), stream=stream, limits=limits(first_token_s=0.05))
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert error.detail == "nothing came within 0.05 s"


async def test_a_role_chunk_is_not_a_first_token() -> None:
    async with OpenAIApi() as api:
        error = await fail(api, Reply(text="Hi", stall_after=1), limits=limits(first_token_s=0.05))
    assert error.detail == "nothing came within 0.05 s"


async def test_silence_in_mid_stream_ends_at_the_idle_limit() -> None:
    async with OpenAIApi() as api:
        error = await fail(api, Reply(text="Good morning, all", stall_after=2), limits=limits(idle_s=0.05))
        await api.wait_for(lambda: api.open_streams == 0)
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert error.detail == "the reply stalled for 0.05 s"


async def test_a_stalled_reply_is_tried_again() -> None:
    async with OpenAIApi() as api:
        api.script.append(Reply(text="Good morning, all", stall_after=2))
        reply, _ = await complete(api, Reply(text="Here I am"), limits=limits(idle_s=0.3, tries=2))
    assert reply.text == "Here I am"


async def test_a_drip_that_never_idles_ends_at_the_total_limit() -> None:
    async with OpenAIApi() as api:
        drip = Reply(text="x" * 10_000, chunks="x" * 10_000, drip_s=0.01)
        error = await fail(api, drip, limits=limits(total_s=0.6, tries=3))
        assert api.request_count == 1
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert error.detail == "the call took longer than 0.6 s"


async def test_a_drip_within_the_limits_is_read_to_its_end() -> None:
    async with OpenAIApi() as api:
        reply, _ = await complete(api, Reply(text="slowly", chunks="slowly", drip_s=0.01), limits=limits())
    assert reply.text == "slowly"


async def test_a_stalled_call_leaves_other_calls_alone() -> None:
    async with OpenAIApi() as api:
        api.when("stall", [Reply(text="Good morning, all", stall_after=2)])
        async with provider_for(api, limits=limits()) as provider:
            stalled = asyncio.create_task(provider.complete(ask("stall"), lambda text: None))
            await api.wait_for(lambda: api.open_streams == 1)
            assert (await provider.complete(ask("other"), lambda text: None)).text == "other"
            stalled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stalled
