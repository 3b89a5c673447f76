"""The cron tool: receipts that are true, changes that keep the rest, rights."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.messages import ChatType
from bot.records import Job, JobKind, JobState
from tests.support.clock import FakeClock, instant
from tests.support.engine import MEMBER, OTHER, OWNER, Rig, calls, rig, said, tool_texts
from tests.support.providers import ScriptedProvider


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Rig]:
    clock = FakeClock("2026-11-29T12:00:00+01:00")
    async with rig(tmp_path, ScriptedProvider(said("x")), clock=clock) as engine:
        yield engine


async def cron(
    engine: Rig, *, sender: str = MEMBER, chat: str = "c1", chat_type: Any = ChatType.PRIVATE, **arguments: Any
) -> str:
    """Let the model make one cron call in a turn of its own; return the tool's result."""
    provider = engine.setup.provider
    assert isinstance(provider, ScriptedProvider)
    provider.outcomes[:] = [calls(("cron", arguments)), said("ok")]
    ended = len(engine.ended)
    await engine.says("please", sender=sender, chat=chat, chat_type=chat_type)
    await engine.turns_end(ended + 1)  # not the next message: that may be a reminder which the call has fired
    return str(tool_texts(provider.requests[-1])[-1])


async def only(engine: Rig) -> Job:
    (job,) = await engine.jobs()
    return job


async def test_a_receipt_names_what_when_where_and_the_id(engine: Rig) -> None:
    text = await cron(engine, action="add", at="2026-12-24T18:00", text="presents", name="Christmas")
    job = await only(engine)
    assert text == f"Reminder set: “Christmas” — Thu 24 Dec 2026 18:00 (CET, Europe/Berlin) [{job.id}]"
    assert (job.text, job.name, job.kind, job.creator_id) == ("presents", "Christmas", JobKind.REMINDER, MEMBER)


async def test_a_repeating_receipt_names_rhythm_and_next_time(engine: Rig) -> None:
    text = await cron(engine, action="add", cron_expr="0 9 * * 1-5", text="mail", kind="task")
    job = await only(engine)
    assert text == (
        f"Task scheduled: “mail” — every weekday at 09:00, next Mon 30 Nov 2026 09:00 (CET, Europe/Berlin) [{job.id}]"
    )


async def test_an_update_keeps_what_it_does_not_name(engine: Rig) -> None:
    limits: dict[str, Any] = {"quiet_hours": "22:00-06:00", "until": "2027-01-31T00:00"}
    await cron(engine, action="add", cron_expr="0 9 * * *", text="a", **limits)
    before = await only(engine)
    await cron(engine, action="update", job_id=before.id, text="b", name="n", max_runs=3)
    after = await only(engine)
    assert (after.text, after.name, after.max_runs) == ("b", "n", 3)
    assert (after.schedule, after.next_us) == (before.schedule, before.next_us)
    await cron(engine, action="update", job_id=before.id, cron_expr="30 10 * * *")
    moved = await only(engine)
    assert moved.next_us == instant("2026-11-30T10:30:00+01:00")
    assert (moved.schedule.quiet, moved.schedule.until_us) == (before.schedule.quiet, before.schedule.until_us)
    assert moved.text == "b"


async def test_pause_and_resume(engine: Rig) -> None:
    await cron(engine, action="add", cron_expr="0 9 * * *", text="a")
    job = await only(engine)
    assert await cron(engine, action="pause", job_id=job.id) == f"Paused: “a” [{job.id}]"
    assert (await only(engine)).state is JobState.PAUSED
    assert "paused" in await cron(engine, action="list")
    engine.move_to("2026-12-01T08:00:00+01:00")
    await cron(engine, action="resume", job_id=job.id)
    resumed = await only(engine)
    assert (resumed.state, resumed.next_us) == (JobState.ACTIVE, instant("2026-12-01T09:00:00+01:00"))


async def test_a_one_shot_whose_time_passed_while_paused_is_not_resumed(engine: Rig) -> None:
    await cron(engine, action="add", in_seconds=60, text="a")
    job = await only(engine)
    await cron(engine, action="pause", job_id=job.id)
    engine.advance(120)
    assert f"the time of {job.id} has passed" in await cron(engine, action="resume", job_id=job.id)
    assert (await only(engine)).state is JobState.PAUSED


async def test_run_now_delivers_beside_the_schedule(engine: Rig) -> None:
    await cron(engine, action="add", cron_expr="0 9 * * *", text="mail")
    job = await only(engine)
    assert await cron(engine, action="run_now", job_id=job.id) == f"Started now: “mail” [{job.id}]"
    await engine.until(lambda: "mail" in engine.channel.texts())
    assert (await only(engine)).next_us == job.next_us


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"in_seconds": 60}, "text: say what"),
        ({"in_seconds": 60, "text": "  "}, "text: say what"),
        ({"text": "a"}, "exactly one of"),
        ({"text": "a", "in_seconds": 60, "every_seconds": 60}, "exactly one of"),
        ({"text": "a", "every_seconds": 59}, "every_seconds: 59 is below the minimum of 60"),
        ({"text": "a", "in_seconds": -5}, "in_seconds"),
        ({"text": "a", "at": "tomorrow"}, "at: 'tomorrow' is not a date and time"),
        ({"text": "a", "at": "9999-12-31T23:59"}, "at"),
        ({"text": "a", "at": "2026-12-01T10:00", "tz": "Mars/Phobos"}, "tz: 'Mars/Phobos' is not a time zone"),
        ({"text": "a", "cron_expr": "0 0 30 2 *"}, "cron_expr"),
        ({"text": "a", "cron_expr": "every day"}, "cron_expr"),
        ({"text": "a", "in_seconds": 60, "until": "2026-11-28T00:00"}, "until"),
        ({"text": "a", "in_seconds": 60, "max_runs": 0}, "max_runs"),
        ({"text": "a", "in_seconds": 60, "when": "later"}, "when"),
        ({"text": "a", "in_seconds": 60, "kind": "alarm"}, "kind"),
        ({"text": "x" * 4001, "in_seconds": 60}, "text"),
    ],
)
async def test_what_cannot_be_kept_is_refused_by_its_field_and_not_stored(
    engine: Rig, arguments: dict[str, Any], expected: str
) -> None:
    assert expected in await cron(engine, action="add", **arguments)
    assert await engine.jobs() == []


@pytest.mark.parametrize("action", ["update", "remove", "pause", "resume", "run_now"])
async def test_a_change_names_an_existing_job(engine: Rig, action: str) -> None:
    assert "job_id: say which job" in await cron(engine, action=action)
    assert "There is no reminder or task job-none" in await cron(engine, action=action, job_id="job-none")


async def test_in_a_group_only_the_creator_and_owners_change_a_job(engine: Rig) -> None:
    group: dict[str, Any] = {"chat": "c1", "chat_type": ChatType.GROUP}
    await cron(engine, action="add", in_seconds=600, text="vote", **group)
    job = await only(engine)
    refused = await cron(engine, action="remove", job_id=job.id, sender=OTHER, **group)
    assert "only the person who made this job, or an owner" in refused
    assert await only(engine) == job
    assert "Changed" in await cron(engine, action="update", job_id=job.id, text="vote!", sender=OWNER, **group)


async def test_a_chat_cannot_see_or_touch_anothers_jobs(engine: Rig) -> None:
    await cron(engine, action="add", in_seconds=600, text="secret")
    job = await only(engine)
    assert await cron(engine, action="list", chat="B", sender=OWNER) == "No reminders or tasks in this chat."
    for action in ("remove", "run_now", "pause"):
        assert "no reminder or task" in await cron(engine, action=action, job_id=job.id, chat="B", sender=OWNER)
    assert await only(engine) == job


async def test_a_member_plans_no_tasks_in_a_group(engine: Rig) -> None:
    text = await cron(engine, action="add", in_seconds=600, text="report", kind="task", chat_type=ChatType.GROUP)
    assert text == "cron: a member needs an owner's agreement for this (write); an owner can ask for it directly."
    assert await engine.jobs() == []
