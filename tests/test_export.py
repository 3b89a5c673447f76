"""`dutiful export` and `dutiful sessions` as real commands, with and without a service beside them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SystemClock
from bot.messages import Address, Origin
from bot.records import Ending, TurnState
from bot.store.export import PORTION
from bot.store.store import SqlStore
from tests.support.past import begin_new, claimed, converse
from tests.support.program import Program
from tests.support.stores import inbound

CHAT = Address(channel="telegram", chat_id="-100")
THREAD = Address(channel="telegram", chat_id="-100", thread_id="7")
OTHER = Address(channel="telegram", chat_id="-1001")
REASONED = {
    "role": "assistant",
    "reasoning_content": "hm",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
}


@pytest.fixture
async def program(tmp_path: Path) -> Program:
    """Return an installation in which two chats, a thread and a task have spoken."""
    made = Program(tmp_path)
    made.configure()
    store = await SqlStore.open(made.data / "dutiful.db", SystemClock(), exclusive=True)
    try:
        await converse(store, "first", address=CHAT)
        await begin_new(store, address=CHAT)
        turn = await claimed(store, inbound("second", "s", CHAT))
        rows = ({"role": "user", "content": "second"}, REASONED)
        await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=rows))
        await converse(store, "in the thread", address=THREAD)
        await converse(store, "elsewhere", address=OTHER)
        turn = await claimed(store, inbound("a run", "r", CHAT, origin=Origin.JOB, lane="job:x:1"))
        await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=({"role": "user", "content": "a run"},)))
    finally:
        await store.close()
    return made


def parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def contents(lines: list[dict[str, Any]]) -> list[Any]:
    return [line["content"] for line in lines if line["type"] == "message"]


async def test_each_conversation_has_a_header_and_its_rows_with_everything_stored(program: Program) -> None:
    result = await program.run("export", "--chat", "telegram:-100")
    assert (result.code, result.err) == (0, "")
    lines = parsed(result.out)
    assert [line["type"] for line in lines] == ["session", *["message"] * 2] * 3
    first, row = lines[0], lines[1]
    assert (first["title"], first["address"], first["rows"]) == ("first", "telegram:-100", 2)
    assert first["archived"].endswith(("+01:00", "+02:00"))
    assert row["session"] == first["session"]
    assert (row["role"], row["content"], row["address"]) == ("user", "first", "telegram:-100")
    assert row["time"].endswith(("+01:00", "+02:00"))
    reply = lines[5]
    assert {name: reply[name] for name in REASONED} == REASONED
    assert reply["content"] is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["first", "yes", "second", None, "in the thread", "yes", "elsewhere", "yes"]),
        (("--chat", "telegram:-100:7"), ["in the thread", "yes"]),
        (("--chat", "telegram:-1001"), ["elsewhere", "yes"]),
        (("--session", "2"), ["second", None]),
        (("--all",), ["first", "yes", "second", None, "in the thread", "yes", "elsewhere", "yes", "a run"]),
        (("--all", "--chat", "telegram:-100"), ["first", "yes", "second", None, "in the thread", "yes", "a run"]),
    ],
)
async def test_a_selection_has_what_was_asked_for(
    program: Program, arguments: tuple[str, ...], expected: list[Any]
) -> None:
    assert contents(parsed((await program.run("export", *arguments)).out)) == expected


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--chat", "telegram:5"), "there is no conversation in telegram:5; `dutiful sessions` lists chats"),
        (("--session", "99"), "there is no conversation 99; `dutiful sessions` lists them"),
        (("--session", "1", "--chat", "telegram:-1001"), "there is no conversation 1 in telegram:-1001"),
        (("--output", "no/such/folder/x"), "no/such/folder/x cannot be written: No such file or directory"),
    ],
)
async def test_what_cannot_be_exported_is_said(program: Program, arguments: tuple[str, ...], error: str) -> None:
    result = await program.run("export", *arguments)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"dutiful: {error}")


async def test_a_file_appears_whole_closed_and_in_place_of_an_older_one(program: Program) -> None:
    target = program.home / "out.jsonl"
    target.write_text("old")
    target.chmod(0o644)
    result = await program.run("export", "--output", "out.jsonl")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert contents(parsed(target.read_text()))[0] == "first"
    assert target.stat().st_mode & 0o777 == 0o600
    assert not list(program.home.glob(".out*"))


async def test_a_failed_export_leaves_nothing_behind(program: Program) -> None:
    (program.home / "folder").mkdir()
    result = await program.run("export", "--output", "folder")
    assert (result.code, result.err) == (1, "dutiful: folder cannot be written: Is a directory\n")
    assert not list(program.home.glob(".folder*"))


async def test_a_damaged_row_is_exported_as_it_is(program: Program) -> None:
    conn = sqlite3.connect(program.data / "dutiful.db")
    conn.execute("UPDATE history SET body = CAST(x'7bff' AS TEXT) WHERE id = 2")
    conn.commit()
    conn.close()
    result = await program.run("export", "--session", "1")
    assert (result.code, result.err) == (0, "")
    damaged = parsed(result.out)[2]
    assert (damaged["row"], damaged["content"], damaged["damaged"]) == (2, None, "{\ufffd")
    assert (await program.run("sessions")).code == 0


async def test_without_a_database_it_says_so_and_makes_none(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.configure()
    result = await program.run("export")
    assert result.code == 1
    assert result.err.endswith("dutiful.db does not exist: nothing was ever stored there\n")
    assert not program.data.exists()


async def test_an_older_file_is_not_migrated_behind_anybodys_back(program: Program) -> None:
    conn = sqlite3.connect(program.data / "dutiful.db")
    conn.execute("PRAGMA user_version = 1")
    conn.close()
    result = await program.run("export")
    assert result.code == 1
    assert "is at schema version 1" in result.err
    assert "`dutiful status`" in result.err


async def test_it_works_beside_a_running_service_and_disturbs_nothing(program: Program) -> None:
    program.configure('[channels.console]\n[server]\nlisten = "off"')
    async with program.service():
        result = await program.run("export", "--session", "1")
        assert contents(parsed(result.out)) == ["first", "yes"]
        said = await program.run("chat", "-m", "/remind in 5 hours stretch")
        assert said.code == 0
        listed = (await program.run("sessions", "--json")).json
        assert "console" in [item["address"].partition(":")[0] for item in listed]


async def test_a_long_history_streams_without_being_held_in_memory(program: Program) -> None:
    """More than a portion of rows, each once and in order; the process stays far smaller than what it writes."""
    count, size = PORTION * 12 + 3, 20_000
    conn = sqlite3.connect(program.data / "dutiful.db")
    conn.executemany(
        "INSERT INTO history (session_id, turn_id, body, created_us) VALUES (1, 1, ?, 1)",
        [(json.dumps({"role": "user", "content": f"{number:06}" + "x" * size}),) for number in range(count)],
    )
    conn.commit()
    conn.close()
    process = await program.start("export", "--session", "1")
    assert process.stdout is not None
    numbers: list[str] = []
    peak_kb = 0
    async with asyncio.timeout(60):
        async for line in process.stdout:
            numbers += [content[:6] for content in contents([json.loads(line)])]
            if len(numbers) == count - PORTION:  # it still has to write more than a pipe holds
                peak_kb = peak_memory_kb(process.pid)
        assert await process.wait() == 0
    assert numbers[2:] == [f"{number:06}" for number in range(count)]
    assert 0 < peak_kb < count * size // 1024


def peak_memory_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


async def test_sessions_lists_chats_with_titles(program: Program) -> None:
    result = await program.run("sessions")
    assert result.code == 0
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[0] == ["id", "chat", "used", "rows", "state", "title"]
    assert [(row[0], row[1], row[5]) for row in rows[1:]] == [
        ("1", "telegram:-100", "archived"),
        ("2", "telegram:-100", "current"),
        ("3", "telegram:-100:7", "current"),
        ("4", "telegram:-1001", "current"),
    ]
    assert (await program.run("sessions", "--json")).json[0]["title"] == "first"
