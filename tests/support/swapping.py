"""Files and folders that somebody else swaps all the time, and holds still in either state when asked to.

A storm shows that nothing leaks, but whether an act succeeds in it is for the scheduler to say. What must succeed and
what must be refused is therefore asked while the swapping is held.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

PATIENCE_S = 60.0

State = Literal["honest", "file", "folder"]  # what is a link to the outside at the moment


class Swapping:
    """A thread that runs a cycle of swaps again and again, which yields the states that it goes through."""

    def __init__(self, cycle: Callable[[], Iterator[State]]) -> None:
        self._cycle = cycle
        self._moved = threading.Condition()
        self._wanted: State | None = None  # where to stop
        self._held = False
        self._over = False
        self._fault: BaseException | None = None
        self._count = 0
        self._thread = threading.Thread(target=self._run, name="swapping")

    def storm(self, act: Callable[[], object], *, cycles: int = 300) -> None:
        """Repeat an act while that many cycles go by."""
        last = self._count + cycles
        while self._count < last and self._fault is None:
            act()

    @property
    def count(self) -> int:
        """How many cycles went by."""
        return self._count

    @contextmanager
    def held(self, state: State) -> Iterator[None]:
        """Hold the swapping in one of its states."""
        with self._moved:
            self._wanted = state
            arrived = self._moved.wait_for(lambda: self._held or self._fault is not None, PATIENCE_S)
            assert arrived, "the swapping came to no such state"
            assert self._fault is None, self._fault
        try:
            yield
        finally:
            with self._moved:
                self._wanted, self._held = None, False
                self._moved.notify_all()

    def _run(self) -> None:
        try:
            while not self._over:
                for state in self._cycle():
                    self._stop_in(state)
                self._count += 1
        except BaseException as fault:  # told by the test's own thread
            with self._moved:
                self._fault = fault
                self._moved.notify_all()

    def _stop_in(self, state: State) -> None:
        with self._moved:
            if self._wanted == state:
                self._held = True
                self._moved.notify_all()
                self._moved.wait_for(lambda: not self._held, PATIENCE_S)

    @contextmanager
    def running(self) -> Iterator[Swapping]:
        """Swap until the block is left; an error of the cycle is raised then."""
        self._thread.start()
        try:
            yield self
        finally:
            self._over = True
            self._thread.join(PATIENCE_S)
        assert self._fault is None, self._fault


def folder_and_file_for_links(folder: Path, file: Path, *, outside: Path) -> Callable[[], Iterator[State]]:
    """Return a cycle that swaps a file for a link to its namesake outside, then its whole folder for a link there.

    Folders that somebody makes where one is missing for a moment are put aside. Each time around, the file is made
    anew with the words "harmless words".
    """
    spare, trap, bait = (folder.with_name(name) for name in ("spare", "trap", "bait"))
    trap.symlink_to(outside)
    numbers = itertools.count()

    def take(source: Path) -> None:
        while source.exists() or source.is_symlink():
            try:
                source.rename(folder)
            except OSError:
                folder.rename(folder.with_name(f"aside-{next(numbers)}"))

    def cycle() -> Iterator[State]:
        bait.write_text("harmless words\n")
        bait.rename(file)
        yield "honest"
        bait.symlink_to(outside / file.name)
        bait.rename(file)
        yield "file"
        folder.rename(spare)
        take(trap)
        yield "folder"
        folder.rename(trap)
        take(spare)

    return cycle
