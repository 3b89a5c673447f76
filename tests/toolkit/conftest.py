"""The sample plugin, installed; and an MCP server that wants a login."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.platforms import mcp_scripts
from tests.platforms.mcp_oauth import McpOAuth
from tests.platforms.mcp_server import McpServer

SAMPLE = Path(__file__).with_name("sample_plugin")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the sample plugin was installed; no index is asked, its backend is at hand."""
    target = tmp_path_factory.mktemp("site")
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    command = (sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(SAMPLE))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    yield
    for name in ("dutiful_sample", "dutiful_sample_broken"):
        sys.modules.pop(name, None)


@pytest.fixture
def oauth() -> McpOAuth:
    return McpOAuth()


@pytest.fixture
async def server(oauth: McpOAuth) -> AsyncIterator[McpServer]:
    async with McpServer(mcp_scripts.workshop(), oauth=oauth) as made:
        yield made
