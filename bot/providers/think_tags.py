"""Hidden reasoning written into the text: takes `<think>…</think>` out of a reply while it streams.

The tags are `<think>` and its other names (`_NAMES`), and the marks that some chat templates have instead
(`_MARKS`, such as Magistral's `[THINK]`). Rules, in order of weight:

1. Outside code, an opening tag hides everything up to any closing tag, up to `<final>`, or up to the end of
   the reply.
2. Inside code (a fence, or a backtick span on one line) tags are ordinary characters: an answer may explain
   them. A reply that begins with the tag is never in code, so its first block is always reasoning.
3. A closing tag without an opening one ends reasoning whose opening tag was part of the prompt (several chat
   templates do this): what came before it is reasoning too. In the middle of a line it is taken for that only
   where it touches the end of a word or sentence, or ends its line; "with </think> you close it" is prose.
   After a hidden block any stray closing tag counts, since reasoning that quotes its own tags closes early.
4. `<final>` and `</final>` are taken away at the start of a reply and after hidden reasoning; elsewhere they
   are text.

By rule 3 visible text can turn out to be reasoning later; then `text` gets shorter. Where that is likely,
`shown` holds the text back until the reply ends: after reasoning that opened tags inside itself, and for an
endpoint that sent a lone closing tag before (`unopened`). Reasoning that arrives in fields of its own is the
business of `reply_reader`.
"""

from __future__ import annotations

import re

_FENCE_LENGTH = 3
_HIDING = (
    *("think", "thinking", "thought", "thoughts", "reasoning", "reflection"),
    *("antthinking", "antml:thinking", "seed:think", "mm:think"),
)
_NAMES = (*_HIDING, "final")
_MARKS = {  # Mistral's Magistral, Kimi-VL, Cohere's Command A, OpenThinker
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
_ALL_MARKS = (*_MARKS, *_MARKS.values())


def _any_of(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_TOKEN = re.compile(
    r"(?P<line>\n[ \t]*(?P<fence>`{3,}|~{3,})?)"
    r"|(?P<ticks>`+)"
    rf"|(?P<mark>(?-i:{_any_of(_ALL_MARKS)}))"
    rf"|<(?P<close>/?)(?P<name>{_any_of(_NAMES)})(?:\s[^<>\n]{{0,80}})?>",
    re.IGNORECASE,
)
_OPENING = re.compile(rf"<(?:{_any_of(_HIDING)})(?:\s[^<>\n]{{0,80}})?>|(?-i:{_any_of(tuple(_MARKS))})", re.IGNORECASE)
_HIDDEN_END = re.compile(
    rf"</(?:{_any_of(_HIDING)})\s*>|<final\s*>|(?-i:{_any_of(tuple(_MARKS.values()))})", re.IGNORECASE
)
# What the end of a chunk may be the beginning of: a line start, a run of fence marks, or a tag.
# Marks are looked at from the first of a run on only: from each of them, a long run would take time by its square.
_OPEN_END = re.compile(
    r"(?:\n[ \t]*[`~]*|(?<!`)`+|<(?P<tag>/?[a-z:]*)(?P<attributes>\s[^<>\n]{0,80})?)\Z", re.IGNORECASE
)
_SENTENCE_ENDS = frozenset(".!?…:;,)]}*。！？，；：）")


class ThinkTags:
    """Splits one reply's text into what is shown and what is hidden. `feed` in order, then `finish` once.

    `unopened`: the endpoint is known to send closing tags without opening ones.
    """

    def __init__(self, *, unopened: bool = False) -> None:
        self.reasoning = ""
        self.closed_unopened = False  # a closing tag ended reasoning that no tag had begun
        self._pieces: list[str] = []  # of `text`, none empty: one string that grows would be copied at each line
        self._pending = ""
        self._hidden = False
        self._opened_inside = False  # the hidden block holds an opening tag of its own
        self._held_at: int | None = 0 if unopened else None  # where text begins that may yet be reasoning
        self._code = ""  # the marks that opened the code we are in: a backtick run or a fence
        self._fenced = False
        self._line_blank = True  # only spaces since the line began
        self._first_line_of_fence = False
        self._had_block = False
        self._block_at = 0  # length of `text` when the last hidden block began
        self._final_open = False
        self._stray = False  # a closing tag that was shown as text is the last thing on its line so far

    @property
    def text(self) -> str:
        """The text so far that is no reasoning, as far as that is known."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def shown(self) -> str:
        """The text that can be shown while the reply is still coming."""
        return self.text if self._held_at is None else self.text[: self._held_at]

    @property
    def settled(self) -> bool:
        """Whether all of the text so far is certainly no reasoning, and none is being hidden."""
        return not self._hidden and self._held_at is None

    def feed(self, chunk: str) -> None:
        """Take the next piece of text, of any length."""
        data = self._pending + chunk
        cut = _complete_until(data)
        self._pending = data[cut:]
        self._take(data[:cut])

    def finish(self) -> None:
        """Take what was held back because it could have become a tag."""
        data, self._pending = self._pending, ""
        self._take(data)
        self._held_at = None

    def _take(self, data: str) -> None:
        at = 0
        while at < len(data):
            if self._hidden:
                at = self._take_hidden(data, at)
                continue
            token = _TOKEN.search(data, at)
            if token is None:
                self._show(data[at:])
                return
            self._show(data[at : token.start()])
            at = token.end()
            self._take_token(token)

    def _take_hidden(self, data: str, at: int) -> int:
        end = _HIDDEN_END.search(data, at)
        until = len(data) if end is None else end.start()
        self._opened_inside = self._opened_inside or _OPENING.search(data, at, until) is not None
        self.reasoning += data[at:until]
        if end is None:
            return until
        self._hidden = False
        self._final_open = end.group().lower().startswith("<final")
        if self._opened_inside and not self._final_open:
            self._held_at = len(self.text)
        return end.end()

    def _take_token(self, token: re.Match[str]) -> None:
        if token["line"] is not None:
            self._begin_line(token)
        elif token["ticks"] is not None:
            self._take_ticks(token["ticks"])
        elif self._code or not self._take_tag(token):
            self._show(token.group())

    def _begin_line(self, token: re.Match[str]) -> None:
        if self._stray:
            self._end_unopened()
        fence = token["fence"] or ""
        if self._fenced:
            if fence.startswith(self._code):
                self._code, self._fenced = "", False
        elif fence:
            self._code, self._fenced = fence, True
        else:
            self._code = ""
        self._first_line_of_fence = self._fenced and bool(fence)
        self._show(token.group())
        self._line_blank = not fence

    def _take_ticks(self, ticks: str) -> None:
        if not self._code:
            self._code = ticks
            # A fence without a line break before it: the first line of the reply or after hidden reasoning.
            self._fenced = len(ticks) >= _FENCE_LENGTH and self._line_blank
            self._first_line_of_fence = self._fenced
        elif ticks == self._code and (not self._fenced or self._first_line_of_fence):
            self._code, self._fenced = "", False
        self._show(ticks)

    def _take_tag(self, token: re.Match[str]) -> bool:
        """Act on a tag outside code; False when it is just text."""
        name = (token["name"] or "").lower()
        closing = bool(token["close"]) if name else token["mark"] not in _MARKS
        nothing_yet = not self.text.strip()
        if name == "final":
            if closing:
                known, self._final_open = self._final_open, False
                return known
            if nothing_yet or self._had_block:
                self._final_open = True
                return True
            return False
        if not closing:
            self._hidden = self._had_block = True
            self._opened_inside = False
            self._held_at = None
            if nothing_yet:
                self._pieces.clear()
            self._block_at = len(self.text)
            return True
        if self._had_block:
            self._hide_from(self._block_at)
            return True
        last = self.text[-1:]
        if self._line_blank or last.isalnum() or last in _SENTENCE_ENDS:
            self._end_unopened()
            return True
        self._show(token.group())
        self._stray = True  # what follows on its line decides
        return True

    def _end_unopened(self) -> None:
        self._stray = False
        self._hide_from(0)
        self._had_block = self.closed_unopened = True
        self._block_at = 0

    def _hide_from(self, start: int) -> None:
        text = self.text
        self.reasoning += text[start:]
        self._pieces = [text[:start]] if start else []
        self._held_at = None

    def _show(self, piece: str) -> None:
        if not piece:
            return
        self._stray = self._stray and not piece.strip()
        self._line_blank = (self._line_blank or piece.startswith("\n")) and not piece.strip()
        if not self._pieces and self._had_block:
            piece = piece.lstrip()
        if piece:
            self._pieces.append(piece)


def _complete_until(data: str) -> int:
    """Return how much of `data` cannot change its meaning by what follows."""
    end = _OPEN_END.search(data)
    if end is None:
        return _mark_begins(data)
    tag = end["tag"]
    if tag is not None:
        name = tag.lstrip("/").lower()
        known = name in _NAMES if end["attributes"] else any(full.startswith(name) for full in _NAMES)
        if not known:
            return len(data)
    return end.start()


def _mark_begins(data: str) -> int:
    """Return where the beginning of a mark stands at the end of `data`; its length if there is none."""
    for first in ("[", "◁", "<"):
        at = data.rfind(first)
        if at >= 0 and any(mark.startswith(data[at:]) and mark != data[at:] for mark in _ALL_MARKS):
            return at
    return len(data)
