from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.clock import to_us
from bot.errors import ScheduleError
from bot.schedule import Schedule, ScheduleKind, parse_schedule


def us(text: str) -> int:
    return to_us(datetime.fromisoformat(text))


NOW = us("2026-02-09T12:26Z")


def make(*, now: str = "2026-02-09T12:26Z", zone: str = "Europe/Berlin", **wanted: Any) -> Schedule:
    return parse_schedule(now_us=us(now), default_zone=zone, **wanted)


def refusal(*, now: str = "2026-02-09T12:26Z", zone: str = "Europe/Berlin", **wanted: Any) -> str:
    with pytest.raises(ScheduleError) as caught:
        make(now=now, zone=zone, **wanted)
    return str(caught.value)


def test_a_past_time_is_refused_with_the_current_local_time_and_zone() -> None:
    text = refusal(now="2026-05-12T19:51+02:00", at="2026-05-10T09:00+02:00")
    assert text == (
        "at: '2026-05-10T09:00+02:00' is in the past. It is now Tue 12 May 2026 19:51 (CEST, Europe/Berlin)."
    )


def test_the_present_instant_is_past() -> None:
    assert "in the past" in refusal(now="2026-05-12T19:51+02:00", at="2026-05-12T19:51")


def test_until_before_the_first_occurrence_is_refused() -> None:
    assert refusal(cron_expr="0 8 * * *", until="2026-02-10T07:59").startswith("until: ")
    assert refusal(every_seconds=3600, until="2026-02-09T14:00").startswith("until: ")
    assert refusal(at="2026-02-10T09:00", until="2026-02-10T08:00").startswith("until: ")


def test_a_past_or_dateless_until_is_refused_by_name() -> None:
    assert refusal(every_seconds=3600, until="2025-02-10T07:59").startswith("until: '2025-02-10T07:59' is in the past")
    assert "until: '2027-01-01' has no time of day" in refusal(every_seconds=3600, until="2027-01-01")


@pytest.mark.parametrize("jitter", [-1, 86_401, 1.5, True, "5", float("nan"), float("inf")])
def test_a_bad_jitter_is_refused_by_name(jitter: Any) -> None:
    assert refusal(every_seconds=3600, jitter_s=jitter).startswith("jitter_s: ")


@pytest.mark.parametrize("tz", ["Mars/Phobos", "CST+8", "", "../etc", "localtime", "/etc/localtime"])
def test_an_unknown_zone_is_refused_by_field_and_value_in_the_persons_time(tz: str) -> None:
    text = refusal(cron_expr="0 8 * * *", tz=tz)
    assert text.startswith(f"tz: {tz!r} is not a time zone.")
    assert text.endswith("It is now Mon 9 Feb 2026 13:26 (CET, Europe/Berlin).")


@pytest.mark.parametrize(
    "wanted",
    [{}, {"at": "2026-03-01T10:00", "in_seconds": 5}, {"every_seconds": 60, "cron_expr": "@daily"}],
)
def test_not_exactly_one_way_to_say_when_is_refused(wanted: dict[str, Any]) -> None:
    assert refusal(**wanted).startswith("Give exactly one of at, in_seconds, every_seconds and cron_expr.")


@pytest.mark.parametrize("value", [0, -5, True, float("inf"), float("-inf"), float("nan"), 1e300, 10**30, "60", [60]])
@pytest.mark.parametrize("field", ["in_seconds", "every_seconds"])
def test_a_number_that_is_no_sane_time_is_refused_by_name(field: str, value: Any) -> None:
    assert refusal(**{field: value}).startswith(f"{field}: ")


def test_an_interval_of_part_seconds_is_refused_and_a_whole_float_taken() -> None:
    assert refusal(every_seconds=90.5).startswith("every_seconds: 90.5 is not a whole number of seconds")
    assert make(every_seconds=1800.0).every_s == 1800


@pytest.mark.parametrize("at", ["9999-12-31T23:59", "9999-12-31T23:59-12:00", "2126-03-01T00:00"])
def test_more_than_100_years_ahead_is_refused(at: str) -> None:
    assert "is more than 100 years ahead" in refusal(at=at)
    assert "is more than 100 years ahead" in refusal(every_seconds=3600, until=at)
    assert make(at="2126-01-01T00:00").at_us == us("2125-12-31T23:00Z")


def test_the_first_years_are_past_and_not_an_error_of_another_kind() -> None:
    assert "in the past" in refusal(at="0001-01-01T00:00+14:00")
    assert "in the past" in refusal(at="0001-01-01T00:00", zone="Pacific/Kiritimati")


def test_too_frequent_repetitions_are_refused_stating_the_minimum() -> None:
    assert refusal(every_seconds=59).startswith("every_seconds: 59 is below the minimum of 60.")
    assert make(every_seconds=60).every_s == 60
    assert make(every_seconds=5, min_interval_s=5).every_s == 5
    text = refusal(cron_expr="0,10 12 * * *", min_interval_s=900)
    assert text.startswith("cron_expr: '0,10 12 * * *' is due again after 600 seconds; the minimum is 900.")
    assert make(cron_expr="0,15 12 * * *", min_interval_s=900).kind is ScheduleKind.CRON


def test_a_cron_that_never_comes_is_refused() -> None:
    assert "never fires" in refusal(cron_expr="0 0 30 2 *")


def test_a_bad_cron_field_is_named() -> None:
    assert "bad day of week '8'" in refusal(cron_expr="0 0 * * 8")
    assert refusal(cron_expr=5).startswith("cron_expr: 5 is not text")


TEXTS = st.one_of(st.text(max_size=30), st.text(alphabet="0123456789-:TZ+ ./", max_size=25))
NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=3))


@settings(max_examples=400, deadline=None)
@given(
    wanted=st.fixed_dictionaries(
        {},
        optional={
            "at": TEXTS,
            "in_seconds": NUMBERS,
            "every_seconds": NUMBERS,
            "cron_expr": TEXTS,
            "tz": TEXTS,
            "until": TEXTS,
            "jitter_s": NUMBERS,
            "quiet_hours": TEXTS,
            "urgent": st.booleans(),
        },
    )
)
def test_arbitrary_input_makes_a_schedule_or_a_schedule_error(wanted: dict[str, Any]) -> None:
    try:
        schedule = parse_schedule(now_us=NOW, default_zone="Europe/Berlin", **wanted)
    except ScheduleError as exc:
        text = str(exc)
    else:
        text = f"It is now {schedule.describe()}"
        assert schedule.next_after(NOW) is not None
    assert "It is now" in text
    text.encode()
