"""The breakages must keep up with the source: a patch that no longer applies proves nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
PATCHES = sorted(FOLDER.glob("*.patch"))


def test_there_are_breakages_to_try() -> None:
    assert len(PATCHES) >= 10


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_breakage_still_applies(patch: Path) -> None:
    command = ["git", "apply", "--check", str(patch)]
    done = subprocess.run(command, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
