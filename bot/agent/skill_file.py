"""One SKILL.md: its front matter, its body, and what is wrong with it.

Where skills lie and which of them a chat has is in `bot/agent/skills.py`. The front matter is that of
https://agentskills.io/specification (read 2026-11-30): `name` and `description`; beside it `always`,
`requires.bins` and `requires.env`, also one or two levels down in `metadata`, where other assistants have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.errors import DutifulError

FILE_NAME = "SKILL.md"
MAX_FILE_BYTES = 128 * 1024
"""The specification advises bodies of up to 5,000 tokens."""

MAX_BODY_CHARS = 32_000
"""How much of a body is given to a model at once; the rest is for `read_file`."""

NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
"""What a skill may be called. It begins with a letter, so that no price ("$5") names one."""

_MAX_HEAD_CHARS = 8 * 1024
_MAX_DESCRIPTION_CHARS = 4_096
_MAX_REQUIREMENTS = 20
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")  # no slash: a program is found by name
_TRUE = frozenset({"true", "yes", "on"})


class SkillBroken(DutifulError):
    """A SKILL.md that cannot be used; the text is the reason, for the people who run the installation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """What a SKILL.md says. A body that is too long has one character more than `MAX_BODY_CHARS`."""

    name: str
    description: str
    body: str
    always: bool = False
    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


def parse_skill(data: bytes, folder: str) -> SkillFile:
    """Read a SKILL.md that lies in a folder of this name.

    Raises:
        SkillBroken: there is no front matter, it is no YAML, or something in it is missing or of the wrong kind.
    """
    if len(data) > MAX_FILE_BYTES:
        raise SkillBroken(f"is larger than {MAX_FILE_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillBroken(f"is not UTF-8 text (byte {error.start})") from None
    head, body = _split(text)
    front = _front_matter(head)
    name = _text(front, "name") or folder
    if name != folder:
        raise SkillBroken(f"its name {name[:64]!r} is not that of its folder")
    if not re.fullmatch(NAME, name):
        raise SkillBroken("its name is not made of up to 64 letters, digits and hyphens, with a letter first")
    description = " ".join(_text(front, "description").split())
    if not description:
        raise SkillBroken("has no description")
    always = next(_nested(front, "always"), "")
    requires: Any = next(_nested(front, "requires"), "") or {}  # with nothing behind the colon it is empty
    if not isinstance(requires, Mapping):
        raise SkillBroken("requires is not a table of lists")
    return SkillFile(
        name=name,
        description=description[:_MAX_DESCRIPTION_CHARS],
        body=body.strip()[: MAX_BODY_CHARS + 1],
        # Not str() of whatever it is: a list of aliases would be written out in full.
        always=isinstance(always, str) and always.strip().lower() in _TRUE,
        bins=_requirements(requires, "bins"),
        env=_requirements(requires, "env"),
    )


def _split(text: str) -> tuple[str, str]:
    """Return the front matter between its lines of three hyphens, and what follows."""
    found = re.match(r"---[ \t]*\r?\n", text)
    if not found:
        raise SkillBroken("does not begin with front matter between lines of three hyphens")
    end = re.compile(r"^---[ \t]*\r?$", re.MULTILINE).search(text, found.end(), found.end() + _MAX_HEAD_CHARS)
    if not end:
        raise SkillBroken(f"its front matter has no end within {_MAX_HEAD_CHARS:,} characters")
    return text[found.end() : end.start()], text[end.end() :]


def _front_matter(head: str) -> Mapping[str, Any]:
    """Return the YAML as text, lists and mappings only.

    The base loader makes no other objects and follows no merge keys, so that an alias is a second reference to
    the same thing and never a copy.
    """
    import yaml  # 20 ms that commands without a conversation need not pay

    # The C loader bounds nesting and is ten times as fast; every wheel of PyYAML has it.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        front = yaml.load(head, Loader=loader)  # noqa: S506 - makes less than the safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 2}" if mark is not None else ""
        what = getattr(error, "problem", None) or "nested too deeply or not text"
        raise SkillBroken(f"its front matter is not valid YAML{where}: {what}") from None
    if not isinstance(front, Mapping):
        raise SkillBroken("its front matter is not a table of names and values")
    return front


def _text(front: Mapping[str, Any], key: str) -> str:
    value = front.get(key, "")
    if not isinstance(value, str):
        raise SkillBroken(f"{key} is not text")
    return value.strip()


def _nested(front: Mapping[str, Any], key: str) -> Iterator[Any]:
    """Yield what a key has: at the top, in `metadata`, or in an assistant's own part of that."""
    metadata = front.get("metadata")
    if isinstance(metadata, str) and metadata.lstrip().startswith("{"):  # some write it as JSON in a text
        metadata = _front_matter(metadata)
    tables = [front]
    if isinstance(metadata, Mapping):
        tables += [metadata, *(part for part in metadata.values() if isinstance(part, Mapping))]
    for table in tables:
        if key in table:
            yield table[key]


def _requirements(requires: Mapping[str, Any], key: str) -> tuple[str, ...]:
    wanted = requires.get(key, ())
    names = [wanted] if isinstance(wanted, str) and wanted else (wanted or ())
    if not isinstance(names, list | tuple) or len(names) > _MAX_REQUIREMENTS:
        raise SkillBroken(f"requires.{key} is not a list of at most {_MAX_REQUIREMENTS} names")
    for name in names:
        if not isinstance(name, str) or not _REQUIREMENT.fullmatch(name):
            raise SkillBroken(f"requires.{key} has something that is not a name")
    return tuple(names)
