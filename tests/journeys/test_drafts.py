"""Journeys: answers that grow in the chat, as the platform sees them."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from channels.telegram import TelegramChannel
from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import too_many_requests
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA, BEN = 111, 222
BEGINNING = "Let me think about that for a moment. "
END = "The answer is that it depends."


def growing(chunks: list[str], go_on: asyncio.Event, *, drip_s: float = 0.0) -> Reply:
    """Return a reply whose last chunk waits."""
    return Reply(text="".join(chunks), chunks=chunks, drip_s=drip_s, stall_after=len(chunks), stall_until=go_on)


async def test_flood_control_stops_a_growing_answer_and_delays_its_end(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C024 for Ada: the first edit gets 10 s while deltas keep coming. C025 for Ben: the last one gets 5 s."""
    go_on = asyncio.Event()
    words = [BEGINNING, *(f"word {number} " for number in range(60))]
    model.when("from Ada", [Reply(text="".join(words), chunks=words, drip_s=0.2)])
    model.when("from Ben", [growing([BEGINNING, END], go_on)])
    telegram.faults.add(too_many_requests("editMessageText", 10, chat_id=ADA))
    await service.start()
    telegram.user_says(ADA, "from Ada")
    telegram.user_says(BEN, "from Ben")
    await telegram.wait_for(lambda: telegram.texts(BEN) == [BEGINNING.strip()])
    telegram.faults.add(too_many_requests("editMessageText", 5, chat_id=BEN))
    go_on.set()
    await telegram.wait_for(lambda: telegram.texts(BEN) == [BEGINNING + END])
    await telegram.wait_for(lambda: telegram.texts(ADA) == ["".join(words).strip()])
    for chat, wait_s in ((ADA, 10), (BEN, 5)):
        calls = [call for call in telegram.all_calls if call.chat_id == chat]
        (refused,) = [at for at, call in enumerate(calls) if not call.ok]
        assert calls[refused + 1].at_monotonic - calls[refused].at_monotonic >= wait_s - 0.1
        assert len([call for call in calls if call.method == "sendMessage"]) == 1
    assert await service.stop() == 0


async def test_edits_come_at_a_bounded_rate_whatever_the_model_does(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    words = [BEGINNING, *(f"word {number} " for number in range(100))]
    model.when("ada", [Reply(text="".join(words), chunks=words, drip_s=0.04)])
    await service.start()
    telegram.user_says(ADA, "ada")
    await telegram.wait_for(lambda: telegram.texts(ADA) == ["".join(words).strip()])
    shown = [call for call in telegram.all_calls if call.method in ("sendMessage", "editMessageText")]
    assert TelegramChannel.draft_interval_s is not None
    drafts = shown[:-1]  # the last is the answer itself
    assert len(drafts) >= 2
    for before, after in pairwise(drafts):
        assert after.at_monotonic - before.at_monotonic >= TelegramChannel.draft_interval_s - 0.2


async def test_stop_takes_back_what_was_shown(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    go_on = asyncio.Event()
    model.when("ada", [growing([BEGINNING, END], go_on)])
    await service.start()
    telegram.user_says(ADA, "ada")
    await telegram.wait_for(lambda: telegram.texts(ADA) == [BEGINNING.strip()])
    telegram.user_says(ADA, "/stop")
    await telegram.wait_for(lambda: telegram.texts(ADA) == ["Stopped."])


async def test_a_kill_in_mid_stream_goes_on_in_the_same_message(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    go_on = asyncio.Event()
    middle = "There are two sides to it. "
    model.when("ada", lambda _: growing([BEGINNING, middle, END], go_on, drip_s=1.0))
    await service.start()
    telegram.user_says(ADA, "ada")
    # An edit comes after the commit of the id that it needs.
    await telegram.wait_for(lambda: telegram.calls("editMessageText"))
    assert telegram.texts(ADA) == [(BEGINNING + middle).strip()]
    await service.kill()
    await service.start()
    await model.wait_for(lambda: len(model.requests) == 2)
    go_on.set()
    await telegram.wait_for(lambda: telegram.texts(ADA) == [BEGINNING + middle + END])
    assert [call.method for call in telegram.sent] == ["sendMessage"]
