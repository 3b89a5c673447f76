"""What governing costs, and what a turn costs with little and with much history behind it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from bot.agent.governor import ContextGovernor, GovernorLimits
from bot.agent.tokens import estimate_text
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Address
from tests.bench.figures import Figure
from tests.support.conversations import dialogue, user
from tests.support.engine import OWNER, AnsweringProvider, Rig, rig, said
from tests.support.stored_rows import session_of, store_rows

RUNS = 41
MESSAGES, NEW = 1_000, 10
FEW, MANY = 10, 5_000
LIMITS = GovernorLimits(context_window_tokens=200_000, max_output_tokens=8_000)
TEN_MB = 10 * 1024 * 1024


async def figures() -> list[Figure]:
    turns = await _turns()
    ratio = median(turns["many cpu"]) / median(turns["few cpu"])
    words = "Some words, a number 42, and (punctuation)! "
    text = words * (TEN_MB // len(words))
    estimates = [_ms(lambda: estimate_text(text)) for _ in range(5)]
    return [
        Figure(name=f"governing {MESSAGES:,} messages, cold, CPU", values=_cold(), unit="ms", limit="<= 10"),
        Figure(name=f"governing {MESSAGES:,} messages, {NEW} new, CPU", values=_warm(), unit="ms", limit="<= 1"),
        Figure(name="estimate of 10 MiB of text, CPU", values=estimates, unit="ms"),
        Figure(name=f"prompt of a turn, {FEW} messages stored", values=turns["few prompt"], unit="ms"),
        Figure(name=f"prompt of a turn, {MANY:,} messages stored", values=turns["many prompt"], unit="ms"),
        Figure(name=f"whole turn, {FEW} messages stored, CPU", values=turns["few cpu"], unit="ms"),
        Figure(name=f"whole turn, {MANY:,} messages stored, CPU", values=turns["many cpu"], unit="ms"),
        Figure(name=f"whole turn, {MANY:,} stored / {FEW} stored", values=[ratio], unit="", limit="<= 1.3"),
    ]


def _ms(act: Callable[[], object]) -> float:
    """Return the CPU time of a function that waits for nothing."""
    began = time.thread_time()
    act()
    return (time.thread_time() - began) * 1_000


def _messages() -> list[dict[str, Any]]:
    """A thousand rows as they come from the store: turns of two calls each, then a person's message."""
    rows = [*dialogue(MESSAGES // 6 + 1)[: MESSAGES - 1], user("and now?")]
    stored: list[dict[str, Any]] = orjson.loads(orjson.dumps(rows))
    return stored


def _cold() -> list[float]:
    rows = _messages()
    return [_ms(lambda: ContextGovernor().prepare_for_model(rows, limits=LIMITS)) for _ in range(RUNS)]


def _warm() -> list[float]:
    values = []
    for _ in range(RUNS):
        governor = ContextGovernor()
        governor.prepare_for_model(_messages()[:-NEW], limits=LIMITS, session_key="s")
        rows = _messages()  # other objects than those seen before

        def act(governor: ContextGovernor = governor, rows: list[dict[str, Any]] = rows) -> object:
            return governor.prepare_for_model(rows, limits=LIMITS, session_key="s")

        values.append(_ms(act))
    return values


async def _turns() -> dict[str, list[float]]:
    """Return the CPU of whole turns in this process, and the time for reading, governing and encoding alone.

    Short and long conversations take turns, so that what else the machine does meets both.
    """

    def answer(request: ModelRequest) -> ModelReply:
        orjson.dumps(request.messages)
        return said("Here is a short answer of a dozen words for the person who asked it.")

    values: dict[str, list[float]] = {"few cpu": [], "few prompt": [], "many cpu": [], "many prompt": []}
    with tempfile.TemporaryDirectory() as folder:
        async with rig(Path(folder), AnsweringProvider(answer)) as engine:
            await engine.asks("hello", sender=OWNER, chat="many")
            many = await _session(engine, "many")
            await store_rows(engine.store, many, dialogue(MANY // 6 + 1)[: MANY - 2])
            await engine.asks("hello", sender=OWNER, chat="many")
            await _prompt_ms(engine, many)
            for number in range(RUNS):
                chat = f"few{number}"
                for _ in range(FEW // 2):
                    await engine.asks("hello", sender=OWNER, chat=chat)
                few = await _session(engine, chat)
                await _prompt_ms(engine, few)
                for kind, name, session_id in (("few", chat, few), ("many", "many", many)):
                    values[f"{kind} cpu"].append(await _turn_ms(engine, name))
                    values[f"{kind} prompt"].append(await _prompt_ms(engine, session_id))
    return values


async def _session(engine: Rig, chat: str) -> int:
    return await session_of(engine.store, Address(channel=engine.channel.name, chat_id=chat))


async def _turn_ms(engine: Rig, chat: str) -> float:
    began = time.process_time()
    await engine.asks("and now?", sender=OWNER, chat=chat)
    await engine.idle()
    return (time.process_time() - began) * 1_000


async def _prompt_ms(engine: Rig, session_id: int) -> float:
    began = time.perf_counter()
    limit_tokens = engine.setup.sessions.replay_tokens
    window = await engine.store.history.window(session_id, limit_tokens=limit_tokens)
    governor = engine.runner.parts.governor
    orjson.dumps(governor.prepare_for_model(window.rows, limits=LIMITS, session_key=f"bench {session_id}"))
    return (time.perf_counter() - began) * 1_000
