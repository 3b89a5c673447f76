from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.clock import to_us
from bot.errors import ScheduleError
from bot.zones import load_zone, local_text, parse_moment, us_to_wall, wall_to_us


def us(text: str) -> int:
    return to_us(datetime.fromisoformat(text))


def test_a_zone_is_found_by_its_name_in_any_case_and_keeps_the_canonical_one() -> None:
    assert load_zone("Asia/Ho_Chi_Minh").key == "Asia/Ho_Chi_Minh"
    assert load_zone("europe/BERLIN").key == "Europe/Berlin"
    assert load_zone(" utc ").key == "UTC"


@pytest.mark.parametrize(
    "name",
    [
        "Mars/Phobos",
        "CST+8",
        "",
        "../etc",
        "../etc/passwd",
        "/etc/localtime",
        "/usr/share/zoneinfo/UTC",
        "localtime",
        "posixrules",
        "posix/Europe/Berlin",
        "Factory",
        "Europe",
        "Europe/../UTC",
        "UTC\0",
        "zone.tab",
        "tzdata.zi",
        "\ud800",
        "x" * 100_000,
    ],
)
def test_what_is_no_zone_is_refused_naming_field_and_value(name: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        load_zone(name)
    text = str(caught.value)
    assert text.startswith("tz: ")
    assert repr(name)[:20] in text
    assert len(text) < 300
    text.encode()


def test_no_name_reaches_a_file_outside_the_zone_database(tmp_path: Path) -> None:
    berlin = Path("/usr/share/zoneinfo/Europe/Berlin")
    trap = tmp_path / "Trap"
    trap.write_bytes(berlin.read_bytes() if berlin.exists() else b"TZif")
    for name in (str(trap), f"../../..{trap}", f"Europe/../../../..{trap}"):
        with pytest.raises(ScheduleError):
            load_zone(name)


@pytest.mark.parametrize(
    ("name", "close"),
    [("Europe/Berln", "Europe/Berlin"), ("Berlin", "Europe/Berlin"), ("new york", "America/New_York")],
)
def test_a_near_miss_is_answered_with_the_close_name(name: str, close: str) -> None:
    with pytest.raises(ScheduleError, match=f"Did you mean .*{close}"):
        load_zone(name)


def test_the_caller_may_name_its_own_field() -> None:
    with pytest.raises(ScheduleError, match=r"^bot\.timezone: 'Mars/Phobos' is not a time zone"):
        load_zone("Mars/Phobos", field="bot.timezone")


@pytest.mark.parametrize(
    ("instant", "zone", "text"),
    [
        ("2026-02-10T01:00Z", "Asia/Ho_Chi_Minh", "Tue 10 Feb 2026 08:00 (+07, Asia/Ho_Chi_Minh)"),
        ("2026-07-01T12:00:05Z", "Europe/Berlin", "Wed 1 Jul 2026 14:00:05 (CEST, Europe/Berlin)"),
        ("2026-01-01T00:00:00.9Z", "UTC", "Thu 1 Jan 2026 00:00 (UTC)"),
    ],
)
def test_local_text_shows_weekday_date_time_and_zone(instant: str, zone: str, text: str) -> None:
    assert local_text(us(instant), load_zone(zone)) == text


@pytest.mark.parametrize(
    ("wall", "zone", "instant"),
    [
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T03:00+02:00"),  # in the gap
        ("2026-03-29T02:00", "Europe/Berlin", "2026-03-29T03:00+02:00"),
        ("2026-03-29T01:59", "Europe/Berlin", "2026-03-29T01:59+01:00"),
        ("2026-03-29T03:00", "Europe/Berlin", "2026-03-29T03:00+02:00"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T02:30+02:00"),  # the first of two
        ("2026-10-25T03:00", "Europe/Berlin", "2026-10-25T03:00+01:00"),
        ("2026-10-04T02:10", "Australia/Lord_Howe", "2026-10-04T02:30+11:00"),  # a gap of 30 minutes
        ("2026-04-05T01:45", "Australia/Lord_Howe", "2026-04-05T01:45+11:00"),
        ("2011-12-30T08:00", "Pacific/Apia", "2011-12-31T00:00+14:00"),  # a day that never was
        ("2026-09-06T00:15", "America/Santiago", "2026-09-06T01:00-03:00"),  # midnight does not exist
        ("0001-01-01T00:00", "Asia/Tokyo", "0001-01-01T00:00+09:18:59"),
    ],
)
def test_a_wall_reading_becomes_an_instant_by_the_rule_for_clock_changes(wall: str, zone: str, instant: str) -> None:
    assert wall_to_us(datetime.fromisoformat(wall), load_zone(zone)) == us(instant)


ZONES = ["Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]


@settings(max_examples=200, deadline=None)
@given(
    wall=st.datetimes(datetime.fromisoformat("2011-01-01"), datetime.fromisoformat("2037-01-01")),
    zone=st.sampled_from(ZONES).map(ZoneInfo),
)
def test_wall_readings_read_back_unless_in_a_gap(wall: datetime, zone: ZoneInfo) -> None:
    instant_us = wall_to_us(wall, zone)
    shown = us_to_wall(instant_us, zone)
    assert shown >= wall
    if shown > wall:  # a gap: the instant before it must read earlier than the wish
        assert us_to_wall(instant_us - 1, zone) < wall


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-07-29T15:45", "2026-07-29T10:45Z"),
        ("2026-07-29 15:45", "2026-07-29T10:45Z"),
        (" 2026-07-29T15:45:30 ", "2026-07-29T10:45:30Z"),
        ("20260729T1545", "2026-07-29T10:45Z"),
        ("2026-W31-3T15:45", "2026-07-29T10:45Z"),
        ("2026-07-29T15:45Z", "2026-07-29T15:45Z"),
        ("2026-07-29t15:45z", "2026-07-29T15:45Z"),
        ("2026-07-29 15:45 UTC", "2026-07-29T15:45Z"),
        ("2026-07-29T15:45+02:00", "2026-07-29T13:45Z"),
        ("2026-07-29 15:45 -0700", "2026-07-29T22:45Z"),
    ],
)
def test_iso_forms_are_local_unless_they_carry_an_offset(text: str, instant: str) -> None:
    assert parse_moment(text, load_zone("Asia/Karachi"), field="at") == us(instant)


@pytest.mark.parametrize("text", ["2026-07-29", "20260729", "2026-W31-3", "2026-W31", " 2026-07-29 "])
def test_a_date_without_a_time_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(ScheduleError, match=r"at: .* has no time of day; write it like 2026-07-29T15:45"):
        parse_moment(text, load_zone("UTC"), field="at")


@pytest.mark.parametrize(
    "text",
    ["", "15:45", "tomorrow", "2026-02-30T10:00", "2026-07-29T25:00", "2026-07-29T15:45+25:00", "\ud800"],
)
def test_what_is_no_date_and_time_is_refused_naming_the_field(text: str) -> None:
    with pytest.raises(ScheduleError, match=r"^until: .* is not a date and time"):
        parse_moment(text, load_zone("UTC"), field="until")


@pytest.mark.parametrize(
    ("language", "zone", "text"),
    [
        ("en", "Europe/Berlin", "Mon 30 Nov 2026 01:15 (CET, Europe/Berlin)"),
        ("de", "Europe/Berlin", "Mo 30. Nov. 2026 01:15 (CET, Europe/Berlin)"),
        ("zh", "Asia/Shanghai", "2026年11月30日 周一 08:15 (CST, Asia/Shanghai)"),
        ("fr", "Etc/UTC", "Mon 30 Nov 2026 00:15 (UTC)"),
        ("en", "UTC", "Mon 30 Nov 2026 00:15 (UTC)"),
    ],
)
def test_an_instant_reads_in_the_persons_language(language: str, zone: str, text: str) -> None:
    instant_us = to_us(datetime(2026, 11, 30, 0, 15, tzinfo=UTC))
    assert local_text(instant_us, load_zone(zone), language) == text


@pytest.mark.parametrize("name", ["CEST", "PST", "GMT+1", "AEST"])
def test_an_abbreviation_is_taken_for_no_place(name: str) -> None:
    with pytest.raises(ScheduleError, match="not an offset or an abbreviation"):
        load_zone(name)
