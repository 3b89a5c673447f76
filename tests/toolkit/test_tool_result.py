from __future__ import annotations

import copy
import pickle

import orjson
import pytest

from bot.toolkit.base import ToolResult


def test_a_result_is_text_and_no_error_unless_said() -> None:
    result = ToolResult("hello")
    assert result == "hello"
    assert isinstance(result, str)
    assert (result.is_error, result.is_refused, result.blocks) == (False, False, ())


def test_error_and_refused_set_their_flags_and_a_refusal_is_an_error() -> None:
    assert (ToolResult.error("e").is_error, ToolResult.error("e").is_refused) == (True, False)
    assert (ToolResult.refused("r").is_error, ToolResult.refused("r").is_refused) == (True, True)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (ToolResult.refused(" a{} ") + "b", " a{} b"),
        ("b" + ToolResult.refused(" a{} "), "b a{} "),
        (ToolResult.refused(" a{} ")[1:3], "a{"),
        (ToolResult.refused(" a{} ")[1], "a"),
        (ToolResult.refused(" a{} ").format("x"), " ax "),
        (ToolResult.refused("%s!") % "x", "x!"),
        (ToolResult.refused(" a{} ").strip(), "a{}"),
        (ToolResult.refused(" a{} ").lstrip(), "a{} "),
        (ToolResult.refused(" a{} ").rstrip(), " a{}"),
        (ToolResult.refused("aXa").replace("a", "b", 1), "bXa"),
        (ToolResult.refused("abc").removeprefix("a"), "bc"),
        (ToolResult.refused("abc").removesuffix("c"), "ab"),
        (ToolResult.refused("abc").with_text("new"), "new"),
    ],
)
def test_what_is_made_from_a_result_keeps_its_flags(changed: ToolResult, text: str) -> None:
    assert changed == text
    assert isinstance(changed, ToolResult)
    assert changed.is_error
    assert changed.is_refused


def test_blocks_survive_shortening() -> None:
    block = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    result = ToolResult("a picture", blocks=[block])[:3] + "…"
    assert result == "a p…"
    assert result.blocks == (block,)


def test_a_result_can_be_copied_pickled_and_encoded_as_text() -> None:
    result = ToolResult.error("broken")
    assert copy.deepcopy(result).is_error
    assert pickle.loads(pickle.dumps(result)).is_error
    assert orjson.dumps(result) == b'"broken"'
