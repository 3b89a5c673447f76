"""The `notebook_edit` tool: one cell of a Jupyter notebook.

What the change makes of the notebook's text is in `bot/edits/notebook.py`, which file may be changed is decided
in `bot/security/`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from bot.edits.change_record import Author
from bot.edits.journal import ChangeFailed, ChangeJournal, ChangeStopped, FileChange
from bot.edits.notebook import CellType, Notebook, NotebookChange, NotebookError
from bot.messages import Replay, Risk
from bot.security.workspace import FileIdentity, PathRefused, WorkspaceView
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import one_line, problem, size_text
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.room import ToolRoom
from bot.toolkit.schema import StringSchema, tool_parameters_schema

MAX_NOTEBOOK_BYTES = 20 * 1024 * 1024
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
    source (at most 1,000,000 characters). Notebooks up to 20 MiB. The outputs of a replaced code cell are cleared;
    all other cells stay byte for byte, and so does the file's layout. An inserted cell stands before the given one.
    Result: the cell with index and id, and how many cells there are. Errors: no such file or cell, no valid
    notebook or one of format 3, a change that would make it invalid, a full disk; refused: a path outside of
    the chat's files or in shared/.
    """

    _scopes = frozenset({"core", "subagent"})
    risk = Risk.WRITE
    replay = Replay.ONCE

    def __init__(self, room: ToolRoom) -> None:
        self._room = room

    @classmethod
    def create(cls, ctx: ToolContext) -> NotebookEditTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room)

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

        request = current_request()
        view = self._room.files.view(request)
        author = Author.of(self.name, request)
        called_off = threading.Event()
        try:
            return await asyncio.to_thread(_edit, view, path, change)
        except asyncio.CancelledError:
            called_off.set()
            raise
