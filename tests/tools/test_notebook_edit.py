"""notebook_edit: one cell changes, everything else of the file stays as it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot.edits.json_style import JsonStyle
from bot.edits.notebook import Notebook, NotebookChange, NotebookError
from bot.edits.plan import MAX_FILE_BYTES
from bot.toolkit.base import ToolResult
from tests.support.contexts import ToolDesk, request_context, tool_context

ME = request_context("1")
OUTPUT = {"name": "stdout", "output_type": "stream", "text": ["ü\n", "2"]}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx)
        desk.root(ME)
        (ctx.workspace / "shared" / "n.ipynb").write_text(json.dumps(notebook()))
        yield desk


def notebook(minor: int = 5, cells: int = 3) -> dict[str, Any]:
    """Return a notebook of code, Markdown and code cells with outputs, keys sorted as nbformat writes them."""
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": 7,
            "id": "first",
            "metadata": {"collapsed": True, "z": 1e5, "a": 1.0},
            "outputs": [OUTPUT],
            "source": ["x = 1\n", "print(x, '日本')"],
        },
        {"cell_type": "markdown", "id": "text", "metadata": {}, "source": "# Title\nwörds"},
        {
            "cell_type": "code",
            "execution_count": None,
            "id": "last",
            "metadata": {},
            "outputs": [],
            "source": [],
        },
    ]
    if minor < 5:
        for cell in made:
            del cell["id"]
    return {"cells": made[:cells], "metadata": {"b": [], "a": {}}, "nbformat": 4, "nbformat_minor": minor}


def written(data: dict[str, Any]) -> str:
    """Return a notebook as Jupyter saves it."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def put(desk: ToolDesk, text: str | bytes, name: str = "n.ipynb") -> Path:
    file = desk.root(ME) / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


async def edit(desk: ToolDesk, path: str = "n.ipynb", **params: object) -> ToolResult:
    return await desk.call(ME, "notebook_edit", path=path, **params)


async def test_a_code_cell_gets_its_source_and_loses_its_outputs(desk: ToolDesk) -> None:
    file = put(desk, written(notebook()))
    result = await edit(desk, cell=0, source="y = 2\nprint('é')")
    assert result == "n.ipynb: cell 0 (code, id first) replaced, outputs cleared."
    wanted = notebook()
    wanted["cells"][0] |= {"source": ["y = 2\n", "print('é')"], "outputs": [], "execution_count": None}
    assert file.read_text() == written(wanted)


async def test_a_markdown_cell_is_found_by_its_id_and_keeps_the_form_of_its_source(desk: ToolDesk) -> None:
    file = put(desk, written(notebook()))
    assert await edit(desk, cell="text", source="a\nb\n") == "n.ipynb: cell 1 (markdown, id text) replaced."
    wanted = notebook()
    wanted["cells"][1]["source"] = "a\nb\n"
    assert file.read_text() == written(wanted)


async def test_an_index_may_come_as_text(desk: ToolDesk) -> None:
    put(desk, written(notebook()))
    assert "cell 2 (code, id last) replaced" in await edit(desk, cell="2", source="z")


async def test_a_cell_changes_its_type_with_what_belongs_to_it(desk: ToolDesk) -> None:
    file = put(desk, written(notebook()))
    result = await edit(desk, cell=0, source="text", cell_type="markdown")
    assert result == "n.ipynb: cell 0 (code, id first) replaced, now markdown, outputs cleared."
    wanted = notebook()
    cell = wanted["cells"][0]
    del cell["outputs"], cell["execution_count"]
    cell |= {"cell_type": "markdown", "source": ["text"]}
    assert file.read_text() == written(wanted)
    await edit(desk, cell=0, source="code", cell_type="code")
    read = json.loads(file.read_text())
    assert list(read["cells"][0]) == ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]
    nbformat.validate(read)


@pytest.mark.parametrize(("cell", "index"), [(0, 0), ("text", 1), (1, 1), (3, 3), (None, 3)])
@pytest.mark.parametrize("minor", [4, 5])
async def test_a_cell_is_inserted_before_the_given_one(
    desk: ToolDesk, cell: int | str | None, index: int, minor: int
) -> None:
    if isinstance(cell, str) and minor < 5:
        return
    file = put(desk, written(notebook(minor)))
    params: dict[str, Any] = {} if cell is None else {"cell": cell}
    result = await edit(desk, action="insert", source="new", **params)
    read = json.loads(file.read_text())
    made = read["cells"].pop(index)
    assert read == notebook(minor)
    assert made.pop("id", None) is not None if minor == 5 else "id" not in made
    assert made == {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ["new"]}
    assert result.startswith(f"n.ipynb: cell {index} (code")
    full = json.loads(file.read_text())
    nbformat.validate(full)
    assert file.read_text() == written(full)


@pytest.mark.parametrize("cell", [0, 1, 2, "last"])
async def test_a_cell_is_deleted(desk: ToolDesk, cell: int | str) -> None:
    file = put(desk, written(notebook()))
    assert (await edit(desk, cell=cell, action="delete")).endswith("deleted.")
    wanted = notebook()
    del wanted["cells"][2 if cell == "last" else int(cell)]
    assert file.read_text() == written(wanted)


async def test_the_only_cell_goes_and_comes_back(desk: ToolDesk) -> None:
    file = put(desk, written(notebook(4, cells=1)))
    await edit(desk, cell=0, action="delete")
    assert file.read_text() == written(notebook(4, cells=0))
    await edit(desk, action="insert", source="hello", cell_type="raw")
    wanted = notebook(4, cells=0)
    wanted["cells"] = [{"cell_type": "raw", "metadata": {}, "source": ["hello"]}]
    assert file.read_text() == written(wanted)


async def test_the_same_source_again_changes_nothing(desk: ToolDesk) -> None:
    file = put(desk, written(notebook()))
    before = file.stat()
    result = await edit(desk, cell=0, source="x = 1\nprint(x, '日本')")
    assert result == "n.ipynb: cell 0 (code, id first) has this source already; nothing was changed."
    assert (file.stat().st_ino, file.read_text()) == (before.st_ino, written(notebook()))


async def test_odd_layout_and_bytes_outside_of_the_cell_stay(desk: ToolDesk) -> None:
    first, second = '{"metadata" :{"n":1.50e3, "k":"\\u00e4\\/"},"source":["a"],  "cell_type":"raw"}', '"b"'
    text = (
        '\ufeff{ "nbformat":4,\r\n\t"cells":[ ' + first + ' ,\n{"cell_type":"markdown","metadata":{},"source":'
        + second + '}  ]\r\n,"metadata":{}, "nbformat_minor":2}\r\n\r\n'
    )  # fmt: skip
    file = put(desk, text)
    await edit(desk, cell=1, source="ß")
    assert file.read_bytes().decode() == text.replace(second, '"\\u00df"')  # as the file writes such letters
    await edit(desk, cell=1, action="delete")
    assert file.read_bytes().decode().startswith('\ufeff{ "nbformat":4,\r\n\t"cells":[ ' + first + "  ]\r\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[]", "not a notebook"),
        ("{}", "not a notebook"),
        (json.dumps({"nbformat": 3, "worksheets": [], "metadata": {}, "nbformat_minor": 0}), "of format 3; only"),
        (json.dumps({**notebook(), "nbformat": "4"}), "of format 4; only"),
        (json.dumps({**notebook(), "nbformat_minor": "5"}), "it has no list of cells, or no nbformat_minor"),
        (json.dumps({**notebook(), "cells": {}}), "it has no list of cells"),
        (json.dumps({**notebook(), "cells": [1]}), "a cell is no object"),
        (json.dumps({**notebook(), "cells": [{"cell_type": "code"}]}), "is not a valid notebook: "),
        (json.dumps({**notebook(), "cells": notebook()["cells"] * 2}), "two cells have the same id"),
        ("[" * 100_000, "is not JSON"),
        ('{"nbformat": 4, "cells": ' + "[" * 900 + "]" * 900 + ', "nbformat_minor": 5}', "is not a valid notebook"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)  # fmt: skip
async def test_what_is_no_valid_notebook_is_left_alone(desk: ToolDesk, text: str | bytes, said: str) -> None:
    file = put(desk, text)
    before = file.read_bytes()
    result = await edit(desk, cell=0, source="x")
    assert result.is_error
    assert said in result
    assert len(result) < 700
    assert file.read_bytes() == before


async def test_cells_without_ids_in_a_notebook_that_has_them_stay_without(desk: ToolDesk) -> None:
    data = notebook()
    del data["cells"][1]["id"]
    file = put(desk, written(data))
    assert not (await edit(desk, cell=2, source="z")).is_error
    data["cells"][2]["source"] = ["z"]
    assert file.read_text() == written(data)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"cell": 3, "source": "x"}, "has no cell 3; it has cells 0 to 2"),
        ({"cell": -1, "source": "x"}, "has no cell -1"),
        ({"cell": "nope", "source": "x"}, "has no cell with the id nope (ids: first, text, last)"),
        ({"cell": 10**400, "source": "x"}, "has no cell 1000"),
        ({"cell": 4, "action": "insert", "source": "x"}, "has no cell 4"),
        ({"cell": 3, "action": "delete"}, "has no cell 3"),
        ({"cell": 0}, "source: is needed to replace a cell"),
        ({"source": "x"}, "cell: is needed to replace one"),
        ({"action": "delete"}, "cell: is needed to delete one"),
        ({"cell": 0, "source": "\ud800"}, "lone surrogate"),
        ({"cell": 0, "source": "x", "cell_type": "heading"}, "Invalid parameters"),
        ({"cell": 0, "source": "x", "run": True}, "Invalid parameters"),
    ],
)
async def test_mistakes_are_told_and_change_nothing(desk: ToolDesk, params: dict[str, Any], said: str) -> None:
    file = put(desk, written(notebook()))
    result = await edit(desk, **params)
    assert result.is_error
    assert said in result
    assert file.read_text() == written(notebook())


async def test_paths_outside_and_shared_notebooks_are_refused(desk: ToolDesk) -> None:
    (desk.workspace.parent / "n.ipynb").write_text(written(notebook()))
    for path in ("../../../n.ipynb", "/etc/passwd", "shared/n.ipynb"):
        result = await edit(desk, path, cell=0, source="x")
        assert result.is_refused, path
    assert "does not exist" in await edit(desk, "none.ipynb", cell=0, source="x")
    (desk.root(ME) / "link.ipynb").symlink_to(desk.workspace.parent / "n.ipynb")
    assert (await edit(desk, "link.ipynb", cell=0, source="x")).is_refused
    assert (desk.workspace.parent / "n.ipynb").read_text() == written(notebook())


async def test_a_notebook_that_is_too_large_is_not_read(desk: ToolDesk) -> None:
    put(desk, b" " * (MAX_FILE_BYTES + 1))
    assert "is too large" in await edit(desk, cell=0, source="x")


STYLES = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 1, 2, 4, "\t"]),
        "ensure_ascii": st.booleans(),
        "sort_keys": st.booleans(),
    }
)
SOURCES = st.text(st.sampled_from('ab\n"\\é日\u2028\U0001f600'), max_size=12)


@settings(max_examples=150, deadline=None)
@given(STYLES, st.booleans(), SOURCES, st.integers(0, 2), st.sampled_from(["replace", "insert", "delete"]))
def test_in_any_layout_the_result_is_as_if_its_author_had_saved_it(
    style: dict[str, Any], crlf: bool, source: str, index: int, action: str
) -> None:
    def saved(data: dict[str, Any]) -> str:
        text = json.dumps(data, **style)
        return text.replace("\n", "\r\n") if crlf else text

    data = notebook(4)
    before = Notebook(saved(data))
    if action == "delete":
        change = before.delete(index)
    elif action == "insert":
        change = before.insert(index, source, None)
    else:
        change = before.replace(index, source, None)
    assert change.text == saved(json.loads(change.text))
    cells = json.loads(change.text)["cells"]
    if action == "delete":
        assert cells == data["cells"][:index] + data["cells"][index + 1 :]
    else:
        assert "".join(cells[index]["source"]) == source
        rest = cells[:index] + cells[index + 1 :]
        assert rest == (data["cells"] if action == "insert" else data["cells"][:index] + data["cells"][index + 1 :])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CELLS = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw", "x"]) | JSON, "metadata": st.just({}) | JSON},
    optional={"source": st.text(max_size=5) | JSON, "id": JSON, "outputs": JSON, "execution_count": JSON},
)
NOTEBOOKS = st.fixed_dictionaries(
    {"nbformat": st.just(4), "nbformat_minor": st.integers(-1, 9) | JSON, "metadata": st.just({}) | JSON},
    optional={"cells": st.lists(CELLS, max_size=3) | JSON, "x": JSON},
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    NOTEBOOKS.map(json.dumps) | JSON.map(json.dumps) | st.text(max_size=30), st.integers(-2, 3) | st.text(max_size=3)
)
@example('{"nbformat": 4, "nbformat_minor": 0, "metadata": {}, "cells": [{"cell_type": null, "metadata": {}}]}', 0)
@example('{"nbformat": 4, "nbformat_minor": 0, "metadata": {}, "cells": [{"cell_type": [], "metadata": {}}]}', 0)
def test_any_text_is_a_notebook_or_an_error(text: str, cell: int | str) -> None:
    assert len(outcome(text, cell)) < 1_000


def outcome(text: str, cell: int | str) -> str:
    try:
        change: NotebookChange = Notebook(text).replace(cell, "x", None)
    except NotebookError as error:
        return str(error)
    return change.told


@pytest.mark.parametrize(("version", "minor"), [("4", "true"), ("4.0", "5"), ("4", "5.0")])
async def test_a_format_that_is_no_whole_number_is_told(desk: ToolDesk, version: str, minor: str) -> None:
    put(desk, f'{{"cells": [], "metadata": {{}}, "nbformat": {version}, "nbformat_minor": {minor}}}')
    told = await edit(desk, action="insert", source="x")
    assert told.is_error
    assert told.startswith("n.ipynb: is not a valid notebook: ")


@pytest.mark.parametrize(
    ("text", "is_ascii"),
    [
        (r'{"a": "\u00e9"}', True),
        (r'{"a": "\\\u00e9"}', True),
        (r'{"a": "\\u00e9"}', False),  # an escaped backslash, and letters
        (r'{"a": "\\\\u00e9", "b": "\\\\\u00e9"}', True),
        (r'{"a": "\u0007"}', False),  # must be escaped in any file
        ('{"a": "é"}', False),
    ],
)
def test_letters_are_escaped_where_the_file_escapes_them(text: str, is_ascii: bool) -> None:
    assert JsonStyle.of(text).is_ascii == is_ascii
