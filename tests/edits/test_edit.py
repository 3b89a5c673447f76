"""Editing by exact bytes: what is not meant to change does not, whatever encoding and line ends a file has."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.edits.edit import Edit, EditError
from bot.edits.file_text import FileText, NotText, Replacement
from bot.edits.fitting import replacements
from bot.edits.matching import Selector, find


def edited(data: bytes, old: str, new: str, **selector: int | bool) -> bytes:
    return Edit(old=old, new=new, selector=Selector(**selector)).apply(data).data  # type: ignore[arg-type]


def problem(data: bytes, old: str, new: str = "new", **selector: int) -> str:
    with pytest.raises(EditError) as caught:
        edited(data, old, new, **selector)
    return str(caught.value)


# --- line ends -------------------------------------------------------------------------------------------


def test_c085_an_edit_matches_in_a_file_with_crlf() -> None:
    """C085."""
    assert edited(b"a\r\nb\r\n", "a\nb", "a\nc") == b"a\r\nc\r\n"


@pytest.mark.parametrize("old", ["two", "two\n", "one\ntwo\nthree", "\ntwo\n"])
def test_c086_only_the_changed_bytes_differ(old: str) -> None:
    """C086."""
    before = codecs.BOM_UTF8 + b"one\r\ntwo\nthree\r\n"
    assert edited(before, old, old.replace("two", "2")) == codecs.BOM_UTF8 + b"one\r\n2\nthree\r\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\r\nb\nc\n", "b", "b\nx", b"a\r\nb\nx\nc\n"),
        (b"a\nb\r\nc\n", "b", "x\ny", b"a\nx\r\ny\r\nc\n"),
        (b"a\rb\rc", "b", "x\ny", b"a\rx\ry\rc"),
        (b"a\rb\nc", "a", "x", b"x\rb\nc"),
        (b"a\nb\n", "b\n", "b\r\n", b"a\nb\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "a\nb", b"a\nb\r\n"),
        (b"1\r\n2\n3\r\n4\n5\r\n", "1\n2\n3\n4\n5\n", "1\n2\nx\n3\n4\n6\n", b"1\r\n2\nx\r\n3\r\n4\n6\r\n"),
        (b"a\r\nb\r\nc", "b\n", "", b"a\r\nc"),
        (b"a\nb", "b\n", "b\nc\n", b"a\nb\nc"),
        (b"a\nb", "a\nb\n", "a\nc\n", b"a\nc"),
        (b"a\r\nb", "b\n", "b\nc\n", b"a\r\nb\r\nc"),
    ],
)  # fmt: skip
def test_new_lines_end_as_those_around_them(before: bytes, old: str, new: str, after: bytes) -> None:
    assert edited(before, old, new) == after


# --- not exact -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("    if x:\n        y()\n", "if x:\n    y()\n", "if x:\n    y()\n    z()\nw()\n",
         "    if x:\n        y()\n        z()\n    w()\n"),
        ("\tif x:\n\t\ty()\n", "if x:\n    y()", "if x:\n    for z in x:\n        y()",
         "\tif x:\n\t\tfor z in x:\n\t\t\ty()\n"),
        ("  if x:\n    y()\n", "\tif x:\n\t\ty()\n", "\tif x:\n\t\tif z:\n\t\t\ty()\n",
         "  if x:\n    if z:\n      y()\n"),
        ("    a\n    b\n", "        a\n        b\n", "        a\n    c\n", "    a\nc\n"),
        ("a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\nc\n"),
        ("  a  \r\n  b\r\n", "a\nb\n", "a\nB\nC\n", "  a  \r\n  B\r\n  C\r\n"),
        ("x = \u201ca\u201d + \u2018b\u2019\n", "x = \"a\" + 'b'", "x = \"a\" - 'b' + 'c'",
         "x = \u201ca\u201d - \u2018b\u2019 + 'c'\n"),
        ("\tsay(\u201chi\u201d)\n\tend\n", "  say(\"hi\")\n  end\n", "  say(\"hi\", 1)\n  end\n  more\n",
         "\tsay(\u201chi\u201d, 1)\n\tend\n\tmore\n"),
    ],
)  # fmt: skip
def test_a_match_that_is_not_exact_keeps_the_files_white_space_and_quotes(
    before: str, old: str, new: str, after: str
) -> None:
    made = Edit(old=old, new=new).apply(before.encode())
    assert made.data.decode() == after
    assert made.remarks[0].startswith("Matched although ")
    assert "\n+" in f"\n{made.diff}"


def test_an_exact_match_says_nothing_more() -> None:
    made = Edit(old="a", new="b").apply(b"a\n")
    assert (made.remarks, made.diff, made.lines) == ((), "", (1,))


# --- encodings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "text", "old", "new"),
    [
        ("utf-8", "größe = 1\nähnlich\n", "1\nä", "2\nÄ"),
        ("utf-8-sig", "größe\n", "größe", "Größe"),
        ("utf-16", "größe\n第二\n", "第二", "第三"),
        ("utf-16-be", "plain text without a mark\n", "without", "with ä"),
        ("utf-32", "größe\n𝒳\n", "𝒳", "y"),
        ("gbk", "今天天气很好，我们去公园散步。\n你好世界，这是一个测试文件。\n" * 3, "你好世界", "世界你好"),
        (
            "shift_jis",
            "こんにちは世界。これはテストファイルです。\n日本語の文章を読みます。\n" * 3,
            "日本語の文章を",
            "本を",
        ),
        ("koi8-r", "Привет мир, это тестовый файл на русском языке\n" * 3, "тестовый файл", "новый файл"),
        ("cp1252", "Größe: 5 €, Café, naïve, Straße über München\n" * 3, "5 €", "6 € – mehr"),
    ],
)
def test_a_file_is_edited_in_its_own_encoding(encoding: str, text: str, old: str, new: str) -> None:
    before = text.encode(encoding)
    after = edited(before, old, new, occurrence=1)
    assert after.decode(encoding) == text.replace(old, new, 1)
    assert edited(after, new, old, occurrence=1) == before


def test_what_the_encoding_lacks_is_refused() -> None:
    data = "Größe: 5 €, Café, naïve, Straße über München\n".encode("cp1252") * 3
    assert problem(data, "Café", "Привет", occurrence=1) == (
        "'П' (U+041F) cannot be written in the file's encoding, cp1252"
    )


def test_the_encoding_is_told_unless_it_is_utf8() -> None:
    made = Edit(old="5 €", new="6 €", selector=Selector(occurrence=1)).apply(
        "Größe: 5 €, Café, naïve, Straße über München\n".encode("cp1252") * 3
    )
    assert made.remarks == ("Written in the file's encoding, cp1252 (guessed)",)


def test_broken_bytes_and_half_characters_stay_what_they_are() -> None:
    broken = "Grüße aus Köln\n".encode() * 3 + b"bad \xff here\nend\xc3"
    assert edited(broken, "here", "there") == broken.replace(b"here", b"there")
    odd = codecs.BOM_UTF16_LE + "ab\nc".encode("utf-16-le") + b"\x41"
    assert edited(odd, "c", "d") == codecs.BOM_UTF16_LE + "ab\nd".encode("utf-16-le") + b"\x41"


def test_bytes_that_say_a_character_in_an_uncommon_way_stay_what_they_are() -> None:
    # cp932 has two codes for this sign; encoding gives the other one.
    assert b"\xfa\x54".decode("cp932").encode("cp932") != b"\xfa\x54"
    data = "日本語の文章を読みます。\n".encode("cp932") * 3 + b"\xfa\x54 sign\xfa\x54 end\n"
    assert FileText.of(data).kind.encoding == "cp932"
    assert edited(data, "end", "END") == data.replace(b"end", b"END")
    assert edited(data, "sign", "SIGN") == data.replace(b"sign", b"SIGN")


@pytest.mark.parametrize("data", [bytes(range(256)) * 4, b"%PDF-1.7\n1 0 obj\n", b"\xff\xfe\0\0\xff\xff\xff\xff"])
def test_what_is_no_text_is_refused(data: bytes) -> None:
    assert "binary" in problem(data, "obj")


# --- nothing found ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "old", "new", "told"),
    [
        (b"x = 1\ny = 2\n", "1| x = 1\n2| y = 2", "z", "old_text has the line numbers that read_file shows"),
        (b"x = 1\ny = 3\n", "y = 2", "y = 3", "new_text is already there, at line 2"),
        (b"a = f(b,  c)\n", "f(b, c)", "z", "White space differs"),
        (b"Hello World\n", "hello world", "z", "Upper and lower case differ"),
        (b"a\nb\n", "a\\nb", "z", "old_text is escaped once too often"),
        (b"if a < b:\n", "if a &lt; b:", "z", "old_text has HTML entities"),
        ("café\n".encode(), "cafe\u0301", "z", "old_text has characters with accents in another form: composed"),
        (b"a\rb\rc", "a\nb", "z", "Lines of the file end in CR alone"),
        (
            "Grüße\n".encode() * 3 + b"bad \xff\n",
            "bad \ufffd",
            "z",
            "old_text has a character that read_file shows for",
        ),
        (b"abc\n", "completely different", "z", "Nothing in it is similar."),
        (b"", "x", "z", "Nothing in it is similar."),
    ],
)
def test_the_likely_cause_is_told_when_nothing_is_found(data: bytes, old: str, new: str, told: str) -> None:
    assert problem(data, old, new).startswith(f"old_text is not there. {told}")


def test_the_closest_lines_are_shown_as_a_diff() -> None:
    data = b"".join(b"line %d\n" % number for number in range(1, 400)) + b"def alpha(beta):\n    return beta\n"
    assert problem(data, "line 398\nline 399\ndef alpha(gamma):\n    return beta\n") == (
        "old_text is not there. The closest lines, as a diff from old_text (-) to the file (+):\n"
        "--- old_text\n+++ file, lines 398-401\n"
        " line 398\n line 399\n-def alpha(gamma):\n+def alpha(beta):\n     return beta"
    )
    assert "+++ file, line 400\n-def alpa(betta):\n+def alpha(beta):" in problem(data, "def alpa(betta):")


def test_a_long_old_text_gives_a_bounded_answer() -> None:
    data = b"".join(b"line %d\n" % number for number in range(50_000))
    assert len(problem(data, "".join(f"line {number}{'x' * 500}\n" for number in range(5_000)))) < 20_000


def test_the_same_texts_and_an_edit_without_effect_are_errors() -> None:
    assert problem(b"a", "a", "a").startswith("old_text and new_text are the same")
    assert problem(b"  a\n", "a \n", "a\n").startswith("the file already says")


def test_many_places_times_a_long_text_is_refused_before_it_is_made() -> None:
    told = problem(b"a\n" * 90_000, "a", "b" * 1_000_000, expected=90_000)
    assert told.startswith("all these replacements together are longer than")


@pytest.mark.parametrize(
    ("line", "old"),
    [
        (b"x\n", "x\n" * 50_000 + "y"),
        (b"x\r\n", "y\n" + "x\n" * 50_000),
        (b"\n", "\n" * 50_000 + "a"),
        (b"a", "a" * 50_000 + "b"),
        ("\u201cx\u201d \u2018y\u2019\n".encode(), "\"x\" 'y'\n" * 20_000 + "z"),
        (b"  word word word\n", " ".join(["word"] * 20_000)),
    ],
)  # fmt: skip
def test_texts_that_are_alike_everywhere_are_searched_in_linear_time(line: bytes, old: str) -> None:
    """With anything quadratic each of these takes minutes, which ends the run."""
    data = line * (1_000_000 // len(line))
    assert problem(data, old, "new words").startswith("old_text is not there.")


# --- any bytes -------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        b"a",
        b"b",
        b"  ",
        b"\t",
        b"\n",
        b"\r\n",
        b"\r",
        b'"',
        b"\xff",
        b"\xe4",
        b"def x:",
        "\u201c".encode(),
        "ä".encode(),
    ]
)
BYTES = st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=30).map(b"".join))
TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="ab \t\r\n\"'\u201cä", max_size=12),
).filter(lambda text: all(not 0xD800 <= ord(char) < 0xE000 for char in text))


@given(BYTES, TEXTS.filter(bool), TEXTS)
@settings(max_examples=300, deadline=None)
def test_any_edit_of_any_bytes_touches_only_its_places_or_says_why_not(data: bytes, old: str, new: str) -> None:
    edit = Edit(old=old, new=new, selector=Selector(replace_all=True))
    try:
        made = edit.apply(data)
    except EditError as error:
        refusal = str(error)
    else:
        refusal = ""
        made.diff.encode()
        assert made.data != data
        assert_only_places_differ(data, old, new, made.data)
    assert len(refusal.encode()) < 5_000


def assert_only_places_differ(data: bytes, old: str, new: str, changed: bytes) -> None:
    file = FileText.of(data)
    matches = find(file.text, old)
    assert matches is not None
    changes = replacements(file.text, matches, matches.hits, old, new)
    assert file.spliced(changes) == changed
    whole = len(file.text)
    before = file.spliced([Replacement(start=changes[0].start, end=whole, text="")])
    after = file.spliced([Replacement(start=0, end=changes[-1].end, text="")])[file.kind.mark_bytes :]
    tail = len(data) % 2 if file.kind.encoding.startswith("utf-16") else 0  # half a character
    assert changed.startswith(before[: len(before) - tail])
    assert changed.endswith(after)
    back = [
        Replacement(start=change.start, end=change.end, text=file.text[change.start : change.end]) for change in changes
    ]
    assert file.spliced(back) == data
    if file.kind.is_valid:  # broken bytes may become whole characters with what follows them
        shift, undo = 0, []
        for change, original in zip(changes, back, strict=True):
            start = change.start + shift
            undo.append(Replacement(start=start, end=start + len(change.text), text=original.text))
            shift += len(change.text) - (change.end - change.start)
        assert FileText(data=changed, kind=file.kind).spliced(undo) == data


@given(BYTES, st.data())
@settings(max_examples=300, deadline=None)
def test_putting_the_same_text_into_any_places_changes_no_byte(data: bytes, draw: st.DataObject) -> None:
    try:
        file = FileText.of(data)
    except NotText:
        return
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(file.text)), max_size=6)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    assert file.spliced([Replacement(start=a, end=b, text=file.text[a:b]) for a, b in spans]) == data


@given(st.lists(st.sampled_from(["a", "b", "  c", "d\t", ""]), min_size=2, max_size=12), st.data())
@settings(max_examples=200, deadline=None)
def test_an_edit_and_its_reverse_give_the_original(lines: list[str], draw: st.DataObject) -> None:
    ends = draw.draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    if draw.draw(st.booleans()):
        ends[-1] = ""
    data = "".join(line + end for line, end in zip(lines, ends, strict=True)).encode()
    index = draw.draw(st.integers(0, len(lines) - 1))
    marked = [*lines[:index], "unique", *lines[index + 1 :]]
    before = "".join(line + end for line, end in zip(marked, ends, strict=True)).encode()
    after = edited(before, "unique", "other words")
    assert edited(after, "other words", "unique") == before
    assert edited(before, "unique", lines[index]) == data
