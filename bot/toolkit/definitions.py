"""The list of function definitions that goes to the model with every request.

Order is part of the contract: built-ins by name, then `mcp_*` by name, so that a changing MCP server never
moves what comes before it and a provider's prompt cache keeps its prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex, overload

import orjson


def order_key(name: str) -> tuple[bool, str]:
    """Return the sort key of a tool name: MCP tools after all others, each group by name."""
    return name.startswith("mcp_"), name


class Definitions(list[dict[str, Any]]):
    """A list of definitions that its holder may change without touching the registry's own.

    Making one is as cheap as copying a list. The dicts are shared until somebody looks at one: at that moment
    this list replaces them all by copies. Code that only passes the list on (to a JSON encoder, which reads
    it natively) never pays.
    """

    __slots__ = ("_private",)

    def _own(self) -> None:
        if not hasattr(self, "_private"):
            self._private = True
            super().__setitem__(slice(None), orjson.loads(orjson.dumps(self)))

    @overload
    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        self._own()
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._own()
        return super().__iter__()

    def __reversed__(self) -> Iterator[dict[str, Any]]:
        self._own()
        return super().__reversed__()

    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other]

    def __mul__(self, times: SupportsIndex) -> list[dict[str, Any]]:
        return list(self) * times

    __rmul__ = __mul__

    def copy(self) -> list[dict[str, Any]]:
        """Return a plain list of copies."""
        return list(self)

    def pop(self, index: SupportsIndex = -1) -> dict[str, Any]:
        """As `list.pop`, on this holder's copies."""
        self._own()
        return super().pop(index)

    def sort(self, **kwargs: Any) -> None:
        """As `list.sort`, on this holder's copies."""
        self._own()
        super().sort(**kwargs)


class DefinitionCache:
    """The ordered definitions of one set of tools, as a list and as JSON text, built on first need."""

    __slots__ = ("_items", "_json", "_names")

    def __init__(self, items: Iterable[tuple[str, dict[str, Any], bytes]]) -> None:
        """Take (name, definition, the same as JSON) of each tool, in any order."""
        ordered = sorted(items, key=lambda item: order_key(item[0]))
        self._names = [name for name, _, _ in ordered]
        self._items = [definition for _, definition, _ in ordered]
        self._json = b"[" + b",".join(text for _, _, text in ordered) + b"]"

    @property
    def names(self) -> list[str]:
        """The names, in the order of the definitions."""
        return self._names.copy()

    def as_list(self) -> Definitions:
        """Return the definitions; the caller may change what it gets."""
        return Definitions(self._items)

    def as_json(self) -> bytes:
        """Return the definitions as JSON text."""
        return self._json
