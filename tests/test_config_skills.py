"""`[skills]`: which folders may hold what every chat's model is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.config import Config, load_config
from bot.config.conversation import SkillsSection
from bot.errors import ConfigError


def load(folder: Path, text: str) -> Config:
    (folder / "config.toml").write_text(text)
    return load_config(folder / "config.toml", sections={})


def test_folders_start_at_the_configuration_files(tmp_path: Path) -> None:
    config = load(tmp_path, '[bot]\ndata_dir = "data"\n[skills]\npaths = ["more", "/srv/skills"]\ndisabled = ["gh"]')
    assert config.skills == SkillsSection(paths=[tmp_path / "more", Path("/srv/skills")], disabled=["gh"])


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("data", "skills.paths[0]: contains, or lies in, [bot] data_dir: which is not for every chat"),
        ("data/workspace/chats/x", "skills.paths[0]: contains, or lies in, [bot] data_dir"),
        (".", "skills.paths[0]: contains, or lies in, [bot] data_dir"),
        ("link", "skills.paths[0]: contains, or lies in, [bot] data_dir"),
        ("open", "skills.paths[0]: contains, or lies in, [tools.files] extra_write: which every chat may write"),
        ("open/skills", "skills.paths[0]: contains, or lies in, [tools.files] extra_write"),
    ],
)
def test_a_folder_that_chats_must_not_read_or_could_write_is_refused(tmp_path: Path, path: str, problem: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    text = f'[bot]\ndata_dir = "data"\n[tools.files]\nextra_write = ["open"]\n[skills]\npaths = ["{path}"]'
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert problem in str(caught.value)


def test_a_folder_that_every_chat_may_read_is_fine(tmp_path: Path) -> None:
    text = '[bot]\ndata_dir = "data"\n[tools.files]\nextra_read = ["docs"]\n[skills]\npaths = ["docs/skills"]'
    assert load(tmp_path, text).skills.paths == [tmp_path / "docs/skills"]
