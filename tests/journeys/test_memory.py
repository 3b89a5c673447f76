"""Journeys: a conversation outgrows its tail, summaries fail, the process is killed, and nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Json, Reply
from tests.support.service import Service

ADA = 111
FACT = "My daughter is called Mila."
LONG = "and then we walked along the river for a while and talked about the weather " * 8
SUMMARY = "## People\n- The daughter is called Mila."


def is_summary(request: Json) -> bool:
    return str(request["messages"][0]["content"]).startswith("You keep the record")


def summary_in(service: Service) -> str:
    with closing(sqlite3.connect(service.data_dir / "dutiful.db")) as conn:
        return str(conn.execute("SELECT max(summary) FROM sessions").fetchone()[0])


async def test_facts_outlive_failed_summaries_and_a_kill(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    """C062 and C063 with the real process: 500, a kill in the middle of a summary, then one that works."""
    gate, asked = asyncio.Event(), asyncio.Event()
    outcomes = [Reply(status=400, body={"error": {"message": "no"}}), Reply(text=SUMMARY, hold=gate)]
    answered = 0

    def reply(request: Json) -> Reply:
        nonlocal answered
        if not is_summary(request):
            answered += 1
            return Reply(text=f"answer {answered}")
        asked.set()
        return outcomes.pop(0) if outcomes else Reply(text=SUMMARY)

    model.script = reply
    service.configure(service.sections, {"sessions": {"replay_tokens": 600}})

    async def says(text: str) -> None:
        before = len(telegram.texts(ADA))
        telegram.user_says(ADA, text)
        await telegram.wait_for(lambda: len(telegram.texts(ADA)) > before)

    def chats() -> list[str]:
        return [str(item["messages"]) for item in model.requests if not is_summary(item)]

    await service.start()
    await says(FACT)
    for number in range(4):
        await says(f"{number} {LONG}")
    await asyncio.wait_for(asked.wait(), 10)
    asked.clear()
    assert FACT in chats()[-1]
    await service.kill()

    await service.start()
    await says("after the kill")  # the wait after a failure does not outlive the process
    await asyncio.wait_for(asked.wait(), 10)
    await service.kill()
    gate.set()
    assert summary_in(service) == ""

    await service.start()
    await says("and again")
    assert FACT in chats()[-1]
    async with asyncio.timeout(10):
        while FACT in chats()[-1]:  # until the summary beside the turns is committed
            await says("and again")
    assert summary_in(service) == SUMMARY
    before = len(model.requests)
    await service.kill()

    await service.start()
    await says("what is her name?")
    assert "called Mila" in chats()[-1]
    assert FACT not in chats()[-1]
    assert await service.stop() == 0
    # How many turns the loop above took decides whether one more summary is due; what is in the first one stays out.
    assert not any(FACT in str(item["messages"]) for item in model.requests[before:])
