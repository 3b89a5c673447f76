from __future__ import annotations

from bot.messages import ToolCall
from bot.toolkit.calls import with_unique_ids


def call(call_id: str, name: str = "t") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments="{}")


def test_given_ids_are_kept_unchanged() -> None:
    calls = [call("a"), call("b")]
    assert with_unique_ids(calls) == calls


def test_empty_missing_and_blank_ids_are_made() -> None:
    missing = call("x")
    object.__setattr__(missing, "id", None)  # what a server that sends null leads to
    made = with_unique_ids([call("", "one"), missing, call("  ", "three")])
    assert [one.name for one in made] == ["one", "t", "three"]
    assert len({one.id for one in made}) == 3
    assert all(one.id.startswith("call-") for one in made)


def test_the_first_of_two_equal_ids_keeps_it() -> None:
    first, second = with_unique_ids([call("a", "one"), call("a", "two")])
    assert (first.id, first.name, second.name) == ("a", "one", "two")
    assert second.id != "a"


def test_ids_of_earlier_calls_are_not_used_again() -> None:
    (made,) = with_unique_ids([call("a")], taken={"a"})
    assert made.id != "a"
