"""What the process keeps of conversations is dropped when they are idle, too many, or over."""

from __future__ import annotations

from bot.toolkit.idle import IdleSessions
from tests.support.clock import FakeClock


def made(*, minutes: int = 30, limit: int = 99) -> tuple[IdleSessions, FakeClock, list[int]]:
    clock = FakeClock()
    idle = IdleSessions(clock, idle_minutes=minutes, limit=limit)
    dropped: list[int] = []
    idle.on_forget(dropped.append)
    return idle, clock, dropped


def use(idle: IdleSessions, *session_ids: int) -> None:
    for session_id in session_ids:
        with idle.using(session_id):
            pass


def test_the_idle_are_dropped_when_another_turn_ends_and_when_somebody_sweeps() -> None:
    idle, clock, dropped = made()
    use(idle, 1, 2)
    clock.advance(20 * 60)
    use(idle, 2)
    assert dropped == []
    clock.advance(11 * 60)
    use(idle, 3)
    assert dropped == [1]
    clock.advance(31 * 60)
    assert idle.sweep() == 2
    assert dropped == [1, 2, 3]
    assert len(idle) == 0


def test_of_too_many_the_longest_unused_is_dropped_at_once() -> None:
    idle, _, dropped = made(limit=2)
    use(idle, 1, 2, 1, 3)
    assert dropped == [2]


def test_a_conversation_at_work_is_kept_however_long_its_turn_takes() -> None:
    idle, clock, dropped = made()
    use(idle, 1)
    with idle.using(1):
        clock.advance(31 * 60)
        use(idle, 2)
        assert idle.sweep() == 0
    assert dropped == []


def test_a_single_run_leaves_nothing_behind() -> None:
    idle, _, dropped = made()
    use(idle, 1)
    with idle.using(2, goes_on=False):
        assert dropped == []
    assert dropped == [2]
