"""While the model is down, what the stand-in understands still works, and nothing else pretends to."""

from __future__ import annotations

from typing import Any

import pytest

from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import ToolCall
from bot.providers.stand_in import StandInProvider
from tests.support.model_calls import ask
from tests.support.providers import ScriptedProvider, WordStandIn

DOWN = ProviderError(ProviderErrorKind.CONNECTION, "refused")
ANSWER = ModelReply(text="from the model")
SUBSTITUTE = ModelReply(text="from the stand-in")


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def steady_us(self) -> int:
        """See `Clock.steady_us`."""
        return self.now_us()

    def now_us(self) -> int:
        return int(self.seconds * 1_000_000)

    def monotonic_s(self) -> float:
        return self.seconds


def pair(*outcomes: ModelReply | ProviderError, stand_in: ModelReply | ProviderError = SUBSTITUTE) -> Any:
    primary = ScriptedProvider(*outcomes)
    second = WordStandIn("remind", stand_in)
    clock = HandClock()
    provider = StandInProvider(primary, second, notice=lambda language: f"notice in {language}", clock=clock)
    return provider, primary, second, clock


async def test_the_model_answers_while_it_can() -> None:
    provider, _, second, _ = pair(ANSWER)
    assert await provider.complete(ask("remind me")) == ANSWER
    assert second.requests == []


@pytest.mark.parametrize("kind", list(ProviderErrorKind))
async def test_whatever_fails_the_stand_in_answers_what_it_understands_and_says_so(
    kind: ProviderErrorKind,
) -> None:
    provider, _, _, _ = pair(ProviderError(kind, "no"))
    reply = await provider.complete(ask("remind me", language="de"))
    assert (reply.text, reply.notice) == ("from the stand-in", "notice in de")


async def test_what_the_stand_in_does_not_understand_gets_the_models_error() -> None:
    provider, _, second, _ = pair(DOWN)
    with pytest.raises(ProviderError) as caught:
        await provider.complete(ask("write a poem"))
    assert caught.value is DOWN
    assert second.requests == []


async def test_a_model_known_to_be_down_is_not_waited_for_again() -> None:
    provider, primary, _, clock = pair(DOWN)
    await provider.complete(ask("remind me"))
    clock.seconds += 29
    await provider.complete(ask("remind me"))
    assert len(primary.requests) == 1
    # What only the model can do is still tried.
    with pytest.raises(ProviderError):
        await provider.complete(ask("write a poem"))
    assert len(primary.requests) == 2


async def test_a_model_that_was_down_is_asked_again_after_half_a_minute() -> None:
    provider, primary, _, clock = pair(DOWN, ANSWER)
    await provider.complete(ask("remind me"))
    clock.seconds += 31
    assert await provider.complete(ask("remind me")) == ANSWER
    assert await provider.complete(ask("remind me")) == ANSWER
    assert len(primary.requests) == 3


async def test_a_model_that_answered_is_not_down_any_more() -> None:
    provider, primary, _, _ = pair(DOWN, ANSWER)
    await provider.complete(ask("remind me"))
    assert await provider.complete(ask("write a poem")) == ANSWER
    assert await provider.complete(ask("remind me")) == ANSWER
    assert len(primary.requests) == 3


@pytest.mark.parametrize("kind", [ProviderErrorKind.AUTH, ProviderErrorKind.BAD_REQUEST, ProviderErrorKind.RATE_LIMIT])
async def test_an_error_of_the_request_does_not_make_the_model_count_as_down(kind: ProviderErrorKind) -> None:
    provider, primary, _, _ = pair(ProviderError(kind, "no"))
    await provider.complete(ask("remind me"))
    await provider.complete(ask("remind me"))
    assert len(primary.requests) == 2


def after_a_call(call_id: str, *more: dict[str, Any]) -> ModelRequest:
    call = {"id": call_id, "type": "function", "function": {"name": "cron", "arguments": "{}"}}
    return ModelRequest(
        messages=[
            {"role": "user", "content": "remind me"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": "done"},
            *more,
        ]
    )


async def test_what_the_stand_in_began_it_also_finishes() -> None:
    provider, primary, second, _ = pair(ANSWER)
    request = after_a_call("offline-1")
    reply = await provider.complete(request)
    assert (reply.text, reply.notice) == ("from the stand-in", "notice in en")
    assert second.requests == [request]
    assert primary.requests == []


@pytest.mark.parametrize(
    "request_",
    [
        after_a_call("call-1"),
        after_a_call("offline-1", {"role": "user", "content": "and a poem"}),
        after_a_call("offline-1", {"role": "assistant", "content": "Done."}, {"role": "user", "content": "a poem"}),
    ],
)
async def test_exchanges_of_the_model_and_new_questions_go_to_the_model(request_: ModelRequest) -> None:
    provider, _, second, _ = pair(ANSWER)
    assert await provider.complete(request_) == ANSWER
    assert second.requests == []


async def test_a_step_of_the_models_own_exchange_that_fails_stays_an_error() -> None:
    provider, _, _, _ = pair(DOWN)
    with pytest.raises(ProviderError):
        await provider.complete(after_a_call("call-1"))


async def test_tool_calls_of_the_stand_in_pass_through() -> None:
    calls = (ToolCall(id="offline-1", name="cron", arguments="{}"),)
    provider, _, _, _ = pair(DOWN, stand_in=ModelReply(text="", tool_calls=calls, finish_reason="tool_calls"))
    assert (await provider.complete(ask("remind me"))).tool_calls == calls


async def test_both_are_warmed_up_and_closed() -> None:
    provider, primary, second, _ = pair(ANSWER)
    await provider.warm_up()
    await provider.close()
    assert primary.warmed
    assert primary.closed
    assert second.warmed
    assert second.closed
