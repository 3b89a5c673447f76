"""The form of an elicitation: its fields, to be asked one after the other, and their values read from text.

Pure. Forms are flat objects of primitive values (https://modelcontextprotocol.io/specification/2025-11-25/client/
elicitation#requested-schema, read 2026-11-30); what a server writes beyond that is refused or left to the schema's
own check at the end. Words for people are `questions`'s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import jsonschema_rs

from bot.errors import DutifulError
from bot.toolkit.compiled import CompiledSchema
from bot.toolkit.mcp.offers import Json
from bot.toolkit.schema_index import SchemaError

MAX_FIELDS = 20
"""Longer forms are refused: nobody answers them in a chat."""

MAX_CHOICES = 100

_YES = frozenset({"yes", "y", "true", "1", "on", "ok", "okay", "done", "ja", "j", "wahr", "erledigt", "是", "对", "好"})
_NO = frozenset({"no", "n", "false", "0", "off", "nein", "falsch", "否", "不", "不是"})
_BY_NUMBER = re.compile(r"!?(\d{1,3})")
_BETWEEN = re.compile(r"[,;、,\n]+")


class FormRefused(DutifulError):
    """A form that cannot be asked. The text says why, for the server and the model."""


class Reason(StrEnum):
    """Why an answer does not fit; also text keys below `mcp.misfit`."""

    YES_NO = "yes_no"  # neither
    NUMBER = "number"  # none
    INTEGER = "integer"  # not a whole one
    CHOICE = "choice"  # none of them
    EMAIL = "email"  # not of that format, as the next three
    URI = "uri"
    DATE = "date"
    DATE_TIME = "date-time"
    SCHEMA = "schema"  # the schema forbids the value


class Misfit(DutifulError):
    """An answer that does not fit its field. `detail` are the schema's own words."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail


class Kind(StrEnum):
    """What a field takes."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    YES_NO = "yes_no"
    CHOICE = "choice"
    CHOICES = "choices"  # any number of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of a choice, and what it is called."""

    value: str
    title: str


_MISSING: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field. `default` is `_MISSING` where the schema has none; ask `has_default`."""

    name: str
    kind: Kind
    schema: Json
    title: str
    description: str
    required: bool
    choices: tuple[Choice, ...] = ()
    default: Any = _MISSING

    @property
    def has_default(self) -> bool:
        """Whether the person may leave it to the schema."""
        return self.default is not _MISSING

    @property
    def may_skip(self) -> bool:
        """Whether "-" is an answer: the default is taken, or nothing is sent."""
        return self.has_default or not self.required

    def shown(self, value: Any) -> str:
        """Return a value in words for a person who knows the titles of choices."""
        if isinstance(value, list):
            return ", ".join(self.shown(item) for item in value)
        titles = {choice.value: choice.title for choice in self.choices}
        return titles.get(value, str(value)) if isinstance(value, str) else str(value)

    def read(self, text: str) -> Any:
        """Return the value that a person's text means.

        Raises:
            Misfit: it means none, or one that the schema does not allow.
        """
        value = self._meant(text.strip())
        if self.kind is Kind.TEXT:
            _check_format(self.schema.get("format"), value)
        if errors := _compiled(self.schema).errors(value, self.title):
            raise Misfit(Reason.SCHEMA, "; ".join(errors))
        return value

    def _meant(self, text: str) -> Any:
        match self.kind:
            case Kind.YES_NO:
                return read_yes_no(text)
            case Kind.NUMBER | Kind.INTEGER:
                return _number(text, whole=self.kind is Kind.INTEGER)
            case Kind.CHOICE:
                return self._chosen(text)
            case Kind.CHOICES:
                return self._several(text)
            case _:
                return text

    def _chosen(self, text: str) -> str:
        """Return a choice by its value, title or number, in this order; "!3" is a number only, as buttons say it."""
        values, titles = [c.value.strip() for c in self.choices], [c.title.strip() for c in self.choices]
        folded = [[name.casefold() for name in names] for names in (values, titles)]
        by_number = _BY_NUMBER.fullmatch(text)
        is_button = by_number is not None and text.startswith("!")
        for names, word in (
            ()
            if is_button
            else ((values, text), (titles, text), (folded[0], text.casefold()), (folded[1], text.casefold()))
        ):
            if word in names:
                return self.choices[names.index(word)].value
        if by_number is not None and 1 <= int(by_number[1]) <= len(self.choices):
            return self.choices[int(by_number[1]) - 1].value
        raise Misfit(Reason.CHOICE)

    def _several(self, text: str) -> list[str]:
        try:
            return [self._chosen(text)]  # a title may have a comma
        except Misfit:
            words = [word.strip() for word in _BETWEEN.split(text)]
            return list(dict.fromkeys(self._chosen(word) for word in words if word))


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The fields in the server's order, and the schema that all answers together must fit."""

    fields: tuple[Field, ...]
    schema: Json

    def errors(self, values: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with all answers together; empty means they are fit to be sent."""
        return _compiled(self.schema).errors(dict(values), "")


def read_form(schema: Json) -> Form:
    """Return the form that a `requestedSchema` describes; one without fields asks for consent alone.

    Raises:
        FormRefused: not a flat object of primitive values, or too long.
    """
    properties = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not isinstance(properties, Mapping):
        raise FormRefused("the requested schema is not an object with properties")
    if len(properties) > MAX_FIELDS:
        raise FormRefused(f"the form has {len(properties)} fields, more than {MAX_FIELDS}")
    wanted = schema.get("required")
    required = {name for name in wanted if isinstance(name, str)} if isinstance(wanted, list) else set()
    if not required <= set(properties):
        raise FormRefused("the form requires a field that it does not have")
    fields = tuple(_field(str(name), entry, required=name in required) for name, entry in properties.items())
    form = Form(fields=fields, schema=dict(schema))
    try:
        CompiledSchema(form.schema)
        for field in fields:
            CompiledSchema(field.schema)
    except SchemaError as exc:
        raise FormRefused(f"the requested schema cannot be used: {exc}") from None
    return form


def _field(name: str, entry: Any, *, required: bool) -> Field:
    if not isinstance(entry, Mapping):
        raise FormRefused(f"field {name!r} has no schema")
    kind, choices = _kind(name, entry)
    if len(choices) > MAX_CHOICES:
        raise FormRefused(f"field {name!r} has {len(choices)} choices, more than {MAX_CHOICES}")
    made = Field(
        name=name,
        kind=kind,
        schema=dict(entry),
        title=_words(entry.get("title")) or name,
        description=_words(entry.get("description")),
        required=required,
        choices=choices,
    )
    if "default" not in entry:
        return made
    # A default that its own schema does not allow is none: it would come back as a refused answer.
    try:
        fits = not CompiledSchema(made.schema).errors(entry["default"])
    except SchemaError as exc:
        raise FormRefused(f"field {name!r}: {exc}") from None
    return replace(made, default=entry["default"]) if fits else made


def _kind(name: str, entry: Mapping[str, Any]) -> tuple[Kind, tuple[Choice, ...]]:
    listed = _choices(entry)
    if listed:
        return Kind.CHOICE, listed
    match entry.get("type"):
        case "boolean":
            return Kind.YES_NO, ()
        case "integer":
            return Kind.INTEGER, ()
        case "number":
            return Kind.NUMBER, ()
        case "string":
            return Kind.TEXT, ()
        case "array":
            items = entry.get("items")
            listed = _choices(items) if isinstance(items, Mapping) else ()
            if listed:
                return Kind.CHOICES, listed
    raise FormRefused(f"field {name!r} is neither text, a number, yes or no, nor a choice")


def _choices(entry: Mapping[str, Any]) -> tuple[Choice, ...]:
    """Return the choices of a schema in any of the forms that the protocol has had for them."""
    values = entry.get("enum")
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        names = entry.get("enumNames")
        titles: Sequence[Any] = names if isinstance(names, list) and len(names) == len(values) else values
        pairs = zip(values, titles, strict=True)
        return tuple(Choice(value=value, title=_words(title) or value) for value, title in pairs)
    for keyword in ("oneOf", "anyOf"):
        options = entry.get(keyword)
        if isinstance(options, list) and options and all(_is_constant(option) for option in options):
            return tuple(Choice(value=o["const"], title=_words(o.get("title")) or o["const"]) for o in options)
    return ()


def _is_constant(option: Any) -> bool:
    return isinstance(option, Mapping) and isinstance(option.get("const"), str)


def _words(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _compiled(schema: Json) -> CompiledSchema:
    return CompiledSchema(schema)  # a form is answered by a person: compiling it again costs nothing that shows


def read_yes_no(text: str) -> bool:
    """Return whether a text says yes or no, in any of the bot's languages.

    Raises:
        Misfit: neither.
    """
    word = text.strip().casefold().rstrip(".!。")
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise Misfit(Reason.YES_NO)


def _number(text: str, *, whole: bool) -> int | float:
    """Return a number as people write it: a comma may stand for the point, spaces may group digits."""
    plain = re.sub(r"[\s_'\u2019\u00a0\u202f]", "", text)
    if plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    try:
        value = float(plain)
    except ValueError:
        raise Misfit(Reason.NUMBER) from None
    if not math.isfinite(value):
        raise Misfit(Reason.NUMBER)
    if not whole:
        return value if not value.is_integer() or "." in plain else int(value)
    if not value.is_integer():
        raise Misfit(Reason.INTEGER)
    try:
        return int(plain)  # not by way of a float, which cannot hold long ones
    except ValueError:
        return int(value)


_FORMATS = frozenset({Reason.EMAIL, Reason.URI, Reason.DATE, Reason.DATE_TIME})
"""Those that the protocol names for forms."""


def _check_format(wanted: Any, text: str) -> None:
    """Check a text's format, which `CompiledSchema` does not.

    Raises:
        Misfit: the text has not the form.
    """
    if isinstance(wanted, str) and wanted in _FORMATS:
        validator = jsonschema_rs.validator_for({"format": wanted}, validate_formats=True)
        if not validator.is_valid(text):
            raise Misfit(Reason(wanted))
