"""What the engine does once it is ready and before the first message."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from bot.app import Engine
from bot.config import load_config
from bot.parts import config_sections


async def test_the_collector_works_again_after_a_start_without_it(tmp_path: Path) -> None:
    config = tmp_path / "dutiful.toml"
    config.write_text(f'[bot]\ndata_dir = "{tmp_path}/data"\n[server]\nlisten = "off"\n[channels.console]\n')
    gc.disable()  # as `dutiful run` begins
    try:
        engine = await Engine.open(load_config(config, sections=config_sections()))
        serving = asyncio.create_task(engine.serve())
        async with asyncio.timeout(30):
            while not gc.isenabled():
                await asyncio.sleep(0.01)
        engine.stop()
        await serving
    finally:
        gc.enable()
        gc.unfreeze()
