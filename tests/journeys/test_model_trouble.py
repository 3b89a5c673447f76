"""Journeys: the model's endpoint limits, refuses, hangs, drips and declines (cases C092 to C098)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_endpoint import Endpoint, error, error_for, quota_exceeded
from tests.platforms.openai_script import Json, Reply
from tests.support.service import Service

ADA, BEN = 111, 222


class Times(list[float]):
    """When requests came, on the loop's clock."""

    def note(self) -> None:
        self.append(asyncio.get_running_loop().time())


async def answer(telegram: BotApi, chat: int = ADA) -> str:
    """Return the first message in the chat once it is there."""
    await telegram.wait_for(lambda: telegram.texts(chat))
    return telegram.texts(chat)[0]


@pytest.mark.parametrize("place", ["header", "body"])
async def test_the_next_try_waits_for_as_long_as_the_provider_asked(
    telegram: BotApi, model: OpenAIApi, service: Service, place: str
) -> None:
    """C092: 7 s, as a header and in the body."""
    times = Times()
    body = error("Rate limit reached for requests.", kind="requests", code="rate_limit_exceeded")
    if place == "body":
        body["error"]["retry_after"] = 7

    def reply(request: Json) -> Reply:
        times.note()
        if len(times) == 1:
            return Reply(status=429, body=body, headers={"Retry-After": "7"} if place == "header" else {})
        return Reply(text="Now.")

    model.script = reply
    await service.start()
    telegram.user_says(ADA, "hello")
    assert await answer(telegram) == "Now."
    assert len(times) == 2
    assert 7 <= times[1] - times[0] < 20


async def test_a_wait_of_an_hour_is_told_at_once(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    """C092: 3600 s is over the cap."""
    model.when("hello", [Reply(status=429, headers={"Retry-After": "3600"})])
    await service.start()
    telegram.user_says(ADA, "hello")
    assert await answer(telegram) == "The model provider is rate-limiting me. Please try again in 60 min."
    assert model.request_count == 1


PERMANENT: dict[str, tuple[int, Json, str]] = {
    "401": (401, error_for(401), "refused my key. The owner has to check [llm] api_key"),
    "400": (400, error("Invalid value for 'messages'."), "refused the request as malformed"),
    "402": (402, error_for(402), "out of credit. The owner has to top it up"),
    "429 quota": (429, quota_exceeded(), "out of credit. The owner has to top it up"),
}


@pytest.mark.parametrize("case", PERMANENT)
async def test_a_permanent_error_gets_one_attempt_and_says_what_the_owner_must_do(
    telegram: BotApi, model: OpenAIApi, service: Service, case: str
) -> None:
    """C093."""
    status, body, words = PERMANENT[case]
    key = "sk-very-secret-0123456789"
    body = {"error": {**body["error"], "message": f"{body['error']['message']} (key {key})"}}
    service.configure(service.sections, {"llm": {"api_key": key}})
    model.script = lambda request: Reply(status=status, body=body)
    await service.start()
    telegram.user_says(ADA, "hello")
    told = await answer(telegram)
    assert words in told
    assert key not in told
    assert model.request_count == 1
    model.script = []
    telegram.user_says(ADA, "still there?")
    await telegram.wait_for(lambda: "still there?" in telegram.texts(ADA))
    assert await service.stop() == 0
    assert key not in service.log_text()


SILENCES = {"after two chunks": 2, "after accepting": 0}


@pytest.mark.parametrize("chunks", SILENCES.values(), ids=SILENCES)
async def test_a_silent_stream_is_given_up_and_holds_nobody_else(
    telegram: BotApi, model: OpenAIApi, service: Service, chunks: int
) -> None:
    """C094: the socket stays open. One retry is answered; a provider that stays silent is reported."""
    service.configure(service.sections, {"limits": {"stream_idle_s": 0.7, "first_token_s": 0.7}})
    stall = Reply(text="Good morning, everyone", stall_after=chunks)
    model.when("once", [stall, Reply(text="Here I am.")])
    always = model.when("always", lambda request: stall)
    await service.start()
    telegram.user_says(ADA, "once")
    telegram.user_says(BEN, "quick", user_id=BEN)
    assert await answer(telegram, BEN) == "quick"
    assert await answer(telegram) == "Here I am."
    telegram.user_says(ADA, "always")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert telegram.texts(ADA)[1] == "The model took too long to answer. Please try again."
    assert always.hits == 3
    shown = len(telegram.calls("sendChatAction"))
    telegram.user_says(BEN, "and now?", user_id=BEN)
    await telegram.wait_for(lambda: len(telegram.texts(BEN)) == 2)
    assert not [call for call in telegram.calls("sendChatAction")[shown:] if call.chat_id == ADA]


async def test_a_drip_without_an_end_is_ended_by_the_total_limit(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C095: one character every 5 s."""
    service.configure(service.sections, {"limits": {"call_total_s": 7}})
    model.when("drip", [Reply(text="x" * 1_000, chunks="x" * 1_000, drip_s=5)])
    await service.start()
    telegram.user_says(ADA, "drip")
    await telegram.wait_for(lambda: any("too long" in text for text in telegram.texts(ADA)))
    assert telegram.texts(ADA) == ["The model took too long to answer. Please try again."]
    assert model.request_count == 1
    await model.wait_for(lambda: model.open_streams == 0)


async def test_odd_chunks_lose_neither_text_nor_usage(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    """C096: choices [] first and last, delta null, no finish_reason."""
    usage = {"prompt_tokens": 700, "completion_tokens": 9}
    odd = Reply(text="Good morning, Ada.", empty_choices=True, null_delta=True, no_finish_reason=True, usage=usage)
    model.when("morning", [odd])
    await service.start()
    telegram.user_says(ADA, "good morning")
    assert await answer(telegram) == "Good morning, Ada."
    assert model.request_count == 1
    assert await service.stop() == 0
    with closing(sqlite3.connect(service.data_dir / "dutiful.db")) as database:
        assert database.execute("SELECT input_tokens, output_tokens FROM turns").fetchall() == [(700, 9)]


FILTERED = {
    "finish_reason": Reply(finish_reason="content_filter"),
    "400": Reply(status=400, body=error("Content Exists Risk")),
}


@pytest.mark.parametrize("declined", FILTERED.values(), ids=FILTERED)
async def test_a_declined_answer_is_told_plainly_and_the_conversation_goes_on(
    telegram: BotApi, model: OpenAIApi, service: Service, declined: Reply
) -> None:
    """C097."""
    rule = model.when("forbidden", lambda request: declined)
    await service.start()
    telegram.user_says(ADA, "forbidden")
    assert await answer(telegram) == "The model provider declined to answer this."
    assert rule.hits == 1
    telegram.user_says(ADA, "something else")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert telegram.texts(ADA)[1] == "something else"


async def test_without_an_output_limit_the_request_leaves_room_for_its_input(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C098: a window of 262,144 tokens, checked by the endpoint."""
    model.endpoint = Endpoint(context_window=262_144)
    service.configure(service.sections, {"llm": {"context_window_tokens": 262_144}})
    await service.start()
    telegram.user_says(ADA, "hello")
    assert await answer(telegram) == "hello"
    assert model.request_count == 1
    assert model.requests[0]["max_tokens"] == 16_384


async def test_a_window_smaller_than_configured_is_learned_from_the_refusal(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C098, with 128,000 configured and 18,000 real."""
    model.endpoint = Endpoint(context_window=18_000)
    await service.start()
    telegram.user_says(ADA, "hello")
    assert await answer(telegram) == "hello"
    assert [request["max_tokens"] for request in model.requests] == [16_384, 4_500]
