"""Who is next: found without looking through everybody who waits, and always the same as by looking."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bot.clock import US_PER_S
from bot.interfaces import Store
from bot.messages import Address, ChatType
from bot.records import Ending, SendState, TurnState
from bot.store.outbox import CLAIMABLE
from bot.store.store import SqlStore
from bot.store.turns import waiting_lanes
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, MEMORY, inbound, opened, outbound

CHATS = 10_000
STEPS = 20_000
"""Instructions of SQLite's machine that a claim of 16 may take; going through 10,000 chats takes over 300,000."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqlStore]:
    async with opened(tmp_path / "db", clock, max_waiting=2 * CHATS) as store:
        assert isinstance(store, SqlStore)
        yield store


def chat(number: int, thread: str | None = None) -> Address:
    return Address(channel="memory", chat_id=f"c{number}", thread_id=thread)


async def fill_outbox(store: SqlStore, address: Callable[[int], Address]) -> None:
    """Queue as many messages as there are chats, in one transaction each would take too long."""
    rows = [(address(n).key, address(n).rate_key, address(n).chat_id) for n in range(CHATS)]
    await store._database.write(
        lambda conn: conn.executemany(
            "INSERT INTO outbox (order_key, rate_key, channel, chat_id, kind, text, body, state, created_us)"
            " VALUES (?, ?, 'memory', ?, 'reply', 'x', '{}', 'queued', 1)",
            rows,
        ).close()
    )


async def fill_inbox(store: SqlStore, address: Callable[[int], Address]) -> None:
    """Let as many messages wait as there are chats."""
    lanes = {address(n).key: address(n).chat_id for n in range(CHATS)}
    rows = [(address(n).key, address(n).chat_id, str(n)) for n in range(CHATS)]

    def work(conn: sqlite3.Connection) -> None:
        conn.executemany("INSERT INTO lanes (key, channel, chat_id) VALUES (?, 'memory', ?)", lanes.items())
        conn.executemany(
            "INSERT INTO inbox (lane, channel, account, chat_id, message_id, variant, origin, sender_id, chat_type,"
            " text, body, received_us, state)"
            " VALUES (?, 'memory', 'bot', ?, ?, '', 'user', '111', 'private', 'x', '{}', 1, 'queued')",
            rows,
        )

    await store._database.write(work)


async def steps_of(store: SqlStore, verb: Callable[[], Awaitable[Any]]) -> int:
    """Return how many instructions SQLite needs for the writes of a verb, to the next hundred."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 100
        return 0

    await store._database.write(lambda conn: conn.set_progress_handler(tick, 100))
    await verb()
    await store._database.write(lambda conn: conn.set_progress_handler(None, 0))
    return count


@pytest.mark.parametrize("address", [chat, lambda _: CHAT], ids=["each in a chat of its own", "all in one chat"])
async def test_claiming_does_not_look_at_everybody_who_waits(
    store: SqlStore, clock: FakeClock, address: Callable[[int], Address]
) -> None:
    await fill_outbox(store, address)
    await fill_inbox(store, address)
    assert await steps_of(store, lambda: store.outbox.claim(limit=16, channels=MEMORY)) < STEPS
    assert await steps_of(store, lambda: store.outbox.claim(limit=16, channels=["second"])) < STEPS
    assert await steps_of(store, lambda: store.turns.claim(limit=16)) < STEPS
    assert await steps_of(store, lambda: store.turns.claim(limit=16, immediate_only=True)) < STEPS
    clock.advance(600)  # every lease is over
    assert await steps_of(store, lambda: store.outbox.claim(limit=16, channels=MEMORY)) < STEPS


async def test_chats_that_wait_for_their_time_are_not_looked_at_either(store: SqlStore, clock: FakeClock) -> None:
    await fill_outbox(store, chat)
    later_us = clock.steady_us() + 60 * US_PER_S
    await store._database.write(lambda conn: conn.execute("UPDATE outbox SET not_before_us = ?", (later_us,)).close())
    assert await steps_of(store, lambda: store.outbox.claim(limit=16, channels=MEMORY)) < STEPS
    assert await store.outbox.claim(limit=16, channels=MEMORY) == ([], later_us)
    clock.advance(60)
    claimed: list[int] = []
    while rows := (await store.outbox.claim(limit=64, channels=MEMORY))[0]:
        claimed += [row.id for row in rows]
    assert len(claimed) == len(set(claimed)) == CHATS


async def test_a_chat_with_many_threads_moves_in_one_go_through_its_messages(store: SqlStore) -> None:
    await fill_outbox(store, lambda n: Address(channel="memory", chat_id="c1", thread_id=str(n % 300)))
    assert await steps_of(store, lambda: store.outbox.migrate_chat("memory", "c1", "c2")) < 1_500 * CHATS
    rows, _ = await store.outbox.claim(limit=CHATS, channels=MEMORY)
    assert {row.message.address.chat_id for row in rows} == {"c2"}
    assert len(rows) == 300


async def test_the_queries_read_their_index_in_order(store: SqlStore) -> None:
    def plan(conn: sqlite3.Connection) -> list[str]:
        asked = ((CLAIMABLE, ("memory", 16)), (waiting_lanes(" AND l.channel IN (?)"), (1, "memory", 16)))
        return [row[3] for sql, values in asked for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}", values)]

    assert await store._database.read(plan) == [
        "SEARCH outbox USING INDEX outbox_due (channel=? AND due_us=?)",
        "SEARCH l USING INDEX lanes_waiting (rank=? AND waiting_id>?)",
    ]


def problems(path: Path, now_us: int) -> list[str]:
    """Return where what is kept ready differs from what a look at all rows gives."""
    conn = sqlite3.connect(path)
    try:
        heads = dict(
            conn.execute(
                "SELECT id, at_us FROM outbox_next WHERE id IN (SELECT min(id) FROM outbox"
                " WHERE state IN ('queued', 'sending') GROUP BY order_key)"
            ).fetchall()
        )
        kept = dict(conn.execute("SELECT id, due_us FROM outbox WHERE due_us IS NOT NULL").fetchall())
        found = [f"outbox {number}" for number in heads.keys() ^ kept.keys()]
        found += [
            f"outbox {number}: due {kept[number]}, not {at_us}"
            for number, at_us in heads.items()
            if number in kept and kept[number] != at_us and not (kept[number] == 0 and at_us <= now_us)
        ]
        found += [
            f"lane {key}"
            for key, kept_id, right_id in conn.execute(
                "SELECT key, waiting_id, (SELECT min(id) FROM inbox WHERE lane = key AND state = 'queued') FROM lanes"
            )
            if kept_id != right_id
        ]
        return found
    finally:
        conn.close()


class Walk:
    """Does one thing after another to a store, as chance has it."""

    def __init__(self, store: Store, clock: FakeClock, seed: int) -> None:
        self.store = store
        self.clock = clock
        self.chance = random.Random(seed)
        self.number = 0

    def _address(self) -> Address:
        return chat(self.chance.randrange(4), self.chance.choice([None, None, "7"]))

    async def queue(self) -> None:
        await self.store.outbox.put(outbound("x", self._address()))

    async def send(self) -> None:
        outbox, chance = self.store.outbox, self.chance
        rows, _ = await outbox.claim(limit=chance.randrange(1, 4), channels=MEMORY)
        later_us = self.clock.steady_us() + chance.randrange(120) * US_PER_S
        for row in rows:
            match chance.randrange(6):
                case 0:
                    await outbox.settle(row.id, ["m"], uncertain=chance.random() < 0.5)
                case 1:
                    await outbox.retry(row.id, not_before_us=later_us, error="")
                case 2:
                    await outbox.bury(row.id, "no")
                case 3:
                    await outbox.doubt(row.id, look_at_us=later_us, error="", sent_ids=[])
                case 4:
                    await outbox.part_sent(row.id, ["m"])

    async def hold(self) -> None:
        await self.store.outbox.delay_chat(self._address(), self.clock.steady_us() + 60 * US_PER_S)

    async def move(self) -> None:
        await self.store.outbox.migrate_chat("memory", self._address().chat_id, self._address().chat_id)

    async def close(self) -> None:
        await self.store.outbox.close_chat(self._address(), "gone")

    async def look_after(self) -> None:
        page = await self.store.overview.outbox(limit=99)
        ids = [entry.row.id for entry in page.entries if entry.row.state is not SendState.SENDING]
        chosen = self.chance.sample(ids, min(len(ids), 3))
        await (self.store.overview.drop if self.chance.random() < 0.5 else self.store.overview.resend)(chosen)

    async def hear(self) -> None:
        self.number += 1
        address = self._address()
        lane = self.chance.choice(["", f"now:{address.key}"])
        message = inbound("x", str(self.number), address, lane=lane, chat_type=ChatType.GROUP)
        await self.store.inbox.accept(message)

    async def work(self) -> None:
        for turn in await self.store.turns.claim(limit=2, immediate_only=self.chance.random() < 0.3):
            if self.chance.random() < 0.3:
                await self.store.turns.release(turn)
            else:
                ending = Ending(state=TurnState.DONE, outbound=(outbound("y", turn.address),))
                await self.store.turns.finish(turn, ending)

    async def clean(self) -> None:
        await self.store.overview.prune(older_than_us=self.clock.now_us() - 30 * US_PER_S)

    async def wait(self) -> None:
        self.clock.advance(self.chance.randrange(90))

    async def step(self) -> str:
        """Do one thing; returns its name."""
        often = [self.queue, self.hear] * 4 + [self.send, self.work] * 3 + [self.wait]
        verb = self.chance.choice([*often, self.hold, self.move, self.close, self.look_after, self.clean])
        await verb()
        return verb.__name__


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_the_next_are_the_oldest(tmp_path: Path, clock: FakeClock, seed: int) -> None:
    path = tmp_path / "db"
    async with opened(path, clock, exclusive=True) as store:
        walk = Walk(store, clock, seed)
        for number in range(300):
            verb = await walk.step()
            assert problems(path, clock.steady_us()) == [], f"after step {number}, {verb}"
    async with opened(path, clock, exclusive=True):
        assert problems(path, clock.steady_us()) == []
