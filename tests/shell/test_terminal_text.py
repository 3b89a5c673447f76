"""What a terminal's bytes become: text without control sequences, whatever the bytes are."""

from __future__ import annotations

import curses
import threading
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.shell.keys import KEYS, UnknownKeyError, key_bytes
from bot.shell.output import HeadTail
from bot.shell.terminal_text import MAX_COLUMN, plain_text


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"tab\there\r\n", "tab\there\n"),
        (b"\x1b[1;31mred\x1b[0m\r\n", "red\n"),
        (b"\x1b[38;5;12mx\x1b[m", "x"),
        (b"\x1b]0;a title\x07$ ", "$ "),
        (b"\x1b]8;;http://h/\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bPq#0;2;0\x1b\\after", "after"),
        (b"\x1b(B\x1b=\x1b>\x1b7x\x1b8", "x"),
        (b"\x1b[?2004h$ ls\x1b[?2004l", "$ ls"),
        (b" 10%\r 55%\r100%\r\n", "100%\n"),
        (b"$ " + b" " * 70 + b"\r$ ", "$ "),
        (b"long line\rshort\r\n", "shortline\n"),
        (b"long line\r\x1b[Kshort\r\n", "short\n"),
        (b"abc\x1b[2K\rx", "x"),
        (b"abcdef\x1b[3D\x1b[1K", "    ef"),
        (b"pasx\bswd\r\n", "passwd\n"),
        (b"\b\b\bx\b \b", ""),
        (b"a\x1b[5Cb", "a     b"),
        (b"abc\x1b[1Gx", "xbc"),
        (b"\x1b[2J\x1b[Htop\x1b[5;1Hfifth\x1b[9;20Hright", "top\nfifth\nright"),
        (b"bell\x07 nul\x00 del\x7f", "bell nul del"),
        (b"\xc2\x9b31mC1\xc2\x85", "C1"),
        (b"caf\xc3\xa9 \xff\xfe \xe4\xbd\xa0", "café \ufffd\ufffd 你"),
        (b"\r\r\n\r\n", "\n\n"),
        (b"cut \x1b[", "cut "),
        (b"\x1b]0;no end\nnext", "0;no end\nnext"),
        (b"\x1b]0;title that was \x1b[1mbroken off", "0;title that was broken off"),
        (b"x\x1b[999999999999999C.", "x ."),
    ],
)
def test_control_sequences_are_applied_within_a_line_or_left_out(written: bytes, read: str) -> None:
    assert plain_text(written) == read


def test_text_after_a_string_that_never_ends_is_not_kept_back() -> None:
    output = HeadTail()
    output.write(b"\x1b]0;no end\nnext")
    assert output.take() == "0;no end\nnext"
    output.write(b"\x1b]0;a ti")
    assert output.take() == ""
    output.write(b"tle\x07.")
    assert output.take() == "."


def test_a_move_to_the_right_is_bounded() -> None:
    assert len(plain_text(b"\x1b[999999C" * 1_000 + b"x")) == MAX_COLUMN + 1


_PIECES = st.sampled_from(
    [b"\x1b", b"\x1b[", b"\x1b]0;", b"\x07", b"\x1b\\", b"\r", b"\n", b"\b", b"\x1b[K", b"\x1b[1K",
    b"\x1b[2;3H", b"\x1b[40C",
     b"\x1b[7D", b"\x1b[900G", b"\x1b[9999999999K", b"\xe2\x82", b"\xff", b"\x9b", b"text",
     b"\xf0\x9f\x98\x80", b"\x00", b"\x18"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.binary(max_size=2_000), st.lists(_PIECES, max_size=200).map(b"".join)))
def test_arbitrary_bytes_become_bounded_text_without_controls(data: bytes) -> None:
    text = plain_text(data)
    allowed = {"\n", "\t"}
    assert all(unicodedata.category(char) != "Cc" or char in allowed for char in text)
    assert len(text) <= len(data) * 3 + (MAX_COLUMN + 1) * (data.count(b"\x1b[") + 1)
    text.encode()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(_PIECES, st.binary(max_size=12)), max_size=30).map(b"".join), st.data())
def test_what_is_taken_in_two_parts_reads_as_in_one_where_the_cut_is_within_a_sequence(
    data: bytes, draws: st.DataObject
) -> None:
    # On lines with no moves; those are applied within what one reading got.
    data = data.replace(b"\r", b"").replace(b"\b", b"")
    for final in b"KGCDHABEFdefST":
        data = data.replace(bytes([final]), b"m")
    cut = draws.draw(st.integers(0, len(data)))
    output = HeadTail()
    output.write(data[:cut])
    first = output.take()
    output.write(data[cut:])
    assert first + output.text() == plain_text(data)


@pytest.mark.parametrize(
    "piece", [b"\x1b]", b"\x1b[", b"\x1b", b"\x1b[1", b"\r", b"a\r", b"\x1b[900Gx\r", b"\x1b[1K", b"\x1bP\x1b"]
)
def test_time_is_linear_in_the_size(piece: bytes) -> None:
    data = piece * (256 * 1024 // len(piece))
    started = time.process_time()
    plain_text(data)
    assert time.process_time() - started < 5  # a quadratic pass would take minutes


@pytest.mark.parametrize("piece", [b"\x1b", b"\x1b[", b"\x00", b"\r\n"])
def test_others_can_run_while_a_thread_reads_control_characters(piece: bytes) -> None:
    data = piece * (2 * 1024 * 1024 // len(piece))
    thread = threading.Thread(target=plain_text, args=(data,))
    turns = 0
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 5  # else all of it would be one piece of work


def test_the_keys_are_those_of_terminfo() -> None:
    curses.setupterm("xterm")
    for name, capability in {
        "f1": "kf1", "f4": "kf4", "f5": "kf5", "f12": "kf12", "insert": "kich1", "delete": "kdch1", "page-up": "kpp",
        "page-down": "knp", "shift-tab": "kcbt",
    }.items():  # fmt: skip
        assert curses.tigetstr(capability) == KEYS[name], name
    for name, capability in {
        "up": "kcuu1",
        "down": "kcud1",
        "left": "kcub1",
        "right": "kcuf1",
        "home": "khome",
    }.items():
        assert curses.tigetstr(capability) == KEYS[name].replace(b"[", b"O"), name  # application mode there


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("enter", b"\r"), ("Return", b"\r"), ("ctrl-c", b"\x03"), ("Ctrl+C", b"\x03"), ("C-c", b"\x03"),
        ("^C", b"\x03"),
        ("control-d", b"\x04"), ("ctrl-z", b"\x1a"), ("ArrowUp", b"\x1b[A"), ("arrow_left", b"\x1b[D"),
        ("page_up", b"\x1b[5~"),
        ("esc", b"\x1b"), ("ctrl-_", b"\x1f"), ("ctrl-\\", b"\x1c"), ("^_", b"\x1f"), (" tab ", b"\t"),
    ],
)  # fmt: skip
def test_keys_are_known_by_the_names_people_use(name: str, sent: bytes) -> None:
    assert key_bytes(name) == sent


def test_an_unknown_key_is_refused_with_all_names() -> None:
    with pytest.raises(UnknownKeyError, match="no key is called 'hyper-q'; keys: enter, tab"):
        key_bytes("hyper-q")
