"""The token estimate against counts of a real vocabulary, pictures by size, and calibration."""

from __future__ import annotations

import base64
import json
import random
import struct

import pytest

from bot.agent.tokens import Calibration, estimate_image, estimate_message, estimate_text, estimate_tools

_RANDOM = random.Random(1)
# What cl100k_base (the denser of the two vocabularies the prices were fitted to) counts for these texts.
COUNTED = {
    "prose": ("The quick brown fox jumps over the lazy dog, and then it rests for a while. " * 50, 901),
    "python": ("    def area(self, width: int) -> int:\n        return self.height * width\n" * 50, 950),
    "chinese": (
        "今天天气很好，我们一起去公园散步，然后在湖边吃午饭。请帮我设置明天早上八点的提醒。" * 50,
        2_650,
    ),
    "russian": ("Сегодня хорошая погода, поэтому мы пойдём гулять в парк. " * 50, 1_551),
    "base64": (base64.b64encode(_RANDOM.randbytes(6_000)).decode(), 5_744),
    "hex": (_RANDOM.randbytes(3_000).hex(), 3_406),
    "json": (json.dumps([{"id": n, "name": f"user{n}", "ok": True} for n in range(200)], indent=2), 5_002),
    "emoji": ("😀🎉🚀🙏" * 100, 1_100),
}


@pytest.mark.parametrize("kind", COUNTED)
def test_the_estimate_is_neither_grossly_low_nor_wasteful(kind: str) -> None:
    text, counted = COUNTED[kind]
    assert 0.65 * counted <= estimate_text(text) <= 2.0 * counted


def test_the_estimate_is_linear() -> None:
    text = "Some words, a number 42, and (punctuation)! "
    once, often = estimate_text(text * 10), estimate_text(text * 1_000)
    assert often == pytest.approx(once * 100, rel=0.05)
    assert estimate_text("") == 0
    assert estimate_text("\ud800") > 0


def _data_url(kind: str, head: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(head).decode()}"


def test_pictures_cost_by_their_size_in_every_common_format() -> None:
    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 600, 500) + b"\x08\x06\x00\x00\x00"
    gif = b"GIF89a" + struct.pack("<HH", 600, 500) + b"\x00" * 6
    webp = b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + b"\x57\x02\x00" + b"\xf3\x01\x00"
    lossless = b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f" + struct.pack("<I", 599 | 499 << 14) + b"\x00" * 6
    lossy = b"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 600, 500)
    jpeg = (
        b"\xff\xd8\xff\xe0\x00\x10" + b"J" * 14 + b"\xff\xff\xc0\x00\x11\x08" + struct.pack(">HH", 500, 600) + b"\x03"
    )
    for kind, head in (
        ("png", png),
        ("gif", gif),
        ("webp", webp),
        ("webp", lossless),
        ("webp", lossy),
        ("jpeg", jpeg),
    ):
        assert estimate_image(_data_url(kind, head)) == 400
    huge = png[:16] + struct.pack(">II", 9_000, 9_000)
    assert estimate_image(_data_url("png", huge)) == 1_600
    assert estimate_image(_data_url("png", png), "low") == 85
    for unknown in (
        "https://example.org/a.png",
        "data:image/png;base64,!!!",
        "data:image/svg+xml,<svg/>",
        "",
    ):
        assert estimate_image(unknown) == 1_600


def test_the_bytes_of_a_picture_do_not_count_as_text() -> None:
    url = _data_url("png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 100, 100) + b"z" * 900_000)
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    assert estimate_message(message) == 4 + 85


def test_calls_and_replayed_fields_count() -> None:
    bare = estimate_message({"role": "assistant", "content": "x"})
    arguments = json.dumps({"content": "many words " * 100})
    call = {"id": "a", "type": "function", "function": {"name": "write_file", "arguments": arguments}}
    with_call = estimate_message({"role": "assistant", "content": "x", "tool_calls": [call]})
    assert with_call - bare > 200
    assert estimate_message({"role": "assistant", "content": "x", "reasoning_content": "deep " * 100}) > bare + 90
    assert estimate_tools([]) == 0
    assert estimate_tools([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]) > 15


def test_calibration_approaches_what_is_reported_and_stays_bounded() -> None:
    calibration = Calibration()
    assert calibration.factor("m") == 1.0
    calibration.observe("m", 1_000, 1_400)
    assert calibration.factor("m") == 1.1
    for _ in range(40):
        calibration.observe("m", 1_000, 1_400)
    assert calibration.factor("m") == 1.4
    assert calibration.factor("other") == 1.0
    for _ in range(40):
        calibration.observe("m", 1_000, 1_000_000)
    assert calibration.factor("m") == 3.0
    for _ in range(60):
        calibration.observe("m", 1_000, 1)
    assert calibration.factor("m") == 0.55


def test_calibration_ignores_numbers_that_cannot_be_right() -> None:
    calibration = Calibration()
    calibration.observe("m", 0, 500)
    calibration.observe("m", 5_000, 0)
    calibration.observe("m", 5_000, -3)
    calibration.observe("m", 50, 5_000)
    assert calibration.factor("m") == 1.0
