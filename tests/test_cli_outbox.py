"""`dutiful outbox`: what waits and what failed, tried again or dropped, without a running service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.clock import US_PER_S, SystemClock
from bot.messages import Address, Attachment
from bot.store.store import SqlStore
from tests.support.program import Program
from tests.support.stores import outbound

HERE = Address(channel="memory", chat_id="c1", thread_id="7")
KEY = "sk-verysecretverysecret"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    made.configure()
    return made


@asynccontextmanager
async def stored(program: Program) -> AsyncIterator[SqlStore]:
    """Have the installation's database open, while no process of it runs."""
    program.data.mkdir(parents=True, exist_ok=True)
    store = await SqlStore.open(program.data / "dutiful.db", SystemClock(), exclusive=True, max_waiting=99)
    try:
        yield store
    finally:
        await store.close()


async def claimed(store: SqlStore, text: str, chat: str) -> int:
    """Queue a message in a chat of its own and begin to send it."""
    outbox_id = await store.outbox.put(outbound(text, Address(channel="memory", chat_id=chat)))
    await store.outbox.claim(limit=9, channels=["memory"])
    return outbox_id


@pytest.fixture
async def ids(program: Program) -> dict[str, int]:
    """Store a message in each state; return their numbers."""
    async with stored(program) as store:
        made = {state: await claimed(store, f"text of {state}", state) for state in ("dead", "uncertain", "sent")}
        await store.outbox.part_sent(made["dead"], ["p1"])
        await store.outbox.bury(made["dead"], f"refused, key {KEY}")
        await store.outbox.settle(made["uncertain"], ["??"], uncertain=True)
        await store.outbox.settle(made["sent"], ["m1"])
        made["sending"] = await claimed(store, "text of sending", "sending")
        file = Attachment(kind="document", name="plan.pdf", path="/p")
        made["queued"] = await store.outbox.put(outbound(f"words\nwith {KEY}", HERE, attachments=(file,)))
    return made


async def test_the_list_shows_what_waits_or_failed_without_secrets(program: Program, ids: dict[str, int]) -> None:
    shown = (await program.run("outbox", "list", "--json")).json
    assert {item["id"]: item["state"] for item in shown} == {
        ids[state]: state for state in ("dead", "uncertain", "sending", "queued")
    }
    by_state = {item["state"]: item for item in shown}
    dead, queued = by_state["dead"], by_state["queued"]
    assert (dead["attempts"], dead["parts_sent"], dead["next"]) == (1, 1, None)
    assert dead["error"] == "refused, key [redacted]"
    assert (queued["chat"], queued["kind"], queued["files"]) == ("memory:c1:7", "reply", ["plan.pdf"])
    assert queued["text"] == "words\nwith [redacted]"
    table = await program.run("outbox", "list")
    assert (table.code, table.err) == (0, "")
    assert KEY not in table.out
    lines = table.out.splitlines()
    assert len(lines) == 5
    assert ["dead" in line for line in lines].count(True) == 1
    assert "words with [redacted] [plan.pdf]" in table.out


async def test_a_message_that_waits_for_another_try_is_told_as_delayed(program: Program) -> None:
    async with stored(program) as store:
        outbox_id = await claimed(store, "held", "c1")
        await store.outbox.retry(
            outbox_id, not_before_us=SystemClock().steady_us() + 3_600 * US_PER_S, error="429", counts=False
        )
        await store.outbox.put(outbound("behind it", Address(channel="memory", chat_id="c1")))
    report = (await program.run("status", "--json")).json
    assert (report["delayed_sends"], report["queues"]["outbox"]) == (1, 2)
    assert "delayed sends: 1 (`dutiful outbox list` says why)" in (await program.run("status")).out
    first, second = (await program.run("outbox", "list", "--json")).json
    assert (first["error"], second["next"]) == ("429", None)
    left_s = (datetime.fromisoformat(first["next"]) - datetime.now(UTC)).total_seconds()
    assert 1_800 < left_s < 3_660


async def test_a_long_list_shows_the_newest_and_all_of_them_when_asked(program: Program) -> None:
    async with stored(program) as store:
        await asyncio.gather(*(store.outbox.put(outbound(f"n{number}")) for number in range(600)))
    lines = (await program.run("outbox", "list")).out.splitlines()
    assert lines[0] == "the newest 50 of 600; --all shows the others"
    assert len(lines) == 52
    everything = (await program.run("outbox", "list", "--all", "--json")).json
    assert [item["text"] for item in everything] == [f"n{number}" for number in range(600)]


async def test_a_dead_letter_is_queued_again_in_its_old_place_without_the_parts_that_are_out(
    program: Program, ids: dict[str, int]
) -> None:
    async with stored(program) as store:
        later = await store.outbox.put(outbound("later", Address(channel="memory", chat_id="dead")))
    done = await program.run("outbox", "retry", str(ids["dead"]))
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        f"queued {ids['dead']} for memory:dead: text of dead\n"
        "the bot is not running; what is queued goes out when it does\n"
    )
    async with stored(program) as store:
        rows, _ = await store.outbox.claim(limit=99, channels=["memory"])
        again = next(row for row in rows if row.id == ids["dead"])
        assert (again.sent_ids, again.attempts, again.first_try_us, again.error) == (("p1",), 0, 0, "")
        assert later not in [row.id for row in rows], "what came after it waits for it"


async def test_an_uncertain_message_is_sent_again_by_its_number_only(program: Program, ids: dict[str, int]) -> None:
    await program.run("outbox", "retry", "all")
    assert (await program.run("outbox", "retry", str(ids["uncertain"]))).code == 0
    async with stored(program) as store:
        row = await store.outbox.get(ids["uncertain"])
        assert row is not None
        assert (row.state, row.sent_ids, row.uncertain) == ("queued", (), 1)


async def test_all_dead_letters_are_retried_or_dropped_at_once(program: Program, ids: dict[str, int]) -> None:
    assert [item["id"] for item in (await program.run("outbox", "retry", "all", "--json")).json["queued"]] == [
        ids["dead"]
    ]
    assert (await program.run("outbox", "drop", "all")).out == "there are no dead letters\n"


async def test_what_waits_failed_or_was_cut_short_can_be_dropped(program: Program, ids: dict[str, int]) -> None:
    chosen = [ids[state] for state in ("dead", "queued", "uncertain", "sending")]
    done = await program.run("outbox", "drop", *map(str, chosen), "--json")
    assert [item["id"] for item in done.json["dropped"]] == chosen
    assert (await program.run("outbox", "list")).out == "nothing waits, nothing failed\n"


@pytest.mark.parametrize(
    ("command", "state", "words"),
    [
        ("retry", "sent", "was delivered"),
        ("retry", "sending", "is being sent"),
        ("drop", "sent", "was delivered"),
    ],
)
async def test_what_cannot_be_done_is_said_and_nothing_is_changed(
    program: Program, ids: dict[str, int], command: str, state: str, words: str
) -> None:
    before = (await program.run("outbox", "list", "--json")).json
    done = await program.run("outbox", command, str(ids["dead"]), str(ids[state]))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert f"message {ids[state]} {words}" in done.err
    assert "nothing was changed" in done.err
    after = (await program.run("outbox", "list", "--json")).json
    assert [(item["id"], item["state"]) for item in after] == [(item["id"], item["state"]) for item in before]


@pytest.mark.parametrize("command", ["retry", "drop"])
async def test_a_number_that_is_none_is_an_error(program: Program, command: str) -> None:
    unknown = await program.run("outbox", command, "987")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err == "dutiful: there is no message 987 in the outbox (`dutiful outbox list` shows them)\n"
    for word in ("abc", "-1", "1" * 30, "٣"):
        wrong = await program.run("outbox", command, "--", word)
        assert wrong.code == 2
        assert "no number of a message" in wrong.err


async def test_the_files_of_a_dropped_message_go_with_it(program: Program) -> None:
    async with stored(program) as store:
        copies = [program.data / "outgoing" / name for name in ("a", "b")]
        copies[0].parent.mkdir()
        for copy in copies:
            copy.write_bytes(b"x")
        files = [Attachment(kind="document", name="plan.pdf", path="/p", copy=str(copy)) for copy in copies]
        first, second = [await store.outbox.put(outbound("x", HERE, attachments=(file,))) for file in files]
    assert (await program.run("outbox", "drop", str(first), str(second + 1))).code != 0
    assert [copy.exists() for copy in copies] == [True, True]
    assert (await program.run("outbox", "drop", str(first))).code == 0
    assert [copy.exists() for copy in copies] == [False, True]
