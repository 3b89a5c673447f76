"""What Slack refuses in texts, blocks and metadata: pure checks with the documentation's limits.

Sources (read 2026-11-30): https://docs.slack.dev/reference/methods/chat.postMessage and chat.update,
https://docs.slack.dev/reference/block-kit/blocks, https://docs.slack.dev/messaging/message-metadata. Element kinds
a chat bot has no use for are let through unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.platforms.slack_objects import Json, RefusalError, block_text, parse_json

MAX_TEXT = 40_000  # characters; the rest is cut off
MAX_UPDATE_BYTES = 4_000  # documented as characters, but counted as UTF-8: the stricter reading
MAX_BLOCKS = 50
MAX_SECTION = 3_000
MAX_FIELDS, MAX_FIELD = 10, 2_000
MAX_HEADER = 150
MAX_MARKDOWN = 12_000  # all markdown blocks of a message together
MAX_BLOCKS_TEXT = 13_200  # all blocks together; not documented, measured in slackapi/bolt-js#2509
MAX_CONTEXT_ELEMENTS = 10
MAX_ACTIONS = 25
MAX_BUTTON_TEXT, MAX_BUTTON_VALUE, MAX_BUTTON_URL = 75, 2_000, 3_000
MAX_ID = 255
MAX_ROWS, MAX_COLUMNS = 100, 20
MAX_METADATA_BYTES = 16 * 1024

_LET_THROUGH = frozenset(
    {
        *("alert", "card", "carousel", "container", "context_actions", "data_table", "file", "image", "input"),
        *("plan", "rich_text", "task_card", "video", "divider"),
    }
)


class _Trouble(Exception):
    """What is wrong with a block, and where in it."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where


def read_blocks(value: Any) -> list[Json] | None:
    """Return the blocks of a call, None when it has none.

    Raises:
        RefusalError: invalid_blocks_format, invalid_blocks (with what and where), msg_blocks_too_long.
    """
    if value is None or value == "":
        return None
    try:
        blocks = parse_json(value)
    except ValueError:
        raise RefusalError("invalid_blocks_format") from None
    if not isinstance(blocks, list) or not all(isinstance(block, dict) and block.get("type") for block in blocks):
        raise RefusalError("invalid_blocks_format")
    if len(blocks) > MAX_BLOCKS:
        raise _invalid(f"no more than {MAX_BLOCKS} items allowed", "/blocks")
    seen: set[str] = set()
    for index, block in enumerate(blocks):
        try:
            _check_block(block, seen)
        except _Trouble as trouble:
            raise _invalid(trouble.what, f"/blocks/{index}{trouble.where}") from None
    if sum(block["type"] == "table" for block in blocks) > 1:
        raise RefusalError("invalid_attachments", messages=("only_one_table_allowed",))
    if sum(len(block["text"]) for block in blocks if block["type"] == "markdown") > MAX_MARKDOWN:
        raise RefusalError("msg_blocks_too_long")
    if sum(len(block_text(block)) for block in blocks) > MAX_BLOCKS_TEXT:
        raise RefusalError("msg_blocks_too_long")
    return [{"block_id": f"b{index}", **block} for index, block in enumerate(blocks)]


def _invalid(what: str, where: str) -> RefusalError:
    message = f"{what} [json-pointer:{where}]"
    return RefusalError("invalid_blocks", messages=(message,), errors=[message])


def _check_block(block: Json, seen: set[str]) -> None:
    block_id = block.get("block_id")
    if block_id is not None:
        _check_length(block_id, MAX_ID, "/block_id")
        if block_id in seen:
            raise _Trouble("block_id already exists", "/block_id")
        seen.add(block_id)
    check = _CHECKS.get(block["type"])
    if check is not None:
        check(block)
    elif block["type"] not in _LET_THROUGH:
        raise _Trouble(f"unsupported type: {block['type']}", "/type")


def _check_length(value: Any, limit: int, where: str) -> None:
    if not isinstance(value, str) or not value:
        raise _Trouble("must be more than 0 characters", where)
    if len(value) > limit:
        raise _Trouble(f"must be less than {limit + 1} characters", where)


def _check_text(value: Any, limit: int, where: str, *, plain: bool = False) -> None:
    kinds = {"plain_text"} if plain else {"plain_text", "mrkdwn"}
    if not isinstance(value, dict) or value.get("type") not in kinds:
        raise _Trouble("failed to match all allowed schemas", where)
    _check_length(value.get("text"), limit, f"{where}/text")


def _section(block: Json) -> None:
    fields = block.get("fields")
    if "text" not in block and not fields:
        raise _Trouble("missing required field: text")
    if "text" in block:
        _check_text(block["text"], MAX_SECTION, "/text")
    if fields is not None and len(fields) > MAX_FIELDS:
        raise _Trouble(f"no more than {MAX_FIELDS} items allowed", "/fields")
    for index, item in enumerate(fields or []):
        _check_text(item, MAX_FIELD, f"/fields/{index}")
    if "accessory" in block:
        _element(block["accessory"], "/accessory")


def _header(block: Json) -> None:
    _check_text(block.get("text"), MAX_HEADER, "/text", plain=True)


def _markdown(block: Json) -> None:
    if not isinstance(block.get("text"), str) or not block["text"]:
        raise _Trouble("must be more than 0 characters", "/text")


def _context(block: Json) -> None:
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= MAX_CONTEXT_ELEMENTS:
        raise _Trouble(f"no more than {MAX_CONTEXT_ELEMENTS} items allowed", "/elements")
    for index, element in enumerate(elements):
        if not isinstance(element, dict) or element.get("type") != "image":
            _check_text(element, MAX_SECTION, f"/elements/{index}")


def _actions(block: Json) -> None:
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= MAX_ACTIONS:
        raise _Trouble(f"no more than {MAX_ACTIONS} items allowed", "/elements")
    for index, element in enumerate(elements):
        _element(element, f"/elements/{index}")
    given = [element["action_id"] for element in elements if "action_id" in element]
    if len(given) != len(set(given)):
        raise _Trouble("action_id already exists", "/elements")


def _element(element: Any, where: str) -> None:
    if not isinstance(element, dict) or not element.get("type"):
        raise _Trouble("failed to match all allowed schemas", where)
    if "action_id" in element:
        _check_length(element["action_id"], MAX_ID, f"{where}/action_id")
    if element["type"] != "button":
        return
    _check_text(element.get("text"), MAX_BUTTON_TEXT, f"{where}/text", plain=True)
    if "value" in element:
        _check_length(element["value"], MAX_BUTTON_VALUE, f"{where}/value")
    if "url" in element:
        _check_length(element["url"], MAX_BUTTON_URL, f"{where}/url")
    if element.get("style", "primary") not in {"primary", "danger"}:
        raise _Trouble("must be one of [primary, danger]", f"{where}/style")


def _table(block: Json) -> None:
    rows = block.get("rows")
    if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_ROWS:
        raise _Trouble(f"no more than {MAX_ROWS} items allowed", "/rows")
    for index, row in enumerate(rows):
        if not isinstance(row, list) or not 1 <= len(row) <= MAX_COLUMNS:
            raise _Trouble(f"no more than {MAX_COLUMNS} items allowed", f"/rows/{index}")
        for cell in row:
            if not isinstance(cell, dict) or cell.get("type") not in {"raw_text", "raw_number", "rich_text"}:
                raise _Trouble("failed to match all allowed schemas", f"/rows/{index}")
            if cell["type"] == "raw_text":
                _check_length(cell.get("text"), MAX_SECTION, f"/rows/{index}")


_CHECKS: Mapping[str, Callable[[Json], None]] = {
    "section": _section,
    "header": _header,
    "markdown": _markdown,
    "context": _context,
    "actions": _actions,
    "table": _table,
}


def read_metadata(value: Any) -> Json | None:
    """Return the metadata of a call, None when it has none.

    Raises:
        RefusalError: invalid_metadata_format, invalid_metadata_schema, metadata_too_large.
    """
    if value is None or value == "":
        return None
    try:
        metadata = parse_json(value)
    except ValueError:
        raise RefusalError("invalid_metadata_format") from None
    if not isinstance(metadata, dict):
        raise RefusalError("invalid_metadata_format")
    if not metadata:
        return {}
    if not isinstance(metadata.get("event_type"), str) or not isinstance(metadata.get("event_payload"), dict):
        raise RefusalError("invalid_metadata_schema")
    if len(json.dumps(metadata).encode()) > MAX_METADATA_BYTES:
        raise RefusalError("metadata_too_large")
    return metadata
