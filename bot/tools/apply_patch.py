"""The `apply_patch` tool: changes of several files at once, all or none of them.

What a diff or an edit makes of the files is worked out in `bot/edits/`, and so is carrying it out as one act.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bot.edits.editing import MAX_EDITS, MAX_TEXT_CHARS, EditAction, FileEdit, edit_file
from bot.edits.journal import ChangeFailed, ChangeStopped
from bot.edits.outcome import FileAct, FileOutcome
from bot.edits.patch import MAX_FILES, MAX_PATCH_CHARS, parse_patch
from bot.edits.patching import EditMisfit, patch_file
from bot.edits.plan import Plan, PlanTooLarge
from bot.edits.sloppy_diff import PatchError
from bot.messages import Replay, Risk
from bot.security.workspace import PathRefused
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import one_line, problem
from bot.toolkit.context import ToolContext, current_call_id, current_request
from bot.toolkit.file_changes import FileChanges
from bot.toolkit.schema import ArraySchema, BooleanSchema, ObjectSchema, StringSchema, tool_parameters_schema

DIFF_CHARS = 40_000
"""Characters of diffs in the result of a dry run."""

_FILE_DIFF_CHARS = 10_000
_NOTES = 8
_PROBLEMS = 8
_TRIED_S = 5.0
"""Seconds after which a change that is known not to be possible is not looked at any further."""
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
    the diffs and changes nothing. Files up to 16 MiB and 500,000 lines each, 64 MiB together. A hunk may lie
    elsewhere than stated and up to two outer lines of its context may differ; the result says so. Line ends, byte
    order mark and encoding are kept.
    All or nothing holds across a crash too: an interrupted change is taken back at the next start.
    Result: a line per file with added and removed lines and what was not exact. Errors: no unified diff, a hunk or
    old_text that does not fit (with the closest place), a file that is missing, exists already, is binary or too
    large, a full disk; refused: a path outside of the chat's files or in shared/.
    """

    _scopes = frozenset({"core", "subagent"})
    risk = Risk.WRITE
    replay = Replay.ONCE

    def __init__(self, changes: FileChanges) -> None:
        self._changes = changes

    @classmethod
    def create(cls, ctx: ToolContext) -> ApplyPatchTool:
        """Build the tool from the ToolContext."""
        return cls(ctx.room.changes)

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
        # Some models send every parameter, an empty one for what they do not mean.
        patch, edits = patch or None, edits or None
        if (patch is None) == (edits is None):
            return ToolResult.error("Give exactly one of patch and edits.")
        try:
            done = await self._changes.carry_out(
                current_request(),
                lambda plan: _planned(plan, patch, edits),
                tool=self.name,
                call_id=current_call_id(),
                dry_run=dry_run,
            )
        except _Impossible as error:
            return error.result
        except PatchError as error:
            return ToolResult.error(f"{error} {_NOTHING}")
        except (ChangeFailed, ChangeStopped) as error:
            return ToolResult.error(f"{error}.")
        if dry_run:
            return _shown(done.outcome)
        if not done.is_changed:
            return ToolResult("The files are already as the patch wants them; nothing was changed.")
        return ToolResult(f"Applied: {_summary(done.outcome)}")


class _Impossible(Exception):
    """Parts of the change are not possible; `result` tells which."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result)
        self.result = result


def _shown(outcomes: Sequence[FileOutcome]) -> ToolResult:
    text = f"Would apply (dry run, nothing was changed): {_summary(outcomes)}"
    left = DIFF_CHARS
    for outcome in outcomes:
        diff = outcome.comparison.diff(min(left, _FILE_DIFF_CHARS))
        left -= len(diff)
        if left < 0:
            return ToolResult(f"{text}\n\n(the other diffs are not shown)")
        text += f"\n\n{diff}"
    return ToolResult(text)


def _planned(plan: Plan, patch: str | None, edits: Sequence[dict[str, str]] | None) -> list[FileOutcome]:
    """Return what each part of the change does; all parts are tried, so that all that do not fit are told."""
    outcomes: list[FileOutcome] = []
    failures: list[ToolResult] = []
    until_s = time.monotonic() + _TRIED_S
    for step in _steps(patch, edits):
        if failures and time.monotonic() > until_s:
            failures.append(ToolResult.error("The others were not tried, since that takes too long."))
            break
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
    if failures:
        raise _Impossible(_failure(failures))
    return outcomes


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
