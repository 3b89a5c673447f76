"""What a session hears unasked is bounded, each kind by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.toolkit.mcp.floods import Flood

_KINDS: tuple[Callable[[Flood], bool], ...] = (
    lambda flood: flood.is_too_much("notifications/strange"),
    Flood.is_request_too_much,
    Flood.is_stray_too_much,
)


@pytest.mark.parametrize("kind", range(3))
def test_too_much_of_one_kind_is_not_too_much_of_another(kind: int) -> None:
    flood = Flood()
    assert any(_KINDS[kind](flood) for _ in range(1_000_000))
    assert [other(flood) for number, other in enumerate(_KINDS) if number != kind] == [False, False]
    assert not flood.is_too_much("notifications/cancelled")
