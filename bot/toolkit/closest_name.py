"""Which tool was meant by a name that no tool has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from bot.toolkit.definitions import order_key

_CLOSE_ENOUGH = 0.82  # of difflib's ratio


def closest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is meant, if there is only one candidate; a suggestion, never executed."""
    wanted = _bare(name[:200])
    if not wanted:
        return None
    bare = {known: _bare(known) for known in sorted(names, key=order_key)}
    same = [known for known, text in bare.items() if text == wanted]
    if same:
        return same[0] if len(same) == 1 else None
    scored = sorted(
        ((difflib.SequenceMatcher(None, wanted, text).ratio(), known) for known, text in bare.items()),
        reverse=True,
    )
    if not scored or scored[0][0] < _CLOSE_ENOUGH or (len(scored) > 1 and scored[0][0] - scored[1][0] < 0.05):  # noqa: PLR2004 - a tie
        return None
    return scored[0][1]


def _bare(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())
