from __future__ import annotations

import pytest

from bot.crontab import parse_crontab
from bot.phrases import crontab_phrase, interval_phrase


@pytest.mark.parametrize(
    ("expression", "phrase"),
    [
        ("0 8 * * *", "every day at 08:00"),
        ("@daily", "every day at 00:00"),
        ("15 10,12 * * 1,7", "every Monday and Sunday at 10:15 and 12:15"),
        ("0 9 * * 1-5", "every weekday at 09:00"),
        ("0 9 * * 6,0", "every Saturday and Sunday at 09:00"),
        ("*/15 * * * *", "every 15 minutes"),
        ("5-59/15 * * * *", "every 15 minutes from minute 5"),
        ("* * * * *", "every minute"),
        ("@hourly", "every hour"),
        ("30 * * * 1-5", "every hour at minute 30, every weekday"),
        ("0 7 1 * *", "every month on day 1 at 07:00"),
        ("0 7 1,15 * *", "every month on day 1 and 15 at 07:00"),
        ("0 0 25 12 *", "every year on 25 December at 00:00"),
        ("0 6 * 6-8 *", "every day in June, July and August at 06:00"),
        ("0 6 1-31 * 1", "every day at 06:00"),  # day or weekday: the days alone are all
        ("0 6 13 * 5", None),
        ("*/7 * * * *", None),
        ("0 8-18 * * *", None),
        ("0 6 1 1,7 *", None),
    ],
)
def test_common_expressions_have_a_phrase_and_others_none(expression: str, phrase: str | None) -> None:
    assert crontab_phrase(parse_crontab(expression)) == phrase


@pytest.mark.parametrize(
    ("every_s", "phrase"),
    [
        (60, "every minute"),
        (1800, "every 30 minutes"),
        (3600, "every hour"),
        (5400, "every 1 hour 30 minutes"),
        (86_400, "every 24 hours"),
        (90, "every 1 minute 30 seconds"),
    ],
)
def test_an_interval_is_told_in_hours_minutes_and_seconds(every_s: int, phrase: str) -> None:
    assert interval_phrase(every_s) == phrase


@pytest.mark.parametrize(
    ("expression", "german", "chinese"),
    [
        ("0 8 * * *", "täglich um 08:00", "每天 08:00"),
        ("15 10,12 * * 1,7", "jeden Montag und Sonntag um 10:15 und 12:15", "每周一、周日 10:15、12:15"),
        ("0 9 * * 1-5", "jeden Werktag um 09:00", "每个工作日 09:00"),
        ("5-59/15 * * * *", "alle 15 Minuten ab Minute 5", "每15分钟(从第5分钟起)"),
        ("30 * * * 1-5", "jede Stunde zur Minute 30, jeden Werktag", "每个工作日每小时的第30分钟"),
        ("0 7 1,15 * *", "jeden Monat am 1. und 15. um 07:00", "每月1日、15日 07:00"),
        ("0 0 25 12 *", "jedes Jahr am 25. Dezember um 00:00", "每年12月25日 00:00"),
        ("0 6 * 6-8 *", "täglich im Juni, Juli und August um 06:00", "6月、7月、8月的每天 06:00"),
        ("0 6 13 * 5", None, None),
    ],
)
def test_a_repetition_reads_in_the_persons_language(expression: str, german: str | None, chinese: str | None) -> None:
    assert crontab_phrase(parse_crontab(expression), "de") == german
    assert crontab_phrase(parse_crontab(expression), "zh") == chinese


def test_intervals_read_in_the_persons_language() -> None:
    assert [interval_phrase(seconds, "de") for seconds in (60, 1800, 5400)] == [
        "jede Minute",
        "alle 30 Minuten",
        "alle 1 Stunde 30 Minuten",
    ]
    assert [interval_phrase(seconds, "zh") for seconds in (3600, 5400)] == ["每小时", "每1小时30分钟"]
    assert interval_phrase(1800, "fr") == "every 30 minutes"
