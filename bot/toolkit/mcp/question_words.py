"""The words and buttons of a server's question to a person. What the server says stands in marked lines, as data."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from bot.messages import Button
from bot.texts import say
from bot.toolkit.mcp.asks import ElicitAsk
from bot.toolkit.mcp.forms import Field, Kind, Misfit, Reason
from bot.toolkit.mcp.questions import DECLINE, DEFAULT, Wording

MAX_BUTTON_CHOICES = 8
"""More choices are listed with numbers instead."""

_HOW = {Kind.CHOICE: "mcp.ask.how.choice", Kind.CHOICES: "mcp.ask.how.choices"}
_MESSAGE_CHARS = 1_500
_ABOUT_CHARS = 400
_TITLE_CHARS = 80
_LABEL_CHARS = 40
_LISTED = 40  # of the choices; the rest can be answered too, but nobody reads that far


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionWords:
    """Puts the questions of one request of a server into words, in a person's language."""

    ask: ElicitAsk
    tool: str
    language: str

    def field(self, field: Field, place: tuple[int, int], name: str) -> Wording:
        """Return the question for one field; `place` is (its number, how many there are), `name` the question's id."""
        language, (number, count) = self.language, place
        title = plain_line(field.title, _TITLE_CHARS)
        lines = [self._head(), ""]
        lines.append(title if count == 1 else say(language, "mcp.ask.field", title=title, number=number, count=count))
        if field.description:
            lines.append(_as_data(field.description, _ABOUT_CHARS))
        if field.choices and not _has_buttons(field):
            shown = field.choices[:_LISTED]
            lines += [f"{at}. {plain_line(choice.title, _TITLE_CHARS)}" for at, choice in enumerate(shown, start=1)]
            if len(field.choices) > len(shown):
                lines.append("…")
        if field.has_default:
            value = plain_line(_shown(field, field.default, language), _TITLE_CHARS)
            lines.append(say(language, "mcp.ask.default", value=value))
        elif field.may_skip:
            lines.append(say(language, "mcp.ask.optional"))
        lines += ["", _how(field, name, language), say(language, "mcp.ask.no_secrets")]
        return Wording(text="\n".join(lines), buttons=_buttons(field, name, language))

    def consent(self, name: str) -> Wording:
        """Return the question of a form without fields."""
        how = say(self.language, "mcp.ask.how.consent", id=name)
        return Wording(text=f"{self._head()}\n\n{how}", buttons=self._two("mcp.ask.agree", "ok", name))

    def visit(self, host: str, name: str) -> Wording:
        """Return the question to visit a page. Its whole address is shown, and its host once more by itself."""
        where, how = say(self.language, "mcp.ask.visit", host=host), say(self.language, "mcp.ask.how.visit", id=name)
        lines = (self._head(), "", where, self.ask.url, "", how)
        return Wording(text="\n".join(lines), buttons=self._two("mcp.ask.done", "done", name))

    def _head(self) -> str:
        tool = plain_line(self.tool, _TITLE_CHARS)
        head = say(self.language, "mcp.ask.head", server=self.ask.server, tool=tool)
        message = _as_data(self.ask.message, _MESSAGE_CHARS)
        return f"{head}\n{message}" if message else head

    def _two(self, key: str, word: str, name: str) -> tuple[tuple[Button, ...], ...]:
        agree = Button(label=say(self.language, key), data=f"/answer {name} {word}")
        return ((agree, _decline(name, self.language)),)


def misfit_words(misfit: Misfit, language: str) -> str:
    """Return why an answer does not fit, for the person who gave it."""
    if misfit.reason is not Reason.SCHEMA:
        return say(language, f"mcp.misfit.{misfit.reason}")
    return say(language, "mcp.misfit.schema", what=plain_line(misfit.detail, _ABOUT_CHARS))


def plain_line(text: str, limit_chars: int) -> str:
    """Return text of others on one line, without signs that are not seen, and not endless."""
    words = " ".join(_visible(text).split())
    return words if len(words) <= limit_chars else words[: limit_chars - 1] + "…"


def _visible(text: str) -> str:
    """Drop what has no shape of its own, such as marks that turn the direction of writing."""
    return "".join(char for char in text if char.isspace() or unicodedata.category(char)[0] != "C")


def _as_data(text: str, limit_chars: int) -> str:
    """Return text of a server, each line marked, so that none can pass for ours."""
    words = _visible(text).strip()
    if len(words) > limit_chars:
        words = words[: limit_chars - 1] + "…"
    return "\n".join(f"> {line}".rstrip() for line in words.splitlines())


def _how(field: Field, name: str, language: str) -> str:
    key = "mcp.ask.how.buttons" if _has_buttons(field) else _HOW.get(field.kind, "mcp.ask.how.text")
    return say(language, key, id=name)


def _shown(field: Field, value: Any, language: str) -> str:
    if field.kind is Kind.YES_NO:
        return say(language, "mcp.ask.yes" if value else "mcp.ask.no")
    return field.shown(value)


def _has_buttons(field: Field) -> bool:
    return field.kind is Kind.YES_NO or (field.kind is Kind.CHOICE and len(field.choices) <= MAX_BUTTON_CHOICES)


def _buttons(field: Field, name: str, language: str) -> tuple[tuple[Button, ...], ...]:
    rows: list[tuple[Button, ...]] = []
    if field.kind is Kind.YES_NO:
        yes, no = (say(language, key) for key in ("mcp.ask.yes", "mcp.ask.no"))
        rows.append((Button(label=yes, data=f"/answer {name} yes"), Button(label=no, data=f"/answer {name} no")))
    elif _has_buttons(field):
        # By number in words that no value can be mistaken for: a value may be "2", or a line break.
        for at, choice in enumerate(field.choices, start=1):
            rows.append((Button(label=plain_line(choice.title, _LABEL_CHARS) or str(at), data=_choose(name, at)),))
    last = [_decline(name, language)]
    if field.may_skip:
        key = "mcp.ask.use_default" if field.has_default else "mcp.ask.leave_out"
        last.insert(0, Button(label=say(language, key), data=f"/answer {name} {DEFAULT}"))
    return (*rows, tuple(last))


def _choose(name: str, number: int) -> str:
    return f"/answer {name} !{number}"


def _decline(name: str, language: str) -> Button:
    return Button(label=say(language, "mcp.ask.decline"), data=f"/answer {name} {DECLINE}")
