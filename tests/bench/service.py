"""CPU of a whole turn that comes from Telegram and goes back there."""

from __future__ import annotations

from functools import partial

from tests.bench.bot_process import TOKEN, bot_process
from tests.bench.figures import Figure, cpu_s
from tests.bench.turns import RUNS, answer
from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi

TURNS = 150


async def figures() -> list[Figure]:
    values = [await _run() for _ in range(RUNS)]
    return [Figure(name="Telegram turn, CPU", values=values, unit="ms", limit="<= 10")]


async def _run() -> float:
    async with BotApi(token=TOKEN) as api, OpenAIApi(validate=False, record=False) as model:
        model.default = answer
        async with bot_process(telegram_url=api.url, model_url=model.url) as bot:
            await _turns(api, 10)
            before = cpu_s(bot.pid)
            await _turns(api, TURNS)
            return (cpu_s(bot.pid) - before) / TURNS * 1000


async def _turns(api: BotApi, count: int) -> None:
    for _ in range(count):
        wanted = len(api.sent) + 1
        api.user_says(111, f"plain {wanted}")
        await api.wait_for(partial(_has_sent, api, wanted), timeout_s=30)


def _has_sent(api: BotApi, count: int) -> bool:
    return len(api.sent) >= count
