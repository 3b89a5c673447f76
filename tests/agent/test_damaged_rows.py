"""Rows that are no messages, or messages of a wrong shape, keep neither summaries nor memories from being made."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.agent.test_consolidation import SMALL, past, talk
from tests.agent.test_memory_runs import ANN, begin, file_of, night, writes
from tests.support.engine import Rig, rig
from tests.support.recorders import FarModel, whole

DAMAGED = {
    "no json": b"{not json",
    "no text": b'{"role": "user", "content": "\xff\xfe"}',
    "a list": b'[{"role": "user", "content": "x"}]',
    "null": b"null",
    "no role": b'{"content": "x"}',
    "calls are no list": b'{"role": "assistant", "content": "x", "tool_calls": 5}',
    "calls are no calls": b'{"role": "assistant", "content": "x", "tool_calls": ["a", null, {"function": "b"}]}',
    "no content": b'{"role": "user", "content": null}',
    "content is a number": b'{"role": "user", "content": 7}',
    "blocks of no kind": b'{"role": "user", "content": [null, 3, {"type": "text", "text": null}]}',
    "a role of no kind": b'{"role": ["user"], "content": "x"}',
    "a result without content": b'{"role": "tool", "content": null, "tool_call_id": 4}',
}


def spoil(engine: Rig, body: bytes) -> None:
    """Put a row after the last one of the newest turn, as a damaged file or an older version may have it."""
    with sqlite3.connect(engine.setup.folder / "dutiful.db", timeout=10) as conn:
        conn.execute(
            "INSERT INTO history (session_id, turn_id, body, created_us)"
            " SELECT session_id, turn_id, CAST(? AS TEXT), created_us FROM history ORDER BY id DESC LIMIT 1",
            (body,),
        )
    conn.close()


@pytest.mark.parametrize("kind", DAMAGED)
async def test_a_damaged_row_keeps_no_conversation_from_being_summarised(tmp_path: Path, kind: str) -> None:
    model = FarModel()
    async with rig(tmp_path, model, sessions=SMALL) as engine:
        await engine.asks("the first words")
        spoil(engine, DAMAGED[kind])
        await talk(engine)
        assert (await past(engine)).summary
        assert "the first words" in whole(model.summaries[0])


@pytest.mark.parametrize("kind", DAMAGED)
async def test_a_damaged_row_keeps_no_memory_from_being_kept(tmp_path: Path, kind: str) -> None:
    model = FarModel(memory=writes("# Ann\n"))
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("the first words")
        spoil(engine, DAMAGED[kind])
        await engine.asks("the last words")
        await night(engine)
        assert file_of(engine, ANN).read_text() == "# Ann\n"
        assert "the last words" in whole(model.memories[0])
