"""What an idle bot costs: CPU and wake-ups a second, with Telegram polling and one distant reminder."""

from __future__ import annotations

import asyncio

from tests.bench.bot_process import TOKEN, bot_process
from tests.bench.figures import Figure, cpu_s, wakeups
from tests.bench.turns import answer
from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi

SECONDS = 60


async def figures() -> list[Figure]:
    async with BotApi(token=TOKEN) as api, OpenAIApi(validate=False, record=False) as model:
        model.default = answer
        async with bot_process(telegram_url=api.url, model_url=model.url) as bot:
            api.user_says(111, "/remind in 5 hours stretch")
            await api.wait_for(lambda: len(api.sent) >= 1, timeout_s=30)
            await asyncio.sleep(5)  # the warm-up after READY is not idleness
            cpu, woken = cpu_s(bot.pid), wakeups(bot.pid)
            await asyncio.sleep(SECONDS)
            cpu, woken = cpu_s(bot.pid) - cpu, wakeups(bot.pid) - woken
    return [
        Figure(name="idle, CPU", values=[cpu / SECONDS * 100], unit="%", limit="<= 0.3"),
        Figure(name="idle, wake-ups of all threads", values=[woken / SECONDS], unit="1/s", limit="<= 3"),
    ]
