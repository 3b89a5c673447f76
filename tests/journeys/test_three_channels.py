"""Journey: a hundred chats on three platforms at once while everything goes wrong, and the promises hold.

`DUTIFUL_LOAD_S=60` makes the storm last a minute (by itself it is short), `DUTIFUL_LOAD_SEED=n` replays a run or
tries another one, `DUTIFUL_LOAD_SEED=random` a new one. The seed, which the run prints, fixes what people and
platforms do and when the process is killed; how the processes interleave is the machine's, so that a replay is
likely to find a problem again, not certain.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.discord_api import DiscordApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.slack_api import SlackApi
from tests.support.load_platforms import DiscordPlatform, Platform, SlackPlatform, TelegramPlatform
from tests.support.load_run import Audit, Crowd, answer, audit
from tests.support.service import Service

STORM_S = float(os.environ.get("DUTIFUL_LOAD_S", "15"))
_WANTED = os.environ.get("DUTIFUL_LOAD_SEED", "20261130")
SEED = random.SystemRandom().randrange(1, 1_000_000) if _WANTED == "random" else int(_WANTED)
CHATS = 100
CALM_S = 90.0  # the longest pause that a part of the service makes after failures is 30 s
KILL_EVERY_S = 25.0

_ACTS_PER_S = 14.0
_SPEAKING = 0.55  # of the acts; the others are troubles


@pytest.mark.timeout(STORM_S + 4 * CALM_S)
async def test_a_hundred_chats_on_three_platforms_are_answered_once_and_in_order_whatever_happens(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi
) -> None:
    print(f"DUTIFUL_LOAD_SEED={SEED} DUTIFUL_LOAD_S={STORM_S:g}")
    model.default = answer
    async with (
        DiscordApi() as discord,
        SlackApi() as slack,
        Service(tmp_path, telegram=telegram, discord=discord, slack=slack, model=model) as service,
    ):
        platforms: list[Platform[Any]] = [
            TelegramPlatform(telegram, random.Random(f"{SEED} telegram")),
            DiscordPlatform(discord, random.Random(f"{SEED} discord")),
            SlackPlatform(slack, random.Random(f"{SEED} slack")),
        ]
        crowd = Crowd(platforms, CHATS, random.Random(f"{SEED} people"))
        await service.start()
        await discord.wait_for(lambda: discord.gateway.connected)
        await slack.wait_for(lambda: slack.socket.connected)
        kills = await _storm(service, crowd, random.Random(f"{SEED} storm"))
        await _felt(crowd)
        lost = {platform.name: platform.lost_answers() for platform in platforms}
        for platform in platforms:
            platform.calm()
        calm_from_s = time.monotonic()
        found = await _settled(crowd)
        settled_s = time.monotonic() - calm_from_s
        status = await _idle(service)
        found = audit(crowd)
        code = await service.stop()
        print(_report(crowd, found, status, kills=kills, lost=lost, settled_s=settled_s))
        told = f"seed {SEED}, {kills} kills\n{service.tail()}"
        assert (found.problems, found.missing) == ([], []), told
        assert status["dead_letter_count"] == 0, told
        # Discord and Slack can be asked what arrived; on Telegram a send in doubt may leave one copy, and is counted.
        assert set(found.extra_copies) <= {"telegram"}, told
        assert found.extra_copies.total() + len(found.lost) <= status["uncertain_sends"], told
        assert found.extra_copies.total() <= lost["telegram"] + kills * 16, told
        assert len(found.lost_by_kill) <= kills, told
        assert min(lost.values()) > 0, f"a platform lost no answer, which shows nothing of sends in doubt; {told}"
        assert code == 0, told
        assert "Traceback" not in service.log_text(), told


async def _storm(service: Service, crowd: Crowd, chance: random.Random) -> int:
    """Let everybody write at once, then people, platforms and the supervisor act; return the number of kills."""
    begun_s = time.monotonic()
    kill_at_s = begun_s + chance.uniform(0.3, 0.7) * min(STORM_S, KILL_EVERY_S)
    kills = 0
    crowd.everybody_speaks()
    while (now_s := time.monotonic()) < begun_s + STORM_S:
        await asyncio.sleep(chance.expovariate(_ACTS_PER_S))
        if chance.random() < _SPEAKING:
            crowd.somebody_speaks()
        else:
            await chance.choice(crowd.platforms).strike()
        if now_s >= kill_at_s:
            kills += 1
            kill_at_s = now_s + chance.uniform(0.7, 1.3) * KILL_EVERY_S
            await service.kill()
            await service.launch()
    return kills


async def _felt(crowd: Crowd) -> None:
    """Go on until every platform has lost an answer: on a busy machine the storm may pass before one is sent."""
    ends_s = time.monotonic() + CALM_S
    while (spared := [p for p in crowd.platforms if not p.lost_answers()]) and time.monotonic() < ends_s:
        crowd.somebody_speaks()
        await spared[0].strike()
        await asyncio.sleep(1 / _ACTS_PER_S)


async def _settled(crowd: Crowd) -> Audit:
    """Return once every message is answered, or something is wrong, or too much time has passed."""
    ends_s = time.monotonic() + CALM_S
    while True:
        found = audit(crowd)
        if found.problems or not found.missing or time.monotonic() > ends_s:
            return found
        await asyncio.sleep(0.2)


async def _idle(service: Service) -> dict[str, Any]:
    """Return the status once the service has nothing left to do; its last one if it does not come to that."""
    ends_s = time.monotonic() + CALM_S
    while True:
        status = await service.status()
        if not any(status["queues"].values()) or time.monotonic() > ends_s:
            return status
        await asyncio.sleep(0.5)


def _report(
    crowd: Crowd, found: Audit, status: dict[str, Any], *, kills: int, lost: dict[str, int], settled_s: float
) -> str:
    """Return what happened, for whoever reads the run."""
    lines = [
        f"seed {SEED}: {STORM_S:g} s, {CHATS} chats on {len(crowd.platforms)} platforms, {kills} kills",
        f"{crowd.count} messages, {found.answers} answers, settled {settled_s:.1f} s after the storm",
        f"extra copies {dict(found.extra_copies)}, answers lost on both tries {len(found.lost)}",
        f"uncertain sends counted {status['uncertain_sends']}",
        *(f"{p.name}: {dict(p.struck)}, answers lost {lost[p.name]}" for p in crowd.platforms),
        f"replay: DUTIFUL_LOAD_SEED={SEED} DUTIFUL_LOAD_S={STORM_S:g} python -m pytest -s {Path(__file__).name}",
        *found.problems,
        *found.missing,
    ]
    return "\n".join(lines)
