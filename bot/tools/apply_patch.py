"""The `apply_patch` tool: changes of several files at once, all or none of them.

What a diff or an edit makes of the files is worked out in `bot/edits/`, and so is carrying it out as one act.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from bot.edits.change_record import Author
from bot.edits.editing import MAX_EDITS, MAX_TEXT_CHARS, EditAction, FileEdit, edit_file
from bot.edits.journal import ChangeFailed, ChangeJournal, ChangeStopped, FileChange
from bot.edits.outcome import FileAct, FileOutcome
from bot.edits.patch import MAX_FILES, MAX_PATCH_CHARS, parse_patch
from bot.edits.patching import EditMisfit, patch_file
from bot.edits.plan import Plan, PlanTooLarge
from bot.edits.sloppy_diff import PatchError
from bot.messages import Replay, Risk
from bot.security.workspace import FileIdentity, PathRefused, WorkspaceView
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import one_line, problem
from bot.toolkit.context import RequestContext, ToolContext, current_call_id, current_request
from bot.toolkit.measure import shorten
from bot.toolkit.room import ToolRoom
from bot.toolkit.schema import ArraySchema, BooleanSchema, ObjectSchema, StringSchema, tool_parameters_schema

DIFF_CHARS = 40_000
"""Characters of diffs in the result of a dry run."""

_FILE_DIFF_CHARS = 10_000
_ID_CHARS = 200
_NOTES = 8
_PROBLEMS = 8
_NOTHING = "Nothing was changed."
_DONE = {
    FileAct.CHANGE: "changed",
    FileAct.CREATE: "created",
    FileAct.DELETE: "deleted",
    FileAct.RENAME: "renamed",
    FileAct.COPY: "copied",
}

_Step = Callable[[Plan], FileOutcome]


@tool_parameters(
    tool_parameters_schema(
        patch=StringSchema(
            "A unified diff as of git diff: --- a/PATH and +++ b/PATH (/dev/null to create or delete), hunks with "
            f"context; several files, renames. At most {MAX_PATCH_CHARS:,} characters, {MAX_FILES} files.",
            min_length=1,
            max_length=MAX_PATCH_CHARS,
        ),
        edits=ArraySchema(
            ObjectSchema(
                path=StringSchema("File, relative to this chat's folder.", min_length=1),
                action=StringSchema(
                    "replace (default): old_text by new_text, which must be found once. add: create the file.",
                    enum=[action.value for action in EditAction],
                ),
                old_text=StringSchema("For replace: the text that is there now.", max_length=MAX_TEXT_CHARS),
                new_text=StringSchema("The new text; for add the whole file.", max_length=MAX_TEXT_CHARS),
                required=["path", "new_text"],
                additional_properties=False,
            ),
            description=f"In place of patch: 1 to {MAX_EDITS} edits, made in this order.",
            min_items=1,
            max_items=MAX_EDITS,
        ),
        dry_run=BooleanSchema(description="Only show what would happen, with diffs (default false)."),
        additional_properties=False,
    )
)
class ApplyPatchTool(Tool):
    """Changes several text files of the chat at once: all of them or, if one edit does not fit, none.

    Parameters: either patch (a unified diff: change, create, delete, rename, copy; at most 1,000,000 characters,
    100 files, 1,000 hunks) or edits (1 to 20 of path, action replace or add, old_text, new_text); dry_run shows
    the diffs and changes nothing. Files up to 16 MiB each and 64 MiB together. A hunk may lie elsewhere than
    stated and up to two outer lines of its context may differ; the result says so. Line ends, byte order mark and
    encoding are kept.
    All or nothing holds across a crash too: an interrupted change is taken back at the next start.
    Result: a line per file with added and removed lines and what was not exact. Errors: no unified diff, a hunk or
    old_text that does not fit (with the closest place), a file that is missing, exists already, is binary or too
    large, a full disk; refused: a path outside of the chat's files or in shared/.
    """

    _scopes = frozenset({"core", "subagent"})
    risk = Risk.WRITE
    replay = Replay.ONCE

    def __init__(self, room: ToolRoom) -> None:
        self._room = room

    @classmethod
    def create(cls, ctx: ToolContext) -> ApplyPatchTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room)

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "apply_patch"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Change several text files of this chat at once, by a unified diff (patch) or by a list of edits; exactly "
            "one of the two. Either everything is applied or nothing. dry_run shows what would happen."
        )

    def only_looks(self, params: dict[str, Any]) -> bool:
        """See `Tool.only_looks`."""
        return params.get("dry_run") is True

    async def execute(
        self,
        *,
        patch: str | None = None,
        edits: Sequence[dict[str, str]] | None = None,
        dry_run: bool = False,
        **_: Any,
    ) -> ToolResult:
        """Plan the change and carry it out; failures and refusals are results."""
        if (patch is None) == (edits is None):
            return ToolResult.error("Give exactly one of patch and edits.")
        request = current_request()
        view = self._room.files.view(request)
        called_off = threading.Event()
        try:
            if dry_run:
                return await asyncio.to_thread(_dry_run, view, patch, edits)
            job = _Job(view, self._room.changes, _author(self.name, request), called_off.is_set)
            result, written = await asyncio.to_thread(job.run, patch, edits)
        except asyncio.CancelledError:
            called_off.set()  # the thread cannot be ended, but it need not begin to write
            raise
        except PatchError as error:
            return ToolResult.error(f"{error} {_NOTHING}")
        for change, identity in written:
            if identity is None:
                self._room.reads.forget(request.turn.session_id, change.path)
            else:
                self._room.reads.note(request.turn.session_id, change.path, identity)
        return result


class _Job:
    """One change on its way: from the arguments to the files."""

    def __init__(
        self, view: WorkspaceView, journal: ChangeJournal, author: Author, is_called_off: Callable[[], bool]
    ) -> None:
        self._view = view
        self._journal = journal
        self._author = author
        self._is_called_off = is_called_off

    def run(
        self, patch: str | None, edits: Sequence[dict[str, str]] | None
    ) -> tuple[ToolResult, Iterable[tuple[FileChange, FileIdentity | None]]]:
        """Return the result, and what each changed file is now."""
        plan, outcomes, failure = _planned(self._view, patch, edits)
        if failure is not None:
            return failure, ()
        changes = plan.changes()
        if not changes:
            return ToolResult("The files are already as the patch wants them; nothing was changed."), ()
        try:
            written = self._journal.carry_out(self._view, self._author, changes, is_called_off=self._is_called_off)
        except (ChangeFailed, ChangeStopped) as error:
            return ToolResult.error(f"{error}."), ()
        return ToolResult(f"Applied: {_summary(outcomes)}"), zip(changes, written, strict=True)


def _dry_run(view: WorkspaceView, patch: str | None, edits: Sequence[dict[str, str]] | None) -> ToolResult:
    _, outcomes, failure = _planned(view, patch, edits)
    if failure is not None:
        return failure
    text = f"Would apply (dry run, nothing was changed): {_summary(outcomes)}"
    left = DIFF_CHARS
    for outcome in outcomes:
        diff = outcome.comparison.diff(min(left, _FILE_DIFF_CHARS))
        left -= len(diff)
        if left < 0:
            return ToolResult(f"{text}\n\n(the other diffs are not shown)")
        text += f"\n\n{diff}"
    return ToolResult(text)


def _planned(
    view: WorkspaceView, patch: str | None, edits: Sequence[dict[str, str]] | None
) -> tuple[Plan, list[FileOutcome], ToolResult | None]:
    """Return the plan, and the result to give instead when a step of it is not possible."""
    plan = Plan(view)
    outcomes: list[FileOutcome] = []
    failures: list[ToolResult] = []
    for step in _steps(patch, edits):
        try:
            outcomes.append(step(plan))
        except PlanTooLarge as error:  # and so would be whatever follows
            failures.append(ToolResult.error(f"{error}."))
            break
        except PathRefused as error:
            failures.append(problem(error))
        except EditMisfit as error:
            failures.append(ToolResult.error(error))
        except OSError as error:
            failures.append(ToolResult.error(f"A file cannot be read: {error.strerror}."))
    return plan, outcomes, _failure(failures) if failures else None


def _steps(patch: str | None, edits: Sequence[dict[str, str]] | None) -> list[_Step]:
    if patch is not None:
        return [partial(patch_file, patch=file) for file in parse_patch(patch)]
    made = [
        FileEdit(
            number=number,
            path=edit["path"],
            action=EditAction(edit.get("action", EditAction.REPLACE)),
            old_text=edit.get("old_text", ""),
            new_text=edit["new_text"],
        )
        for number, edit in enumerate(edits or (), 1)
    ]
    return [partial(edit_file, edit=edit) for edit in made]


def _failure(failures: Sequence[ToolResult]) -> ToolResult:
    told = [f"- {failure}" if len(failures) > 1 else str(failure) for failure in failures[:_PROBLEMS]]
    if len(failures) > _PROBLEMS:
        told.append(f"- and {len(failures) - _PROBLEMS:,} more")
    text = "\n".join([_NOTHING, *told])
    refused = any(failure.is_refused for failure in failures)
    return ToolResult.refused(text) if refused else ToolResult.error(text)


def _summary(outcomes: Sequence[FileOutcome]) -> str:
    added = sum(outcome.comparison.added for outcome in outcomes)
    removed = sum(outcome.comparison.removed for outcome in outcomes)
    count = f"{len(outcomes):,} file{'' if len(outcomes) == 1 else 's'}"
    return "\n".join([f"{count}, +{added:,} -{removed:,} lines", *map(_line, outcomes)])


def _line(outcome: FileOutcome) -> str:
    path = one_line(outcome.path)
    names = f"{one_line(outcome.old_path)} to {path}" if outcome.old_path else path
    notes = [f"+{outcome.comparison.added:,} -{outcome.comparison.removed:,}", *outcome.notes[:_NOTES]]
    if len(outcome.notes) > _NOTES:
        notes.append(f"and {len(outcome.notes) - _NOTES:,} more hunks that were not exact")
    return f"- {_DONE[outcome.act]} {names} ({'; '.join(notes)})"


def _author(tool: str, request: RequestContext) -> Author:
    return Author(
        tool=tool,
        call_id=shorten(current_call_id(), _ID_CHARS),
        turn_id=request.turn_id,
        session_id=request.turn.session_id,
        sender_id=shorten(request.sender_id, _ID_CHARS),
    )
