"""Bytes become text by the label that fits, and never fail to."""

from __future__ import annotations

import asyncio
import codecs
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.web.charsets import decode
from tests.support.ticking import loop_ticks

RUSSIAN = "Это страница на русском языке, и её можно прочитать."
CHINESE = "这是一个用旧编码写成的网页,里面有足够多的文字可以阅读。"


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("windows-1251", "cp1251", RUSSIAN),
        ("KOI8-R", "koi8-r", RUSSIAN),
        ("GB2312", "gbk", "囧" + CHINESE),  # a sign that GB 2312 itself does not have
        ("x-sjis", "cp932", "①これは日本語です"),
        ("Big5", "big5", "這是一個網頁"),
        ("EUC-KR", "cp949", "똠방각하 한국어"),
        ("ISO-8859-1", "cp1252", "“quotes” and €"),
        ("latin1", "latin-1", "Grüße"),
        ("utf-16le", "utf-16-le", RUSSIAN),
        ("iso-2022-jp", "iso2022_jp", "これは日本語です"),
        ("UTF8", "utf-8", RUSSIAN),
    ],
)
def test_a_label_is_read_as_browsers_read_it(label: str, encoding: str, text: str) -> None:
    found = decode(text.encode(encoding), label=label)
    assert found
    assert (found.text, found.damaged) == (text, 0)


@pytest.mark.parametrize(
    "head",
    [
        '<html><head><meta charset="windows-1251">',
        "<meta http-equiv=Content-Type content='text/html; charset=windows-1251'>",
        "<META content='text/html;charset=WINDOWS-1251' http-equiv=Content-Type>",
        "<?xml version='1.0' encoding='windows-1251'?><rss>",
    ],
)
def test_markup_names_its_own_encoding(head: str) -> None:
    body = (head + "ы").encode("cp1251")  # one letter: nobody could guess it from the bytes
    assert (found := decode(body, is_markup=True))
    assert found.text.endswith("ы")


def test_the_servers_label_comes_before_the_pages_own() -> None:
    body = ("<meta charset=koi8-r>" + RUSSIAN).encode("cp1251")
    assert (found := decode(body, label="windows-1251", is_markup=True))
    assert RUSSIAN in found.text


def test_a_page_that_says_utf16_in_ascii_is_utf8() -> None:
    body = f"<meta charset=utf-16>{RUSSIAN}".encode()
    assert (found := decode(body, is_markup=True))
    assert RUSSIAN in found.text


@pytest.mark.parametrize("label", ["utf-16", "utf-16le", "utf-16be", "gbk", "windows-1252"])
def test_plain_ascii_is_itself_whatever_the_label(label: str) -> None:
    assert (found := decode(b"plain old text, even in length.", label=label))
    assert found.text == "plain old text, even in length."


@pytest.mark.parametrize("label", ["idna", "punycode", "unicode_escape", "zlib", "rot13", "utf-7", "undefined", "mbcs"])
def test_a_codec_that_is_no_encoding_of_pages_is_not_used(label: str) -> None:
    assert codecs.lookup(label) if label != "mbcs" else True
    assert (found := decode(rb"a\u0041-xn+AGE-" + "é".encode(), label=label))
    assert found.text == r"a\u0041-xn+AGE-é"


def test_a_utf16_label_without_an_order_means_the_little_endian_one() -> None:
    assert (found := decode(RUSSIAN.encode("utf-16-le"), label="utf-16"))
    assert found.text == RUSSIAN


@pytest.mark.parametrize(
    "head",
    [
        b"<meta charset=" + b" " * 8_100 + b"!",
        b"<?xml encoding=" + b" " * 8_100 + b"!",
        b"<meta " + b"charset " * 1_000,
    ],
    ids=["meta", "xml", "again"],
)
def test_a_declaration_of_blanks_is_passed_over_in_no_time(head: bytes) -> None:
    """No exact figure: trying each way to split the blanks takes seconds, in which no other thread runs."""
    begun = time.process_time()
    for _ in range(10):
        assert decode(head, is_markup=True)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("unit", "label"),
    [(b"\xff\xfe" + b"\x00\xd8" * 500_000, ""), (b"<p>" + b"\x81\x20" * 500_000, "cp1252")],
    ids=["surrogates", "undefined"],
)
async def test_bytes_that_fit_nothing_do_not_hold_up_the_loop(unit: bytes, label: str) -> None:
    async with loop_ticks() as ticks:
        found = await asyncio.to_thread(decode, unit, label=label)
    assert found
    assert ticks.count > 10


@given(st.binary(max_size=40), st.sampled_from(["gbk", "shift_jis", "utf-16le", "utf-8", "hz", "iso-2022-jp", "big5"]))
@settings(max_examples=100, deadline=None)
def test_a_long_text_is_decoded_as_if_in_one_step(unit: bytes, label: str) -> None:
    body = (unit * (40_000 // max(1, len(unit))))[:40_000]
    found = decode(body, label=label)
    if found and not body.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        assert found.text == body.decode(found.encoding, "replace")


def test_what_is_not_text_is_none() -> None:
    assert decode(bytes(range(256)) * 8) is None
    assert decode(b"\x00\x01\x02" * 50, label="utf-8") is not None


@given(
    st.binary(max_size=400),
    st.text(max_size=20) | st.sampled_from(["utf-8", "gbk", "hz", "utf-16", "cp874"]),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_any_bytes_under_any_label_are_text_or_none(body: bytes, label: str, is_markup: bool) -> None:
    found = decode(body, label=label, is_markup=is_markup)
    if found:
        assert len(found.text) <= 2 * len(body)
        assert found.damaged == found.text.count("\ufffd")
        found.text.encode()
