"""Named points at which a test may kill the process (design 3); inert unless DUTIFUL_FAULT is set.

`DUTIFUL_FAULT=claimed` ends the process with SIGKILL the first time the point is passed,
`DUTIFUL_FAULT=claimed:3` the third time. Names are literals at the call sites, so that a test can list them
from the source and prove that each one was reached.
"""

from __future__ import annotations

import os
import signal


class _Armed:
    """The one armed point of this process, read once at import."""

    def __init__(self, spec: str) -> None:
        name, _, count = spec.partition(":")
        self.name = name
        self.left = int(count or 1)


_armed = _Armed(os.environ.get("DUTIFUL_FAULT", ""))


def fault_point(name: str) -> None:
    """Die here if this point is armed; otherwise do nothing, at the price of one string comparison."""
    if name != _armed.name:
        return
    _armed.left -= 1
    if _armed.left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
