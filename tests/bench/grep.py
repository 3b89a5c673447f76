"""The grep tool beside ripgrep itself, over a copy of the Python standard library in a chat's folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bot.ripgrep.program import find_program
from tests.bench.figures import Figure
from tests.support.contexts import ToolDesk, request_context, tool_context

RUNS = 15
ME = request_context("1")

# (name, the tool's parameters, ripgrep's options): rare and frequent matches, each mode against what gives the same.
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("files, frequent", {"pattern": r"def \w+"}, ["-l", r"def \w+"]),
    ("files, rare", {"pattern": "asyncio.TaskGroup"}, ["-l", "asyncio.TaskGroup"]),
    ("count, frequent", {"pattern": r"def \w+", "output_mode": "count"}, ["-c", r"def \w+"]),
    ("lines, frequent", {"pattern": r"def \w+", "output_mode": "content"}, ["-n", r"def \w+"]),
    ("lines, rare", {"pattern": "asyncio.TaskGroup", "output_mode": "content"}, ["-n", "asyncio.TaskGroup"]),
    (
        "lines, any case",
        {"pattern": "import (os|sys)", "output_mode": "content", "case_insensitive": True},
        ["-n", "-i", "import (os|sys)"],
    ),
]


async def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with tool_context(Path(folder)) as ctx:
            desk = ToolDesk(ctx)
            library = desk.root(ME) / "lib"
            ignored = shutil.ignore_patterns("site-packages", "__pycache__")
            shutil.copytree(Path(os.__file__).parent, library, ignore=ignored, symlinks=True)
            return [await _ratio(desk, library, *case) for case in CASES]


async def _ratio(desk: ToolDesk, library: Path, name: str, params: dict[str, Any], options: list[str]) -> Figure:
    """Run both in turns, so that what else the machine does meets both alike."""
    ratios = []
    for _ in range(RUNS):
        alone_s = await asyncio.to_thread(_alone, library, options)
        began = time.perf_counter()
        result = await desk.call(ME, "grep", path="lib", **params)
        ratios.append((time.perf_counter() - began) / alone_s)
        assert not result.is_error, result
    return Figure(name=f"grep to ripgrep itself: {name}", values=ratios, unit="ratio", limit="<= 1.3")


def _alone(library: Path, options: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([find_program(), "--no-config", *options, "./"], cwd=library, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - began
