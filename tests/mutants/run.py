"""Proves that tests can fail: applies each small breakage to a scratch copy and expects its tests to go red.

    python tests/mutants/run.py            # all patches
    python tests/mutants/run.py fencing    # those whose name contains a word

A patch is a unified diff after header lines. `Tests:` names, one on each line, what must go red; the lines
before it say what the breakage is. The same tests must be green on the unbroken copy, so that red means the
breakage and nothing else. Exit code 0: every breakage was caught.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
LIMIT_S = 600

PASSED, FAILED = 0, 1  # pytest's exit codes; others mean that the tests could not be run


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One breakage: its patch and the ids of the tests that must notice."""

    patch: Path
    tests: tuple[str, ...]

    @classmethod
    def read(cls, patch: Path) -> Mutant:
        """Read a patch's header.

        Raises:
            ValueError: it names no test.
        """
        header = patch.read_text(encoding="utf-8").partition("\n--- ")[0]
        _, _, named = header.partition("Tests:")
        tests = tuple(re.findall(r"tests/\S+", named))
        if not tests:
            raise ValueError(f"{patch.name}: no `Tests:` in its header")
        return cls(patch=patch, tests=tests)


def main(words: Sequence[str]) -> int:
    """Run the mutants whose name contains one of the words; all without words."""
    chosen = [path for path in sorted(FOLDER.glob("*.patch")) if not words or any(word in path.name for word in words)]
    mutants = [Mutant.read(path) for path in chosen]
    with tempfile.TemporaryDirectory(prefix="dutiful-mutants-") as scratch:
        copy = Path(scratch) / "copy"
        ignored = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", ".venv", ".hypothesis", "dist")
        shutil.copytree(ROOT, copy, ignore=ignored)
        problems = [f"unbroken: {problem}" for problem in _unbroken(copy, mutants)]
        if not problems:
            problems = [problem for mutant in mutants for problem in _judge(copy, mutant)]
    print(f"{len(mutants)} mutants, {len(problems)} problems")
    for problem in problems:
        print(f"  {problem}")
    return 1 if problems or not mutants else 0


def _unbroken(copy: Path, mutants: Sequence[Mutant]) -> Iterator[str]:
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    if tests and (done := _pytest(copy, tests)).returncode != PASSED:
        yield f"tests are not green before anything is broken:\n{done.stdout[-4_000:]}"


def _judge(copy: Path, mutant: Mutant) -> Iterator[str]:
    name = mutant.patch.stem
    applied = _git_apply(copy, mutant.patch)
    if applied.returncode != 0:
        yield f"{name}: does not apply any more: {applied.stderr.strip()}"
        return
    try:
        for test in mutant.tests:
            code = _pytest(copy, [test]).returncode
            verdict = {FAILED: "caught", PASSED: "SURVIVED"}.get(code, f"could not be run (pytest exit {code})")
            print(f"{name}: {verdict} by {test}", flush=True)
            if code != FAILED:
                yield f"{name}: {verdict}: {test}"
    finally:
        _git_apply(copy, mutant.patch, "--reverse").check_returncode()


def _git_apply(copy: Path, patch: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # Two lines of context are enough to find the place, and leave the patch alone when neighbours change.
    command = ["git", "apply", "-C2", "--whitespace=nowarn", *options, str(patch)]
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=60, check=False)


def _pytest(copy: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    # A copied .pyc would be taken for the source of the same second and size.
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
