"""Steps of a turn that read files: sixteen read_file calls in one step beside one.

A step's time is from the model's reply with the calls to the request that carries their results: checking, reading,
and recording in the store.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Address
from bot.security.workspace import WorkspaceView
from tests.bench.figures import Figure
from tests.support.engine import AnsweringProvider, Rig, calls, last_user, rig, said

RUNS = 30
PARALLEL = 16
LIMIT = "<= 1.5"
LINE = "a line of a source file, with some words\n"
FILES = {"20 lines": LINE * 20, "200 lines": LINE * 200, "2,000 lines": LINE * 2_000}


class ReadingModel:
    """Asks for as many files as the person's message says, and notes how long the results took."""

    def __init__(self) -> None:
        self.step_ms = 0.0
        self._replied = 0.0

    def __call__(self, request: ModelRequest) -> ModelReply:
        now = time.perf_counter()
        if request.messages[-1]["role"] == "tool":
            self.step_ms = (now - self._replied) * 1000
            return said("done")
        wanted: list[tuple[str, Any]] = [
            ("read_file", {"path": f"{number}.txt", "force": True}) for number in range(int(last_user(request)))
        ]
        reply = calls(*wanted)
        self._replied = time.perf_counter()
        return reply


async def figures() -> list[Figure]:
    return [figure for name, text in FILES.items() for figure in await _measure(name, text)]


async def _measure(name: str, text: str) -> list[Figure]:
    model = ReadingModel()
    one, many = [], []
    with tempfile.TemporaryDirectory() as folder:
        async with rig(Path(folder), AnsweringProvider(model)) as engine:
            _write(engine, text)
            for _ in range(RUNS):
                one.append(await _step_ms(engine, model, 1))
                many.append(await _step_ms(engine, model, PARALLEL))
    return [
        Figure(name=f"step with one read of {name}", values=one, unit="ms"),
        Figure(name=f"step with {PARALLEL} reads of {name}", values=many, unit="ms"),
        Figure(name=f"{PARALLEL} reads / one, {name}", values=[median(many) / median(one)], unit="", limit=LIMIT),
    ]


def _write(engine: Rig, text: str) -> None:
    key = Address(channel=engine.channel.name, chat_id="c1").rate_key
    view = WorkspaceView.of(engine.workspace, key)
    view.make_dirs()
    for number in range(PARALLEL):
        (view.root / f"{number}.txt").write_text(text)


async def _step_ms(engine: Rig, model: ReadingModel, count: int) -> float:
    await engine.asks("/new")
    await engine.asks(str(count))
    return model.step_ms
