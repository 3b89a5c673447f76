from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.crontab import Crontab, parse_crontab
from bot.errors import ScheduleError


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


START = wall("2026-02-09T12:26")  # a Monday


def walk(expression: str, count: int, start: datetime = START) -> list[str]:
    crontab = parse_crontab(expression)
    readings: list[str] = []
    reading: datetime | None = start
    while len(readings) < count:
        assert reading is not None
        reading = crontab.next_wall(reading)
        readings.append(f"{reading:%a %Y-%m-%d %H:%M}")
    return readings


def test_weekday_0_and_7_are_both_sunday() -> None:
    assert walk("0 9 * * 0", 2) == walk("0 9 * * 7", 2) == ["Sun 2026-02-15 09:00", "Sun 2026-02-22 09:00"]


def test_weekday_1_is_monday_and_7_works_in_a_list() -> None:
    assert walk("15 10,12 * * 1,7", 5) == [
        "Sun 2026-02-15 10:15",
        "Sun 2026-02-15 12:15",
        "Mon 2026-02-16 10:15",
        "Mon 2026-02-16 12:15",
        "Sun 2026-02-22 10:15",
    ]


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("5-7", {5, 6, 0}),
        ("6-7", {6, 0}),
        ("0-7", {0, 1, 2, 3, 4, 5, 6}),
        ("7-2", {0, 1, 2}),
        ("FRI-MON", {5, 6, 0, 1}),
        ("sat-sun", {6, 0}),
        ("Mon-Fri", {1, 2, 3, 4, 5}),
        ("1-5/2", {1, 3, 5}),
        ("fri-mon/2", {5, 0}),
        ("*/2", {0, 2, 4, 6}),
        ("*/7", {0}),
        ("sun,3", {0, 3}),
    ],
)
def test_weekday_ranges_words_and_steps_mean_what_crontab_means(field: str, days: set[int]) -> None:
    assert parse_crontab(f"0 0 * * {field}").weekdays == days


def test_months_have_words_and_may_wrap_over_the_new_year() -> None:
    assert parse_crontab("0 0 1 nov-feb *").months == {11, 12, 1, 2}
    assert parse_crontab("0 0 1 JAN,jul *").months == {1, 7}


def test_a_step_after_one_number_runs_to_the_end_of_the_field() -> None:
    assert parse_crontab("5/20 22/1 * * *").minutes == {5, 25, 45}
    assert parse_crontab("5/20 22/1 * * *").hours == {22, 23}


def test_day_and_weekday_that_are_both_restricted_are_alternatives() -> None:
    assert walk("0 0 13 * 5", 4) == [
        "Fri 2026-02-13 00:00",
        "Fri 2026-02-20 00:00",
        "Fri 2026-02-27 00:00",
        "Fri 2026-03-06 00:00",
    ]
    assert "Mon 2026-04-13 00:00" in walk("0 0 13 * 5", 12)


def test_an_impossible_day_leaves_the_weekday_as_the_only_alternative() -> None:
    assert walk("0 0 30 2 1", 2) == ["Mon 2026-02-16 00:00", "Mon 2026-02-23 00:00"]


def test_a_day_field_that_begins_with_a_star_must_match_together_with_the_weekday() -> None:
    assert walk("0 0 */2 * 1", 3) == ["Mon 2026-02-23 00:00", "Mon 2026-03-09 00:00", "Mon 2026-03-23 00:00"]


@pytest.mark.parametrize(
    ("nickname", "same_as"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@WEEKLY", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @annually ", "0 0 1 1 *"),
    ],
)
def test_a_nickname_stands_for_its_expression(nickname: str, same_as: str) -> None:
    assert parse_crontab(nickname) == parse_crontab(same_as)


@pytest.mark.parametrize(
    ("expression", "field", "value"),
    [
        ("60 * * * *", "minute", "'60'"),
        ("*/0 * * * *", "minute", "'*/0'"),
        ("*/90 * * * *", "minute", "every_seconds"),
        ("-5 * * * *", "minute", "'-5'"),
        ("1,,2 * * * *", "minute", "'1,,2'"),
        ("٣ * * * *", "minute", "'٣'"),
        ("0 24 * * *", "hour", "'24'"),
        ("0 22-6 * * *", "hour", "22-23,0-6"),
        ("0 mon * * *", "hour", "'mon'"),
        ("0 0 0 * *", "day of month", "'0'"),
        ("0 0 32 * *", "day of month", "'32'"),
        ("0 0 ? * 1", "day of month", "'?'"),
        ("0 0 L * *", "day of month", "'L'"),
        ("0 0 30 2 *", "day of month", "never fires"),
        ("0 0 31 2,4,6,9,11 *", "day of month", "never fires"),
        ("0 0 * 13 *", "month", "'13'"),
        ("0 0 * foo *", "month", "'foo'"),
        ("0 0 * * 8", "day of week", "'8'"),
        ("0 0 * * fun", "day of week", "'fun'"),
        ("0 0 * * 1#2", "day of week", "'1#2'"),
    ],
)
def test_a_bad_field_is_named_with_its_value(expression: str, field: str, value: str) -> None:
    with pytest.raises(ScheduleError, match="cron_expr") as caught:
        parse_crontab(expression)
    assert field in str(caught.value)
    assert value in str(caught.value)


@pytest.mark.parametrize(("expression", "count"), [("0 * * * * *", 6), ("0 0 12 * * 1 2026", 7)])
def test_a_field_for_seconds_or_year_is_refused_with_a_hint(expression: str, count: int) -> None:
    with pytest.raises(ScheduleError, match=rf"has {count} fields; it must have 5.*Leave out seconds and year"):
        parse_crontab(expression)


def test_reboot_is_refused_with_the_reason() -> None:
    with pytest.raises(ScheduleError, match=r"@reboot.*restart of the bot is not a time"):
        parse_crontab("@reboot")


@pytest.mark.parametrize("expression", ["", "   ", "x", "@", "@often", "* * * *", "*" * 5000])
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(ScheduleError, match="cron_expr"):
        parse_crontab(expression)


def test_the_29th_of_february_comes_in_leap_years_only() -> None:
    assert walk("30 2 29 2 *", 2) == ["Tue 2028-02-29 02:30", "Sun 2032-02-29 02:30"]
    assert walk("0 0 29 2 *", 2, wall("2096-03-01")) == ["Fri 2104-02-29 00:00", "Wed 2108-02-29 00:00"]


def test_the_31st_skips_short_months() -> None:
    assert walk("0 0 31 * *", 3) == ["Tue 2026-03-31 00:00", "Sun 2026-05-31 00:00", "Fri 2026-07-31 00:00"]


def test_the_search_ends_with_the_year_2400() -> None:
    assert parse_crontab("0 0 1 1 *").next_wall(wall("2400-01-01")) is None
    assert parse_crontab("0 0 29 2 */7").next_wall(wall("2399-01-01")) is None


@pytest.mark.parametrize(
    ("expression", "minutes"),
    [
        ("* * * * *", 1),
        ("*/7 * * * *", 4),  # from minute 56 to the next full hour
        ("0 8 * * *", 1440),
        ("0 8,20 * * *", 720),
        ("50 0,23 * * *", 60),
        ("0,59 0,23 * * *", 1),
        ("0 0,23 * * 1", 23 * 60),  # midnight and 23:00 of one Monday, never of two days in a row
        ("0 0,23 * * 0,1", 60),
    ],
)
def test_the_shortest_gap_counts_the_way_over_midnight_when_both_days_match(expression: str, minutes: int) -> None:
    assert parse_crontab(expression).shortest_gap_min(START) == minutes


LOWEST = {"minute": 0, "hour": 0, "day": 1, "month": 1, "weekday": 0}
HIGHEST = {"minute": 59, "hour": 23, "day": 31, "month": 12, "weekday": 7}


@st.composite
def items(draw: st.DrawFn, name: str) -> tuple[str, set[int]]:
    """Return one item of a field as text, and the values it stands for, told without the code under test."""
    low, high = LOWEST[name], HIGHEST[name]
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.integers(1, high - low))
    return draw(
        st.sampled_from(
            [
                ("*", set(range(low, high + 1))),
                (f"*/{step}", set(range(low, high + 1, step))),
                (f"{first}", {first}),
                (f"{first}-{last}", set(range(first, last + 1))),
                (f"{first}-{last}/{step}", set(range(first, last + 1, step))),
            ]
        )
    )


def fields(name: str) -> st.SearchStrategy[tuple[str, set[int]]]:
    def joined(parts: list[tuple[str, set[int]]]) -> tuple[str, set[int]]:
        return ",".join(text for text, _ in parts), set().union(*(values for _, values in parts))

    return st.lists(items(name), min_size=1, max_size=3).map(joined)


def matches(wall: datetime, parts: dict[str, tuple[str, set[int]]]) -> bool:
    """Scan like a crontab daemon: compare the minute with every field."""
    hits = {
        "minute": wall.minute in parts["minute"][1],
        "hour": wall.hour in parts["hour"][1],
        "month": wall.month in parts["month"][1],
        "day": wall.day in parts["day"][1],
        "weekday": bool({wall.isoweekday(), wall.isoweekday() % 7} & parts["weekday"][1]),
    }
    stars = [parts[name][0].startswith("*") for name in ("day", "weekday")]
    day_hit = all((hits["day"], hits["weekday"])) if any(stars) else any((hits["day"], hits["weekday"]))
    return hits["minute"] and hits["hour"] and hits["month"] and day_hit


def readings(crontab: Crontab, start: datetime, end: datetime, most: int) -> list[datetime]:
    found: list[datetime] = []
    wall = crontab.next_wall(start - timedelta(seconds=1))
    while wall is not None and wall < end and len(found) < most:
        found.append(wall)
        wall = crontab.next_wall(wall)
    return found


def parsed(expression: str) -> tuple[Crontab | None, str]:
    try:
        return parse_crontab(expression), ""
    except ScheduleError as exc:
        return None, str(exc)


NAMES = ("minute", "hour", "day", "month", "weekday")
MOMENTS = st.datetimes(wall("2024-01-01"), wall("2040-01-01")).map(lambda m: m.replace(second=0, microsecond=0))


@settings(max_examples=60, deadline=None)
@given(parts=st.fixed_dictionaries({name: fields(name) for name in NAMES}), start=MOMENTS)
def test_every_reading_of_two_days_is_what_a_minute_by_minute_scan_finds(
    parts: dict[str, tuple[str, set[int]]], start: datetime
) -> None:
    parts["month"] = ("*", set(range(1, 13)))
    crontab = parse_crontab(" ".join(parts[name][0] for name in NAMES))
    minutes = (start + timedelta(minutes=i) for i in range(2 * 1440))
    expected = [wall for wall in minutes if matches(wall, parts)][:100]
    assert readings(crontab, start, start + timedelta(days=2), 100) == expected


@settings(max_examples=60, deadline=None)
@given(parts=st.fixed_dictionaries({name: fields(name) for name in ("day", "month", "weekday")}), start=MOMENTS)
def test_every_date_of_two_years_is_what_a_day_by_day_scan_finds(
    parts: dict[str, tuple[str, set[int]]], start: datetime
) -> None:
    parts |= {"minute": ("30", {30}), "hour": ("9", {9})}
    start = start.replace(hour=9, minute=30)
    crontab, error = parsed(" ".join(parts[name][0] for name in NAMES))
    if crontab is None:
        assert "never fires" in error
        assert not any(matches(start + timedelta(days=i), parts) for i in range(9 * 366))
        return
    expected = [day for day in (start + timedelta(days=i) for i in range(731)) if matches(day, parts)][:100]
    assert readings(crontab, start, start + timedelta(days=731), 100) == expected


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=40), st.text(alphabet="0123456789*/-, LW?#@monfrijan", max_size=30)))
def test_arbitrary_text_is_parsed_or_refused_with_a_schedule_error(text: str) -> None:
    crontab, error = parsed(text)
    if crontab is None:
        assert "cron_expr" in error
    else:
        following = crontab.next_wall(START)
        assert following is not None
        assert following > START
