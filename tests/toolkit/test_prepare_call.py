from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tools import MadeTool, registry_with

WRITE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
    "additionalProperties": False,
}
READ = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}}


def prepare(params: Any, schema: Any = READ, **options: Any) -> tuple[Any, str | None]:
    tool, prepared, error = registry_with(MadeTool("read_file", schema)).prepare_call("read_file", params, **options)
    assert tool is not None
    return prepared, error


# --- names ---


def test_an_unknown_name_is_an_error_that_lists_all_names_in_order() -> None:
    registry = registry_with(*map(MadeTool, ["mcp_x", "write_file", "read_file"]))
    assert registry.prepare_call("frobnicate", {"a": 1}) == (
        None,
        {"a": 1},
        "Error: Tool 'frobnicate' not found. Available: read_file, write_file, mcp_x",
    )


@pytest.mark.parametrize("name", ["readFile", "READ-FILE", "read file", "Read_File ", "readfil", "read_file_"])
def test_a_near_miss_is_named_but_never_run(name: str) -> None:
    registry = registry_with(*map(MadeTool, ["read_file", "write_file", "exec"]))
    tool, _, error = registry.prepare_call(name, {})
    assert tool is None
    assert error is not None
    assert "not found" in error
    assert "Did you mean 'read_file'?" in error


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("readfile", ["read_file", "readFile"]),  # both alike
        ("file", ["read_file", "write_file"]),
        ("read_filx", ["read_file", "read_fily"]),  # equally near
        ("", ["read_file"]),
        ("***", ["read_file"]),
        ("foo", []),
    ],
)
def test_nothing_is_suggested_unless_one_name_alone_is_meant(name: str, known: list[str]) -> None:
    _, _, error = registry_with(*map(MadeTool, known)).prepare_call(name, {})
    assert error is not None
    assert "Did you mean" not in error
    assert error.endswith(", ".join(sorted(known, key=str)) if known else "none")


@pytest.mark.parametrize("name", [None, 7, ["read_file"], {"name": "read_file"}, b"read_file", "x" * 100_000])
def test_a_name_of_any_kind_is_answered_shortly(name: Any) -> None:
    tool, _, error = registry_with(MadeTool("read_file")).prepare_call(name, {})
    assert tool is None
    assert error is not None
    assert "not found" in error
    assert len(error) < 300


def test_a_name_with_a_lone_surrogate_gives_an_error_that_can_be_encoded() -> None:
    _, _, error = registry_with(MadeTool("read_file")).prepare_call("read\ud800", {})
    assert error is not None
    assert error.encode()


def test_a_tool_outside_the_subset_is_refused_at_the_call_too() -> None:
    registry = registry_with(*map(MadeTool, ["exec", "read_file"]))
    view = registry.subset(["read_file"])
    tool, _, error = view.prepare_call("exec", {})
    assert tool is None
    assert error == "Error: Tool 'exec' not found. Available: read_file"
    assert view.prepare_call("read_file", {})[2] is None


def test_a_tool_whose_schema_does_not_compile_is_set_aside_alone() -> None:
    registry = registry_with(MadeTool("bad", {"type": "strng"}), MadeTool("good"))
    assert registry.tool_names == ["good"]
    assert list(registry.set_aside) == ["bad"]
    tool, _, error = registry.prepare_call("bad", {})
    assert tool is None
    assert error is not None
    assert "not found: it was set aside" in error
    registry.register(MadeTool("bad"))
    assert registry.set_aside == {}
    assert registry.tool_names == ["bad", "good"]


def test_registering_again_replaces_also_when_the_new_one_is_unusable() -> None:
    registry = registry_with(MadeTool("t"))
    registry.register(MadeTool("t", {"type": 5}))
    assert (registry.get("t"), len(registry), "t" in registry.set_aside) == (None, 0, True)


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": ["array", "null"]}, {"enum": [1, 2]}, [], 5, "x"])
def test_a_schema_that_no_arguments_object_can_satisfy_is_set_aside(schema: Any) -> None:
    assert list(registry_with(MadeTool("t", schema)).set_aside) == ["t"]


# --- coerce ---


@pytest.mark.parametrize("blank", [None, "", "  \n\t", "null", " null ", '""', "{}", b"", b" {} "])
def test_nothing_means_no_arguments(blank: Any) -> None:
    assert prepare(blank) == ({}, None)


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a", "limit": 3}',
        b'{"path": "a", "limit": 3}',
        '  {"path": "a", "limit": 3}\n',
        '```json\n{"path": "a", "limit": 3}\n```',
        '```\n{"path": "a", "limit": 3}```',
        json.dumps('{"path": "a", "limit": 3}'),
        json.dumps(json.dumps('{"path": "a", "limit": 3}')),
    ],
)
def test_text_that_holds_json_is_parsed(text: Any) -> None:
    assert prepare(text) == ({"path": "a", "limit": 3}, None)


@pytest.mark.parametrize(
    "wrapped",
    [
        {"arguments": {"path": "a"}},
        {"arguments": '{"path": "a"}'},
        '{"arguments": {"path": "a"}}',
        '{"arguments": "{\\"path\\": \\"a\\"}"}',
        {"arguments": json.dumps('{"path": "a"}')},
    ],
)
def test_a_sole_arguments_wrapper_is_unwrapped(wrapped: Any) -> None:
    assert prepare(wrapped) == ({"path": "a"}, None)


@pytest.mark.parametrize("inner", [None, "", "  ", {}, "{}"])
def test_a_wrapper_around_nothing_means_no_arguments(inner: Any) -> None:
    assert prepare({"arguments": inner}) == ({}, None)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"arguments": {"type": "string"}}},
        {"$ref": "#/$defs/p", "$defs": {"p": {"properties": {"arguments": {"type": "string"}}}}},
        {"anyOf": [{"properties": {"other": {}}}, {"properties": {"arguments": {"type": "string"}}}]},
        {"allOf": [{"properties": {"arguments": {}}}]},
        {"patternProperties": {"^arg": {"type": "string"}}},
    ],
)
def test_a_schema_that_has_arguments_itself_gets_them(schema: Any) -> None:
    assert prepare({"arguments": '{"path": "a"}'}, schema) == ({"arguments": '{"path": "a"}'}, None)


def test_arguments_beside_others_is_no_wrapper() -> None:
    given = {"arguments": {"path": "a"}, "limit": 1}
    assert prepare(given) == (given, None)


def test_a_wrapper_around_cut_off_text_is_refused() -> None:
    given = {"arguments": '{"path": "a'}
    prepared, error = prepare(given)
    assert prepared == given
    assert error is not None
    assert "cut off" in error


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (["a"], "list"),
        ("[1]", "list"),
        ({"arguments": [1]}, "list"),
        (5, "int"),
        ("5", "int"),
        (1.5, "float"),
        (True, "bool"),
        ("true", "bool"),
        ("hello", "str"),
        ('"hello"', "str"),
        ({1, 2}, "set"),
        (object(), "object"),
    ],
)
def test_anything_but_an_object_is_an_error_naming_its_type(given: Any, kind: str) -> None:
    prepared, error = prepare(given)
    assert prepared is given
    assert error is not None
    assert error.startswith(f"Error: Tool 'read_file' parameters must be a JSON object, got {kind} ")


@pytest.mark.parametrize(
    ("damaged", "meant"),
    [
        ('{"path": "a",}', {"path": "a"}),
        ('{path: "a"}', {"path": "a"}),
        ("{'path': 'a', 'limit': None}", {"path": "a"}),
        ('{"path": "a" "limit": 3}', {"path": "a", "limit": 3}),
        ('{"path": "a", "limit": 3}}', {"path": "a", "limit": 3}),
        ('{"path": "a"};', {"path": "a"}),
        ('{"path": "a\nb"}', {"path": "a\nb"}),
        ('{"path": "tab\tin"}', {"path": "tab\tin"}),
        ('```json\n{"path": "a",}\n```', {"path": "a"}),
    ],
)
def test_damage_is_repaired_when_nothing_is_missing(damaged: str, meant: dict[str, Any]) -> None:
    assert prepare(damaged) == (meant, None)


CUT = [
    '{"path":"a.py","content":"print(',
    '{"path":"a.py","content":"print(\\',
    '{"path":"a.py","content":"x"',
    '{"path":"a.py","content":',
    '{"path":"a.py",',
    '{"path":"a.py"',
    '{"path"',
    '{"',
    "{",
    '{"path":"a.py","content":"{}',
    '{"path":"a.py","content":"{\\"a\\": 1}',
    '{"path":"a.py","content":"he said "hi',
    "{'path': 'a.py', 'content': 'print(",
    '{"a": {"b": 1}',
    '{"a": [1, 2}'[:-1],
    '```json\n{"path":"a.py","content":"x',
    '{"path":"a.py"} {"path":',
]


@pytest.mark.parametrize("truncated", [True, False], ids=["length", "tool_calls"])
@pytest.mark.parametrize("text", CUT)
def test_arguments_that_were_cut_off_are_never_run(text: str, truncated: bool) -> None:
    prepared, error = prepare(text, WRITE, truncated=truncated)
    assert prepared == text
    assert error is not None
    assert "cut off" in error
    assert "smaller parts" in error


async def test_a_cut_off_call_is_not_executed_and_the_model_is_told_why() -> None:
    tool = MadeTool("write_file", {"type": "object"})
    result = await registry_with(tool).execute("write_file", '{"path":"a.py","content":"print(')
    assert tool.calls == []
    assert result.is_error
    assert "cut off" in result


@pytest.mark.parametrize("cut", range(1, 60))
def test_no_prefix_of_a_call_is_taken_for_a_call(cut: int) -> None:
    whole = '{"path": "a{b}.py", "content": "if x: {\\"y\\": [1, 2]}", "n": [1]}'
    assert cut < len(whole)
    _, error = prepare(whole[:cut], {"type": "object"})
    assert error is not None
    assert prepare(whole, {"type": "object"})[1] is None


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_missing_arguments_of_a_reply_that_was_cut_off_are_not_taken_for_none(nothing: Any) -> None:
    assert prepare(nothing)[1] is None
    _, error = prepare(nothing, truncated=True)
    assert error is not None
    assert "cut off" in error


def test_complete_arguments_of_a_reply_that_was_cut_off_later_are_used() -> None:
    assert prepare('{"path": "a"}', truncated=True) == ({"path": "a"}, None)


@pytest.mark.parametrize("text", ['{"path": "a"} and then some', '{"path": "a"}{"path": "b"}', "{path}", "{???}x"])
def test_text_that_could_mean_several_things_is_refused(text: str) -> None:
    prepared, error = prepare(text)
    assert prepared == text
    assert error is not None
    assert "must be a JSON object" in error


@pytest.mark.parametrize(
    "text",
    [
        '{"path": 5" tall"}',  # the repair would drop " tall"
        '{"path": "a", "path": "b",}',
        '{"path": "a", // a remark\n}',
        '{"path": "a", ...}x}',
    ],
)
def test_a_repair_that_would_lose_a_word_is_not_made(text: str) -> None:
    prepared, error = prepare(text)
    assert prepared == text
    assert error is not None
    assert "must be a JSON object" in error


# --- messages ---


def test_an_invalid_call_says_path_rule_and_type() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "items": {"type": "array", "items": {"properties": {"k": {"enum": ["x", "y"]}}}},
        },
        "required": ["n"],
        "additionalProperties": False,
    }
    _, error = prepare({"n": "five", "items": [{}, {"k": 3}], "itms": 1}, schema)
    assert error == (
        "Error: Invalid parameters for tool 'read_file': unexpected parameter itms (did you mean items?); "
        'items[1].k must be one of ["x", "y"], got integer; n should be integer, got string'
    )


def test_the_value_itself_is_not_repeated() -> None:
    _, error = prepare({"path": ["hunter2"], "limit": "hunter2"})
    assert error is not None
    assert "hunter2" not in error


def test_at_most_eight_messages_are_given() -> None:
    schema = {"type": "object", "properties": {f"p{n:02}": {"type": "integer"} for n in range(30)}}
    _, error = prepare({f"p{n:02}": "x" for n in range(30)}, schema)
    assert error is not None
    messages = error.partition("': ")[2].split("; ")
    assert len(messages) == 8
    assert messages[0] == "p00 should be integer, got string"
    assert messages[-1] == "and 23 more problems"


def test_an_error_stays_short_whatever_the_names_are() -> None:
    schema = {"type": "object", "additionalProperties": False, "required": ["q" * 10_000]}
    _, error = prepare({"k" * 10_000: 1, "\U0001f600" * 10_000: 2}, schema)
    assert error is not None
    assert len(error) < 3_000
    assert error.encode()


def test_the_same_call_gives_the_same_words_every_time() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(6)}}
    given = {f"p{n}": "x" for n in (3, 1, 5, 0, 2, 4)}
    assert len({prepare(given, schema)[1] for _ in range(5)}) == 1


# --- tools with checks of their own ---


class Doubling(MadeTool):
    def cast_params(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"n": int(params["n"]) * 2}

    def validate_params(self, params: dict[str, Any]) -> list[str]:
        return [] if params["n"] < 100 else ["n is too large"]


def test_a_tools_own_cast_and_validation_are_used() -> None:
    registry = registry_with(Doubling("d"))
    assert registry.prepare_call("d", {"n": 3})[1:] == ({"n": 6}, None)
    assert registry.prepare_call("d", {"n": 50})[1:] == (
        {"n": 100},
        "Error: Invalid parameters for tool 'd': n is too large",
    )


def test_a_tools_own_check_that_raises_becomes_an_error() -> None:
    tool, params, error = registry_with(Doubling("d")).prepare_call("d", {})
    assert tool is not None
    assert params == {}
    assert error is not None
    assert "Invalid parameters" in error
    assert "KeyError" in error
