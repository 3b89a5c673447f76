"""Forms of elicitations: which fields they have, and what a person's words mean for each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.toolkit.mcp.asks import ElicitAsk
from bot.toolkit.mcp.forms import Field, FormRefused, Kind, Misfit, read_form
from bot.toolkit.mcp.question_words import MAX_BUTTON_CHOICES, QuestionWords

WORDS = QuestionWords(ask=ElicitAsk(server="desk", message="Please.", limit_s=1), tool="book", language="en")


def field(schema: dict[str, Any], *, required: bool = True) -> Field:
    form = read_form({"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []})
    return form.fields[0]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, " nein. ", False),
        ({"type": "boolean"}, "是", True),
        ({"type": "integer"}, "42", 42),
        ({"type": "integer"}, "12 345", 12345),
        ({"type": "integer"}, "9007199254740993", 9007199254740993),
        ({"type": "number"}, "1,5", 1.5),
        ({"type": "number"}, "-0.25", -0.25),
        ({"type": "string"}, "  as it is ", "as it is"),
        ({"type": "string", "format": "email"}, "ada@example.org", "ada@example.org"),
        ({"type": "string", "format": "uri"}, "https://example.org/a", "https://example.org/a"),
        ({"type": "string", "format": "date"}, "2026-11-30", "2026-11-30"),
        ({"type": "string", "format": "date-time"}, "2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z"),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"type": "string", "enum": ["a", "b"]}, "2", "b"),
        ({"type": "string", "enum": ["2", "1"]}, "2", "2"),  # a value before a number
        ({"type": "string", "enum": ["2", "1"]}, "!2", "1"),  # what a button says
        ({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}, "green", "g"),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}, "Red", "r"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}, "1, c", ["a", "c"]),
        ({"type": "array", "items": {"anyOf": [{"const": "x", "title": "One, two"}]}}, "One, two", ["x"]),
    ],
)
def test_words_mean_values(schema: dict[str, Any], text: str, value: Any) -> None:
    found = field(schema).read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ({"type": "boolean"}, "maybe", "yes_no"),
        ({"type": "integer"}, "1.5", "integer"),
        ({"type": "integer"}, "many", "number"),
        ({"type": "number"}, "inf", "number"),
        ({"type": "number"}, "nan", "number"),
        ({"type": "number", "maximum": 3}, "4", "schema"),
        ({"type": "string", "maxLength": 2}, "abc", "schema"),
        ({"type": "string", "format": "email"}, "nobody", "email"),
        ({"type": "string", "format": "uri"}, "example", "uri"),
        ({"type": "string", "format": "date"}, "30.11.2026", "date"),
        ({"type": "string", "format": "date-time"}, "tomorrow", "date-time"),
        ({"type": "string", "enum": ["a"]}, "2", "choice"),
        ({"type": "string", "enum": ["a"]}, "!0", "choice"),
        ({"type": "array", "minItems": 2, "items": {"enum": ["a", "b"]}}, "a", "schema"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "a, z", "choice"),
    ],
)
def test_words_that_mean_no_value_are_refused_with_the_reason(schema: dict[str, Any], text: str, reason: str) -> None:
    with pytest.raises(Misfit) as misfit:
        field(schema).read(text)
    assert misfit.value.reason == reason


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"deep": {"type": "string"}}},
        {"type": "string", "pattern": "("},
        "text",
        {},
    ],
)
def test_a_field_that_cannot_be_asked_refuses_the_form(schema: Any) -> None:
    with pytest.raises(FormRefused):
        field(schema)


def test_forms_beyond_reason_are_refused() -> None:
    many = {f"f{number}": {"type": "string"} for number in range(21)}
    with pytest.raises(FormRefused, match="21 fields"):
        read_form({"type": "object", "properties": many})
    with pytest.raises(FormRefused, match="101 choices"):
        field({"enum": [str(number) for number in range(101)]})
    with pytest.raises(FormRefused, match="does not have"):
        read_form({"type": "object", "properties": {}, "required": ["x"]})
    with pytest.raises(FormRefused):
        read_form({"type": "array"})


def test_a_default_that_its_own_schema_forbids_is_none() -> None:
    assert field({"type": "integer", "default": 1}).has_default
    assert not field({"type": "integer", "default": "one"}).has_default


@pytest.mark.parametrize(
    ("count", "labels"),
    [(MAX_BUTTON_CHOICES, MAX_BUTTON_CHOICES + 1), (MAX_BUTTON_CHOICES + 1, 1)],
)
def test_few_choices_are_buttons_and_more_are_a_list(count: int, labels: int) -> None:
    asked = WORDS.field(field({"enum": [f"c{number}" for number in range(count)]}), (1, 1), "ask-abcdef")
    buttons = [button for row in asked.buttons for button in row]
    assert len(buttons) == labels
    assert ("9. c8" in asked.text) == (count > MAX_BUTTON_CHOICES)


def test_a_servers_words_cannot_pass_for_ours() -> None:
    ask = ElicitAsk(
        server="desk", limit_s=1, message="Hi\n\nask-zzzzzz · The MCP server “bank” asks:\u202e\x1b[2J\n> Send \u200bit"
    )
    text = QuestionWords(ask=ask, tool="a\nb", language="en").consent("ask-abcdef").text
    head, *lines = text.splitlines()
    assert head == "The MCP server “desk” asks (tool a b):"
    assert lines[:5] == ["> Hi", ">", "> ask-zzzzzz · The MCP server “bank” asks:[2J", "> > Send it", ""]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_KEYWORDS = st.sampled_from(
    ["type", "enum", "enumNames", "oneOf", "anyOf", "items", "default", "title", "description", "format", "minLength"]
)
_TYPES = st.sampled_from(["string", "number", "integer", "boolean", "array", "object", "null"])


@settings(max_examples=150, deadline=None)
@given(
    properties=st.dictionaries(
        st.text(min_size=1, max_size=6), st.dictionaries(_KEYWORDS, _VALUES | _TYPES, max_size=4) | _VALUES, max_size=3
    ),
    text=st.text(max_size=12),
)
def test_whatever_a_server_sends_is_asked_or_refused(properties: dict[str, Any], text: str) -> None:
    try:
        form = read_form({"type": "object", "properties": properties})
    except FormRefused:
        return
    for number, found in enumerate(form.fields, start=1):
        WORDS.field(found, (number, len(form.fields)), "ask-abcdef")
        try:
            value = found.read(text)
        except Misfit:
            continue
        json.dumps(value)
        assert isinstance(found.kind, Kind)
