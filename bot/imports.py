"""Imports of libraries without what they import only if it happens to be installed, and which is of no use here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Let imports of these modules fail for a moment, as if they were not installed.

    Every thread sees that: name modules that nothing else imports meanwhile.
    """
    absent = object()
    before: dict[str, Any] = {name: sys.modules.get(name, absent) for name in names}
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]  # the documented way to block an import
    try:
        yield
    finally:
        for name, module in before.items():
            if module is absent:
                del sys.modules[name]
            else:
                sys.modules[name] = module
