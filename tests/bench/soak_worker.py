"""The engine in a process of its own: `soak_worker.py MODEL_URL DIR SESSIONS TURNS LIMIT_S`.

Without a URL the model is in this process, too. Prints one JSON line: resident memory in MB by the number of
conversations that have ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from bot.app import Engine
from bot.cli import run_main
from bot.config import load_config
from bot.interfaces import ModelReply, ModelRequest, Provider
from bot.messages import Address, InboundMessage, ToolCall, Usage
from bot.parts import config_sections
from tests.bench.figures import rss_mb
from tests.bench.worker import BenchChannel

NOWHERE = "http://127.0.0.1:9/v1"  # never asked
AT_ONCE = 25
POINT = 200  # conversations between two samples
TOOL_EVERY = 5  # turns


class NearModel(Provider):
    """Answers at once: with a tool call where the person's text begins with "tool", in words otherwise."""

    name: ClassVar[str] = "near"
    needs_network: ClassVar[bool] = False

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        last = request.messages[-1]
        usage = Usage(input_tokens=sum(len(str(row["content"])) for row in request.messages) // 4, output_tokens=20)
        if last["role"] == "user" and str(last["content"]).startswith("tool"):
            calls = (ToolCall(id="call_0", name="list_dir", arguments='{"path": "."}'),)
            return ModelReply(text="", tool_calls=calls, finish_reason="tool_calls", usage=usage)
        return ModelReply(text="Here is a short answer of a dozen words for the person who asked it.", usage=usage)


async def main(url: str, folder: Path, sessions: int, turns: int, limit_s: float) -> None:
    config_file = folder / "dutiful.toml"
    config_file.write_text(
        f'[bot]\ndata_dir = "{folder}/data"\ntimezone = "Europe/Berlin"\n'
        f'[llm]\nbase_url = "{url or NOWHERE}"\nmodel = "bench"\n'
        '[sessions]\nidle_minutes = 1\n[channels.console]\n[server]\nlisten = "off"\n[log]\nlevel = "error"\n'
    )
    engine = await Engine.open(load_config(config_file, sections=config_sections()))
    if not url:
        engine.models.default = replace(engine.models.default, provider=NearModel())
    channel = BenchChannel()
    engine.channels["bench"] = channel  # the loop and the delivery share this mapping
    engine.policy._owners |= {"bench:7"}
    serving = asyncio.create_task(engine.serve())
    await engine.ready.wait()
    until = time.monotonic() + limit_s
    curve: list[tuple[int, float]] = []

    async def turn(first: int, number: int) -> None:
        kind = "tool" if number % TOOL_EVERY == 0 else "plain"
        for chat in range(first, first + AT_ONCE):
            message = InboundMessage(
                address=Address(channel="bench", chat_id=str(chat)),
                message_id=f"{chat}-{number}",
                text=f"{kind} {number} of conversation {chat}: " + "words to be kept " * 20,
                sender_id="7",
            )
            await engine.bus.publish_inbound(message)
        for _ in range(AT_ONCE):
            await channel.sent.get()

    for first in range(0, sessions, AT_ONCE):
        for number in range(turns):
            await turn(first, number)
        done = first + AT_ONCE
        if done % POINT == 0:
            curve.append((done, rss_mb(os.getpid())))
        if time.monotonic() > until:
            break
    print(json.dumps(curve))
    engine.stop()
    await serving


if __name__ == "__main__":
    _, url, folder, sessions, turns, limit_s = sys.argv
    run_main(main(url, Path(folder), int(sessions), int(turns), float(limit_s)))
