"""The data files that come with the package: skills, and the templates of the bootstrap files.

What is done with them is the part of others: `bot/agent/skills.py`, `bot/agent/bootstrap.py` and `dutiful init`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

BOOTSTRAP_FILES = ("AGENTS.md", "SOUL.md", "USER.md")
"""The files in the workspace's root that become part of every system prompt, in this order."""

SKILLS = Path(__file__).parent / "skills"
"""The folder of the built-in skills."""

_TEMPLATES = Path(__file__).parent / "templates"


def templates(folder: Path = _TEMPLATES) -> list[Mapping[str, str]]:
    """Return the text of each bootstrap file by name, for every version that was ever shipped, the newest last.

    A version is a folder with a number. A changed template gets a new one, so that what people never touched is
    still known as such.

    Raises:
        OSError: the installation is damaged.
    """
    versions = sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    return [
        {name: (version / name).read_text(encoding="utf-8") for name in BOOTSTRAP_FILES if (version / name).is_file()}
        for version in versions
    ]
