"""The `notebook_edit` tool: one cell of a Jupyter notebook.

What the change makes of the notebook's text is in `bot/edits/notebook.py`, which file may be changed is decided
in `bot/security/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.edits.journal import ChangeFailed, ChangeStopped
from bot.edits.notebook import CellType, Notebook, NotebookChange, NotebookError
from bot.edits.plan import Plan, PlanTooLarge
from bot.messages import Replay, Risk
from bot.security.workspace import PathRefused
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import one_line, problem
from bot.toolkit.context import ToolContext, current_call_id, current_request
from bot.toolkit.file_changes import FileChanges
from bot.toolkit.schema import StringSchema, tool_parameters_schema

MAX_SOURCE_CHARS = 1_000_000

_MARK = b"\xef\xbb\xbf"
_ACTIONS = ("replace", "insert", "delete")


@tool_parameters(
    tool_parameters_schema(
        path=StringSchema("The .ipynb file, relative to this chat's folder.", min_length=1),
        cell={
            "type": ["integer", "string"],
            "description": "The cell: its index, counted from 0, or its id. For insert the new cell stands before it; "
            "left out, at the end.",
        },
        action=StringSchema("What to do with the cell (default replace).", enum=_ACTIONS),
        cell_type=StringSchema(
            "Default: for replace the type that the cell has, for insert code.", enum=[kind.value for kind in CellType]
        ),
        source=StringSchema("The whole new text of the cell; for replace and insert.", max_length=MAX_SOURCE_CHARS),
        required=["path"],
        additional_properties=False,
    )
)
class NotebookEditTool(Tool):
    """Replaces, inserts or deletes one cell of a Jupyter notebook (.ipynb, format 4).

    Parameters: path, cell (index from 0, or id), action (replace, insert, delete), cell_type (code, markdown, raw),
    source (at most 1,000,000 characters). Notebooks up to 16 MiB. The outputs of a replaced code cell are cleared;
    all other cells stay byte for byte, and so does the file's layout. An inserted cell stands before the given one.
    Result: the cell with index and id, and how many cells there are. Errors: no such file or cell, no valid
    notebook or one of format 3, a change that would make it invalid, a full disk; refused: a path outside of
    the chat's files or in shared/.
    """

    _scopes = frozenset({"core", "subagent"})
    risk = Risk.WRITE
    replay = Replay.ONCE

    def __init__(self, changes: FileChanges) -> None:
        self._changes = changes

    @classmethod
    def create(cls, ctx: ToolContext) -> NotebookEditTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room.changes)

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "notebook_edit"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Replace, insert or delete one cell of a Jupyter notebook of this chat. The outputs of a changed code cell "
            "are cleared, every other cell stays as it is. Nothing is run."
        )

    async def execute(
        self,
        *,
        path: str = "",
        cell: int | str | None = None,
        action: str = "replace",
        cell_type: str | None = None,
        source: str | None = None,
        **_: Any,
    ) -> ToolResult:
        """Change the notebook; failures and refusals are results."""
        if source is None and action != "delete":
            return ToolResult.error(f"source: is needed to {action} a cell.")
        if cell is None and action != "insert":
            return ToolResult.error(f"cell: is needed to {action} one: its index, counted from 0, or its id.")
        kind = CellType(cell_type) if cell_type else None

        def change(notebook: Notebook) -> NotebookChange:
            if action == "insert":
                return notebook.insert(cell, source or "", kind)
            chosen = 0 if cell is None else cell
            return notebook.delete(chosen) if action == "delete" else notebook.replace(chosen, source or "", kind)

        try:
            done = await self._changes.carry_out(
                current_request(), lambda plan: _edit(plan, path, change), tool=self.name, call_id=current_call_id()
            )
        except PathRefused as error:
            return problem(error)
        except (ChangeFailed, ChangeStopped, PlanTooLarge) as error:
            return ToolResult.error(f"{error}.")
        except NotebookError as error:
            return ToolResult.error(f"{one_line(path)}: {error}.")
        return ToolResult(f"{one_line(path)}: {done.outcome}.")


def _edit(plan: Plan, path: str, change: Callable[[Notebook], NotebookChange]) -> str:
    """Put the changed notebook into the plan and return what to tell."""
    data = plan.read(path)
    mark = _MARK if data.startswith(_MARK) else b""
    try:
        text = data.removeprefix(mark).decode()
    except UnicodeDecodeError:
        raise NotebookError("is not UTF-8, so it is no notebook") from None
    changed = change(Notebook(text))
    try:
        plan.write(path, mark + changed.text.encode())
    except UnicodeEncodeError:
        raise NotebookError("source has half a surrogate pair, which UTF-8 cannot hold") from None
    return changed.told
