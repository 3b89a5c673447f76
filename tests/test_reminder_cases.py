"""Reminders and tasks on their whole way: the tool call, the stored row, the list, the firing, the message.

Each test is one way in which assistants lost, doubled or misplaced reminders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.config import JobsSection
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import ChatType, OutboundKind, Quote
from bot.records import JobState
from tests.support.clock import FakeClock, instant
from tests.support.engine import (
    OWNER,
    AnsweringProvider,
    again,
    calls,
    last_user,
    rig,
    said,
    tool_texts,
)
from tests.support.providers import ScriptedProvider
from tests.support.stores import opened, reminder_at

DOWN = ProviderError(ProviderErrorKind.CONNECTION, "refused")


def adding(**arguments: Any) -> ScriptedProvider:
    """A model that makes one cron call and repeats what the tool said."""
    return ScriptedProvider(calls(("cron", {"action": "add", **arguments})), said("As the tool says."))


def receipt(provider: ScriptedProvider | AnsweringProvider) -> str:
    """Return what the tool told the model last."""
    return str(tool_texts(provider.requests[-1])[-1])


async def test_a_daily_hour_is_the_persons_hour_not_utc(tmp_path: Path) -> None:
    clock = FakeClock("2026-02-09T12:26:00+00:00")
    provider = adding(cron_expr="0 8 * * *", text="drink water")
    async with rig(tmp_path, provider, clock=clock, zone="Asia/Ho_Chi_Minh") as engine:
        await engine.asks("remind me every day at 8 to drink water")
        (job,) = await engine.jobs()
        assert job.next_us == instant("2026-02-10T01:00:00+00:00")
        assert "Tue 10 Feb 2026 08:00 (+07, Asia/Ho_Chi_Minh)" in receipt(provider)
        listing = await engine.asks("/reminders")
        assert "every day at 08:00, next Tue 10 Feb 2026 08:00 (+07, Asia/Ho_Chi_Minh)" in listing
        before = len(engine.channel.texts())
        engine.move_to("2026-02-10T00:59:59+00:00")
        await engine.idle()
        assert len(engine.channel.texts()) == before
        engine.move_to("2026-02-10T01:00:00+00:00")
        await engine.until(lambda: len(engine.channel.texts()) > before)
        assert engine.channel.texts()[-1] == "drink water"
        assert engine.channel.arrived[-1].kind is OutboundKind.REMINDER


async def test_a_time_without_offset_is_local_and_fires_a_quarter_of_an_hour_later(tmp_path: Path) -> None:
    clock = FakeClock("2026-07-29T10:30:00+00:00")
    async with rig(tmp_path, adding(at="2026-07-29T15:45", text="tea"), clock=clock, zone="Asia/Karachi") as engine:
        await engine.asks("remind me at 15:45 to make tea")
        (job,) = await engine.jobs()
        assert job.next_us == instant("2026-07-29T10:45:00+00:00")
        engine.advance(15 * 60)
        await engine.reads("As the tool says.", "tea")


async def test_an_explicit_offset_wins_over_the_zone(tmp_path: Path) -> None:
    clock = FakeClock("2026-07-29T10:30:00+00:00")
    provider = adding(at="2026-07-29T15:45+02:00", text="tea")
    async with rig(tmp_path, provider, clock=clock, zone="Asia/Karachi") as engine:
        await engine.asks("remind me at 15:45 Berlin time to make tea")
        (job,) = await engine.jobs()
        assert job.next_us == instant("2026-07-29T13:45:00+00:00")


async def test_the_persons_own_zone_is_used_once_they_set_it(tmp_path: Path) -> None:
    clock = FakeClock("2026-07-29T10:30:00+00:00")
    async with rig(tmp_path, adding(at="2026-07-29T15:45", text="tea"), clock=clock, zone="UTC") as engine:
        assert "Asia/Karachi" in await engine.asks("/timezone asia/karachi")
        await engine.asks("remind me at 15:45 to make tea")
        (job,) = await engine.jobs()
        assert job.next_us == instant("2026-07-29T10:45:00+00:00")


async def test_a_past_time_is_refused_with_the_local_time_and_nothing_is_stored(tmp_path: Path) -> None:
    clock = FakeClock("2026-05-12T19:51:00+02:00")
    provider = ScriptedProvider(
        calls(("cron", {"action": "add", "at": "2026-05-10T09:00+02:00", "text": "x"})), said("That is over.")
    )
    async with rig(tmp_path, provider, clock=clock) as engine:
        answer = await engine.asks("remind me on May 10 at 9 to x")
        assert "It is now Tue 12 May 2026 19:51 (CEST, Europe/Berlin)" in receipt(provider)
        assert await engine.jobs() == []
        assert answer == ("That is over.\n\n(Note: no reminder was stored in this turn. /reminders shows what is.)")


async def test_moving_a_reminder_into_the_past_is_refused_and_the_old_time_stays(tmp_path: Path) -> None:
    clock = FakeClock("2026-05-12T10:00:00+02:00")
    provider = adding(at="2026-05-13T09:00", text="call")
    async with rig(tmp_path, provider, clock=clock) as engine:
        await engine.asks("remind me tomorrow at 9 to call")
        (job,) = await engine.jobs()
        provider.outcomes[:] = [
            calls(("cron", {"action": "update", "job_id": job.id, "at": "2026-05-11T09:00"})),
            said("That cannot be."),
        ]
        await engine.asks("make it yesterday")
        assert "It is now Tue 12 May 2026 10:00" in receipt(provider)
        assert await engine.jobs() == [job]
        engine.move_to("2026-05-13T09:00:00+02:00")
        await engine.reads("As the tool says.", "That cannot be.", "call")


async def test_seven_is_sunday(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-28T12:00:00+00:00")  # a Saturday
    async with rig(tmp_path, adding(cron_expr="15 10,12 * * 1,7", text="now"), clock=clock, zone="UTC") as engine:
        await engine.asks("mondays and sundays at 10:15 and 12:15, remind me now")
        fired = []
        for _ in range(5):
            (job,) = await engine.jobs()
            assert job.next_us is not None
            fired.append(job.next_us)
            before = len(engine.channel.texts())
            engine.advance((job.next_us - engine.clock.now_us()) / 1_000_000)
            await engine.texts_count(before + 1)
        assert fired == [
            instant("2026-11-29T10:15:00+00:00"),
            instant("2026-11-29T12:15:00+00:00"),
            instant("2026-11-30T10:15:00+00:00"),
            instant("2026-11-30T12:15:00+00:00"),
            instant("2026-12-06T10:15:00+00:00"),
        ]


async def test_an_expression_that_cannot_be_is_refused_by_its_bad_field(tmp_path: Path) -> None:
    provider = adding(cron_expr="15 25 * * *", text="now")
    async with rig(tmp_path, provider) as engine:
        await engine.asks("remind me at 25:15")
        assert "cron_expr" in receipt(provider)
        assert "hour" in receipt(provider)
        assert "25" in receipt(provider)
        assert await engine.jobs() == []


async def test_a_time_that_the_spring_change_skips_fires_once_that_day_at_the_first_valid_instant(
    tmp_path: Path,
) -> None:
    clock = FakeClock("2026-03-28T00:00:00+01:00")
    async with rig(tmp_path, adding(cron_expr="30 2 * * *", text="pill"), clock=clock) as engine:
        await engine.asks("remind me daily at 2:30 to take the pill")
        times = []
        while True:
            (job,) = await engine.jobs()
            assert job.next_us is not None
            if job.next_us >= instant("2026-03-31T00:00:00+02:00"):
                break
            times.append(job.next_us)
            before = len(engine.channel.texts())
            engine.advance((job.next_us - engine.clock.now_us()) / 1_000_000)
            await engine.texts_count(before + 1)
        assert times == [
            instant("2026-03-28T02:30:00+01:00"),
            instant("2026-03-29T03:00:00+02:00"),
            instant("2026-03-30T02:30:00+02:00"),
        ]
        assert engine.channel.texts()[1:] == ["pill"] * 3


async def test_no_day_is_missed_after_the_clock_change(tmp_path: Path) -> None:
    clock = FakeClock("2022-03-12T23:59:00-08:00")
    zone = "America/Los_Angeles"
    async with rig(tmp_path, adding(cron_expr="0 0 * * *", text="new day"), clock=clock, zone=zone) as engine:
        await engine.asks("remind me at midnight: new day")
        engine.move_to("2022-03-13T00:00:00-08:00")
        await engine.reads("As the tool says.", "new day")
        (job,) = await engine.jobs()
        assert job.next_us == instant("2022-03-14T00:00:00-07:00")


async def test_six_confirmed_reminders_survive_a_kill_right_after_the_last_receipt(tmp_path: Path) -> None:
    six = [("cron", {"action": "add", "in_seconds": 60 + number, "text": f"r{number}"}) for number in range(6)]
    seen: list[ModelRequest] = []

    async def answer(request: ModelRequest) -> ModelReply:
        seen.append(request)
        if len(seen) == 1:
            return calls(*six)
        if len(seen) == 2:
            await engine.die()
        return said("All six are set.")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.says("six reminders please")
        await engine.crashed.wait()
    assert all("Reminder set" in text for text in tool_texts(seen[1]))
    async with again(engine.setup) as engine:
        await engine.reads("All six are set.")
        assert [job.text for job in await engine.jobs()] == [f"r{number}" for number in range(6)]
        engine.advance(66)
        await engine.until(lambda: len(engine.channel.texts()) == 7)
        assert engine.channel.texts()[1:] == [f"r{number}" for number in range(6)]


async def test_a_due_time_that_passed_while_off_is_made_up_for_once_and_the_next_is_tomorrow(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-28T07:00:00+01:00")
    async with rig(tmp_path, adding(cron_expr="0 8 * * *", text="mail"), clock=clock) as engine:
        await engine.asks("daily at 8: mail")
        setup = engine.setup
    clock.move_to("2026-11-29T09:00:00+01:00")
    async with again(setup) as engine:
        await engine.reads(
            "As the tool says.", "mail\n\n(late: this was due Sun 29 Nov 2026 08:00 (CET, Europe/Berlin))"
        )
        (job,) = await engine.jobs()
        assert job.next_us == instant("2026-11-30T08:00:00+01:00")
        engine.move_to("2026-11-30T08:00:00+01:00")
        await engine.until(lambda: len(engine.channel.texts()) == 3)
        assert engine.channel.texts()[-1] == "mail"


async def test_a_run_cut_by_a_restart_is_not_called_well_and_is_taken_up_again(tmp_path: Path) -> None:
    requests: list[str] = []

    async def answer(request: ModelRequest) -> ModelReply:
        requests.append(last_user(request))
        if len(requests) == 1:
            return calls(("cron", {"action": "add", "in_seconds": 60, "kind": "task", "text": "count sheep"}))
        if len(requests) == 2:
            return said("Planned.")
        if len(requests) == 3:
            await engine.die()
        return said("42 sheep.")

    async with rig(tmp_path, AnsweringProvider(answer)) as engine:
        await engine.asks("in a minute, count sheep")
        engine.advance(60)
        await engine.crashed.wait()
    async with again(engine.setup, start=["delivery"]) as engine:
        (turn,) = await engine.store.turns.claim(limit=9)
        job = await engine.store.jobs.get(turn.meta["job_id"])
        assert job is not None
        assert job.last_state != "ok"
        await engine.store.turns.release(turn)
        engine.start("loop")
        await engine.reads("Planned.", "42 sheep.")
        done = await engine.store.jobs.get(turn.meta["job_id"])
        assert done is not None
        assert (done.last_state, done.state) == ("ok", JobState.DONE)
    assert len(requests) == 4


async def test_a_started_one_shot_is_not_caught_up_again(tmp_path: Path) -> None:
    provider = adding(in_seconds=60, text="restart yourself", kind="task")
    async with rig(tmp_path, provider) as engine:
        await engine.asks("restart yourself in a minute")
        provider.outcomes[:] = [said("Restarted.")]
        engine.advance(60)
        await engine.reads("As the tool says.", "Restarted.")
        setup = engine.setup
    for _ in range(2):
        setup.clock.advance(60)
        async with again(setup) as engine:
            engine.ring()
            await engine.idle()
            assert engine.channel.texts() == ["As the tool says.", "Restarted."]


async def test_a_restart_ordered_by_an_owner_happens_once_though_the_order_is_delivered_twice(tmp_path: Path) -> None:
    async with rig(tmp_path, ScriptedProvider(said("x"))) as engine:
        await engine.says("/restart", sender=OWNER, message_id="7")
        await engine.until(lambda: engine.restarts == 1)
        setup = engine.setup
    async with again(setup) as engine:
        assert await engine.says("/restart", sender=OWNER, message_id="7") == "duplicate"
        await engine.reads("Restarting.")
        await engine.idle()
        assert engine.restarts == 0


async def test_a_task_that_reports_by_tool_is_read_once(tmp_path: Path) -> None:
    provider = adding(in_seconds=60, text="report", kind="task")
    async with rig(tmp_path, provider) as engine:
        await engine.asks("report in a minute")
        provider.outcomes[:] = [calls(("message", {"content": "The report."})), said("Message sent.")]
        engine.advance(60)
        await engine.turns_end(2)
        await engine.idle()
        assert engine.channel.texts() == ["As the tool says.", "The report."]
        assert (await engine.history())[-1] == {"role": "assistant", "content": "The report."}


@pytest.mark.parametrize("fails", [False, True])
async def test_a_daily_task_runs_once_however_often_the_clock_is_looked_at(tmp_path: Path, fails: bool) -> None:
    clock = FakeClock("2026-11-29T03:00:00+01:00")
    provider = adding(cron_expr="0 4 * * *", text="sum up", kind="task")
    async with rig(tmp_path, provider, clock=clock) as engine:
        await engine.asks("sum up daily at 4")
        asked = len(provider.requests)
        provider.outcomes[:] = [DOWN if fails else said("Summary.")]
        engine.move_to("2026-11-29T04:00:00+01:00")
        await engine.turns_end(2)
        for _ in range(10):
            engine.advance(5.9)
            await engine.idle()
        expected = "The task “sum up” failed: I cannot reach the model right now. Please try again later."
        assert engine.channel.texts()[1:] == [expected if fails else "Summary."]
        assert len(provider.requests) == asked + 1
        (job,) = await engine.jobs()
        assert job.next_us == instant("2026-11-30T04:00:00+01:00")
        assert job.last_state == ("failed" if fails else "ok")


@pytest.mark.parametrize("text", ["Remind me in 10 seconds to stretch", "Each Monday, review notes"])
async def test_a_job_cannot_breed_jobs(tmp_path: Path, text: str) -> None:
    provider = adding(in_seconds=60, text=text, kind="task")
    async with rig(tmp_path, provider) as engine:
        await engine.asks("do that in a minute")
        provider.outcomes[:] = [
            calls(("cron", {"action": "add", "in_seconds": 10, "text": "stretch"})),
            said("Time to stretch."),
        ]
        engine.advance(60)
        await engine.reads("As the tool says.", "Time to stretch.")
        assert "this turn was started by job" in receipt(provider)
        assert await engine.jobs() == []


async def test_a_job_may_end_itself_and_no_other(tmp_path: Path) -> None:
    provider = adding(every_seconds=60, text="watch", kind="task")
    async with rig(tmp_path, provider) as engine:
        await engine.asks("watch every minute")
        (watch,) = await engine.jobs()
        provider.outcomes[:] = [calls(("cron", {"action": "add", "in_seconds": 9999, "text": "b"})), said("ok")]
        await engine.asks("and remind me of b")
        (_, other) = await engine.jobs()
        provider.outcomes[:] = [
            calls(
                ("cron", {"action": "remove", "job_id": other.id}),
                ("cron", {"action": "remove"}),
            ),
            said("Watched for the last time."),
        ]
        engine.advance(60)
        await engine.until(lambda: engine.channel.texts()[-1] == "Watched for the last time.")
        refused, removed = tool_texts(provider.requests[-1])
        assert f"job {watch.id}" in refused
        assert removed == f"Removed: “watch” [{watch.id}]"
        assert await engine.jobs() == [other]


async def test_a_reminder_made_in_a_topic_comes_to_that_topic(tmp_path: Path) -> None:
    async with rig(tmp_path, adding(in_seconds=60, text="vote")) as engine:
        where = {"chat": "-1001", "thread": "17"}
        await engine.asks("remind us to vote", chat_type=ChatType.GROUP, **where)
        engine.advance(60)
        await engine.reads("As the tool says.", "vote", **where)
        assert engine.channel.texts("-1001") == []


async def test_a_reply_to_a_reminder_names_its_job_so_that_it_can_be_ended(tmp_path: Path) -> None:
    provider = adding(every_seconds=60, text="pay rent")
    async with rig(tmp_path, provider) as engine:
        await engine.asks("nag me about the rent")
        (job,) = await engine.jobs()
        engine.advance(60)
        await engine.until(lambda: len(engine.channel.texts()) == 2)
        await engine.idle()
        await engine.asks("/new")
        provider.outcomes[:] = [calls(("cron", {"action": "remove", "job_id": job.id})), said("It is gone.")]
        quote = Quote(message_id=engine.channel.arrived[1].id, author="bot", text="pay rent")
        await engine.asks("stop this one", quote=quote)
        assert f"sent by job {job.id}" in last_user(provider.requests[-2])
        assert await engine.jobs() == []
        assert await engine.asks("/reminders") == "No reminders or tasks in this chat."


async def test_a_claim_that_a_reminder_is_gone_is_contradicted_while_it_is_there(tmp_path: Path) -> None:
    provider = adding(every_seconds=60, text="pay rent")
    async with rig(tmp_path, provider) as engine:
        await engine.asks("nag me about the rent")
        engine.advance(60)
        await engine.until(lambda: len(engine.channel.texts()) == 2)
        await engine.idle()
        note = "\n\n(Note: no reminder was removed or changed in this turn. /reminders shows what is stored.)"
        quote = Quote(message_id=engine.channel.arrived[1].id, author="bot", text="pay rent")
        provider.outcomes[:] = [said("It is gone."), said("Done, removed."), said("It stops at the door.")]
        assert await engine.asks("stop this one", quote=quote) == "It is gone." + note
        assert await engine.asks("please cancel the rent reminder") == "Done, removed." + note
        assert await engine.asks("where does the bus stop?") == "It stops at the door."
        assert len(await engine.jobs()) == 1


async def test_two_writers_of_the_jobs_keep_each_others(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        calls(
            ("cron", {"action": "add", "in_seconds": 500, "text": "A"}),
            ("cron", {"action": "add", "in_seconds": 600, "text": "B"}),
        ),
        said("ok"),
    )
    async with rig(tmp_path, provider) as engine:
        await engine.asks("A and B")
        first, _ = await engine.jobs()
        async with opened(tmp_path / "dutiful.db", engine.clock) as beside:
            await beside.jobs.add(
                reminder_at(engine.clock.now_us() + 9_000_000_000, "C", first.address), limit_per_chat=9
            )
        assert "A" in await engine.asks(f"/cancel {first.id}")
        assert [job.text for job in await engine.jobs()] == ["B", "C"]


async def test_a_promise_without_a_job_is_contradicted(tmp_path: Path) -> None:
    async with rig(tmp_path, ScriptedProvider(said("Done, 20:05 every day."))) as engine:
        answer = await engine.asks("remind me every day at 20:05 to water the plants")
        assert answer == (
            "Done, 20:05 every day.\n\n(Note: no reminder was stored in this turn. /reminders shows what is.)"
        )
        assert await engine.asks("/reminders") == "No reminders or tasks in this chat."


async def test_a_promise_after_only_looking_at_the_list_is_contradicted_too(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(("cron", {"action": "list"})), said("Done, 20:05 every day."))
    async with rig(tmp_path, provider) as engine:
        answer = await engine.asks("remind me every day at 20:05 to water the plants")
        assert "no reminder was stored" in answer


async def test_a_question_back_is_no_promise(tmp_path: Path) -> None:
    async with rig(tmp_path, ScriptedProvider(said("At which hour?"))) as engine:
        assert await engine.asks("remind me in 10 minutes to stretch") == "At which hour?"


async def test_a_receipt_warns_when_nothing_will_deliver(tmp_path: Path) -> None:
    provider = adding(in_seconds=60, text="tea")
    async with rig(tmp_path, provider, delivers=False) as engine:
        await engine.asks("remind me in a minute: tea")
        assert "nothing is running that would deliver this" in receipt(provider)


async def test_a_task_delivers_its_result_and_a_reminder_needs_no_model(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-29T08:00:00+01:00")
    provider = ScriptedProvider(
        calls(
            ("cron", {"action": "add", "cron_expr": "0 9 * * *", "kind": "task", "text": "summarise notes.txt"}),
            ("cron", {"action": "add", "at": "2026-11-29T10:00", "text": "take pills"}),
        ),
        said("Both are set."),
    )
    async with rig(tmp_path, provider, clock=clock) as engine:
        await engine.asks("summarise notes.txt daily at 9, and tell me at 10: take pills")
        provider.outcomes[:] = [said("The notes say: buy milk.")]
        engine.move_to("2026-11-29T09:00:00+01:00")
        await engine.reads("Both are set.", "The notes say: buy milk.")
        assert "summarise notes.txt" in last_user(provider.requests[-1])
        provider.outcomes[:] = [DOWN]
        asked = len(provider.requests)
        engine.move_to("2026-11-29T10:00:00+01:00")
        await engine.reads("Both are set.", "The notes say: buy milk.", "take pills")
        assert len(provider.requests) == asked


async def test_quiet_hours_call_no_model_and_leave_no_backlog(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-28T22:45:00+01:00")
    provider = adding(every_seconds=1800, quiet_hours="23:00-07:00", kind="task", text="look around")
    async with rig(tmp_path, provider, clock=clock) as engine:
        await engine.asks("look around every half hour, but not at night")
        asked = len(provider.requests)
        provider.outcomes[:] = [said("Nothing new.")]
        engine.move_to("2026-11-29T02:00:00+01:00")
        await engine.idle()
        assert len(provider.requests) == asked
        engine.move_to("2026-11-29T06:59:59+01:00")
        await engine.idle()
        assert len(provider.requests) == asked
        (job,) = await engine.jobs()
        assert job.next_us == instant("2026-11-29T07:15:00+01:00")
        engine.move_to("2026-11-29T07:15:00+01:00")
        await engine.until(lambda: engine.channel.texts()[1:] == ["Nothing new."])
        await engine.idle()
        assert len(provider.requests) == asked + 1


async def test_the_end_of_quiet_hours_is_not_quiet(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-28T21:30:00+01:00")
    provider = adding(every_seconds=1800, quiet_hours="22:00-06:00", text="ping")
    async with rig(tmp_path, provider, clock=clock) as engine:
        await engine.asks("ping me every half hour, but not from 22 to 6")
        (job,) = await engine.jobs()
        assert job.next_us == instant("2026-11-29T06:00:00+01:00")  # 22:00 itself is quiet already


async def test_an_unknown_zone_is_refused_and_other_jobs_go_on(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        calls(
            ("cron", {"action": "add", "cron_expr": "0 8 * * *", "tz": "CST+8", "text": "a"}),
            ("cron", {"action": "add", "in_seconds": 60, "text": "b"}),
        ),
        said("One of two."),
    )
    async with rig(tmp_path, provider) as engine:
        await engine.asks("two reminders")
        refused, stored = tool_texts(provider.requests[-1])
        assert "tz: 'CST+8' is not a time zone" in refused
        assert "Reminder set: “b”" in stored
        engine.advance(60)
        await engine.reads("One of two.", "b")


async def test_a_chat_has_its_limit_of_jobs(tmp_path: Path) -> None:
    provider = adding(in_seconds=60, text="x")
    async with rig(tmp_path, provider, jobs=JobsSection(max_per_chat=1)) as engine:
        await engine.asks("one")
        provider.outcomes[:] = [calls(("cron", {"action": "add", "in_seconds": 70, "text": "y"})), said("No.")]
        await engine.asks("two")
        assert "the limit is 1" in receipt(provider)
        assert len(await engine.jobs()) == 1
