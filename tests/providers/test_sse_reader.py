"""Server-sent events as endpoints really send them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import ProviderError, ProviderErrorKind
from bot.providers.sse_reader import MAX_EVENT_BYTES, SseReader

STREAM = (
    ': hello\r\n\r\ndata: {"a": "ä€"}\r\n\r\nevent: x\ndata:{"b": 2}\n\ndata: [DONE]\n\ndata: {"c": 3}\n\n'
).encode()


def read(*chunks: bytes) -> tuple[list[object], SseReader]:
    reader = SseReader()
    values = [value for chunk in chunks for value in reader.feed(chunk)]
    return values + list(reader.finish()), reader


def test_events_comments_crlf_and_done_are_told_apart() -> None:
    values, reader = read(STREAM)
    assert values == [{"a": "ä€"}, {"b": 2}]
    assert reader.done


@given(st.lists(st.integers(1, 20), max_size=60))
def test_chunks_may_end_anywhere_even_inside_a_character(sizes: list[int]) -> None:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(STREAM[at : at + size])
        at += size
    assert read(*chunks, STREAM[at:])[0] == [{"a": "ä€"}, {"b": 2}]


def test_a_bom_before_the_first_event_is_ignored() -> None:
    assert read(b'\xef\xbb\xbfdata: {"a": 1}\n\n')[0] == [{"a": 1}]


def test_json_over_several_data_lines_is_joined() -> None:
    assert read(b'data: {"a":\ndata: 1}\n\n')[0] == [{"a": 1}]


def test_events_need_no_blank_line_between_them() -> None:
    assert read(b'data: {"a": 1}\ndata: {"b": 2}\n')[0] == [{"a": 1}, {"b": 2}]


def test_the_last_line_needs_no_line_break() -> None:
    values, reader = read(b'data: {"a": 1}\n\ndata: [DONE]')
    assert values == [{"a": 1}]
    assert reader.done


def test_half_an_event_at_the_end_is_no_event() -> None:
    values, reader = read(b'data: {"a": 1}\n\ndata: {"b"')
    assert values == [{"a": 1}]
    assert not reader.done


def test_a_whole_event_that_is_not_json_is_malformed() -> None:
    with pytest.raises(ProviderError) as caught:
        read(b'data: {"a": \n\n')
    assert caught.value.kind is ProviderErrorKind.MALFORMED
    assert '{"a":' in caught.value.detail


def test_an_event_without_end_does_not_fill_the_memory() -> None:
    reader = SseReader()
    assert list(reader.feed(b"data: " + b"x" * (MAX_EVENT_BYTES - 100))) == []
    with pytest.raises(ProviderError) as caught:
        list(reader.feed(b"x" * 200))
    assert caught.value.kind is ProviderErrorKind.MALFORMED
