"""What a command wrote, as bounded and harmless text."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.shell.output import HeadTail, plain_text

RESET = b"\x1b[0m\x1b]0;title\x07\x1b[2J\x9b1m\xc2\x9b31m"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;a title\x07shown", "shown"),
        (b"\x1b]8;;https://x.y\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bPq#0;2;0\x1b\\picture", "picture"),
        (b"\x1b(B\x1b=\x1bM\x1bcreset", "reset"),
        ("\x9b31mC1".encode(), "C1"),
        (b"10 %\r50 %\r100 %\ndone\r\n", "100 %\ndone\n"),
        (b"b\x08bo\x08ol\x08ld\x08d", "bold"),
        (b"\x07\x00bell\x7f", "bell"),
        (b"\xff\xfe text \xc3", "\ufffd\ufffd text \ufffd"),
        ("grüße 你好 🙂\tx".encode(), "grüße 你好 🙂\tx"),
        (b"\x1b[", ""),
        (b"\x1b]no end", "no end"),
    ],
)
def test_control_is_taken_out_and_text_stays(data: bytes, text: str) -> None:
    assert plain_text(data) == text


@given(
    st.binary(max_size=400)
    | st.lists(st.sampled_from([RESET, b"\x1b", b"[", b"]", b"m", b"\r", b"\n", b"x"])).map(b"".join)
)
@settings(max_examples=300, deadline=None)
def test_no_bytes_leave_a_control_character(data: bytes) -> None:
    text = plain_text(data)
    assert all(char in "\n\t" or not (ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0) for char in text)
    text.encode()


@pytest.mark.parametrize("unit", [b"\x1b]", b"\x1b[1", b"\x1b]x", b"\r", b"x\x08", b"\x08", b"a", b"\x9b", b"\x1b"])
def test_a_megabyte_of_the_worst_takes_no_longer_than_one_of_letters_by_much(unit: bytes) -> None:
    # Quadratic work on this much would take minutes, and the suite's limit for a test ends it.
    assert len(plain_text(unit * (1_000_000 // len(unit)))) <= 1_000_000


@given(
    st.lists(st.binary(max_size=60), max_size=30),
    st.integers(min_value=2, max_value=200),
    st.integers(min_value=2, max_value=100),
)
@settings(max_examples=300, deadline=None)
def test_memory_and_text_are_bounded_whatever_comes(chunks: list[bytes], limit_bytes: int, limit_chars: int) -> None:
    output = HeadTail(limit_bytes)
    for chunk in chunks:
        output.write(chunk)
        assert sys.getsizeof(output._head) + sys.getsizeof(output._tail) < 6 * limit_bytes + 400
    text = output.text(limit_chars)
    assert len(text) <= limit_chars + 60
    whole = plain_text(b"".join(chunks))
    assert output.total_bytes == sum(map(len, chunks))
    if output.total_bytes <= limit_bytes and len(whole) <= limit_chars:
        assert text == whole
    elif output.total_bytes > limit_bytes:
        assert "bytes left out" in text


def test_head_and_tail_are_kept_and_what_is_between_is_counted() -> None:
    output = HeadTail(1_000)
    output.write(b"first " + b"x" * 5_000 + b" last")
    assert output.text(100) == f"first {'x' * 44}\n[... 4,911 bytes left out ...]\n{'x' * 45} last"
    short = HeadTail(1_000)
    short.write(b"first " + b"x" * 500 + b" last")
    assert short.text(100) == f"first {'x' * 44}\n[... 411 characters left out ...]\n{'x' * 45} last"


def test_taking_gives_only_what_is_new_and_splits_neither_characters_nor_sequences() -> None:
    output = HeadTail(1_000)
    taken = []
    for byte in "aä你🙂\x1b[31mred\x1b[0m\x1b]0;title\x07!".encode():
        output.write(bytes([byte]))
        taken.append(output.take())
    assert "".join(taken) == "aä你🙂red!"
    assert output.take() == ""


def test_a_reader_who_takes_seldom_gets_head_and_tail_of_what_came_meanwhile() -> None:
    output = HeadTail(100)
    output.write(b"a" * 1_000)
    assert "bytes left out" in output.take()
    output.write(b"b" * 10)
    assert output.take() == "b" * 10


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=30), st.booleans()), max_size=20))
def test_what_comes_while_a_copy_is_read_is_there_the_next_time(steps: list[tuple[bytes, bool]]) -> None:
    output = HeadTail(10_000)
    part, read, written = output.copy(), b"", b""
    for chunk, is_read in steps:
        output.write(chunk)
        written += chunk
        if is_read:
            read += bytes(part._head + part._tail)
            output.forget(part.total_bytes)
            part = output.copy()
            part.hold_back()
    output.forget(part.total_bytes)
    read += bytes(part._head + part._tail)
    assert read + bytes(output._head + output._tail) == written
    assert output.total_bytes == len(written) - len(read)


def test_more_than_fits_that_comes_while_a_copy_is_read_counts_as_left_out() -> None:
    output = HeadTail(100)
    output.write(b"old")
    part = output.copy()
    output.write(b"x" * 1_000)
    output.forget(part.total_bytes)
    assert output.total_bytes == 1_000
    assert "bytes left out" in output.text()
