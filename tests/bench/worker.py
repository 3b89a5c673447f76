"""The engine in a process of its own with a memory channel: `worker.py MODEL_URL DIR MODE CHATS TURNS ORDER`.

Prints one JSON line: CPU ms a turn, turns a second. Seeds each chat with 20 messages of history first.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from bot.app import Engine
from bot.cli import run_main
from bot.config import load_config
from bot.interfaces import Channel, ChannelContext, ChannelState, SendProgress
from bot.messages import Address, InboundMessage, OutboundMessage
from bot.parts import config_sections
from bot.providers.openai_compatible import OpenAIProvider


class BenchChannel(Channel):
    """Counts what is sent."""

    name: ClassVar[str] = "bench"
    config_cls: ClassVar[type[BaseModel]] = BaseModel

    def __init__(self) -> None:
        self.sent = asyncio.Queue[OutboundMessage]()
        self.state = ChannelState.READY

    @classmethod
    def create(cls, context: ChannelContext) -> BenchChannel:
        raise NotImplementedError(context)

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def send(self, message: OutboundMessage, progress: SendProgress) -> None:
        self.sent.put_nowait(message)
        await progress.sent("1")


async def main(url: str, folder: Path, mode: str, chats: int, turns: int, *, one_by_one: bool) -> None:
    config_file = folder / "dutiful.toml"
    config_file.write_text(
        f'[bot]\ndata_dir = "{folder}/data"\ntimezone = "Europe/Berlin"\n[llm]\nbase_url = "{url}"\nmodel = "bench"\n'
        '[channels.console]\n[server]\nlisten = "off"\n'
    )
    engine = await Engine.open(load_config(config_file, sections=config_sections()))
    channel = BenchChannel()
    engine.channels["bench"] = channel  # the loop and the delivery share this mapping
    engine.policy._owners |= {"bench:7"}
    serving = asyncio.create_task(engine.serve())
    await engine.ready.wait()
    primary = engine.models.default.provider._primary  # type: ignore[attr-defined]
    assert isinstance(primary, OpenAIProvider)
    await primary.warm_up()
    sent = 0

    async def burst(count: int, first: int = 0) -> None:
        nonlocal sent
        for index in range(first, first + count):
            sent += 1
            message = InboundMessage(
                address=Address(channel="bench", chat_id=str(index % chats)),
                message_id=str(sent),
                text=f"{mode} {sent}",
                sender_id="7",
            )
            await engine.bus.publish_inbound(message)
        for _ in range(count):
            await channel.sent.get()

    for _ in range(10):  # 10 turns = 20 messages of history in each chat
        await burst(chats)
    cpu, wall = time.process_time(), time.perf_counter()
    if one_by_one:
        for _ in range(turns // chats):
            for index in range(chats):
                await burst(1, first=index)
    else:
        await burst(turns)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu_ms": cpu / turns * 1000, "per_s": turns / wall}))
    engine.stop()
    await serving


if __name__ == "__main__":
    _, url, folder, mode, chats, turns, order = sys.argv
    run_main(main(url, Path(folder), mode, int(chats), int(turns), one_by_one=order == "one-by-one"))
