from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.providers.phrases import LIMIT_CHARS, understand
from bot.providers.phrases_intents import (
    Add,
    Ambiguous,
    Intent,
    KnownJob,
    NeedJobs,
    NotFound,
    Pause,
    Refuse,
    RefuseReason,
    Remove,
)
from tests.support.phrase_tables import ALL, BERLIN, JOBS, NOW, PAST, STRETCH, after, at

_PIECES = (
    "remind me",
    "in 10 minutes",
    "tomorrow",
    "at 9",
    "every",
    "monday",
    "and",
    "to",
    "an hour and a half",
    "until",
    "the 1st",
    "of every month",
    "cancel",
    "all",
    "reminders",
    "my",
    "what are",
    "erinnere mich",
    "morgen",
    "um halb neun",
    "jeden",
    "alle zwei",
    "Stunden",
    "daran",
    "zu erinnern",
    "mich",
    "lösche",
    "am 24.12.",
    "Viertel vor",
    "提醒我",
    "明天",
    "早上九点",
    "每周一",
    "取消",
    "喝水",
    "半小时后",
    "和",
    "2月30日",
    "a",
    "ein",
    "9",
    ":",
    "—",
    "“",
    "\u202e",
    "\n",
    "💪",
    "'",
)


@pytest.mark.parametrize(
    ("hour", "said", "meant"),
    [
        (9, "remind me at 8 to eat", at("2026-11-29T20:00", "eat")),
        (9, "remind me at 08:00 to eat", at("2026-11-30T08:00", "eat")),
        (9, "remind me at 10 to eat", at("2026-11-29T10:00", "eat")),
        (9, "remind me today at 8 to eat", PAST),
        (9, "remind me today at 5 to leave", at("2026-11-29T17:00", "leave")),
        (9, "remind me at 5 to leave", at("2026-11-29T17:00", "leave")),
        (3, "remind me at 5 to leave", at("2026-11-29T05:00", "leave")),
        (15, "remind me tonight to read", at("2026-11-29T20:00", "read")),
        (23, "remind me tonight to read", PAST),
        (8, "remind me on Sunday at 9 to run", at("2026-11-29T09:00", "run")),
        (10, "remind me on Sunday at 9 to run", at("2026-12-06T09:00", "run")),
        (8, "remind me on the 29th at 9 to run", at("2026-11-29T09:00", "run")),
        (10, "remind me on the 29th at 9 to run", at("2026-12-29T09:00", "run")),
        (10, "remind me on November 29 at 9 to run", PAST),
        (9, "erinnere mich um 8 ans Essen", at("2026-11-29T20:00", "Essen")),
        (9, "erinnere mich um 8 Uhr ans Essen", at("2026-11-30T08:00", "Essen")),
        (9, "下午3点提醒我开会", at("2026-11-29T15:00", "开会")),
        (9, "3点提醒我开会", at("2026-11-29T15:00", "开会")),
        (1, "remind me at 2 at night to look up", at("2026-11-29T02:00", "look up")),
        (10, "wake me up at 7", at("2026-11-30T07:00", "Wake up")),
        (10, "wake me up at 7 pm", at("2026-11-29T19:00", "Wake up")),
        (13, "wake me at 2", at("2026-11-29T14:00", "Wake up")),
        (10, "weck mich um 7", at("2026-11-30T07:00", "Aufwachen")),
        (10, "7点叫醒我", at("2026-11-30T07:00", "起床")),
    ],
)
def test_a_time_without_a_day_depends_on_the_hour_it_is_said(hour: int, said: str, meant: Intent) -> None:
    now = datetime(2026, 11, 29, hour, tzinfo=BERLIN)
    assert understand(said, now=now) == meant


def test_next_weekday_in_english_is_next_week_and_in_german_the_next_one_to_come() -> None:
    wednesday = datetime(2026, 12, 2, 10, tzinfo=BERLIN)
    assert understand("remind me next Friday to rest", now=wednesday) == at("2026-12-11T09:00", "rest")
    assert understand("remind me this Friday to rest", now=wednesday) == at("2026-12-04T09:00", "rest")
    assert understand("erinnere mich nächsten Freitag ans Ausruhen", now=wednesday) == at(
        "2026-12-04T09:00", "Ausruhen"
    )
    assert understand("erinnere mich nächsten Mittwoch ans Ausruhen", now=wednesday) == at(
        "2026-12-09T09:00", "Ausruhen"
    )
    assert understand("下周五提醒我休息", now=wednesday) == at("2026-12-11T09:00", "休息")


def test_days_keep_the_time_on_the_clock_across_a_clock_change() -> None:
    before_change = datetime(2026, 10, 24, 12, 0, tzinfo=BERLIN)
    assert understand("remind me in 2 days to check", now=before_change) == at("2026-10-26T12:00", "check")
    assert understand("remind me in 48 hours to check", now=before_change) == after(172_800, "check")


def test_29_february_waits_for_a_leap_year() -> None:
    assert understand("remind me on 29 February to leap", now=NOW) == at("2028-02-29T09:00", "leap")


def test_a_month_later_at_the_end_of_january_is_the_end_of_february() -> None:
    now = datetime(2027, 1, 31, 8, 0, tzinfo=BERLIN)
    assert understand("remind me in a month to pay", now=now) == at("2027-02-28T08:00", "pay")


def test_slashes_are_month_first_in_english_and_day_first_in_german() -> None:
    assert understand("remind me on 3/12 to go", now=NOW) == at("2027-03-12T09:00", "go")
    assert understand("erinnere mich am 3/12 ans Gehen", now=NOW, language="de") == at("2026-12-03T09:00", "Gehen")


@pytest.mark.parametrize(
    "said",
    ["cancel the stretch one", "lösche die Erinnerung Wasser", "取消喝水提醒", "pause all", "cancel 2", "cancel it"],
)
def test_a_sentence_about_a_job_asks_for_the_list_first(said: str) -> None:
    assert understand(said, now=NOW) == NeedJobs()


@pytest.mark.parametrize("said", ["vergiss nicht {}", "vergiss nicht, {}", "vergiss bitte nicht {}"])
def test_not_to_forget_something_is_no_order_to_forget_it(said: str) -> None:
    sentence = said.format("mich morgen um 9 ans Wasser zu erinnern")
    assert understand(sentence, now=NOW, language="de", jobs=JOBS) == at("2026-11-30T09:00", "Wasser")


def test_nothing_is_found_when_there_are_no_jobs() -> None:
    assert understand("cancel all reminders", now=NOW, jobs=()) == NotFound(wanted="")
    assert understand("cancel the reminder", now=NOW, jobs=()) == NotFound(wanted="")
    assert understand("cancel 2", now=NOW, jobs=()) == NotFound(wanted="2")


def test_the_only_job_needs_no_name_but_a_bare_it_does_not_remove_it() -> None:
    only = JOBS[:1]
    assert understand("cancel the reminder", now=NOW, jobs=only) == Remove(job_ids=(STRETCH,))
    assert understand("cancel it", now=NOW, jobs=only) == Ambiguous(candidates=only)


def test_two_jobs_that_fit_alike_are_asked_about() -> None:
    jobs = (
        KnownJob(id="job-1", name="", text="call Ann"),
        KnownJob(id="job-2", name="", text="call Bob"),
        KnownJob(id="job-3", name="", text="stretch"),
    )
    assert understand("cancel the call reminder", now=NOW, jobs=jobs) == Ambiguous(candidates=jobs[:2])
    assert understand("cancel the call Bob reminder", now=NOW, jobs=jobs) == Remove(job_ids=("job-2",))


def test_an_exact_text_wins_over_one_that_only_contains_it() -> None:
    jobs = (
        KnownJob(id="job-1", name="", text="drink water and tea"),
        KnownJob(id="job-2", name="", text="drink water"),
    )
    assert understand("cancel drink water", now=NOW, jobs=jobs) == Remove(job_ids=("job-2",))


def test_all_jobs_are_paused_in_the_order_shown() -> None:
    assert understand("pause all reminders", now=NOW, jobs=JOBS) == Pause(job_ids=ALL)


def test_two_requests_in_one_message_are_not_set_by_half() -> None:
    said = "remind me at 9 to call Ann\nremind me at 10 to call Bob"
    assert understand(said, now=NOW) == Refuse(reason=RefuseReason.UNCLEAR)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("I'm tired. Remind me tomorrow at 9 to call Ann.", at("2026-11-30T09:00", "call Ann")),
        ("I have a meeting tomorrow at 10. Remind me at 9 to prepare", at("2026-11-30T09:00", "prepare")),
        ("Ich bin müde. Am 24.12. um 9 erinnere mich an Ann", at("2026-12-24T09:00", "Ann")),
        ("我很累。明天9点提醒我开会", at("2026-11-30T09:00", "开会")),
        ("明天别忘了提醒我带钥匙", at("2026-11-30T09:00", "带钥匙")),
        ("tomorrow please remind me to eat", at("2026-11-30T09:00", "eat")),
    ],
)
def test_what_stands_before_the_request_is_not_its_text(said: str, meant: Intent) -> None:
    assert understand(said, now=NOW) == meant


def test_what_stands_before_the_request_is_its_text_when_it_has_none() -> None:
    assert understand("dentist tomorrow at 3pm, remind me at 2pm", now=NOW) == at(
        "2026-11-30T14:00", "dentist tomorrow at 3pm"
    )


def test_a_time_of_another_sentence_is_not_taken() -> None:
    said = "I have a meeting tomorrow. Remind me to call Ann"
    assert understand(said, now=NOW) == Refuse(reason=RefuseReason.NO_TIME)


def test_a_text_is_kept_as_written_without_what_cannot_be_seen() -> None:
    said = "\u202eremind me in 10 minutes to\nfeed\x00 \u200fTom's Cat 🐈"
    assert understand(said, now=NOW) == after(600, "feed Tom's Cat 🐈")


def test_a_message_beyond_the_limit_is_not_looked_at() -> None:
    said = "remind me in 10 minutes to " + "x" * LIMIT_CHARS
    assert understand(said[:LIMIT_CHARS], now=NOW) is not None
    assert understand(said, now=NOW) is None
    assert understand("remind me tomorrow " * 6_000, now=NOW) is None


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(st.sampled_from(_PIECES), max_size=40).map(" ".join)))
def test_any_text_gets_an_answer_and_a_reminder_only_with_one_schedule_ahead(said: str) -> None:
    intent = understand(said, now=NOW, jobs=JOBS)
    if not isinstance(intent, Add):
        return
    arguments = dict(intent.arguments)
    assert (arguments.pop("action"), arguments.pop("kind")) == ("add", "reminder")
    assert arguments.pop("text") == intent.text
    assert intent.text.strip()
    ((field, value),) = arguments.items()
    if field == "at":
        assert datetime.fromisoformat(value) > NOW.replace(tzinfo=None)
    elif field == "cron_expr":
        assert len(value.split()) == 5
    else:
        assert isinstance(value, int)
        assert value >= (60 if field == "every_seconds" else 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=3), st.sampled_from(["", "remind me to ", "提醒我"]))
def test_repetitive_text_of_full_length_takes_bounded_time(pieces: list[str], start: str) -> None:
    unit = " ".join(pieces) + " "
    said = (start + unit * (LIMIT_CHARS // len(unit)))[:LIMIT_CHARS]
    before = time.process_time()
    understand(said, now=NOW, jobs=JOBS)
    # Quadratic patterns stay far below this, a catastrophic one runs for minutes.
    assert time.process_time() - before < 10


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=1, max_value=900))
def test_minutes_become_seconds_in_every_language(minutes: int) -> None:
    assert understand(f"remind me in {minutes} minutes to rest", now=NOW) == after(minutes * 60, "rest")
    assert understand(f"erinnere mich in {minutes} Minuten ans Rasten", now=NOW) == after(minutes * 60, "Rasten")
    assert understand(f"{minutes}分钟后提醒我休息", now=NOW) == after(minutes * 60, "休息")


@settings(max_examples=100, deadline=None)
@given(
    st.integers(min_value=1, max_value=400),
    st.integers(min_value=0, max_value=23),
    st.integers(min_value=0, max_value=59),
)
def test_every_date_written_out_is_read_back(days: int, hour: int, minute: int) -> None:
    due = (NOW + timedelta(days=days)).replace(hour=hour, minute=minute)
    expected = at(due.strftime("%Y-%m-%dT%H:%M"), "rest")
    assert understand(f"remind me on {due:%d %B %Y} at {due:%H:%M} to rest", now=NOW) == expected
    assert understand(f"remind me to rest {due:%Y-%m-%d %H:%M}", now=NOW) == expected
    assert understand(f"erinnere mich am {due:%d.%m.%Y} um {due:%H:%M} Uhr: rest", now=NOW) == expected
    assert understand(f"{due.year}年{due.month}月{due.day}日{due:%H:%M}提醒我rest", now=NOW) == expected
