"""The bootstrap files of the workspace: AGENTS.md, SOUL.md and USER.md, which people write for every prompt.

They lie in the workspace's root, where no chat's tools reach: a chat sees its own folder and `shared`, an owner's
private chat `chats` too. So whoever runs the installation edits them, and every chat's prompt has them.
Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from bot.agent.sources import Stamp, is_settled, read_start, stamp_of
from bot.log import get_logger
from bot.shipped import BOOTSTRAP_FILES, templates

LIMIT_CHARS = 20_000
"""Per file: some 5,000 tokens, which every request carries."""


_log = get_logger(__name__)


class BootstrapFiles:
    """Their text for the prompt, read again only when one of them changed."""

    def __init__(self, workspace: Path, versions: Sequence[Mapping[str, str]] | None = None) -> None:
        """`versions` are all shipped versions of the templates; those of the package if not given."""
        self._files = [workspace / name for name in BOOTSTRAP_FILES]
        shipped = templates() if versions is None else versions
        self._templates = {(name, _squeezed(text)) for version in shipped for name, text in version.items()}
        self._stamps: list[Stamp] = []
        self._settled = False
        self._text = ""

    def text(self) -> str:
        """Return what people wrote into the files; one that is missing or as shipped adds nothing."""
        stamps = [stamp_of(file) for file in self._files]
        if stamps != self._stamps or not self._settled:
            parts = [self._part(file) for file, stamp in zip(self._files, stamps, strict=True) if stamp]
            self._text = "\n\n".join(part for part in parts if part)
            self._stamps, self._settled = stamps, all(map(is_settled, stamps))
        return self._text

    def _part(self, file: Path) -> str:
        try:
            text = read_start(file, LIMIT_CHARS)
        except OSError as error:  # must not end every turn
            _log.warning("a bootstrap file cannot be read", file=file.name, error=error.strerror)
            return ""
        if (file.name, _squeezed(text)) in self._templates or not text.strip():
            return ""
        text = text.strip()
        if len(text) > LIMIT_CHARS:
            text = f"{text[:LIMIT_CHARS]}\n[{file.name} is cut here at {LIMIT_CHARS:,} characters]"
        return f"# {file.name}\n\n{text}"


def write_templates(workspace: Path) -> list[Path]:
    """Make those bootstrap files that are missing, from the newest templates; return what was made.

    Nothing that is there is changed, a dangling link included.

    Raises:
        OSError: the workspace or a file cannot be made.
    """
    workspace.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = []
    newest = templates()[-1]
    for name in BOOTSTRAP_FILES:
        try:
            descriptor = os.open(workspace / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(newest[name])
        made.append(workspace / name)
    return made


def _squeezed(text: str) -> str:
    """Return the text as it is compared with a template: without regard to blanks and line ends."""
    return " ".join(text.split())
