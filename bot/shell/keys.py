"""Names of keys, and the bytes that a terminal sends for them.

The bytes are those of the terminfo entry "xterm" (ncurses), the arrows and home and end in normal mode, which is
the mode of a terminal that no program has changed; line editors know them whatever TERM says.
"""

from __future__ import annotations

import string
from types import MappingProxyType
from typing import Final

_NAMED: Final = {
    "enter": b"\r", "tab": b"\t", "shift-tab": b"\x1b[Z", "escape": b"\x1b", "space": b" ", "backspace": b"\x7f",
    "up": b"\x1b[A", "down": b"\x1b[B", "right": b"\x1b[C", "left": b"\x1b[D", "home": b"\x1b[H", "end": b"\x1b[F",
    "insert": b"\x1b[2~", "delete": b"\x1b[3~", "page-up": b"\x1b[5~", "page-down": b"\x1b[6~",
    "f1": b"\x1bOP", "f2": b"\x1bOQ", "f3": b"\x1bOR", "f4": b"\x1bOS", "f5": b"\x1b[15~", "f6": b"\x1b[17~",
    "f7": b"\x1b[18~", "f8": b"\x1b[19~", "f9": b"\x1b[20~", "f10": b"\x1b[21~", "f11": b"\x1b[23~", "f12": b"\x1b[24~",
}  # fmt: skip
_CONTROL: Final = {
    **{f"ctrl-{letter}": bytes([index]) for index, letter in enumerate(string.ascii_lowercase, start=1)},
    "ctrl-space": b"\x00", "ctrl-[": b"\x1b", "ctrl-\\": b"\x1c", "ctrl-]": b"\x1d", "ctrl-^": b"\x1e",
    "ctrl-_": b"\x1f",
}  # fmt: skip
_OTHER_NAMES: Final = {"return": "enter", "esc": "escape", "del": "delete", "pgup": "page-up", "pgdn": "page-down"}

KEYS: Final = MappingProxyType({**_NAMED, **_CONTROL})
"""Bytes by name."""

KEY_NAMES: Final = f"{', '.join(_NAMED)}, ctrl-a to ctrl-z, ctrl-space, ctrl-[ ctrl-\\ ctrl-] ctrl-^ ctrl-_"
"""All names, for people and models."""


class UnknownKeyError(ValueError):
    """There is no key of this name; the text lists all."""


def key_bytes(name: str) -> bytes:
    """Return what a terminal sends for a key; "Ctrl+C", "page_up", "ArrowUp" and "^C" are understood too.

    Raises:
        UnknownKeyError: no such key.
    """
    plain = name.strip().lower()
    if len(plain) == 2 and plain[0] == "^":  # noqa: PLR2004 - as in ^C
        plain = f"ctrl-{plain[1]}"
    plain = plain.replace("control", "ctrl").removeprefix("arrow").lstrip("-_ ")
    if plain not in KEYS:
        plain = plain.replace("+", "-").replace("_", "-").replace(" ", "-")
    if plain.startswith("c-"):
        plain = f"ctrl-{plain[2:]}"
    sent = KEYS.get(_OTHER_NAMES.get(plain, plain))
    if sent is None:
        shown = name[:40].encode("utf-8", "replace").decode()
        raise UnknownKeyError(f"no key is called {shown!r}; keys: {KEY_NAMES}. A letter or word is sent as text")
    return sent
