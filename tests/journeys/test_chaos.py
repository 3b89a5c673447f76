"""Journey: everything at once, driven by a seed, and the promises hold.

The seed is the same in every run, so that a red one means a change. `DUTIFUL_CHAOS_SEED=n` tries or replays
another one, `DUTIFUL_CHAOS_SEED=random` a new one; `DUTIFUL_CHAOS_S=seconds` makes it longer. A seed fixes what
people, platform and model do; how the processes interleave is the machine's, so that a replay is likely to
find a problem again, not certain.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.support.chaos import ADA, Model, People, Weather
from tests.support.chaos_ledger import audit
from tests.support.service import Service

STORM_S = float(os.environ.get("DUTIFUL_CHAOS_S", "15"))
_WANTED = os.environ.get("DUTIFUL_CHAOS_SEED", "20261129")
SEED = random.SystemRandom().randrange(1, 1_000_000) if _WANTED == "random" else int(_WANTED)
CALM_S = 90.0  # the longest pause that a part of the service makes after failures is 30 s


@pytest.mark.timeout(STORM_S + 3 * CALM_S)
async def test_whatever_happens_every_message_is_answered_once_and_every_reminder_comes(
    telegram: BotApi, model: OpenAIApi, service: Service, tmp_path: Path
) -> None:
    print(f"DUTIFUL_CHAOS_SEED={SEED}")
    people = People(telegram, random.Random(f"{SEED} people"))
    brain = Model(people, random.Random(f"{SEED} model"))
    model.default = brain.reply
    service.configure(
        {
            "bot": {"data_dir": str(service.data_dir), "timezone": "Europe/Berlin"},
            "server": {"listen": "off"},
            "log": {"level": "debug", "format": "json"},
            "llm": {"base_url": model.url, "model": "test-model"},
            "access": {"owners": [f"telegram:{ADA}"]},
            "channels.telegram": {
                "token": telegram.token, "api_url": telegram.url, "allow_from": "*", "group_policy": "all",
            },
        }
    )  # fmt: skip
    storm = random.Random(f"{SEED} storm")
    weather = Weather(telegram, people, random.Random(f"{SEED} weather"))
    await service.launch()
    brain.faulty = True
    kills = await _storm(service, people, weather, storm)
    brain.faulty = False
    telegram.faults.clear()
    if not service.running:
        await service.launch()

    def settled() -> bool:
        found = audit(telegram, people, brain)
        return bool(found.problems) or not found.waiting

    try:
        await telegram.wait_for(settled, timeout_s=CALM_S)
    except TimeoutError:
        pytest.fail(f"seed {SEED}: still waiting for {audit(telegram, people, brain).waiting}\n{service.tail()}")
    await _idle(service)
    status = await service.status()
    assert await service.stop() == 0, service.tail()
    found = audit(telegram, people, brain)
    assert (found.problems, found.waiting) == ([], []), f"seed {SEED}, {kills} kills"
    assert found.extra_copies <= status["uncertain_sends"], f"seed {SEED}"
    assert telegram.confirmed_offset == people.said[-1].update_id + 1
    _check_database(service.data_dir / "dutiful.db")
    _check_log(service)
    print(f"{len(people.said)} messages, {kills} ends, {len(telegram.sent)} sent, {found.extra_copies} extra copies")


async def _storm(service: Service, people: People, weather: Weather, chance: random.Random) -> int:
    """Let people, platform and supervisor act at random moments; return how often the process ended."""
    ends_s = time.monotonic() + STORM_S
    next_end_s = time.monotonic() + chance.uniform(1, 4)
    kills = 0
    while time.monotonic() < ends_s:
        await asyncio.sleep(chance.expovariate(8))
        act = chance.random()
        if act < 0.6:
            people.speak()
        elif act < 0.9:
            weather.strike()
        if time.monotonic() >= next_end_s:
            kills += 1
            if chance.random() < 0.7:
                await service.kill()
            else:
                os.kill(service.pid, signal.SIGTERM)
                code = await service.wait_exit()
                # A signal that comes before the first handler is installed ends the process by itself.
                assert code in {0, -signal.SIGTERM, 128 + signal.SIGTERM}, f"ended with {code}: {service.tail()}"
            await service.launch()
            next_end_s = time.monotonic() + chance.uniform(0.3, 5)
    return kills


async def _idle(service: Service) -> None:
    """Return once the service has nothing left to do."""
    async with asyncio.timeout(CALM_S):
        while True:
            status = await service.status()
            if not any(status["queues"].values()) and not any(job["state"] == "active" for job in status["jobs"]):
                return
            await asyncio.sleep(0.2)


def _check_database(path: Path) -> None:
    with sqlite3.connect(path) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
    conn.close()


def _check_log(service: Service) -> None:
    lines = service.log.read_text(errors="replace").splitlines()
    loud = [line for line in lines if "Traceback" in line or not line.startswith("{")]
    assert not loud, "\n".join(loud)
