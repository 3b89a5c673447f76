"""Journeys: messages that failed are seen, tried again and dropped while the service runs."""

from __future__ import annotations

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault
from tests.platforms.openai_api import OpenAIApi
from tests.support.service import Service

TOO_STRANGE = Fault(method="sendMessage", status=400, description="Bad Request: the message is too strange")


async def test_a_refused_answer_is_listed_and_goes_out_when_it_is_tried_again(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    telegram.faults.add(TOO_STRANGE)
    telegram.user_says(5, "first")
    await telegram.wait_for(lambda: telegram.calls("sendMessage"))
    telegram.user_says(5, "second")
    await telegram.wait_for(lambda: telegram.texts(5) == ["second"])
    (letter,) = await service.ask("outbox", "list")
    assert (letter["state"], letter["chat"], letter["text"]) == ("dead", "telegram:5", "first")
    assert "too strange" in letter["error"]
    assert "`dutiful outbox list`" in (await service.cli("status")).out
    done = await service.cli("outbox", "retry", str(letter["id"]))
    assert (done.code, done.out) == (0, f"queued {letter['id']} for telegram:5: first\n")
    await telegram.wait_for(lambda: telegram.texts(5) == ["second", "first"])
    assert (await service.cli("outbox", "list")).out == "nothing waits, nothing failed\n"


async def test_a_chat_that_was_closed_is_tried_and_what_is_dropped_never_goes(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    telegram.user_says(5, "hello")
    await telegram.wait_for(lambda: telegram.texts(5) == ["hello"])
    for text in ("keep", "forget"):
        telegram.world.chats[5].gone = "bot was blocked by the user"
        telegram.user_says(5, text)
        await telegram.wait_for(lambda text=text: telegram.calls("sendMessage")[-1].text == text)  # type: ignore[misc]
        telegram.world.chats[5].gone = ""
    letters = await service.ask("outbox", "list")
    assert [(letter["state"], letter["text"]) for letter in letters] == [("dead", "keep"), ("dead", "forget")]
    keep, forget = (str(letter["id"]) for letter in letters)
    assert (await service.cli("outbox", "drop", forget)).code == 0
    refused = await service.cli("outbox", "retry", keep, forget)
    assert refused.code == 1
    assert f"there is no message {forget}" in refused.err
    assert (await service.cli("outbox", "retry", keep)).code == 0
    await telegram.wait_for(lambda: telegram.texts(5) == ["hello", "keep"])
    assert (await service.status())["dead_letter_count"] == 0
