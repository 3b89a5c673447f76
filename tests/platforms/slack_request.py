"""One call of a Slack method: its arguments, however they came, read the way Slack reads them.

https://docs.slack.dev/apis/web-api (read 2026-11-30): query, form (nested values as JSON text) or JSON body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.platforms.slack_objects import Json, RefusalError, parse_json

_TS = re.compile(r"\d{1,12}(\.\d{1,6})?")


@dataclass(slots=True, eq=False)
class Request:
    """Arguments, and what the call made."""

    params: Json
    ts: str = ""  # the message it made, changed or deleted
    warnings: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)  # timestamps of messages that files were shared by

    def string(self, name: str) -> str:
        """Return an argument as text, empty when it is missing."""
        value = self.params.get(name)
        return "" if value is None else str(value)

    def required(self, name: str, error: str = "invalid_arguments") -> str:
        """Return an argument that must be there.

        Raises:
            RefusalError: `error`.
        """
        value = self.string(name)
        if not value:
            raise RefusalError(error, messages=(f"missing required field: {name}",))
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean argument."""
        return self.string(name).lower() in {"1", "true"}

    def items(self, name: str, error: str = "invalid_arguments") -> list[Any]:
        """Return a list argument: JSON, or (of plain names) separated by commas.

        Raises:
            RefusalError: `error`, it is not a list.
        """
        value = self.params.get(name)
        if isinstance(value, str) and not value.lstrip().startswith("["):
            return [item.strip() for item in value.split(",") if item.strip()]
        try:
            value = parse_json(value)
        except ValueError:
            raise RefusalError(error) from None
        if value is not None and not isinstance(value, list):
            raise RefusalError(error)
        return value or []

    def limit(self, default: int, most: int) -> int:
        """Return the page size.

        Raises:
            RefusalError: invalid_limit.
        """
        text = self.string("limit")
        if not text:
            return default
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise RefusalError("invalid_limit")
        return int(text)

    def moment(self, name: str) -> str:
        """Return a timestamp argument in its full form, empty when it is missing.

        Raises:
            RefusalError: invalid_ts_oldest, invalid_ts_latest.
        """
        text = self.string(name)
        if not text:
            return ""
        if not _TS.fullmatch(text):
            raise RefusalError(f"invalid_ts_{name}")
        seconds, _, fraction = text.partition(".")
        return f"{int(seconds):010d}.{fraction:0<6}"

    def page(self, found: Sequence[Json], size: int) -> tuple[list[Json], str]:
        """Return one page and the cursor of the next, empty when this is the last.

        Raises:
            RefusalError: invalid_cursor.
        """
        cursor = self.string("cursor")
        if cursor and not re.fullmatch(r"c\d+=", cursor):
            raise RefusalError("invalid_cursor")
        start = int(cursor[1:-1]) if cursor else 0
        end = start + size
        return list(found[start:end]), f"c{end}=" if end < len(found) else ""

    def within(self, messages: Iterable[Json]) -> list[Json]:
        """Return the messages between `oldest` and `latest`."""
        oldest, latest, inclusive = self.moment("oldest"), self.moment("latest"), self.flag("inclusive")
        kept = []
        for message in messages:
            ts = message["ts"]
            if oldest and (ts < oldest or (ts == oldest and not inclusive)):
                continue
            if latest and (ts > latest or (ts == latest and not inclusive)):
                continue
            kept.append(message)
        return kept
