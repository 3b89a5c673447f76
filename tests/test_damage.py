"""A database that goes bad under a running engine."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from bot.app import Engine
from bot.config import load_config
from bot.errors import StoreError
from bot.interfaces import Topic
from bot.parts import config_sections


async def test_a_database_that_is_damaged_while_running_ends_the_engine_with_one_error(tmp_path: Path) -> None:
    config = tmp_path / "dutiful.toml"
    config.write_text(f'[bot]\ndata_dir = "{tmp_path}/data"\n[server]\nlisten = "off"\n[channels.console]\n')
    engine = await Engine.open(load_config(config, sections=config_sections()))
    serving = asyncio.create_task(engine.serve())
    await engine.ready.wait()
    path = tmp_path / "data" / "dutiful.db"
    with sqlite3.connect(path) as other:  # a change by somebody else makes the engine read the file again
        other.execute("INSERT INTO people (channel, user_id, zone) VALUES ('console', 'x', 'UTC')")
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(os.urandom(path.stat().st_size))
    engine.signal.notify(Topic.JOBS)
    async with asyncio.timeout(10):
        with pytest.raises(StoreError, match=r"dutiful\.db: .*restore a backup"):
            await serving
    other.close()
