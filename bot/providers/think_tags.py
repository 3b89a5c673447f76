"""Hidden reasoning written into the text: takes `<think>…</think>` out of a reply while it streams.

Rules, in order of weight:

1. Outside code, an opening `<think>`, `<thinking>` or `<reasoning>` hides everything up to a closing tag of
   any of the three, up to `<final>`, or up to the end of the reply.
2. Inside code (a fence, or a backtick span on one line) tags are ordinary characters: an answer may explain
   them. A reply that begins with the tag is never in code, so its first block is always reasoning.
3. A closing tag without an opening one, alone at the start of its line, ends reasoning whose opening tag was
   part of the prompt (several chat templates do this): what came before it is reasoning too. After a hidden
   block any stray closing tag counts, since reasoning that quotes its own tags closes early.
4. `<final>` and `</final>` are taken away at the start of a reply and after hidden reasoning; elsewhere they
   are text.

By rule 3 visible text can turn out to be reasoning later; then `text` gets shorter. Reasoning that arrives in
fields of its own is the business of `reply_reader`.
"""

from __future__ import annotations

import re

_FENCE_LENGTH = 3
_NAMES = ("think", "thinking", "reasoning", "final")
_TOKEN = re.compile(
    r"(?P<line>\n[ \t]*(?P<fence>`{3,}|~{3,})?)"
    r"|(?P<ticks>`+)"
    r"|<(?P<close>/?)(?P<name>thinking|think|reasoning|final)(?:\s[^<>\n]{0,80})?>",
    re.IGNORECASE,
)
_HIDDEN_END = re.compile(r"</(?:thinking|think|reasoning)\s*>|<final\s*>", re.IGNORECASE)
# What the end of a chunk may be the beginning of: a line start, a run of fence marks, or a tag.
_OPEN_END = re.compile(r"(?:\n[ \t]*[`~]*|`+|<(?P<tag>/?[a-z]*)(?P<attributes>\s[^<>\n]{0,80})?)\Z", re.IGNORECASE)


class ThinkTags:
    """Splits one reply's text into what is shown and what is hidden. `feed` in order, then `finish` once."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning = ""
        self._pending = ""
        self._hidden = False
        self._code = ""  # the marks that opened the code we are in: a backtick run or a fence
        self._fenced = False
        self._line_blank = True  # only spaces since the line began
        self._first_line_of_fence = False
        self._had_block = False
        self._block_at = 0  # length of `text` when the last hidden block began
        self._final_open = False

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
        if end is None:
            self.reasoning += data[at:]
            return len(data)
        self.reasoning += data[at : end.start()]
        self._hidden = False
        self._final_open = end.group().lower().startswith("<final")
        return end.end()

    def _take_token(self, token: re.Match[str]) -> None:
        if token["line"] is not None:
            self._begin_line(token)
        elif token["ticks"] is not None:
            self._take_ticks(token["ticks"])
        elif self._code or not self._take_tag(token["name"].lower(), closing=bool(token["close"])):
            self._show(token.group())

    def _begin_line(self, token: re.Match[str]) -> None:
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

    def _take_tag(self, name: str, *, closing: bool) -> bool:
        """Act on a tag outside code; False when it is just text."""
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
            if nothing_yet:
                self.text = ""
            self._block_at = len(self.text)
            return True
        if self._had_block:
            self._hide_from(self._block_at)
            return True
        if self._line_blank:
            self._hide_from(0)
            self._had_block = True
            return True
        return False

    def _hide_from(self, start: int) -> None:
        self.reasoning += self.text[start:]
        self.text = self.text[:start]

    def _show(self, piece: str) -> None:
        if not piece:
            return
        self._line_blank = (self._line_blank or piece.startswith("\n")) and not piece.strip()
        if not self.text and self._had_block:
            piece = piece.lstrip()
        self.text += piece


def _complete_until(data: str) -> int:
    """Return how much of `data` cannot change its meaning by what follows."""
    end = _OPEN_END.search(data)
    if end is None:
        return len(data)
    tag = end["tag"]
    if tag is not None:
        name = tag.lstrip("/").lower()
        known = name in _NAMES if end["attributes"] else any(full.startswith(name) for full in _NAMES)
        if not known:
            return len(data)
    return end.start()
