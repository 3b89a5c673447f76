from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.clock import US_PER_S, to_us
from bot.errors import ScheduleError
from bot.schedule import QuietHours, Schedule, ScheduleKind, load_zone

HOUR_US = 3600 * US_PER_S
NOW = to_us(datetime.fromisoformat("2026-02-09T12:26Z"))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    zone = draw(
        st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "UTC"])
    )
    hour, minute = draw(st.integers(0, 23)), draw(st.integers(0, 59))
    cron = draw(
        st.sampled_from(
            [
                f"{minute} {hour} * * *",
                "*/15 * * * *",
                f"{minute} * * * *",
                f"{minute} 1-3 * * *",
                f"0 {hour} 1 * 1",
                "* 2 * * 0",
            ]
        )
    )
    window = QuietHours(start_minute=draw(st.integers(0, 700)), end_minute=draw(st.integers(701, 1439)))
    common: dict[str, Any] = {
        "zone": zone,
        "jitter_s": draw(st.sampled_from([0, 0, 30, 7200])),
        "quiet": draw(st.sampled_from([None, window])),
        "until_us": draw(st.sampled_from([None, NOW + 400 * 24 * HOUR_US])),
        "urgent": draw(st.booleans()),
    }
    kind = draw(st.sampled_from(ScheduleKind))
    if kind is ScheduleKind.CRON:
        return Schedule(kind=kind, cron_expr=cron, **common)
    if kind is ScheduleKind.AT:
        return Schedule(kind=kind, at_us=NOW + draw(st.integers(0, 400 * 24)) * HOUR_US, **common)
    return Schedule(kind=kind, every_s=draw(st.integers(60, 100_000)), anchor_us=NOW, **common)


@settings(max_examples=150, deadline=None)
@given(schedule=schedules(), hours=st.integers(0, 366 * 24), back_s=st.integers(0, 90_000))
def test_due_times_strictly_increase_and_do_not_depend_on_where_the_search_began(
    schedule: Schedule, hours: int, back_s: int
) -> None:
    first_us = schedule.next_after(NOW + hours * HOUR_US, "seed")
    if first_us is None:
        return
    assert first_us > NOW + hours * HOUR_US
    due: list[int] = [first_us]
    while len(due) < 20 and (following := schedule.next_after(due[-1], "seed")) is not None:
        assert following > due[-1]
        due.append(following)
    # From an earlier start, the same due times come by, and none in between.
    again = schedule.next_after(due[0] - back_s * US_PER_S, "seed")
    while again is not None and again < due[0]:
        again = schedule.next_after(again, "seed")
    if back_s:
        assert again == due[0]
    for earlier, later in pairwise(due):
        assert schedule.next_after((earlier + later) // 2, "seed") == later
    for instant_us in due:
        if schedule.quiet is not None and not schedule.urgent:
            assert not schedule.quiet.contains(instant_us, load_zone(schedule.zone))
        assert schedule.until_us is None or instant_us <= schedule.until_us


@settings(max_examples=100, deadline=None)
@given(schedule=schedules())
def test_a_schedule_comes_back_equal_from_its_json_text(schedule: Schedule) -> None:
    assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule


def test_fields_with_defaults_may_be_absent_from_json() -> None:
    assert Schedule.from_json({"kind": "at", "zone": "UTC", "at_us": NOW}) == Schedule(
        kind=ScheduleKind.AT, zone="UTC", at_us=NOW
    )


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "sometimes"},
        {"kind": None},
        {"kind": "every"},
        {"zone": "Mars/Phobos"},
        {"zone": None},
        {"at_us": 5},
        {"every_s": 0, "anchor_us": 0, "kind": "every", "cron_expr": None},
        {"cron_expr": "x"},
        {"cron_expr": ["0 8 * * *"]},
        {"until_us": True},
        {"until_us": 10**30},
        {"jitter_s": -1},
        {"quiet": "sometimes"},
        {"urgent": 1},
    ],
)
def test_a_damaged_stored_schedule_is_a_schedule_error(damage: dict[str, Any]) -> None:
    stored = Schedule(kind=ScheduleKind.CRON, zone="UTC", cron_expr="0 8 * * *").to_json() | damage
    with pytest.raises(ScheduleError):
        Schedule.from_json(stored)
