"""What a person sees of a turn before its answer."""

from __future__ import annotations

from bot.agent.draft_text import DraftText


def test_the_progress_of_a_call_stands_below_the_text_until_the_text_grows() -> None:
    seen: list[str] = []
    draft = DraftText(seen.append)
    draft.show_line("shop: 1/2")
    draft.show("I look.")
    draft.show_line("shop: 2/2")
    draft.show("I look. Done.")
    assert seen == ["shop: 1/2", "I look.", "I look.\n\nshop: 2/2", "I look. Done."]
