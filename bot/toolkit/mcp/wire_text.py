"""JSON as servers write it, made such that strict parsers take it: halves of letters beyond 16 bits become U+FFFD.

JavaScript cuts strings between the two halves of such a letter, and writes the half as an escape (well-formed
JSON.stringify, ECMA-262). The SDK's parser refuses the whole message for it, and the call would never be answered.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole letter
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # a half
    rb"|.)",  # any other escape, so that an escaped backslash before "ud800" is none
    re.DOTALL,
)


def whole_letters(message: bytes) -> bytes:
    """Return a JSON text without half letters; the same object when it has none."""
    if b"\\ud" not in message and b"\\uD" not in message:
        return message
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], message)
