"""What Discord refuses in a message that a bot sends or edits. Pure checks; the world is not asked here.

Limits: https://docs.discord.com/developers/resources/message#create-message, .../components/reference and
.../reference#uploading-files (read 2026-11-30). Characters are code points: discord/discord-api-docs issue
1315, answered by the platform's staff. The upload limit is for each file; it is 20 MiB since 2026-09-03 (10 MiB
before), more in boosted guilds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.platforms.discord_objects import Json, RefusalError, invalid_form

CONTENT_LIMIT_CHARS = 2000
NONCE_LIMIT_CHARS = 25
FILES_LIMIT = 10
UPLOAD_LIMIT_BYTES = 20 * 1024 * 1024
EMBEDS_LIMIT = 10
ROWS_LIMIT = 5
BUTTONS_LIMIT = 5
CUSTOM_ID_LIMIT_CHARS = 100
LABEL_LIMIT_CHARS = 80
THREAD_NAME_LIMIT_CHARS = 100
COMMANDS_LIMIT = 100

_COMMAND_NAME = re.compile(r"[-_'\w]{1,32}")
_LINK_STYLE, _PREMIUM_STYLE = 5, 6


def check_content(content: Any, *, path: str = "content") -> str:
    """Return a message's text without the white space around it, as the platform keeps it.

    Raises:
        RefusalError: 50035, not a text or too long.
    """
    if content is None:
        return ""
    if not isinstance(content, str):
        raise invalid_form(path, "BASE_TYPE_BAD_TYPE", "Only string types are allowed.")
    _at_most(content, CONTENT_LIMIT_CHARS, path)
    return content.strip()


def check_nonce(nonce: Any) -> str:
    """Return a nonce as text; empty when there is none.

    Raises:
        RefusalError: 50035, of another type or too long.
    """
    if nonce is None:
        return ""
    if isinstance(nonce, bool) or not isinstance(nonce, int | str):
        raise invalid_form("nonce", "NONCE_TYPE_INVALID", "Nonce must be a string or an integer.")
    if isinstance(nonce, str):
        _at_most(nonce, NONCE_LIMIT_CHARS, "nonce")
    return str(nonce)


def check_files(files: Mapping[int, tuple[str, bytes, str]], attachments: Any, limit_bytes: int) -> None:
    """Check uploads against their descriptions and the limits.

    Raises:
        RefusalError: 50035 for the form, 40005 for the size.
    """
    described: Sequence[Json] = attachments or ()
    if len(files) > FILES_LIMIT or len(described) > FILES_LIMIT:
        raise invalid_form("attachments", "BASE_TYPE_MAX_LENGTH", f"Must be {FILES_LIMIT} or fewer in length.")
    for index, entry in enumerate(described):
        number = int(entry["id"])
        if number < 1000 and number not in files:  # small numbers are indices of files, others snowflakes to keep
            raise invalid_form(f"attachments.{index}.id", "BASE_TYPE_REQUIRED", "There is no file with this id.")
    if any(len(content) > limit_bytes for _, content, _ in files.values()):
        raise RefusalError(413, 40005, "Request entity too large")


def check_embeds(embeds: Any) -> list[Json]:
    """Return a message's embeds.

    Raises:
        RefusalError: 50035, too many, or more than 6,000 characters together.
    """
    found: list[Json] = list(embeds or ())
    if len(found) > EMBEDS_LIMIT:
        raise invalid_form("embeds", "BASE_TYPE_MAX_LENGTH", f"Must be {EMBEDS_LIMIT} or fewer in length.")
    total = sum(len(str(embed.get(key) or "")) for embed in found for key in ("title", "description"))
    if total > 6000:
        raise invalid_form("embeds.0", "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")
    return [{"type": "rich", **embed} for embed in found]


def check_components(components: Any) -> list[Json]:
    """Return a message's rows of buttons.

    Raises:
        RefusalError: 50035, too many, too long, doubled ids or a shape the platform does not know.
    """
    rows: list[Json] = list(components or ())
    if len(rows) > ROWS_LIMIT:
        raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {ROWS_LIMIT} in length.")
    taken: set[str] = set()
    for row_number, row in enumerate(rows):
        path = f"components.{row_number}"
        if not isinstance(row, dict) or row.get("type") != 1:
            raise invalid_form(f"{path}.type", "UNION_TYPE_CHOICES", 'Value of field "type" must be one of (1,).')
        parts = row.get("components") or []
        if not 1 <= len(parts) <= BUTTONS_LIMIT:
            length = f"Must be between 1 and {BUTTONS_LIMIT} in length."
            raise invalid_form(f"{path}.components", "BASE_TYPE_BAD_LENGTH", length)
        for number, part in enumerate(parts):
            _check_button(part, f"{path}.components.{number}", taken)
    return rows


def _check_button(button: Json, path: str, taken: set[str]) -> None:
    if button.get("type") != 2:  # selects are not played here
        raise invalid_form(f"{path}.type", "UNION_TYPE_CHOICES", 'Value of field "type" must be one of (2,).')
    style = button.get("style")
    if style not in range(1, 7):
        raise invalid_form(f"{path}.style", "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3, 4, 5, 6}.")
    _at_most(str(button.get("label") or ""), LABEL_LIMIT_CHARS, f"{path}.label")
    if not (button.get("label") or button.get("emoji")) and style != _PREMIUM_STYLE:
        raise invalid_form(path, "BUTTON_COMPONENT_INVALID", "A button must have a label or emoji.")
    if style in {_LINK_STYLE, _PREMIUM_STYLE}:
        if button.get("custom_id"):
            text = "A custom id and url cannot both be specified"
            raise invalid_form(path, "BUTTON_COMPONENT_CUSTOM_ID_URL_MUTUALLY_EXCLUSIVE", text)
        return
    custom_id = button.get("custom_id")
    if not custom_id or not isinstance(custom_id, str):
        raise invalid_form(path, "BUTTON_COMPONENT_CUSTOM_ID_REQUIRED", "A custom id is required")
    if len(custom_id) > CUSTOM_ID_LIMIT_CHARS:
        length = f"Must be between 1 and {CUSTOM_ID_LIMIT_CHARS} in length."
        raise invalid_form(f"{path}.custom_id", "BASE_TYPE_BAD_LENGTH", length)
    if custom_id in taken:
        raise invalid_form(
            f"{path}.custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated"
        )
    taken.add(custom_id)


def check_mentions(allowed: Any) -> Json | None:
    """Return the allowed_mentions object; None when there is none.

    Raises:
        RefusalError: 50035, an unknown kind, or users named beside "all users".
    """
    if allowed is None:
        return None
    parse = allowed.get("parse") or []
    for number, kind in enumerate(parse):
        if kind not in {"users", "roles", "everyone"}:
            text = "Value must be one of {'everyone', 'roles', 'users'}."
            raise invalid_form(f"allowed_mentions.parse.{number}", "BASE_TYPE_CHOICES", text)
    for kind in ("users", "roles"):
        if kind in parse and allowed.get(kind):
            text = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
            raise invalid_form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)
    return dict(allowed)


def check_thread_name(name: Any) -> str:
    """Return a thread's name.

    Raises:
        RefusalError: 50035, empty or too long.
    """
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= THREAD_NAME_LIMIT_CHARS:
        length = f"Must be between 1 and {THREAD_NAME_LIMIT_CHARS} in length."
        raise invalid_form("name", "BASE_TYPE_BAD_LENGTH", length)
    return name.strip()


def check_commands(commands: Any) -> list[Json]:
    """Return the commands of a bulk overwrite.

    Raises:
        RefusalError: 50035, a name or description the platform does not take, or two of one name.
    """
    if not isinstance(commands, list) or len(commands) > COMMANDS_LIMIT:
        raise invalid_form("_", "BASE_TYPE_MAX_LENGTH", f"Must be {COMMANDS_LIMIT} or fewer in length.")
    taken: set[tuple[int, str]] = set()
    for number, command in enumerate(commands):
        _check_command(command, str(number))
        key = (int(command.get("type") or 1), command["name"])
        if key in taken:
            text = "Application command names must be unique"
            raise invalid_form(f"{number}.name", "APPLICATION_COMMANDS_DUPLICATE_NAME", text)
        taken.add(key)
    return commands


def _check_command(command: Json, path: str) -> None:
    name = command.get("name")
    slash = int(command.get("type") or 1) == 1
    well_formed = isinstance(name, str) and (
        bool(_COMMAND_NAME.fullmatch(name)) and name == name.lower() if slash else 1 <= len(name) <= 32
    )
    if not well_formed:
        raise invalid_form(f"{path}.name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    description = command.get("description")
    if slash and not (isinstance(description, str) and 1 <= len(description) <= 100):
        length = "Must be between 1 and 100 in length."
        raise invalid_form(f"{path}.description", "BASE_TYPE_BAD_LENGTH", length)
    options = command.get("options") or []
    if len(options) > 25:
        raise invalid_form(f"{path}.options", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
    was_optional = False
    for number, option in enumerate(options):
        _check_command({**option, "type": 1, "options": option.get("options")}, f"{path}.options.{number}")
        if len(option.get("choices") or ()) > 25:
            text = "Must be 25 or fewer in length."
            raise invalid_form(f"{path}.options.{number}.choices", "BASE_TYPE_MAX_LENGTH", text)
        if option.get("required") and was_optional:
            text = "Required options must be placed before non-required options"
            raise invalid_form(f"{path}.options.{number}", "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", text)
        was_optional = was_optional or (not option.get("required") and option.get("type") not in {1, 2})


def _at_most(text: str, limit_chars: int, path: str) -> None:
    if len(text) > limit_chars:
        raise invalid_form(path, "BASE_TYPE_MAX_LENGTH", f"Must be {limit_chars} or fewer in length.")
