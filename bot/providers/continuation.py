"""Replies that arrive in more than one piece: asked to go on after a cut, and joined without doubling text.

Pure. When a cut reply is asked for again is `openai_compatible`'s decision; continuing after the output limit
is the runner's, which joins with the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Usage, clean_text

RESUME_FROM_CHARS = 200
"""Less text than this is asked for again from its beginning: that costs less than a visible seam."""

_CONTINUE = (
    "[The connection broke in the middle of your answer, which stands above as far as it arrived. Continue exactly "
    "where it stops, without repeating and without a remark. If nothing is missing, answer with a single full stop.]"
)
_NOTHING_MISSING = frozenset({"", ".", "。"})
_OVERLAP_CHARS = 400  # how far back a continuation may begin
_SURE_BYTES = 12  # from this size on, equal text is an overlap wherever in a word it begins
_LEAST_CHARS = 3
_BEGAN_AGAIN_CHARS = 60  # a continuation that begins as the whole text did is a new beginning


def join(text: str, more: str) -> str:
    """Return `text` with its continuation, what the continuation repeats of it left out.

    A continuation that begins from the start replaces the text. Text that repeated itself before the seam (rows
    of a table, a refrain) is left as it comes: there nobody can tell a repetition from an overlap.
    """
    if not text or not more:
        return text + more
    if _began_again(text, more):
        return more
    return text + more[_overlap(text, more) :]


def join_growing(text: str, more: str) -> str:
    """Return what `join` will give, as far as that is certain while `more` is still growing."""
    beginning = more[:_OVERLAP_CHARS]
    could_repeat = beginning in text[-_OVERLAP_CHARS:] or text.startswith(beginning[:_BEGAN_AGAIN_CHARS])
    if len(more) < _OVERLAP_CHARS and could_repeat and not _began_again(text, more):
        return text
    return join(text, more)


class Composition:
    """One reply on its way: what arrived of it in earlier exchanges, and what is still to be asked for."""

    def __init__(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> None:
        self._request = request
        self._on_text = on_text
        self._kept = ""
        self._usage = Usage()
        self._shown = ""
        self._is_silent = True  # the exchange under way has shown nothing yet

    @property
    def streams(self) -> bool:
        """Whether somebody watches the text grow."""
        return self._on_text is not None

    @property
    def resumes(self) -> bool:
        """Whether the next exchange goes on with text that arrived before."""
        return bool(self._kept)

    def begin(self) -> ModelRequest:
        """Return the request of the next exchange."""
        self._is_silent = True
        if not self._kept:
            return self._request
        so_far = {"role": "assistant", "content": self._kept}
        messages = [*self._request.messages, so_far, {"role": "user", "content": _CONTINUE}]
        return replace(self._request, messages=messages)

    def show(self, text: str) -> None:
        """Pass the exchange's text so far on, behind what was there before; each state once.

        What an earlier exchange has shown stays until this one has text.
        """
        if not text and self._is_silent:
            return
        self._is_silent = False
        whole = join_growing(self._kept, text) if self._kept else text
        if self._on_text is not None and whole != self._shown:
            self._shown = whole
            self._on_text(clean_text(whole))

    def keep(self, text: str, usage: Usage) -> None:
        """Note what an exchange that failed has brought; it counts once it is enough to go on with."""
        self._usage += usage
        # It may have broken off within what it repeats: only what is certainly new counts.
        whole = join_growing(self._kept, text) if self._kept else text
        if len(whole) >= RESUME_FROM_CHARS:
            self._kept = whole

    def start_over(self) -> None:
        """Ask for the whole reply again: the endpoint takes no continuation."""
        self._kept = ""

    def finish(self, reply: ModelReply) -> ModelReply:
        """Return the whole reply, given that of the last exchange."""
        text = reply.text
        if self._kept:
            text = self._kept if text.strip() in _NOTHING_MISSING else join(self._kept, text)
        whole = replace(reply, text=text, usage=self._usage + reply.usage)
        if self._on_text is not None and text != self._shown:
            self._shown = text
            self._on_text(text)
        return whole


def _began_again(text: str, more: str) -> bool:
    size = min(len(text), len(more))
    return size >= _BEGAN_AGAIN_CHARS and text[:_BEGAN_AGAIN_CHARS] == more[:_BEGAN_AGAIN_CHARS]


def _overlap(text: str, more: str) -> int:
    """Return how many characters of `more` repeat the end of `text`."""
    tail = text[-_OVERLAP_CHARS:]
    for size in range(min(len(tail), len(more)), _LEAST_CHARS - 1, -1):
        piece = more[:size]
        if not tail.endswith(piece) or not piece.strip():
            continue
        if text[:-size].endswith(piece):
            return 0
        before = text[-size - 1 : -size]
        if len(piece.encode(errors="replace")) >= _SURE_BYTES or not (before.isalnum() and piece[0].isalnum()):
            return size
    return 0
