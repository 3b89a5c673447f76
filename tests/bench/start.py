"""How long until READY, and memory then, beside the bare imports of what is needed anyway."""

from __future__ import annotations

import asyncio
import compileall
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.bot_process import TOKEN, bot_process
from tests.bench.figures import Figure, rss_mb
from tests.bench.turns import answer
from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi

RUNS = 5
BARE = "import typer, pydantic, aiosqlite, orjson, jsonschema_rs, uvloop, apscheduler.schedulers.asyncio, aiohttp.web"


async def figures() -> list[Figure]:
    for package in ("bot", "channels"):  # an installed service has its bytecode, a checkout may lack it
        compileall.compile_dir(Path(__file__).parents[2] / package, quiet=1)
    alone, with_telegram, after_call = [], [], []
    for _ in range(RUNS):
        async with bot_process() as bot:
            alone.append((bot.ready_s, rss_mb(bot.pid)))
        async with BotApi(token=TOKEN) as api, OpenAIApi(validate=False, record=False) as model:
            model.default = answer
            async with bot_process(telegram_url=api.url, model_url=model.url) as bot:
                began = time.perf_counter()
                await api.wait_for(lambda: api.poll_count > 0, timeout_s=30)
                polling_s = bot.ready_s + time.perf_counter() - began
                with_telegram.append((polling_s, rss_mb(bot.pid)))
                api.user_says(111, "hello")
                await api.wait_for(lambda: len(api.sent) >= 1, timeout_s=30)
                await asyncio.sleep(1)
                after_call.append(rss_mb(bot.pid))
    bare = [_command(sys.executable, "-c", BARE) for _ in range(RUNS)]
    help_s = [_command(sys.executable, "-m", "bot.cli", "--help") for _ in range(RUNS)]
    ratio = [ready / plain for (ready, _), plain in zip(alone, bare, strict=True)]
    return [
        Figure(name="ready without platforms", values=[s for s, _ in alone], unit="s", limit="<= 0.6"),
        Figure(name="ready without platforms, to bare imports", values=ratio, unit="ratio"),
        Figure(name="memory without platforms", values=[mb for _, mb in alone], unit="MB", limit="<= 65"),
        Figure(name="polling Telegram", values=[s for s, _ in with_telegram], unit="s", limit="<= 1.3"),
        Figure(name="memory with Telegram", values=[mb for _, mb in with_telegram], unit="MB", limit="<= 95"),
        Figure(name="memory after one model call", values=after_call, unit="MB", limit="<= 115"),
        Figure(name="dutiful --help", values=help_s, unit="s", limit="<= 0.25"),
    ]


def _command(*words: str) -> float:
    began = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
