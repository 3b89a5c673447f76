"""A database of the version before conversations had titles, summaries and a past goes on where it was."""

from __future__ import annotations

import sqlite3
from importlib import resources
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.messages import Origin, Usage
from bot.records import Ending, JobKind, RunState, SendState, TurnState
from bot.store.database import _statements
from tests.support.clock import FakeClock
from tests.support.past import begin_new, converse
from tests.support.stores import CHAT, COMPOSER, DAY_S, opened, texts

DAY_US = DAY_S * US_PER_S
BEFORE = 4
"""Schema version of the release before."""


def begin(path: Path, version: int) -> None:
    """Make an empty file of an older schema version."""
    conn = sqlite3.connect(path)
    folder = resources.files("bot.store").joinpath("migrations")
    scripts = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    for script in scripts[:version]:
        for statement in _statements(script.read_text()):
            conn.execute(statement)
    conn.execute(f"PRAGMA user_version = {version}")
    conn.commit()
    conn.close()


def fill(path: Path, now_us: int) -> None:
    """Write a file as the release before left it: an archived and a current conversation, a job, a running turn."""
    begin(path, BEFORE)
    conn = sqlite3.connect(path)
    conn.executemany(
        "INSERT INTO sessions (id, lane, created_us, archived_us) VALUES (?, 'memory:c1', ?, ?)",
        [(1, now_us - 90 * DAY_US, now_us - 80 * DAY_US), (2, now_us - 80 * DAY_US, None)],
    )
    conn.execute("INSERT INTO lanes (key, channel, chat_id, session_id) VALUES ('memory:c1', 'memory', 'c1', 2)")
    conn.executemany(
        "INSERT INTO history (session_id, turn_id, body, created_us) VALUES (?, ?, ?, ?)",
        [
            (
                1,
                1,
                '{"role":"user","content":"old\\nquestion\\n\\n[Runtime Context — metadata only]"}',
                now_us - 85 * DAY_US,
            ),
            (1, 1, '{"role":"assistant","content":"old answer"}', now_us - 85 * DAY_US),
            (2, 2, '{"role":"user","content":"[Background task “x” ended: done]"}', now_us - DAY_US),
            (2, 2, '{"role":"user","content":"newer question"}', now_us - DAY_US),
            (2, 2, '{"role":"assistant","content":"newer answer"}', now_us - DAY_US),
        ],
    )
    conn.execute(
        "INSERT INTO turns (session_id, state, attempts, owner, fence, lease_us, input_tokens, output_tokens,"
        " started_us, ended_us) VALUES (2, 'done', 1, 'w', 1, 0, 50, 5, ?, ?)",
        (now_us - DAY_US, now_us - DAY_US),
    )
    conn.execute(
        "INSERT INTO jobs (id, channel, chat_id, chat_type, creator_id, kind, name, text, schedule, state, next_us,"
        " created_us, catch_up) VALUES ('job-old', 'memory', 'c1', 'private', '111', ?, '', 'report',"
        ' \'{"kind":"at","zone":"UTC","at_us":1}\', \'active\', ?, 1, 1)',
        (JobKind.TASK, now_us - US_PER_S),
    )
    conn.commit()
    conn.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_its_conversations_are_listed_named_and_gone_on_with(tmp_path: Path, clock: FakeClock) -> None:
    fill(tmp_path / "x.db", clock.now_us())
    async with opened(tmp_path / "x.db", clock, exclusive=True) as store:
        page = await store.sessions.page(CHAT, limit=9)
        listed = [(item.session.title, item.messages, item.is_current) for item in page.entries]
        assert listed == [("newer question", 3, True), ("old question", 2, False)]
        assert [(clock.now_us() - item.session.used_us) // DAY_US for item in page.entries] == [1, 85]
        turn = await converse(store, "go on")
        rows = (await store.history.window(turn.session_id, limit_tokens=999)).rows
        assert texts(rows)[1:] == ["newer question", "newer answer", "go on", "yes"]
        assert await store.overview.usage(CHAT, since_us=0) == Usage(input_tokens=50, output_tokens=5)


async def test_a_job_from_before_reports_to_the_current_conversation(tmp_path: Path, clock: FakeClock) -> None:
    fill(tmp_path / "x.db", clock.now_us())
    async with opened(tmp_path / "x.db", clock, exclusive=True) as store:
        await begin_new(store)
        current = await converse(store, "hello")
        assert await store.jobs.fire(COMPOSER, catch_up_max_age_us=DAY_US) == 1
        [run] = await store.turns.claim(limit=1)
        assert run.origin is Origin.JOB
        report = ({"role": "assistant", "content": "the report"},)
        ending = Ending(state=TurnState.DONE, chat_rows=report, run_id=run.meta["run_id"], run_state=RunState.OK)
        await store.turns.finish(run, ending)
        assert texts((await store.history.window(current.session_id, limit_tokens=999)).rows)[-1] == "the report"


async def test_retention_judges_them_by_their_newest_row(tmp_path: Path, clock: FakeClock) -> None:
    fill(tmp_path / "x.db", clock.now_us())
    async with opened(tmp_path / "x.db", clock, exclusive=True) as store:
        await store.overview.retire(older_than_us=clock.now_us() - 60 * DAY_US)
        assert [item.session.id for item in (await store.sessions.page(CHAT, limit=9)).entries] == [2]


async def test_what_waited_in_it_is_taken_up_in_order(tmp_path: Path, clock: FakeClock) -> None:
    """Schema version 6 searched for who is next; now it is kept ready, also of what waited before."""
    path = tmp_path / "x.db"
    begin(path, 6)
    conn = sqlite3.connect(path)
    conn.executemany("INSERT INTO lanes (key, channel, chat_id) VALUES (?, 'memory', ?)", [("memory:c1", "c1")])
    conn.executemany(
        "INSERT INTO inbox (lane, channel, account, chat_id, message_id, variant, origin, sender_id, chat_type, text,"
        " body, received_us, state)"
        " VALUES ('memory:c1', 'memory', 'bot', 'c1', ?, '', 'user', '111', 'private', ?, '{}', 1, ?)",
        [("1", "done", "done"), ("2", "/first", "queued"), ("3", "/second", "queued")],
    )
    conn.executemany(
        "INSERT INTO outbox (order_key, rate_key, channel, chat_id, kind, text, body, state, created_us, lease_us,"
        " not_before_us, first_try_us) VALUES (?, ?, 'memory', ?, 'reply', ?, '{}', ?, 1, ?, ?, ?)",
        [
            ("memory:c1", "memory:c1", "c1", "sent", "sent", 0, 0, 1),
            ("memory:c1", "memory:c1", "c1", "cut short", "sending", clock.now_us(), 0, clock.now_us() - 5),
            ("memory:c1", "memory:c1", "c1", "behind it", "queued", 0, 0, 0),
            ("memory:c2", "memory:c2", "c2", "held by its chat", "queued", 0, 0, 0),
            ("memory:c3", "memory:c3", "c3", "fresh", "queued", 0, 0, 0),
        ],
    )
    conn.execute("INSERT INTO chats (rate_key, not_before_us) VALUES ('memory:c2', ?)", (clock.now_us() + US_PER_S,))
    conn.commit()
    conn.close()
    async with opened(path, clock) as store:
        rows, next_us = await store.outbox.claim(limit=9, channels=["memory"])
        assert ([row.message.text for row in rows], next_us) == (["fresh"], clock.now_us() + 1)
        clock.advance(1)
        rows, _ = await store.outbox.claim(limit=9, channels=["memory"])
        assert [(row.message.text, row.state) for row in rows] == [
            ("cut short", SendState.SENDING),
            ("held by its chat", SendState.QUEUED),
        ]
        assert clock.steady_us() - rows[0].tried_us == US_PER_S + 5
        await store.outbox.settle(rows[0].id, ["m1"])
        rows, _ = await store.outbox.claim(limit=9, channels=["memory"])
        assert [row.message.text for row in rows] == ["behind it"]
        [turn] = await store.turns.claim(limit=9)
        assert [item.message.text for item in turn.messages] == ["/first"]


async def test_the_waits_in_it_go_on(tmp_path: Path, clock: FakeClock) -> None:
    """How long they were to last in all is not in it: that a restart must not take for no wait at all."""
    path = tmp_path / "x.db"
    begin(path, 6)
    until_us = clock.now_us() + 600 * US_PER_S
    conn = sqlite3.connect(path)
    conn.executemany(
        "INSERT INTO outbox (order_key, rate_key, channel, chat_id, kind, text, body, state, created_us, not_before_us)"
        " VALUES (?, ?, 'memory', ?, 'reply', ?, '{}', 'queued', 1, ?)",
        [
            ("memory:c1", "memory:c1", "c1", "held itself", until_us),
            ("memory:c2", "memory:c2", "c2", "held by its chat", 0),
            ("memory:c3", "memory:c3", "c3", "by a clock that was a month ahead", clock.now_us() + 30 * DAY_US),
        ],
    )
    conn.execute("INSERT INTO chats (rate_key, not_before_us) VALUES ('memory:c2', ?)", (until_us,))
    conn.commit()
    conn.close()
    async with opened(path, clock, exclusive=True) as store:
        clock.advance(599)
        assert (await store.outbox.claim(limit=9, channels=["memory"]))[0] == []
        clock.advance(1)
        rows, _ = await store.outbox.claim(limit=9, channels=["memory"])
        assert [row.message.text for row in rows] == ["held itself", "held by its chat"]
        clock.advance(DAY_S)
        assert len((await store.outbox.claim(limit=9, channels=["memory"]))[0]) == 3
