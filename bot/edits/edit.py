"""One change of a text file: these words become those, and every other byte stays.

Pure; long for large files: use a thread. Which file it is and how it is replaced is the callers' part.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.edits.file_text import FileText, NotEncodable, NotText, Replacement
from bot.edits.fitting import replacements
from bot.edits.matching import Hit, SelectionError, Selector, Way, choose, find
from bot.edits.near_miss import explain
from bot.errors import DutifulError

_MAX_ADDED_CHARS = 16_000_000
"""Many places times a long text: what memory and disk can bear."""

_SHOWN_LINES = 40
_SHOWN_CHARS = 200

_REMARKS = {
    Way.SPACE: "Matched although white space at the beginnings or ends of lines differs; the file's was kept",
    Way.QUOTES: "Matched although quotes differ (typographic and straight); the file's were kept",
    Way.SPACE_AND_QUOTES: (
        "Matched although quotes and white space at the beginnings or ends of lines differ; the file's were kept"
    ),
}


class EditError(DutifulError):
    """The change cannot be made. The text tells the model why, in sentences without the last full stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The changed bytes; the numbers, from 1, of the lines where each change begins; what the model should know."""

    data: bytes
    lines: tuple[int, ...]
    remarks: tuple[str, ...] = ()
    diff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """`old` (not empty) becomes `new` at the selected places."""

    old: str
    new: str
    selector: Selector = field(default_factory=Selector)

    def apply(self, data: bytes) -> Edited:
        """Return the file's bytes with this change.

        Raises:
            EditError: the bytes are no text, `old` is not there or not clear, or `new` cannot be written there.
        """
        if self.old == self.new:
            raise EditError("old_text and new_text are the same: there is nothing to change")
        try:
            file = FileText.of(data)
            matches = find(file.text, self.old)
            if matches is None:
                raise EditError(f"old_text is not there. {explain(file.text, self.old, self.new)}")
            hits = choose(matches.hits, self.selector)
            changes = replacements(file.text, matches, hits, self.old, self.new)
            if sum(len(change.text) for change in changes) > _MAX_ADDED_CHARS:
                raise EditError(f"all these replacements together are longer than {_MAX_ADDED_CHARS:,} characters")
            changed = file.spliced(changes)
        except NotText as error:
            raise EditError(f"is binary ({error.kind.mime}) and cannot be edited as text") from None
        except (SelectionError, NotEncodable) as error:
            raise EditError(str(error)) from None
        if changed == data:
            raise EditError("the file already says what new_text says there: there is nothing to change")
        remarks = [_REMARKS[matches.way]] if matches.way in _REMARKS else []
        if file.kind.encoding != "utf-8":
            remarks.append(f"Written in the file's encoding, {file.kind.encoding}{' (guessed)' * file.kind.is_guess}")
        return Edited(
            data=changed,
            lines=tuple(hit.line for hit in hits),
            remarks=tuple(remarks),
            diff=_diff(file.text, hits[0], changes) if matches.way is not Way.EXACT else "",
        )


def _diff(text: str, hit: Hit, changes: Sequence[Replacement]) -> str:
    """Return what became of the lines of a hit, for checking by eye."""
    start = text.rfind("\n", 0, hit.start) + 1
    end = text.find("\n", hit.end)
    end = len(text) if end < 0 else end
    after: list[str] = []
    at = start
    for change in changes:
        if hit.start <= change.start and change.end <= hit.end:
            after += (text[at : change.start], change.text)
            at = change.end
    after.append(text[at:end])
    lines = list(difflib.unified_diff(_lines(text[start:end]), _lines("".join(after)), n=1, lineterm=""))[3:]
    more = [f"… ({len(lines) - _SHOWN_LINES:,} more lines)"] if len(lines) > _SHOWN_LINES else []
    return "\n".join((*(line[:_SHOWN_CHARS] for line in lines[:_SHOWN_LINES]), *more))


def _lines(text: str) -> list[str]:
    """Return lines for a diff of bounded size, fit to be stored whatever their bytes are."""
    return [line.rstrip("\r").encode("utf-8", "replace").decode() for line in text.split("\n")[: _SHOWN_LINES * 5]]
