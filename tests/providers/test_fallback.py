"""Where one model fails, the next one is asked, and the first comes back by itself."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply
from bot.providers.call_limits import CallLimits
from bot.providers.fallback import Entry, FallbackProvider
from bot.providers.openai_compatible import OpenAIProvider
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_endpoint import Endpoint
from tests.platforms.openai_script import Reply
from tests.support.clock import FakeClock
from tests.support.model_calls import QUICK, Naps, ask
from tests.support.providers import ScriptedProvider

FIRST, SECOND = ModelReply(text="from the first", model="first"), ModelReply(text="from the second", model="second")
REQUESTS_FAULT = [ProviderErrorKind.CONTENT_FILTER, ProviderErrorKind.BAD_REQUEST, ProviderErrorKind.CONTEXT_LENGTH]


def failed(kind: ProviderErrorKind = ProviderErrorKind.SERVER, retry_after_s: float | None = None) -> ProviderError:
    return ProviderError(kind, "no", retry_after_s=retry_after_s)


class Chain:
    """Two scripted models in a chain, and a clock that the test moves."""

    def __init__(
        self, first: list[ModelReply | ProviderError], second: list[ModelReply | ProviderError], **options: float
    ) -> None:
        self.first, self.second = ScriptedProvider(*first), ScriptedProvider(*second)
        self.clock = FakeClock()
        entries = [Entry(label="one", provider=self.first), Entry(label="two", provider=self.second)]
        self.provider = FallbackProvider(entries, clock=self.clock, **options)

    async def says(self) -> str:
        return (await self.provider.complete(ask())).text

    @property
    def asked(self) -> tuple[int, int]:
        return len(self.first.requests), len(self.second.requests)


@pytest.mark.parametrize("kind", [kind for kind in ProviderErrorKind if kind not in REQUESTS_FAULT])
async def test_what_another_endpoint_may_not_suffer_from_is_passed_on(kind: ProviderErrorKind) -> None:
    chain = Chain([failed(kind)], [SECOND])
    reply = await chain.provider.complete(ask())
    assert (reply.text, reply.model) == ("from the second", "second")


@pytest.mark.parametrize("kind", REQUESTS_FAULT)
async def test_the_requests_own_fault_is_not_passed_on(kind: ProviderErrorKind) -> None:
    chain = Chain([failed(kind), FIRST], [SECOND])
    with pytest.raises(ProviderError) as caught:
        await chain.says()
    assert caught.value.kind is kind
    # The endpoint is well: it is asked first again.
    assert await chain.says() == "from the first"
    assert chain.asked == (2, 0)


async def test_an_entry_that_failed_is_left_alone_for_a_while_and_comes_back() -> None:
    chain = Chain([failed(), FIRST], [SECOND])
    assert [await chain.says(), await chain.says()] == ["from the second"] * 2
    assert chain.asked == (1, 2)
    chain.clock.advance(31)
    assert await chain.says() == "from the first"


async def test_pauses_grow_with_each_failure_in_a_row_up_to_five_minutes() -> None:
    chain = Chain([failed()], [SECOND])
    pauses = []
    for _ in range(6):
        await chain.says()
        until_s = chain.provider._entries[0].paused_until_s
        pauses.append(round(until_s - chain.clock.monotonic_s()))
        chain.clock.advance(pauses[-1] + 1)
    assert pauses == [30, 60, 120, 240, 300, 300]


@pytest.mark.parametrize(
    ("error", "pause_s"),
    [
        (failed(ProviderErrorKind.RATE_LIMIT, 90), 90),
        (failed(ProviderErrorKind.RATE_LIMIT, 2), 30),
        (failed(ProviderErrorKind.AUTH), 300),
        (failed(ProviderErrorKind.QUOTA), 300),
        (failed(ProviderErrorKind.NOT_FOUND), 300),
    ],
)
async def test_the_providers_own_wait_and_what_only_the_owner_can_mend_pause_for_longer(
    error: ProviderError, pause_s: int
) -> None:
    chain = Chain([error, FIRST], [SECOND])
    await chain.says()
    chain.clock.advance(pause_s - 1)
    assert await chain.says() == "from the second"
    chain.clock.advance(2)
    assert await chain.says() == "from the first"


async def test_when_all_are_left_alone_all_are_asked() -> None:
    chain = Chain([failed(ProviderErrorKind.CONNECTION), FIRST], [failed(ProviderErrorKind.AUTH)])
    with pytest.raises(ProviderError) as caught:
        await chain.says()
    assert caught.value.kind is ProviderErrorKind.CONNECTION  # the preferred model's
    assert await chain.says() == "from the first"


async def test_the_log_says_which_entry_failed_with_what(caplog: pytest.LogCaptureFixture) -> None:
    chain = Chain([ProviderError(ProviderErrorKind.QUOTA, "HTTP 402: Insufficient balance.")], [failed()])
    with caplog.at_level(logging.WARNING), pytest.raises(ProviderError):
        await chain.says()
    assert [record.getMessage() for record in caplog.records] == [
        "model one failed (quota: HTTP 402: Insufficient balance.), left alone for 300 s",
        "model two failed (server: no), left alone for 30 s",
        "no model of the chain answered",
    ]


async def test_a_chain_that_is_down_for_days_keeps_failing_in_the_same_way() -> None:
    chain = Chain([failed()], [failed()])
    for entry in chain.provider._entries:
        entry.failures = 5_000  # as many turns, jobs among them, asked in vain
    with pytest.raises(ProviderError):
        await chain.says()
    assert chain.provider._entries[0].paused_until_s - chain.clock.monotonic_s() == 300


async def test_calls_that_fail_side_by_side_are_one_failure_in_a_row() -> None:
    """A breakdown of a second while fifty chats talk does not put the preferred model away for five minutes."""
    chats = 50
    async with OpenAIApi() as api:
        fails = asyncio.Event()
        api.default = lambda request: Reply(status=500, hold=fails)
        limits = CallLimits(tries=1)
        one = Entry(label="one", provider=OpenAIProvider(model="m", base_url=api.url, limits=limits))
        clock = FakeClock()
        provider = FallbackProvider([one, Entry(label="two", provider=ScriptedProvider(SECOND))], clock=clock)
        calls = [asyncio.create_task(provider.complete(ask())) for _ in range(chats)]
        await api.wait_for(lambda: api.request_count == chats)
        fails.set()
        replies = await asyncio.gather(*calls)
        await provider.close()
    assert {reply.text for reply in replies} == {"from the second"}
    assert one.failures == 1
    assert one.paused_until_s - clock.monotonic_s() == 30


async def test_one_limit_bounds_the_whole_chain() -> None:
    async with OpenAIApi() as api:
        api.default = lambda request: Reply(stall_after=0)
        entries = [
            Entry(label=str(number), provider=OpenAIProvider(model="m", base_url=api.url, limits=QUICK, sleep=Naps()))
            for number in range(3)
        ]
        provider = FallbackProvider(entries, total_s=0.5)
        await provider.warm_up()
        with pytest.raises(ProviderError) as caught:
            await provider.complete(ask(), lambda text: None)
        assert (caught.value.kind, caught.value.detail) == (
            ProviderErrorKind.TIMEOUT,
            "no model answered within 0.5 s",
        )
        assert api.request_count == 1
        await provider.close()


async def test_a_cancelled_call_pauses_nobody() -> None:
    async with OpenAIApi() as api:
        api.script.append(Reply(hold=asyncio.Event()))
        one = Entry(label="one", provider=OpenAIProvider(model="m", base_url=api.url, limits=QUICK))
        provider = FallbackProvider([one])
        call = asyncio.create_task(provider.complete(ask()))
        await api.wait_for(lambda: api.request_count == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert one.paused_until_s == 0
        await provider.close()


async def test_each_entry_has_its_own_model_and_key_and_streamed_text_is_replaced() -> None:
    """The first breaks off in mid-stream at each try; the draft then shows the second's words only."""
    keys = Endpoint(api_key="first-key"), Endpoint(api_key="second-key")
    async with OpenAIApi(endpoint=keys[0]) as one, OpenAIApi(endpoint=keys[1]) as two:
        one.default = lambda request: Reply(text="Half of an answer that", cut_after=2)
        two.default = lambda request: Reply(text="A whole answer")
        provider = FallbackProvider(
            [
                Entry(
                    label=name,
                    provider=OpenAIProvider(
                        model=name, api_key=f"{name}-key", base_url=api.url, limits=QUICK, sleep=Naps()
                    ),
                )
                for name, api in (("first", one), ("second", two))
            ]
        )
        shown: list[str] = []
        reply = await provider.complete(ask(), shown.append)
        await provider.close()
    assert (reply.text, reply.model) == ("A whole answer", "second")
    assert shown[-1] == "A whole answer"
    assert not any("Half" in text and "A whole" in text for text in shown)
    assert one.requests[0]["model"] == "first"
    assert two.requests[0]["model"] == "second"


async def test_all_are_warmed_up_and_closed() -> None:
    chain = Chain([FIRST], [SECOND])
    await chain.provider.warm_up()
    await chain.provider.close()
    assert chain.first.warmed
    assert chain.second.warmed
    assert chain.first.closed
    assert chain.second.closed
