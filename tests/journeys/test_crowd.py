"""Journeys: many chats at once, while other processes read and write the same database."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import text_of
from tests.support.service import ROOT, Finished, Service

CHATS, ROUNDS, FIRST_CHAT = 20, 6, 1_000
PATIENCE_S = 60.0


@asynccontextmanager
async def guest(service: Service) -> AsyncIterator[Process]:
    """Have a process at work on the service's database; killed if it is still there at the end."""
    path = service.data_dir / "dutiful.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.store_worker", str(path), "guest", cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        assert await process.stdout.readline() == b"ready\n"
        process.stdin.write(b"go\n")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_twenty_chats_lose_nothing_while_other_processes_read_and_write_their_database(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    chats = range(FIRST_CHAT, FIRST_CHAT + CHATS)

    async def converse(chat: int) -> None:
        for number in range(ROUNDS):
            telegram.user_says(chat, f"m{number} of {chat}", user_id=chat)
            await telegram.wait_for(lambda: len(telegram.texts(chat)) > number, timeout_s=PATIENCE_S)  # noqa: B023

    async def command() -> list[Finished]:
        done = []
        for number in range(2):
            done.append(await service.cli("chat", "-m", f"line {number}"))
            done.append(await service.cli("jobs", "list", "--json"))
        return done

    async with guest(service) as first, guest(service) as second:
        commands, _ = await asyncio.gather(command(), asyncio.gather(*map(converse, chats)))
        ends = await asyncio.gather(*(process.communicate(b"end\n") for process in (first, second)))
        assert (first.returncode, second.returncode) == (0, 0)
    added = {text for out, _ in ends for text in json.loads(out)}
    assert len(added) >= 4
    assert [(done.code, done.err) for done in commands] == [(0, "")] * 4
    assert [done.out for done in commands[::2]] == ["line 0\n", "line 1\n"]
    for chat in chats:
        assert telegram.texts(chat) == [f"m{number} of {chat}" for number in range(ROUNDS)]
    longest = {text_of(request["messages"][1]).partition("\n")[0]: request["messages"] for request in model.requests}
    for chat in chats:  # the last request of each chat has everything that was said there
        said = [text_of(row).partition("\n")[0] for row in longest[f"m0 of {chat}"][1:]]
        assert said == [f"m{number // 2} of {chat}" for number in range(2 * ROUNDS - 1)]
    assert {job["text"] for job in await service.ask("jobs", "list")} == added
    status = await service.status()
    assert (status["dead_letter_count"], status["uncertain_sends"]) == (0, 0)
    assert status["queues"] == {"inbox": 0, "turns": 0, "outbox": 0}
    assert "locked" not in service.log_text()
    assert '"level": "error"' not in service.log_text()
