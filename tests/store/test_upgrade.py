"""A database of the version before conversations had titles, summaries and a past goes on where it was."""

from __future__ import annotations

import sqlite3
from importlib import resources
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.messages import Origin, Usage
from bot.records import Ending, JobKind, RunState, TurnState
from bot.store.database import _statements
from tests.support.clock import FakeClock
from tests.support.past import begin_new, converse
from tests.support.stores import CHAT, COMPOSER, DAY_S, opened, texts

DAY_US = DAY_S * US_PER_S
BEFORE = 4
"""Schema version of the release before."""


def fill(path: Path, now_us: int) -> None:
    """Write a file as the release before left it: an archived and a current conversation, a job, a running turn."""
    conn = sqlite3.connect(path)
    folder = resources.files("bot.store").joinpath("migrations")
    scripts = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    for script in scripts[:BEFORE]:
        for statement in _statements(script.read_text()):
            conn.execute(statement)
    conn.execute(f"PRAGMA user_version = {BEFORE}")
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
