"""When a failed call is tried again, how long is waited, and what is learned instead of retried."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from bot.errors import ConfigError, ProviderErrorKind
from bot.providers.call_limits import CallLimits
from bot.providers.openai_compatible import OpenAIProvider
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_endpoint import Endpoint, error_for, quota_exceeded
from tests.platforms.openai_script import Reply
from tests.support.model_calls import QUICK, Naps, ask, complete, fail, provider_for

OK = Reply(text="done")


def rate_limited(body: Mapping[str, Any] | None = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=429, body=body or error_for(429), headers=named)


@pytest.mark.parametrize(
    "limited",
    [rate_limited(Retry_After="7"), rate_limited({"error": {"message": "slow down", "retry_after": 7}})],
)
async def test_the_next_try_comes_not_before_the_wait_the_provider_asked_for(limited: Reply) -> None:
    naps = Naps()
    async with OpenAIApi() as api:
        api.script = [limited, OK]
        reply, _ = await complete(api, sleep=naps, jitter=lambda: 0.5)
    assert reply.text == "done"
    assert naps == [7.5]


async def test_a_wait_over_the_cap_is_given_up_at_once_with_a_clear_error() -> None:
    naps = Naps()
    async with OpenAIApi() as api:
        error = await fail(api, rate_limited(Retry_After="3600"), sleep=naps)
        assert api.request_count == 1
    assert naps == []
    assert error.kind is ProviderErrorKind.RATE_LIMIT
    assert error.retry_after_s == 3600
    assert "asked to wait 3600 s, the limit is 120 s" in error.detail


async def test_a_wait_that_the_total_limit_leaves_no_time_for_is_not_begun() -> None:
    naps = Naps()
    async with OpenAIApi() as api:
        error = await fail(api, rate_limited(Retry_After="60"), sleep=naps, limits=CallLimits(total_s=30))
    assert naps == []
    assert error.retry_after_s == 60


async def test_waits_grow_and_are_spread_at_random() -> None:
    naps = Naps()
    spread = iter([1.0, 1.0, 1.0, 0.25])
    limits = CallLimits(tries=5, max_backoff_s=3, total_s=1000)
    async with OpenAIApi() as api:
        await fail(api, Reply(status=503), sleep=naps, jitter=lambda: next(spread), limits=limits)
        assert api.request_count == 5
    assert naps == [1.0, 2.0, 3.0, 0.75]


@pytest.mark.parametrize("said", [Reply(status=429), Reply(status=500), Reply(drop_before=True)])
async def test_a_passing_trouble_gets_three_tries_and_no_more(said: Reply) -> None:
    async with OpenAIApi() as api:
        error = await fail(api, said)
        assert api.request_count == 3
    assert error.retryable


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, None, ProviderErrorKind.AUTH),
        (403, None, ProviderErrorKind.AUTH),
        (400, {"error": {"message": "Invalid 'messages[0].content'"}}, ProviderErrorKind.BAD_REQUEST),
        (402, None, ProviderErrorKind.QUOTA),
        (429, quota_exceeded(), ProviderErrorKind.QUOTA),
        (400, {"error": {"message": "Content Exists Risk"}}, ProviderErrorKind.CONTENT_FILTER),
        (
            400,
            {"error": {"message": "maximum context length is 8192", "code": "context_length_exceeded"}},
            ProviderErrorKind.CONTEXT_LENGTH,
        ),
    ],
)
async def test_a_permanent_error_is_tried_exactly_once(
    status: int, body: Mapping[str, Any] | None, kind: ProviderErrorKind
) -> None:
    naps = Naps()
    async with OpenAIApi() as api:
        error = await fail(api, Reply(status=status, body=body), sleep=naps)
        assert api.request_count == 1
        assert (error.kind, error.retryable, naps) == (kind, False, [])
        # The provider is as usable as before.
        api.default = lambda request: OK
        assert (await complete(api))[0].text == "done"


@pytest.mark.parametrize("place", ["header", "stream", "body"])
async def test_no_error_detail_carries_the_key(place: str) -> None:
    key = "very-secret-key-0123456789"
    told = {"message": f"bad key {key}, " + "and much more " * 500, "code": 401}
    replies = {
        "header": Reply(status=401, body={"error": told}),
        "stream": Reply(text="x", error_stream=told),
        "body": Reply(body=f"no JSON but {key}"),
    }
    async with OpenAIApi() as api:
        error = await fail(api, replies[place], api_key=key)
    assert key not in str(error)
    assert "***" in error.detail
    assert len(error.detail) <= 500


@pytest.mark.parametrize(
    ("endpoint", "options"),
    [
        (Endpoint(refuse_max_tokens=True), {"max_output_tokens": 100}),
        (Endpoint(refuse_temperature=True), {"temperature": 0.2}),
        (Endpoint(refuse_stream_options=True), {}),
        (
            Endpoint(refuse_max_tokens=True, refuse_temperature=True, refuse_stream_options=True),
            {"max_output_tokens": 100, "temperature": 0.2},
        ),
    ],
)
async def test_a_difference_is_learned_at_once_and_remembered(endpoint: Endpoint, options: dict[str, Any]) -> None:
    naps = Naps()
    async with (
        OpenAIApi(endpoint=endpoint) as api,
        provider_for(api, sleep=naps, limits=CallLimits(tries=1), **options) as provider,
    ):
        assert (await provider.complete(ask("one"), lambda text: None)).text == "one"
        learning = api.request_count
        assert learning > 1
        assert (await provider.complete(ask("two"), lambda text: None)).text == "two"
        assert api.request_count == learning + 1
    assert naps == []
    assert api.violations == []


async def test_calls_side_by_side_learn_a_difference_once() -> None:
    async with (
        OpenAIApi(endpoint=Endpoint(refuse_max_tokens=True)) as api,
        provider_for(api, max_output_tokens=100) as provider,
    ):
        replies = await asyncio.gather(*(provider.complete(ask(str(number))) for number in range(5)))
        assert [reply.text for reply in replies] == ["0", "1", "2", "3", "4"]
        assert api.requests[-1]["max_completion_tokens"] == 100


async def test_an_endpoint_that_refuses_everything_for_ever_is_not_asked_for_ever() -> None:
    said = "Unsupported parameters: max_tokens, temperature, stream_options. Only the default is supported."
    async with OpenAIApi() as api:
        error = await fail(
            api, Reply(status=400, body={"error": {"message": said}}), max_output_tokens=9, temperature=0.5
        )
        assert api.request_count == 5
    assert error.kind is ProviderErrorKind.BAD_REQUEST


async def test_the_requested_output_leaves_room_for_the_input() -> None:
    async with OpenAIApi(endpoint=Endpoint(context_window=262_144)) as api:
        reply, _ = await complete(api, OK, context_window_tokens=262_144)
        assert reply.text == "done"
        assert api.requests[0]["max_tokens"] == 16_384
        reply, _ = await complete(api, OK, context_window_tokens=262_144, max_output_tokens=262_144)
        assert reply.text == "done"


@pytest.mark.parametrize("base_url", ["localhost:11434/v1", "ftp://x/v1", "http://", "http://x:99999/v1", "nonsense"])
def test_an_address_that_cannot_work_is_refused_before_any_call(base_url: str) -> None:
    with pytest.raises(ConfigError, match=r"llm\.base_url"):
        OpenAIProvider(model="m", base_url=base_url)


@pytest.mark.parametrize("api_key", ["one\ntwo", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(api_key: str) -> None:
    with pytest.raises(ConfigError, match=r"llm\.api_key") as caught:
        OpenAIProvider(model="m", api_key=api_key)
    assert api_key not in str(caught.value)


async def test_warming_up_loads_the_sdk_before_the_first_call() -> None:
    provider = OpenAIProvider(model="m", base_url="http://127.0.0.1:9/v1", limits=QUICK)
    await provider.warm_up()
    assert provider._endpoint._client is not None
    await provider.close()
    await provider.close()


def test_importing_the_provider_does_not_import_the_sdk() -> None:
    code = "import sys, bot.providers.openai_compatible; sys.exit(bool({'openai', 'httpx2'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
