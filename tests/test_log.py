"""Log lines: complete, machine-readable, and free of secrets."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import structlog

from bot.log import bind, get_logger, redact, setup_logging

TOKEN = "123456789:AAF-abcdefghijklmnopqrstuvwxyz012345"
KEY = 'hunter-22 "quoted" ünïcode'


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, sys.excepthook, threading.excepthook, structlog.get_config())
    yield
    root.handlers[:], level, sys.excepthook, threading.excepthook, config = before
    root.setLevel(level)
    structlog.configure(**config)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail_to_connect(text: str) -> NoReturn:
    raise ConnectionError(text)


def set_up(**options: Any) -> io.StringIO:
    stream = io.StringIO()
    logging.getLogger().handlers[:] = []  # pytest's own raise on records that cannot be formatted
    setup_logging(**{"format": "json", "secrets": {KEY}, "stream": stream, **options})
    return stream


def test_a_line_carries_event_level_logger_time_and_fields() -> None:
    stream = set_up()
    get_logger("bot.bus").info("accepted", rows=3)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "accepted", "level": "info", "logger": "bot.bus", "rows": 3}


def test_bound_context_is_on_each_line_of_its_task_and_gone_after() -> None:
    stream = set_up()
    log = get_logger("x")
    with bind(channel="telegram", session=7, turn=9):
        log.info("inside")
        logging.getLogger("telegram.ext").warning("library inside")
    log.info("outside")
    inside, library, outside = lines(stream)
    for line in (inside, library):
        assert (line["channel"], line["session"], line["turn"]) == ("telegram", 7, 9)
    assert "channel" not in outside


def test_levels_below_the_configured_one_are_not_written() -> None:
    stream = set_up(level="warning")
    get_logger("x").info("no")
    logging.getLogger("slack_bolt").info("no")
    get_logger("x").warning("yes")
    assert [line["event"] for line in lines(stream)] == ["yes"]


@pytest.mark.parametrize(
    "secret", [KEY, TOKEN, "Bearer abcdefgh12345", "sk-proj-abcdefghijklmnop1234", "xoxb-1234567890-abc"]
)
def test_secrets_are_redacted_in_event_fields_nested_values_keys_objects_and_tracebacks(secret: str) -> None:
    stream = set_up(level="debug")

    class Thing:
        def __repr__(self) -> str:
            return f"Thing({secret})"

    log = get_logger("x")
    log.info(
        f"sent to {secret}",  # noqa: G004  # that is how secrets get into events
        url=f"https://host/{secret}/getMe",
        nested={"a": [secret, {secret: (secret,)}]},
    )
    log.info("object", thing=Thing(), raw=secret.encode())
    try:
        fail_to_connect(f"https://api.telegram.org/{secret}/getUpdates")
    except ConnectionError:
        log.exception("failed")
    logging.getLogger("telegram").error("POST %s", secret, exc_info=ConnectionError(secret))
    assert secret not in stream.getvalue()
    assert json.dumps(secret)[1:-1] not in stream.getvalue()
    assert stream.getvalue().count("[redacted]") >= 9
    assert "ConnectionError" in lines(stream)[2]["exception"]


def test_a_secret_in_a_url_path_is_redacted_in_its_quoted_form() -> None:
    assert redact("GET /bot123456789%3AAAF-abcdefghijklmnopqrstuvwxyz012345/getMe") == "GET /bot[redacted]/getMe"
    assert redact("GET /?key=pass%2Fword", {"pass/word"}) == "GET /?key=[redacted]"


def test_a_secret_that_begins_with_another_one_goes_as_a_whole() -> None:
    assert redact("abcd-more", {"abcd", "abcd-more"}) == "[redacted]"


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("Bearer k-0123456789", "the token k-0123456789 has run out"),
        ("Token k-0123456789", "the token k-0123456789 has run out"),
        ("Basic YWRhOmh1c2gtaHVzaA==", "wrong password: hush-hush"),
        ("Basic YWRhOmh1c2gtaHVzaA==", "wrong header: YWRhOmh1c2gtaHVzaA=="),
    ],
)
def test_the_credentials_of_a_header_are_redacted_without_their_scheme(header: str, told: str) -> None:
    assert "[redacted]" in redact(told, [header])
    assert not any(word in redact(told, [header]) for word in ("k-0", "hush", "YWRh"))
    assert redact("Bearer is a word", [header]) == "Bearer is a word"


def test_ordinary_text_and_very_short_secrets_stay() -> None:
    text = "task-12 at 12:30:45, 123456:short, sk-small, bearer of news"
    assert redact(text, {"at", ""}) == text


def test_http_libraries_do_not_narrate_requests_even_at_debug_but_their_warnings_come() -> None:
    stream = set_up(level="debug")
    for name in ("httpx", "httpx2", "httpcore.connection", "openai._base_client", "apscheduler.scheduler"):
        logging.getLogger(name).info("HTTP Request: GET https://host")
        logging.getLogger(name).warning("trouble")
    assert [line["event"] for line in lines(stream)] == ["trouble"] * 5


def test_a_library_record_that_cannot_be_formatted_is_reported_without_its_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = set_up()
    logging.getLogger("telegram").warning("%d", TOKEN)
    (line,) = lines(stream)
    assert line["event"] == "log record could not be formatted"
    assert line["logger"] == "telegram"
    assert capsys.readouterr().err == ""


def test_a_broken_repr_costs_no_line() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    stream = set_up()
    get_logger("x").info("event", thing=Broken())
    assert lines(stream)[0]["thing"] == "<Broken>"


def test_lone_surrogates_and_line_breaks_stay_one_valid_line() -> None:
    stream = set_up()
    get_logger("x").info("a\ud800b\nc", name="中文")
    assert len(stream.getvalue().splitlines()) == 1
    stream.getvalue().encode()
    assert lines(stream)[0]["name"] == "中文"


def test_pretty_output_keeps_control_characters_of_strangers_out_of_the_terminal() -> None:
    stream = set_up(format="pretty")
    get_logger("x").info("hello", sender="ev\x1b[31mil\nline two", text=KEY)
    text = stream.getvalue()
    assert "\x1b" not in text
    assert len(text.splitlines()) == 1
    assert r"\x1b[31m" in text
    assert "hunter" not in text


def test_auto_is_pretty_on_a_terminal_and_json_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    setup_logging(stream=terminal)
    get_logger("x").info("event")
    assert "event" in terminal.getvalue()
    with pytest.raises(json.JSONDecodeError):
        json.loads(terminal.getvalue())
    assert lines(set_up(format="auto")) == []
    stream = set_up(format="auto")
    get_logger("x").info("event")
    assert lines(stream)[0]["event"] == "event"


def test_a_second_setup_replaces_the_first_one() -> None:
    first, second = set_up(), set_up()
    get_logger("x").info("ours")
    logging.getLogger("library").warning("theirs")
    assert first.getvalue() == ""
    assert len(lines(second)) == 2


def test_unhandled_errors_are_logged_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    stream = set_up()
    try:
        fail_to_connect(KEY)
    except ConnectionError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    thread = threading.Thread(target=lambda: 1 / 0, name="t")
    thread.start()
    thread.join()
    crash, in_thread = lines(stream)
    assert crash["level"] == "critical"
    assert KEY not in crash["exception"]
    assert "ZeroDivisionError" in in_thread["exception"]
    assert capsys.readouterr().err == ""


def test_logging_before_the_setup_goes_to_stderr_and_is_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    code = f"""
from bot.log import get_logger
get_logger("x").info("no")
get_logger("x").warning("early", value={TOKEN!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "early" in done.stderr
    assert "[redacted]" in done.stderr
    assert "no" not in done.stderr.split()


def test_importing_the_log_module_does_not_import_rich() -> None:
    code = "import sys, bot.log; print([name for name in sys.modules if name.split('.')[0] == 'rich'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
