from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from bot.clock import US_PER_S, to_us
from bot.errors import ScheduleError
from bot.schedule import QuietHours, Schedule, ScheduleKind, load_zone, local_text, parse_schedule


def us(text: str) -> int:
    return to_us(datetime.fromisoformat(text))


NOW = us("2026-02-09T12:26Z")


def make(*, now: str = "2026-02-09T12:26Z", zone: str = "Europe/Berlin", **wanted: Any) -> Schedule:
    return parse_schedule(now_us=us(now), default_zone=zone, **wanted)


def refusal(*, now: str = "2026-02-09T12:26Z", zone: str = "Europe/Berlin", **wanted: Any) -> str:
    with pytest.raises(ScheduleError) as caught:
        make(now=now, zone=zone, **wanted)
    return str(caught.value)


def local_walk(schedule: Schedule, after: str, count: int, seed: str = "") -> list[str]:
    """Return the next due times on the local clock with the abbreviation or offset in force."""
    found: list[str] = []
    at_us: int | None = us(after)
    while len(found) < count:
        assert at_us is not None
        at_us = schedule.next_after(at_us, seed)
        found.append("over" if at_us is None else local_text(at_us, load_zone(schedule.zone)).split(" (")[0])
        if at_us is None:
            break
    return found


# --- zones and one-shots


def test_a_daily_cron_without_tz_is_due_at_the_persons_hour() -> None:
    schedule = make(zone="Asia/Ho_Chi_Minh", cron_expr="0 8 * * *")
    assert schedule.next_after(NOW) == us("2026-02-10T01:00Z")
    assert schedule.describe() == "every day at 08:00 (Asia/Ho_Chi_Minh)"


def test_tz_wins_over_the_persons_zone() -> None:
    schedule = make(zone="Asia/Ho_Chi_Minh", cron_expr="0 8 * * *", tz="america/new_york")
    assert schedule.zone == "America/New_York"
    assert schedule.next_after(NOW) == us("2026-02-09T13:00Z")


def test_a_naive_time_is_local_time_of_the_person() -> None:
    schedule = make(now="2026-07-29T10:30Z", zone="Asia/Karachi", at="2026-07-29T15:45")
    assert schedule.kind is ScheduleKind.AT
    assert schedule.next_after(us("2026-07-29T10:30Z")) == us("2026-07-29T10:45Z")
    assert schedule.describe() == "once"


@pytest.mark.parametrize("text", ["2026-07-29T15:45+02:00", "2026-07-29T13:45Z"])
def test_an_explicit_offset_wins_over_every_zone(text: str) -> None:
    schedule = make(now="2026-07-29T10:30Z", zone="Asia/Karachi", tz="Asia/Tokyo", at=text)
    assert schedule.at_us == us("2026-07-29T13:45Z")


def test_refusing_a_change_to_a_past_time_leaves_the_old_schedule_as_it_was() -> None:
    old = make(now="2026-05-12T19:51+02:00", at="2026-05-13T09:00")
    assert "in the past" in refusal(now="2026-05-12T19:51+02:00", at="2026-05-11T09:00")
    assert old.next_after(us("2026-05-12T19:51+02:00")) == us("2026-05-13T07:00Z")


def test_a_one_shot_is_due_once() -> None:
    schedule = make(at="2026-02-10T09:00")
    due_us = us("2026-02-10T08:00Z")
    assert schedule.next_after(due_us - 1) == due_us
    assert schedule.next_after(due_us) is None


def test_a_relative_time_counts_from_now_to_the_microsecond() -> None:
    assert make(in_seconds=2700).at_us == NOW + 2700 * US_PER_S
    assert make(in_seconds=0.5).at_us == NOW + 500_000


def test_a_naive_time_in_the_gap_is_the_first_instant_after_it_and_a_doubled_one_the_first() -> None:
    assert make(at="2026-03-29T02:30").at_us == us("2026-03-29T01:00Z")
    assert make(at="2026-10-25T02:30").at_us == us("2026-10-25T00:30Z")


# --- cron over clock changes


def test_weekday_7_is_sunday() -> None:
    schedule = make(cron_expr="15 10,12 * * 1,7")
    assert local_walk(schedule, "2026-02-09T12:26Z", 4) == [
        "Sun 15 Feb 2026 10:15",
        "Sun 15 Feb 2026 12:15",
        "Mon 16 Feb 2026 10:15",
        "Mon 16 Feb 2026 12:15",
    ]


def test_a_reading_that_does_not_exist_runs_once_after_the_gap() -> None:
    schedule = make(cron_expr="30 2 * * *")
    found = local_walk(schedule, "2026-03-28T00:00+01:00", 3)
    assert found == ["Sat 28 Mar 2026 02:30", "Sun 29 Mar 2026 03:00", "Mon 30 Mar 2026 02:30"]
    assert schedule.next_after(us("2026-03-28T12:00Z")) == us("2026-03-29T01:00Z")


def test_readings_that_land_on_one_instant_run_once() -> None:
    schedule = make(cron_expr="*/20 2,3 * * *")
    assert local_walk(schedule, "2026-03-29T00:00+01:00", 4) == [
        "Sun 29 Mar 2026 03:00",  # stands for 02:00, 02:20, 02:40 and itself
        "Sun 29 Mar 2026 03:20",
        "Sun 29 Mar 2026 03:40",
        "Mon 30 Mar 2026 02:00",
    ]


def test_a_reading_that_exists_twice_runs_once() -> None:
    schedule = make(cron_expr="30 2 * * *")
    first_us = us("2026-10-25T02:30+02:00")
    assert schedule.next_after(us("2026-10-25T00:00+02:00")) == first_us
    assert schedule.next_after(first_us) == us("2026-10-26T02:30+01:00")
    assert schedule.next_after(us("2026-10-25T02:10+01:00")) == us("2026-10-26T02:30+01:00")


def test_no_day_is_missed_after_a_clock_change() -> None:
    schedule = make(now="2022-03-01T00:00Z", zone="America/Los_Angeles", cron_expr="0 0 * * *")
    assert schedule.next_after(us("2022-03-13T00:00-08:00")) == us("2022-03-14T00:00-07:00")


def test_a_change_of_half_an_hour_is_handled_like_any_other() -> None:
    schedule = make(zone="Australia/Lord_Howe", cron_expr="15 2 * * *")
    assert schedule.next_after(us("2026-10-03T12:00+10:30")) == us("2026-10-04T02:30+11:00")
    schedule = make(zone="Australia/Lord_Howe", cron_expr="45 1 * * *")
    assert schedule.next_after(us("2026-04-05T01:45+11:00")) == us("2026-04-06T01:45+10:30")


def test_a_day_that_never_was_runs_at_the_first_instant_after_it() -> None:
    schedule = make(zone="Pacific/Apia", cron_expr="0 8 * * *")
    assert schedule.next_after(us("2011-12-29T08:00-10:00")) == us("2011-12-31T00:00+14:00")
    assert schedule.next_after(us("2011-12-31T00:00+14:00")) == us("2011-12-31T08:00+14:00")
    every_minute = make(zone="Pacific/Apia", cron_expr="* * * * *")
    assert every_minute.next_after(us("2011-12-29T23:59-10:00")) == us("2011-12-31T00:00+14:00")
    assert every_minute.next_after(us("2011-12-31T00:00+14:00")) == us("2011-12-31T00:01+14:00")


def test_leap_days_and_month_ends_keep_to_the_calendar() -> None:
    assert local_walk(make(cron_expr="0 9 29 2 *"), "2026-02-09T12:26Z", 2) == [
        "Tue 29 Feb 2028 09:00",
        "Sun 29 Feb 2032 09:00",
    ]
    assert local_walk(make(cron_expr="0 9 31 * *"), "2026-02-09T12:26Z", 3) == [
        "Tue 31 Mar 2026 09:00",
        "Sun 31 May 2026 09:00",
        "Fri 31 Jul 2026 09:00",
    ]


def test_the_next_run_after_an_outage_is_counted_from_now_not_from_the_stored_one() -> None:
    schedule = make(cron_expr="0 8 * * *")
    assert schedule.next_after(us("2026-02-10T09:00+01:00")) == us("2026-02-11T08:00+01:00")


def test_a_search_beyond_the_calendar_ends() -> None:
    for schedule in (make(cron_expr="0 8 * * *"), make(every_seconds=3600), make(in_seconds=60)):
        assert schedule.next_after(10**30) is None
        assert schedule.next_after(us("2399-12-31T23:59Z")) is None
        assert schedule.next_after(-(10**30)) is not None


# --- intervals, until


def test_an_interval_counts_from_its_anchor_in_real_time() -> None:
    schedule = make(now="2026-03-28T12:00+01:00", every_seconds=86_400)
    assert local_walk(schedule, "2026-03-28T12:00+01:00", 2) == [
        "Sun 29 Mar 2026 13:00",
        "Mon 30 Mar 2026 13:00",
    ]
    assert schedule.next_after(us("2025-01-01T00:00Z")) == us("2026-03-29T13:00+02:00")
    assert schedule.next_after(us("2026-04-01T13:00+02:00")) == us("2026-04-02T13:00+02:00")


def test_until_is_inclusive() -> None:
    schedule = make(cron_expr="0 8 * * *", until="2026-02-11T08:00")
    assert local_walk(schedule, "2026-02-09T12:26Z", 3) == [
        "Tue 10 Feb 2026 08:00",
        "Wed 11 Feb 2026 08:00",
        "over",
    ]


# --- quiet hours


def test_an_interval_is_silent_in_quiet_hours_and_leaves_no_backlog() -> None:
    schedule = make(now="2026-02-09T21:30+01:00", every_seconds=1800, quiet_hours="23:00-07:00")
    assert local_walk(schedule, "2026-02-09T21:30+01:00", 4) == [
        "Mon 9 Feb 2026 22:00",
        "Mon 9 Feb 2026 22:30",
        "Tue 10 Feb 2026 07:00",
        "Tue 10 Feb 2026 07:30",
    ]
    assert schedule.next_after(us("2026-02-10T02:00+01:00")) == us("2026-02-10T07:00+01:00")


def test_a_cron_is_silent_in_a_window_over_midnight() -> None:
    schedule = make(cron_expr="0 * * * *", quiet_hours="22:00-06:00")
    assert local_walk(schedule, "2026-02-09T20:30+01:00", 3) == [
        "Mon 9 Feb 2026 21:00",
        "Tue 10 Feb 2026 06:00",
        "Tue 10 Feb 2026 07:00",
    ]


def test_a_one_shot_waits_for_the_end_of_the_window() -> None:
    schedule = make(at="2026-02-10T02:00", quiet_hours="22:00-06:00")
    end_us = us("2026-02-10T06:00+01:00")
    assert schedule.next_after(NOW) == end_us
    assert schedule.next_after(us("2026-02-10T02:00+01:00")) == end_us  # its nominal time is no longer the due time
    assert schedule.next_after(end_us) is None


def test_urgent_ignores_quiet_hours() -> None:
    assert make(at="2026-02-10T02:00", quiet_hours="22:00-06:00", urgent=True).next_after(NOW) == us(
        "2026-02-10T01:00Z"
    )
    schedule = make(cron_expr="0 2 * * *", quiet_hours="22:00-06:00", urgent=True)
    assert schedule.next_after(NOW) == us("2026-02-10T01:00Z")


@pytest.mark.parametrize(
    "wanted", [{"cron_expr": "0 2 * * *"}, {"cron_expr": "30 22,23,0-5 1 * *"}, {"every_seconds": 86_400}]
)
def test_a_schedule_that_would_always_be_quiet_is_refused_and_never_due(wanted: dict[str, Any]) -> None:
    window = {"now": "2026-02-09T02:00Z", "zone": "UTC"}
    text = refusal(**window, **wanted, quiet_hours="22:00-06:00")
    assert text.startswith("quiet_hours: every occurrence falls into 22:00-06:00")
    silenced = replace(make(**window, **wanted), quiet=QuietHours.parse("22:00-06:00"))
    assert silenced.next_after(NOW) is None


def test_an_occurrence_that_a_gap_moves_into_quiet_hours_is_left_out() -> None:
    schedule = make(cron_expr="30 2 * * *", quiet_hours="03:00-04:00")
    assert local_walk(schedule, "2026-03-28T12:00+01:00", 1) == ["Mon 30 Mar 2026 02:30"]


# --- jitter


def test_jitter_is_a_stable_delay_that_differs_by_seed() -> None:
    schedule = make(cron_expr="0 8 * * *", jitter_s=600)
    nominal_us = us("2026-02-10T08:00+01:00")
    delays = {(schedule.next_after(NOW, f"job-{i}") or 0) - nominal_us for i in range(50)}
    assert min(delays) >= 0
    assert max(delays) <= 600 * US_PER_S
    assert len(delays) > 20
    assert schedule.next_after(NOW, "job-1") == schedule.next_after(NOW, "job-1")


def test_an_occurrence_whose_delay_is_running_is_still_found() -> None:
    for wanted in ({"cron_expr": "0 8 * * *"}, {"every_seconds": 3600}, {"in_seconds": 3600}):
        schedule = make(**wanted, jitter_s=3000)
        nominal_us = replace(schedule, jitter_s=0).next_after(NOW)
        assert nominal_us is not None
        due_us = next(
            due for due in (schedule.next_after(NOW, str(i)) for i in range(99)) if due and due > nominal_us + US_PER_S
        )
        seed = next(str(i) for i in range(99) if schedule.next_after(NOW, str(i)) == due_us)
        assert schedule.next_after(nominal_us, seed) == due_us
        assert schedule.next_after(due_us - 1, seed) == due_us


def test_jitter_longer_than_the_interval_leaves_each_occurrence_in_its_own_slot() -> None:
    schedule = make(cron_expr="*/5 * * * *", jitter_s=86_400)
    slots: list[int] = []
    at_us: int | None = NOW
    while len(slots) < 50:
        assert at_us is not None
        at_us = schedule.next_after(at_us, "x")
        assert at_us is not None
        slots.append((at_us - us("2026-02-09T12:25Z")) // (300 * US_PER_S))
    assert slots == list(range(slots[0], slots[0] + 50))


def test_a_long_look_back_over_crowded_minutes_finds_the_next_occurrence() -> None:
    schedule = make(cron_expr="* 0-18 * * *", jitter_s=86_400)
    due_us = schedule.next_after(us("2026-02-10T23:59+01:00"), "x")
    assert due_us is not None
    assert due_us // (60 * US_PER_S) == us("2026-02-11T00:00+01:00") // (60 * US_PER_S)


def test_jitter_stays_out_of_quiet_hours_and_within_until() -> None:
    schedule = make(cron_expr="59 21 * * *", jitter_s=600, quiet_hours="22:00-06:00", until="2026-02-10T21:59")
    for i in range(50):
        first_us = schedule.next_after(NOW, str(i))
        assert first_us is not None
        assert us("2026-02-09T21:59+01:00") <= first_us < us("2026-02-09T22:00+01:00")
        assert schedule.next_after(first_us, str(i)) == us("2026-02-10T21:59+01:00")


def test_an_uncommon_cron_is_described_by_its_expression() -> None:
    assert make(cron_expr="0 6 13 * 5").describe() == "cron '0 6 13 * 5' (Europe/Berlin)"
    assert make(every_seconds=1800).describe() == "every 30 minutes"
