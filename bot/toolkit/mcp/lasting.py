"""Has the garbage collector pass over what is made to last: the tools of a large offer.

Each of their schemas is kept in several forms. Walking through a million objects, again and again while they are made
and for ever after, would hold the loop up by a tenth of a second each time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

LARGE_BYTES = 1024 * 1024
"""Definitions of a server below this are collected as everything else."""

_PAUSE_S = 60.0
"""Garbage that is there when objects are passed over stays for good. So a server that changes its mind all the time
does not make that happen more often than this."""


class Lasting:
    """For the makers of lasting objects, side by side; the first to begin is the one that counts."""

    def __init__(self) -> None:
        self._is_open = False
        self._again_at = 0.0

    @contextmanager
    def made(self, size_bytes: int) -> Iterator[None]:
        """Let nothing be collected within; what is there at the end is passed over from then on."""
        if self._is_open or size_bytes < LARGE_BYTES or monotonic() < self._again_at or not gc.isenabled():
            yield
            return
        self._is_open = True
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()  # without a collection before, which would be just what is to be avoided
            gc.enable()
            self._is_open = False
            self._again_at = monotonic() + _PAUSE_S
