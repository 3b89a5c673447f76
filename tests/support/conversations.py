"""Rows of conversations for tests: short makers, and strategies for poisoned history."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(identity: Any, name: Any = "exec", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*items: Any, content: Any = "Looking.") -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [call(item) if isinstance(item, str) else item for item in items],
    }


def result(identity: Any, content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def picture(url: str = PIXEL) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def turn(number: int, *, result_chars: int = 200, steps: int = 2) -> list[dict[str, Any]]:
    """A finished turn: a message, `steps` calls with results, an answer."""
    rows = [user(f"Request {number}: please look at file {number}.")]
    for step in range(steps):
        identity = f"call-{number}-{step}"
        rows.append(calls(call(identity, "grep", json.dumps({"pattern": f"p{number}-{step}"}))))
        rows.append(result(identity, (f"{number}.{step} some output; " * result_chars)[:result_chars]))
    return [*rows, said(f"Answer {number}: all is well.")]


def dialogue(turns: int, *, result_chars: int = 200, steps: int = 2) -> list[dict[str, Any]]:
    return [row for number in range(turns) for row in turn(number, result_chars=result_chars, steps=steps)]


_ids: st.SearchStrategy[Any] = st.sampled_from(["a", "b", "c", "call_0", "", " ", None, 7, "x" * 80, "\ud800"])
_texts = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "ok",
            "word " * 60,
            "x" * 900,
            "\ud83d",
            "null\x00",
            "[Please go on from your last message.]",
        ]
    ),
    st.text(max_size=30),
)
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
_blocks = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, _texts),
        st.just(picture()),
        st.sampled_from(
            [
                picture("https://example.org/p.jpg"),
                {"type": "image_url", "image_url": PIXEL},
                {"type": "image_url"},
                {"type": "image_url", "image_url": {"url": 3}},
                {"type": "input_audio", "input_audio": {}},
                {},
                "loose",
                None,
            ]
        ),
    ),
    max_size=4,
)
_contents = st.one_of(_texts, _texts, _blocks, _json)
_arguments = st.one_of(
    st.sampled_from(["{}", '{"a": 1}', '{"a": ', "[]", "", "nan", '{"x": NaN}', None, 3, {"path": "a"}]),
    _json,
)
_calls = st.one_of(
    st.builds(
        call,
        _ids,
        st.sampled_from(["exec", "read_file", "", None, 5, "bad name!", "n" * 90, "Ü"]),
        _arguments,
    ),
    st.builds(lambda key, name: {"id": key, "name": name, "arguments": {}}, _ids, _texts),
    st.sampled_from([None, {}, "x", 1, {"id": "a", "function": None}, {"function": {"name": "exec"}}]),
)
_call_lists = st.one_of(st.lists(_calls, max_size=3), st.sampled_from([None, {}, "x", 3, {"id": "a"}]))


poisoned_row: st.SearchStrategy[Any] = st.one_of(
    st.builds(user, _contents),
    st.builds(user, _texts),
    st.builds(said, _contents),
    st.builds(
        lambda content, items: {"role": "assistant", "content": content, "tool_calls": items},
        _contents,
        _call_lists,
    ),
    st.builds(lambda items: {"role": "assistant", "tool_calls": items}, st.lists(_calls, min_size=1, max_size=3)),
    st.builds(result, _ids, _contents),
    st.builds(result, _ids, _texts),
    st.builds(lambda role, content: {"role": role, "content": content}, _json, _contents),
    st.sampled_from(
        [
            None,
            3,
            "text",
            [],
            {},
            {"role": "system", "content": "stray"},
            {"role": "tool"},
            {"role": "developer"},
        ]
    ),
    st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "name", "x"]), _json),
    st.builds(lambda content, thought: {**said(content), "reasoning_content": thought}, _texts, _json),
)
poisoned_rows = st.lists(poisoned_row, max_size=14)
