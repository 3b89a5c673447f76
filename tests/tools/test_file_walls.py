"""What no tool that works on files may reach: the same ways out through each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.config import ToolsConfig
from bot.config.tools import ImageSection
from bot.toolkit.results import ADVICE
from tests.support.contexts import ToolDesk, request_context, tool_context

ME = request_context("1")
SECRET = "s3cret-needle"
CELL = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
PATCH = f"--- a/{{path}}\n+++ b/{{path}}\n@@ -1 +1 @@\n-{SECRET}\n+mine\n"

# (tool, its other parameters, the parameter that takes the path): each in every way in which it takes one
WAYS: dict[str, tuple[str, dict[str, Any], str]] = {
    "read_file": ("read_file", {}, "path"),
    "write_file": ("write_file", {"content": "mine"}, "path"),
    "edit_file": ("edit_file", {"old_text": SECRET, "new_text": "mine"}, "path"),
    "patch": ("apply_patch", {}, "patch"),
    "patch edits": ("apply_patch", {"action": "replace", "old_text": SECRET, "new_text": "mine"}, "edits"),
    "list_dir": ("list_dir", {}, "path"),
    "grep": ("grep", {"pattern": SECRET, "output_mode": "content"}, "path"),
    "find_files": ("find_files", {}, "path"),
    "notebook_edit": ("notebook_edit", {"action": "insert", "cell": 0, "source": "mine"}, "path"),
    "generate_image": ("generate_image", {"prompt": "a cat"}, "reference_images"),
}


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ToolDesk]:
    """A bot with its configuration beside its data, run by a user who has a key in their home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home/.ssh/id_rsa", "config.toml", "outside/secret"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{SECRET}\n")
    (tmp_path / "config.ipynb").write_text(CELL)
    image = ImageSection(model="m", base_url="http://127.0.0.1:9/v1", api_key=SecretStr("k"))
    async with tool_context(tmp_path, config=ToolsConfig(image=image)) as ctx:
        yield ToolDesk(ctx)


async def reach(desk: ToolDesk, way: str, path: str) -> None:
    """Try it; what comes back is a refusal that shows nothing."""
    tool, params, name = WAYS[way]
    value: Any = path
    if name == "patch":
        value = PATCH.format(path=path)
    elif name == "edits":
        value, params = [{"path": path, **params}], {}
    elif name == "reference_images":
        value = [path]
    result = await desk.call(ME, tool, **params, **{name: value})
    assert result.is_error, (way, path, result)
    assert result.is_refused, (way, path, result)
    assert ADVICE not in result
    assert SECRET not in result.replace(f"-{SECRET}", "")


def untouched(tmp_path: Path) -> bool:
    names = ("home/.ssh/id_rsa", "config.toml", "outside/secret")
    kept = all((tmp_path / name).read_text() == f"{SECRET}\n" for name in names)
    return kept and [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]


@pytest.mark.parametrize("way", WAYS)
async def test_c078_no_file_tool_reaches_a_key_or_the_bots_own_configuration(
    desk: ToolDesk, tmp_path: Path, way: str
) -> None:
    """C078: ~/.ssh/id_rsa and the bot's own config through each file tool."""
    desk.root(ME)
    for path in (
        "~/.ssh/id_rsa",
        f"{tmp_path}/home/.ssh/id_rsa",
        "../../../home/.ssh/id_rsa",
        f"{tmp_path}/config.toml",
        "../../../config.toml",
    ):
        await reach(desk, way, path)
    assert untouched(tmp_path)


@pytest.mark.parametrize("way", WAYS)
async def test_c080_no_file_tool_follows_a_link_to_the_outside(desk: ToolDesk, tmp_path: Path, way: str) -> None:
    """C080: workspace/link.txt -> /outside/secret, and a linked folder."""
    root = desk.root(ME)
    (root / "link.txt").symlink_to(tmp_path / "outside/secret")
    (root / "folder").symlink_to(tmp_path / "outside")
    for path in ("link.txt", "folder/secret", "folder/new.txt" if way == "write_file" else "folder/secret"):
        await reach(desk, way, path)
    assert untouched(tmp_path)
