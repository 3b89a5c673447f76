"""One measured number with its floor, and what /proc tells of a process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A median with its unit and the limit it is held against (empty: none)."""

    name: str
    values: list[float]
    unit: str
    limit: str = ""

    @property
    def median(self) -> float:
        return median(self.values)


def print_table(figures: list[Figure]) -> None:
    print(f"{'figure':<52}{'median':>10} {'min':>9} {'max':>9}  {'unit':<12}limit")
    for figure in figures:
        low, high = min(figure.values), max(figure.values)
        print(f"{figure.name:<52}{figure.median:>10.2f} {low:>9.2f} {high:>9.2f}  {figure.unit:<12}{figure.limit}")


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def rss_mb(pid: int) -> float:
    """Resident memory in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no VmRSS for {pid}")


def wakeups(pid: int) -> int:
    """Voluntary context switches of all threads: each is a sleep that ended."""
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary"):
                count += int(line.split()[1])
    return count
