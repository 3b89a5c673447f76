"""What of an answer is read aloud."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.read_aloud import cut_at_sentence, words_to_read

ANSWER = """# Plan for *today*

Call **Anna** at `9:30`, see [the agenda](https://example.org/a) at https://example.org/b?c=d. Then:

1. buy milk
2. walk

```python
print("never read")
```

| What | When |
|------|------|
| Tea  | 16:00 |

![a picture](p.png)
<div>never read</div>

---
> Bye!
"""


def test_words_stay_and_signs_code_and_addresses_go() -> None:
    assert words_to_read(ANSWER) == (
        "Plan for today\nCall Anna at 9:30, see the agenda at . Then:\nbuy milk\nwalk\nWhat, When\nTea, 16:00\nBye!"
    )


@pytest.mark.parametrize(
    "silent", ["", " \n", "```\ncode\n```", "https://example.org/only", "<https://example.org>", "***", "    code\n"]
)
def test_an_answer_without_words_is_not_read(silent: str) -> None:
    assert words_to_read(silent) == ""


def test_other_scripts_are_read() -> None:
    assert words_to_read("**提醒**已设置。") == "提醒已设置。"
    assert words_to_read("Schöne *Grüße* 👋") == "Schöne Grüße 👋"


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("One. Two. Three.", 16, "One. Two. Three."),
        ("One. Two. Three.", 15, "One. Two."),
        ("One. Two. Three.", 9, "One. Two."),
        ("Version 1.5 is new. It runs.", 22, "Version 1.5 is new."),
        ("一。二。三。", 5, "一。二。"),
        ('He said "no!" Then he left.', 20, 'He said "no!"'),
        ("A first line\nand a second one", 20, "A first line"),
        ("words without any end of a sentence", 12, "words"),
        ("a" * 20, 12, "a" * 12),
        ("Hm. A very long sentence that goes on and on", 24, "Hm. A very long sentence"),
    ],
)
def test_a_long_text_is_cut_at_a_sentence(text: str, limit: int, kept: str) -> None:
    assert cut_at_sentence(text, limit) == kept


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=300), limit=st.integers(min_value=1, max_value=300))
def test_a_cut_is_a_beginning_that_fits(text: str, limit: int) -> None:
    kept = cut_at_sentence(text, limit)
    assert len(kept) <= limit
    assert text.startswith(kept)


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="ab *_`#|-[]()<>!.\n:/h", max_size=200))
def test_any_text_has_words_or_none(text: str) -> None:
    words = words_to_read(text)
    assert "\n\n" not in words
    assert words == words.strip()


def test_an_address_of_signs_takes_time_in_proportion_to_its_length() -> None:
    began = time.process_time()
    assert words_to_read("See http://" + "." * 60_000 + "a.") == "See ."
    assert time.process_time() - began < 1  # with a search for the end at each sign it took 20 s
