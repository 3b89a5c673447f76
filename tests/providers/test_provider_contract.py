"""What the engine may rely on, whichever provider it talks to."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable

import pytest

from bot.errors import ProviderError
from bot.interfaces import ModelReply, ModelRequest, Provider
from bot.providers.fallback import Entry, FallbackProvider
from bot.providers.openai_compatible import OpenAIProvider
from bot.providers.stand_in import StandInProvider
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.model_calls import QUICK, Naps, tool
from tests.support.providers import WordStandIn


def openai(api: OpenAIApi) -> Provider:
    return OpenAIProvider(model="test-model", base_url=api.url, limits=QUICK, sleep=Naps())


def stand_in(api: OpenAIApi) -> Provider:
    second = WordStandIn("remind", ModelReply(text="", finish_reason="stop"))
    return StandInProvider(openai(api), second, notice=lambda language: "The model is down.")


def chain(api: OpenAIApi) -> Provider:
    return FallbackProvider([Entry(label="one", provider=openai(api)), Entry(label="two", provider=openai(api))])


Make = Callable[[OpenAIApi], Provider]
PROVIDERS: dict[str, Make] = {"openai": openai, "stand-in": stand_in, "fallback": chain}


@pytest.fixture
async def api() -> AsyncIterator[OpenAIApi]:
    async with OpenAIApi() as server:
        server.when("two calls", [Reply(tool_calls=[("cron", {"action": "list"}), ("cron", {"action": "list"})])] * 9)
        yield server


@pytest.fixture(params=PROVIDERS)
async def provider(request: pytest.FixtureRequest, api: OpenAIApi) -> AsyncIterator[Provider]:
    made = PROVIDERS[request.param](api)
    yield made
    await made.close()


def question(text: str) -> ModelRequest:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]
    return ModelRequest(messages=messages, tools=[tool("cron")])


async def test_it_has_a_name(provider: Provider) -> None:
    assert provider.name


async def test_it_answers_with_a_whole_reply(provider: Provider) -> None:
    reply = await provider.complete(question("hello"))
    assert reply.text
    assert reply.finish_reason == "stop"
    assert reply.tool_calls == ()
    assert reply.notice == ""


async def test_text_grows_and_ends_as_the_reply(provider: Provider) -> None:
    shown: list[str] = []
    reply = await provider.complete(question("hello, this is a somewhat longer text to repeat"), shown.append)
    assert shown[-1] == reply.text
    assert all(reply.text.startswith(text) for text in shown)


async def test_calls_have_names_ids_of_their_own_and_text_as_arguments(provider: Provider) -> None:
    reply = await provider.complete(question("two calls"))
    assert [call.name for call in reply.tool_calls] == ["cron", "cron"]
    assert len({call.id for call in reply.tool_calls}) == 2
    assert all(call.id and isinstance(call.arguments, str) for call in reply.tool_calls)
    assert reply.finish_reason == "tool_calls"


async def test_the_request_is_left_as_it_was(provider: Provider) -> None:
    request = question("hello")
    before = copy.deepcopy(request)
    await provider.complete(request)
    assert request == before


async def test_calls_run_side_by_side(provider: Provider) -> None:
    replies = await asyncio.gather(*(provider.complete(question(f"hello {number}")) for number in range(8)))
    assert [reply.text for reply in replies] == [f"hello {number}" for number in range(8)]


async def test_warming_up_twice_and_closing_twice_is_harmless(provider: Provider) -> None:
    await provider.warm_up()
    await provider.warm_up()
    assert (await provider.complete(question("hello"))).text == "hello"
    await provider.close()
    await provider.close()


async def test_a_failing_model_raises_a_mapped_error_and_nothing_else(provider: Provider, api: OpenAIApi) -> None:
    await api.go_down()
    with pytest.raises(ProviderError) as caught:
        await provider.complete(question("hello"))
    assert caught.value.retryable
    await api.come_up()
    assert (await provider.complete(question("hello"))).text == "hello"


async def test_a_cancelled_call_ends_as_cancelled(provider: Provider, api: OpenAIApi) -> None:
    api.when("wait", [Reply(text="late", hold=asyncio.Event())])
    call = asyncio.create_task(provider.complete(question("wait"), lambda text: None))
    await api.wait_for(lambda: api.request_count == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_history_that_is_not_quite_utf8_is_no_obstacle(provider: Provider) -> None:
    assert (await provider.complete(question("a\ud800b"))).text == "a\ufffdb"
