"""Journey: messages that were accepted before the process was killed are all answered after the next start.

`DUTIFUL_BACKLOG=10000` makes it as many as the inbox holds; by itself it is a tenth.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.discord_api import DiscordApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.slack_api import SlackApi
from tests.support.load_platforms import DiscordPlatform, Platform, SlackPlatform, TelegramPlatform
from tests.support.load_run import Crowd, answer, audit
from tests.support.service import ROOT, Service, free_port

MESSAGES = int(os.environ.get("DUTIFUL_BACKLOG", "1000"))
CHATS = max(3, MESSAGES // 10)
LIMIT_S = 60.0 + MESSAGES * 0.03
"""Generous: what is bounded is that it ends; how fast it is, is printed."""


@pytest.mark.timeout(2 * LIMIT_S + 120)
async def test_a_backlog_over_three_channels_is_worked_off_after_a_kill(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi
) -> None:
    model.default = answer
    async with (
        DiscordApi() as discord,
        SlackApi() as slack,
        Service(tmp_path, telegram=telegram, discord=discord, slack=slack, model=model) as service,
    ):
        crowd = Crowd(
            [
                TelegramPlatform(telegram, random.Random(1)),
                DiscordPlatform(discord, random.Random(2)),
                SlackPlatform(slack, random.Random(3)),
            ],
            CHATS,
            random.Random(4),
        )
        rows = _said_while_it_ran(crowd, telegram, discord, slack)
        service.data_dir.mkdir(parents=True)
        await _accepted_and_killed(service.data_dir / "dutiful.db", tmp_path / "rows.jsonl", rows)
        service.configure(service.sections, {"server": {"listen": f"127.0.0.1:{free_port()}"}})

        began_s = time.monotonic()
        await service.start()
        longest_s = 0.0
        while (found := audit(crowd)).missing and not found.problems and time.monotonic() - began_s < LIMIT_S:
            asked_s = time.monotonic()
            status, _ = await service.health("/healthz")
            longest_s = max(longest_s, time.monotonic() - asked_s)
            assert status == 200
            await asyncio.sleep(0.25)
        took_s = time.monotonic() - began_s
        print(
            f"{MESSAGES} messages in {CHATS} chats: {found.answers} answers in {took_s:.1f} s with the start, "
            f"longest answer of /healthz {longest_s:.2f} s, {len(model.requests)} model calls"
        )
        assert (found.problems, found.missing[:5]) == ([], []), service.tail()
        assert not found.extra_copies
        assert {name for name, _ in crowd.said} == {"telegram", "discord", "slack"}
        report = await service.status()
        assert report["dead_letter_count"] == 0
        assert await service.stop() == 0
        assert "Traceback" not in service.log_text()


def _said_while_it_ran(crowd: Crowd, telegram: BotApi, discord: DiscordApi, slack: SlackApi) -> list[list[str]]:
    """Let everybody have said something, in turn, and have it all behind the platforms; return the inbox's rows."""
    places: list[tuple[Platform[Any], int]] = [(crowd.platforms[number % 3], number // 3) for number in range(CHATS)]
    ids: dict[tuple[str, int], tuple[str, str]] = {}
    for platform, chat in places:
        match platform.name:
            case "telegram":
                telegram.add_chat(1_000 + chat)
                ids[platform.name, chat] = (str(1_000 + chat), str(1_000 + chat))
            case "discord":
                made = discord.add_dm(5_000 + chat, channel_id=2_000 + chat, name=f"Person {chat}")
                ids[platform.name, chat] = (str(made.id), str(5_000 + chat))
            case _:
                user = f"U0P{chat:08d}"
                slack.add_dm(user, f"D0P{chat:08d}")
                ids[platform.name, chat] = (f"D0P{chat:08d}", user)
    rows = []
    for number in range(1, MESSAGES + 1):
        platform, chat = places[(number - 1) % CHATS]
        crowd.said.setdefault((platform.name, chat), []).append(number)
        rows.append([platform.name, *ids[platform.name, chat], f"{number}", f"m{number}"])
    return rows


async def _accepted_and_killed(database: Path, file: Path, rows: Sequence[Sequence[str]]) -> None:
    """Have the messages accepted by a process that is killed right after."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.backlog_worker", str(database), str(file)),
        stdout=PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert worker.stdout is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            assert await worker.stdout.readline() == b"accepted\n"
    finally:
        if worker.returncode is None:
            worker.kill()
        code = await worker.wait()
    assert code == -signal.SIGKILL
