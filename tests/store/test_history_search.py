"""What a chat finds in its history: by which words, of whom, and never of another chat."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.agent.skills import Skill, SkillSet, SkillSource
from bot.agent.user_row import user_row
from bot.interfaces import Store
from bot.messages import Address
from bot.records import Ending, HistoryFindings, HistoryQuery, Message, TurnState
from bot.store.history_search import MAX_COUNTED, MAX_INDEXED_CHARS, PORTION, _read_on, text_of
from tests.support.clock import FakeClock
from tests.support.contexts import request_context
from tests.support.stores import CHAT, OTHER_CHAT, inbound, opened

TOPIC = Address(channel="memory", chat_id="c1", thread_id="42")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock("2026-11-29T12:00:00+00:00")


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock, exclusive=True) as store:
        yield store


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def bot(text: str) -> Message:
    return {"role": "assistant", "content": text}


async def tell(store: Store, *rows: Message, address: Address = CHAT, fresh: bool = False) -> int:
    """Have a turn that leaves these rows; returns its id."""
    tell.count += 1  # type: ignore[attr-defined]
    await store.inbox.accept(inbound("x", f"m{tell.count}", address=address))  # type: ignore[attr-defined]
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.finish(turn, Ending(state=TurnState.DONE, rows=rows, new_session=fresh))
    return turn.id


tell.count = 0  # type: ignore[attr-defined]


async def find(store: Store, text: str, *, address: Address = CHAT, limit: int = 50, **fields: Any) -> HistoryFindings:
    return await store.history_search.search(address, HistoryQuery(text=text, limit=limit, **fields))


async def found(store: Store, text: str, **fields: Any) -> list[str]:
    return [hit.text for hit in (await find(store, text, **fields)).hits]


async def test_words_are_found_newest_first_in_any_order_from_their_beginning(store: Store) -> None:
    await tell(store, user("the dentist is on Monday"), bot("Noted: dentist, Monday."))
    await tell(store, user("dentists are expensive on mondays"), bot("Yes."))
    assert await found(store, "monday DENTIST") == [
        "dentists are expensive on mondays",
        "Noted: dentist, Monday.",
        "the dentist is on Monday",
    ]
    assert await found(store, "ntist") == []


@pytest.mark.parametrize(
    "query", ["提醒", "吃药", "提醒我", "Uhr", "cafe", "CAFÉ", "strasse".upper(), "ку", "リマ", "ข้าว"]
)
async def test_words_of_every_script_are_found(store: Store, query: str) -> None:
    await tell(
        store, user("请明天提醒我吃药"), bot("Um 7 Uhr im Café, Strasse 5. Привет, как кухня? リマインダー กินข้าว")
    )
    assert len(await found(store, query)) == 1


async def test_a_text_without_spaces_is_found_by_its_parts_when_the_whole_is_not_there(store: Store) -> None:
    await tell(store, user("请明天提醒我吃药"), user("今天天气很好"))
    findings = await find(store, "提醒吃药")
    assert [hit.text for hit in findings.hits] == ["请明天提醒我吃药"]
    assert findings.is_loose


async def test_messages_with_some_of_the_words_come_when_none_has_all(store: Store) -> None:
    await tell(store, user("the garden needs water"), user("water the blue garden"), user("nothing"))
    findings = await find(store, "blue garden elephants")
    assert findings.is_loose
    assert [hit.text for hit in findings.hits] == ["water the blue garden", "the garden needs water"]
    assert not (await find(store, "elephants")).is_loose


async def test_a_chat_finds_nothing_of_another_chat_or_topic_and_all_of_its_own_sessions(store: Store) -> None:
    """G7: chats are separate, also those that were searched themselves."""
    await tell(store, user("secret of one"))
    await tell(store, user("secret of two"), address=OTHER_CHAT)
    await tell(store, user("secret of the topic"), address=TOPIC)
    await tell(store, user("bye"), fresh=True)
    await tell(store, user("secret again"))
    assert await found(store, "secret", address=OTHER_CHAT) == ["secret of two"]
    assert await found(store, "secret", address=TOPIC) == ["secret of the topic"]
    assert await found(store, "secret") == ["secret again", "secret of one"]
    assert await found(store, "secret", address=Address(channel="memory", chat_id="c9")) == []


async def test_only_words_of_people_and_the_bot_are_found(store: Store) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"needle": 1}'}}
    await tell(
        store,
        {"role": "system", "content": "needle"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "needle"},
        {"role": "user", "content": [{"type": "text", "text": "a picture of a needle"}, {"type": "image_url"}]},
    )
    assert await found(store, "needle") == ["a picture of a needle"]


async def test_what_the_prompt_adds_to_a_message_is_not_part_of_it(store: Store) -> None:
    request = request_context("1")
    item = request.turn.messages[0]
    item = replace(item, message=replace(item.message, text="please $tea"))
    skill = Skill(name="tea", source=SkillSource.BUILT_IN, path="tea/SKILL.md", body="boil the water")
    row = user_row(item, request, now_us=0, skills=SkillSet(skills=(skill,)))
    assert "Europe/Berlin" in str(row)
    assert "boil the water" in str(row)
    assert text_of(row) == "please $tea"
    await tell(store, row)
    assert await found(store, "please") == ["please $tea"]
    assert await found(store, "Berlin") == []
    assert await found(store, "boil") == []


async def test_role_time_and_the_running_turn_narrow_the_search(store: Store, clock: FakeClock) -> None:
    await tell(store, user("tea one"), bot("tea two"))
    noon = clock.now_us()
    clock.advance(60)
    now = await tell(store, user("tea three"))
    assert await found(store, "tea", role="assistant") == ["tea two"]
    assert await found(store, "tea", role="user") == ["tea three", "tea one"]
    assert await found(store, "tea", after_us=noon + 1) == ["tea three"]
    assert await found(store, "tea", before_us=noon + 1) == ["tea two", "tea one"]
    assert await found(store, "tea", after_us=noon, before_us=noon) == []
    assert await found(store, "tea", except_turn_id=now) == ["tea two", "tea one"]


async def test_the_total_counts_beyond_the_limit_up_to_a_bound(store: Store) -> None:
    await tell(store, *(user(f"tea {number}") for number in range(MAX_COUNTED + 5)))
    findings = await find(store, "tea", limit=3)
    assert [hit.text for hit in findings.hits] == ["tea 1004", "tea 1003", "tea 1002"]
    assert findings.total == MAX_COUNTED
    assert (await find(store, "tea", limit=3, before_us=0)).total == 0


async def test_rows_from_before_the_migration_are_found(tmp_path: Path, clock: FakeClock) -> None:
    first = resources.files("bot.store").joinpath("migrations/0001_initial.sql").read_text()
    conn = sqlite3.connect(tmp_path / "db")
    conn.executescript(first)
    conn.execute("INSERT INTO lanes (key, channel, chat_id, session_id) VALUES ('memory:c1', 'memory', 'c1', 1)")
    conn.execute("INSERT INTO sessions (lane, created_us) VALUES ('memory:c1', 0)")
    conn.executemany(
        "INSERT INTO history (session_id, turn_id, body, created_us) VALUES (1, 1, ?, 0)",
        [(f'{{"role":"user","content":"old words {number}"}}',) for number in range(PORTION + 10)],
    )
    conn.execute("PRAGMA user_version = 1")
    conn.commit()
    conn.close()
    async with opened(tmp_path / "db", clock, exclusive=True) as store:
        assert (await find(store, "old words", limit=1)).total == PORTION + 10
        assert await found(store, "209") == ["old words 209"]


async def test_what_is_said_after_a_search_is_found_by_the_next(store: Store, tmp_path: Path, clock: FakeClock) -> None:
    await tell(store, user("first word"))
    assert await found(store, "word") == ["first word"]
    await tell(store, user("second word"))
    assert await found(store, "word") == ["second word", "first word"]
    async with opened(tmp_path / "db", clock) as other:
        await tell(store, user("third word"))
        results = await asyncio.gather(*(found(where, "word") for where in (store, other) * 5))
    assert results == [["third word", "second word", "first word"]] * 10


async def test_long_messages_hold_up_nobody(store: Store) -> None:
    """They are read in portions as short ones are, and of a huge one only the beginning."""
    await tell(store, *(user(f"long{number} " + "很长" * 15_000) for number in range(4)))
    await tell(store, user("first " + "x" * MAX_INDEXED_CHARS + " last"))
    known = []
    for _ in range(3):
        await store._database.write(lambda conn: _read_on(conn, CHAT.key))  # type: ignore[attr-defined]
        known.append(
            await store._database.read(  # type: ignore[attr-defined]
                lambda conn: conn.execute("SELECT count(*) FROM history_words").fetchone()[0]
            )
        )
    assert known == [2, 4, 5]
    assert (await find(store, "long3")).total == 1
    assert (await find(store, "first")).total == 1
    assert (await find(store, "last")).total == 0


async def test_a_chat_that_moves_keeps_what_was_found(store: Store) -> None:
    await tell(store, user("before the move"))
    assert await found(store, "move") == ["before the move"]
    await store.outbox.migrate_chat("memory", "c1", "c77")
    assert await found(store, "move", address=Address(channel="memory", chat_id="c77")) == ["before the move"]
    assert await found(store, "move") == []


async def test_a_turn_writes_nothing_into_the_index(store: Store) -> None:
    await tell(store, user("hello"), bot("hello"))
    count = await store._database.read(  # type: ignore[attr-defined]
        lambda conn: conn.execute("SELECT count(*) FROM history_words").fetchone()[0]
    )
    assert count == 0


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(max_size=60), words=st.lists(st.sampled_from(['"', "*", "AND", "NOT", "a:", "^", "(", "NEAR", "-"]))
)
async def test_no_query_is_a_syntax_error(store: Store, text: str, words: list[str]) -> None:
    findings = await find(store, " ".join((text, *words)))
    assert findings.hits == ()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(categories=["Lu", "Ll", "Lo", "Nd", "Zs", "Po"]), min_size=1, max_size=40))
async def test_a_message_is_found_by_its_own_words(tmp_path: Path, clock: FakeClock, text: str) -> None:
    words = [word for word in text.split() if word.isascii() and word.isalnum()]
    async with opened(tmp_path / "own", clock, exclusive=True) as store:
        await tell(store, user(text))
        if words:
            assert text.strip() in await found(store, " ".join(words))
