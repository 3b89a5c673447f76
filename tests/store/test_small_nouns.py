"""People, cursors and the overview."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.interfaces import Store
from bot.messages import Origin
from bot.records import Ending, Person, TurnState
from tests.support.clock import FakeClock
from tests.support.stores import MEMORY, OTHER_CHAT, inbound, opened, outbound, reminder_at


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock) as store:
        yield store


async def test_a_person_is_known_by_channel_and_id(store: Store) -> None:
    unknown = await store.people.get("memory", "111")
    assert unknown == Person(channel="memory", user_id="111", zone="")
    for zone in ("Asia/Tokyo", "Europe/Berlin"):
        await store.people.save(Person(channel="memory", user_id="111", zone=zone))
    assert (await store.people.get("memory", "111")).zone == "Europe/Berlin"
    assert (await store.people.get("second", "111")).zone == ""


async def test_a_cursor_is_kept_and_can_be_too_old(tmp_path: Path, store: Store, clock: FakeClock) -> None:
    assert await store.cursors.get("offset") is None
    await store.cursors.set("offset", "5")
    await store.cursors.set("offset", "6")
    clock.advance(10)
    assert await store.cursors.get("offset") == "6"
    assert await store.cursors.get("offset", max_age_us=10 * US_PER_S) == "6"
    clock.advance(1)
    assert await store.cursors.get("offset", max_age_us=10 * US_PER_S) is None
    async with opened(tmp_path / "db", clock) as other:
        assert await other.cursors.get("offset") == "6"


async def test_the_status_counts_what_is_there(store: Store, clock: FakeClock) -> None:
    empty = await store.overview.status()
    assert (empty.sessions, empty.inbox_queued, empty.turns_running, empty.outbox_queued) == (0, 0, 0, 0)
    await store.inbox.accept(inbound("1", "1"))
    await store.inbox.accept(inbound("2", "2"))
    await store.inbox.accept(inbound("job", "run-1", OTHER_CHAT, origin=Origin.JOB, lane="job:j:1"))
    await store.turns.claim(limit=9)
    await store.outbox.put(outbound("a"))
    await store.outbox.put(outbound("b", OTHER_CHAT))
    await store.outbox.claim(limit=1, channels=MEMORY)
    await store.jobs.add(reminder_at(clock.now_us() + 1), limit_per_chat=9)
    status = await store.overview.status()
    assert (status.sessions, status.inbox_queued, status.turns_running) == (1, 1, 2)
    assert (status.outbox_queued, status.outbox_uncertain, status.jobs_active) == (2, 0, 1)
    assert (status.dead_letter_count, status.dead_letters) == (0, ())


async def test_dead_letters_of_both_ways_are_listed_newest_first(store: Store, clock: FakeClock) -> None:
    await store.inbox.accept(inbound("in"))
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.finish(turn, Ending(state=TurnState.DEAD, error="x"))
    clock.advance(1)
    await store.outbox.put(outbound("out"))
    ((row,), _) = await store.outbox.claim(limit=1, channels=MEMORY)
    await store.outbox.bury(row.id, "y")
    letters = await store.overview.dead_letters(limit=9)
    assert [(letter.direction, letter.text) for letter in letters] == [("out", "out"), ("in", "in")]
    assert [letter.text for letter in await store.overview.dead_letters(limit=1)] == ["out"]
    assert (await store.overview.status()).dead_letter_count == 2
