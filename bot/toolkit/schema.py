"""How a tool author writes parameter schemas: small builders for JSON Schema, and a check of single values.

The builders cover what tools usually need; a plain dict is as good everywhere. Compiling, casting and
validating are in `compiled.py`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from bot.toolkit.compiled import CompiledSchema
from bot.toolkit.schema_index import SchemaError


def fragment(value: Any) -> dict[str, Any]:
    """Return the JSON Schema of a builder, or the dict itself.

    Raises:
        TypeError: neither a builder nor a dict.
    """
    if isinstance(value, Schema):
        return value.to_json_schema()
    if isinstance(value, dict):
        return value
    raise TypeError(f"a schema fragment must be a Schema or a dict, got {type(value).__name__}")


def validate_json_schema_value(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Return what is wrong with `value`, at most 8 messages; empty means valid. `path` is the value's name.

    Never raises: a schema that does not compile is reported as a message.
    """
    try:
        key = orjson.dumps(schema)
    except (TypeError, ValueError):  # integers beyond 64 bits, non-JSON: compiled without being remembered
        key = b""
    try:
        compiled = _compile_json(key) if key else CompiledSchema(schema)
    except SchemaError as exc:
        return [f"{path or 'parameter'} cannot be checked: {exc}"]
    return compiled.errors(value, path)


@functools.lru_cache(maxsize=256)
def _compile_json(schema_json: bytes) -> CompiledSchema:
    return CompiledSchema(orjson.loads(schema_json))


class Schema(ABC):
    """Base of the builders."""

    fragment = staticmethod(fragment)
    validate_json_schema_value = staticmethod(validate_json_schema_value)

    @abstractmethod
    def to_json_schema(self) -> dict[str, Any]:
        """Return a fresh JSON Schema dict."""

    def validate_value(self, value: Any, path: str = "") -> list[str]:
        """Return what is wrong with one value; empty means valid."""
        return validate_json_schema_value(value, self.to_json_schema(), path)


def _build(kind: str, nullable: bool, **keywords: Any) -> dict[str, Any]:
    built: dict[str, Any] = {"type": [kind, "null"] if nullable else kind}
    built.update((key, value) for key, value in keywords.items() if value not in (None, ""))
    return built


def _options(enum: Sequence[Any] | None) -> list[Any] | None:
    return None if enum is None else list(enum)


class StringSchema(Schema):
    """Text; lengths in characters."""

    def __init__(
        self,
        description: str = "",
        *,
        min_length: int | None = None,
        max_length: int | None = None,
        enum: Sequence[str] | None = None,
        nullable: bool = False,
    ) -> None:
        self._built = functools.partial(
            _build, "string", nullable,
            description=description, minLength=min_length, maxLength=max_length, enum=_options(enum),
        )  # fmt: skip

    def to_json_schema(self) -> dict[str, Any]:
        """Return a fresh JSON Schema dict."""
        return self._built()


class IntegerSchema(Schema):
    """A whole number. `value` is an example for whoever reads the code; it is not part of the schema."""

    def __init__(
        self,
        value: int = 0,  # noqa: ARG002 - plugins written for this interface pass it
        *,
        description: str = "",
        minimum: int | None = None,
        maximum: int | None = None,
        enum: Sequence[int] | None = None,
        nullable: bool = False,
    ) -> None:
        self._built = functools.partial(
            _build, "integer", nullable,
            description=description, minimum=minimum, maximum=maximum, enum=_options(enum),
        )  # fmt: skip

    def to_json_schema(self) -> dict[str, Any]:
        """Return a fresh JSON Schema dict."""
        return self._built()


class NumberSchema(Schema):
    """Any number. `value` is an example for whoever reads the code; it is not part of the schema."""

    def __init__(
        self,
        value: float = 0.0,  # noqa: ARG002 - plugins written for this interface pass it
        *,
        description: str = "",
        minimum: float | None = None,
        maximum: float | None = None,
        enum: Sequence[float] | None = None,
        nullable: bool = False,
    ) -> None:
        self._built = functools.partial(
            _build, "number", nullable,
            description=description, minimum=minimum, maximum=maximum, enum=_options(enum),
        )  # fmt: skip

    def to_json_schema(self) -> dict[str, Any]:
        """Return a fresh JSON Schema dict."""
        return self._built()


class BooleanSchema(Schema):
    """True or false."""

    def __init__(self, *, description: str = "", default: bool | None = None, nullable: bool = False) -> None:
        self._built = functools.partial(_build, "boolean", nullable, description=description, default=default)

    def to_json_schema(self) -> dict[str, Any]:
        """Return a fresh JSON Schema dict."""
        return self._built()


class ArraySchema(Schema):
    """A list; `items` (a builder or a dict) says what each item must be, text unless given."""

    def __init__(
        self,
        items: Any | None = None,
        *,
        description: str = "",
        min_items: int | None = None,
        max_items: int | None = None,
        nullable: bool = False,
    ) -> None:
        self._items = StringSchema() if items is None else items
        self._built = functools.partial(
            _build, "array", nullable, description=description, minItems=min_items, maxItems=max_items
        )

    def to_json_schema(self) -> dict[str, Any]:
        """Return a fresh JSON Schema dict."""
        return self._built(items=fragment(self._items))


class ObjectSchema(Schema):
    """An object. Properties come as a mapping, as keyword arguments, or both; values as in `fragment`."""

    def __init__(
        self,
        properties: Mapping[str, Any] | None = None,
        *,
        required: Sequence[str] | None = None,
        description: str = "",
        additional_properties: bool | dict[str, Any] | None = None,
        nullable: bool = False,
        **kwargs: Any,
    ) -> None:
        self._properties = {**(properties or {}), **kwargs}
        self._built = functools.partial(
            _build, "object", nullable,
            description=description, required=list(required) if required else None,
            additionalProperties=additional_properties,
        )  # fmt: skip

    def to_json_schema(self) -> dict[str, Any]:
        """Return a fresh JSON Schema dict."""
        return self._built(properties={name: fragment(value) for name, value in self._properties.items()})


def tool_parameters_schema(
    *,
    required: Sequence[str] | None = None,
    description: str = "",
    additional_properties: bool | dict[str, Any] | None = None,
    **properties: Any,
) -> dict[str, Any]:
    """Return the root schema of a tool's parameters; every other keyword argument is one parameter."""
    return ObjectSchema(
        properties, required=required, description=description, additional_properties=additional_properties
    ).to_json_schema()
