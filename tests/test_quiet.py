from __future__ import annotations

from datetime import datetime

import pytest

from bot.clock import to_us
from bot.errors import ScheduleError
from bot.quiet import QuietHours
from bot.zones import load_zone


def us(text: str) -> int:
    return to_us(datetime.fromisoformat(text))


BERLIN = load_zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("clock", "is_quiet"),
    [
        ("21:59:59", False),
        ("22:00", True),
        ("02:00", True),
        ("05:59:59", True),
        ("06:00", False),
        ("12:00", False),
    ],
)
def test_a_window_over_midnight_includes_its_start_and_not_its_end(clock: str, is_quiet: bool) -> None:
    window = QuietHours.parse("22:00-06:00")
    assert window.contains(us(f"2026-02-10T{clock}+01:00"), BERLIN) is is_quiet


@pytest.mark.parametrize(
    ("clock", "is_quiet"),
    [("12:59", False), ("13:00", True), ("14:29", True), ("14:30", False), ("00:00", False)],
)
def test_a_window_within_the_day_includes_its_start_and_not_its_end(clock: str, is_quiet: bool) -> None:
    window = QuietHours.parse("13:00-14:30")
    assert window.contains(us(f"2026-07-10T{clock}+02:00"), BERLIN) is is_quiet


@pytest.mark.parametrize(
    ("instant", "end"),
    [
        ("2026-02-10T23:00+01:00", "2026-02-11T06:00+01:00"),
        ("2026-02-11T05:59:59.999999+01:00", "2026-02-11T06:00+01:00"),
        ("2026-02-11T06:00+01:00", "2026-02-11T06:00+01:00"),
        ("2026-02-11T12:00+01:00", "2026-02-11T12:00+01:00"),
        ("2026-03-28T23:00+01:00", "2026-03-29T06:00+02:00"),
    ],
)
def test_the_end_is_the_first_instant_outside_from_the_given_one_on(instant: str, end: str) -> None:
    assert QuietHours.parse("22:00-06:00").end_after(us(instant), BERLIN) == us(end)


def test_an_end_that_does_not_exist_is_the_first_instant_after_the_gap() -> None:
    window = QuietHours.parse("22:00-02:30")
    assert window.end_after(us("2026-03-29T01:00+01:00"), BERLIN) == us("2026-03-29T03:00+02:00")


def test_the_end_in_a_doubled_hour_is_the_one_that_is_still_to_come() -> None:
    window = QuietHours.parse("22:00-02:30")
    assert window.end_after(us("2026-10-25T02:10+02:00"), BERLIN) == us("2026-10-25T02:30+02:00")
    assert window.end_after(us("2026-10-25T02:10+01:00"), BERLIN) == us("2026-10-25T02:30+01:00")


def test_an_end_on_a_day_that_never_was_waits_for_the_next_real_end() -> None:
    apia = load_zone("Pacific/Apia")
    window = QuietHours.parse("22:00-06:00")
    assert window.end_after(us("2011-12-29T23:00-10:00"), apia) == us("2011-12-31T06:00+14:00")


@pytest.mark.parametrize(
    ("text", "written"),
    [("22:00-06:00", "22:00-06:00"), ("7:05 - 9:00", "07:05-09:00"), ("22:00–24:00", "22:00-00:00")],
)
def test_a_window_is_written_as_it_was_read(text: str, written: str) -> None:
    window = QuietHours.parse(text)
    assert str(window) == written
    assert QuietHours.parse(written) == window


@pytest.mark.parametrize(
    "text",
    [
        "",
        "22:00",
        "22-6",
        "22:00-22:00",
        "00:00-24:00",
        "25:00-06:00",
        "24:00-06:00",
        "22:60-06:00",
        "a:bc-d:ef",
    ],
)
def test_bad_text_is_refused_naming_the_field(text: str) -> None:
    with pytest.raises(ScheduleError, match=r"^quiet_hours: "):
        QuietHours.parse(text)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 1440), (60, 60)])
def test_minutes_that_no_day_has_make_no_window(start: int, end: int) -> None:
    with pytest.raises(ScheduleError, match="quiet_hours"):
        QuietHours(start_minute=start, end_minute=end)
