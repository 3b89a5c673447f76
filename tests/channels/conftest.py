"""The channel contract suite runs each of its tests for every channel that has what the test needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.channel_harness import ChannelHarness, discover


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for every channel that has the features it needs; a module with its own `harness` is left alone."""
    if "harness" in metafunc.fixturenames and not hasattr(metafunc.module, "harness"):
        marks = metafunc.definition.iter_markers("needs")
        needed = {feature for mark in marks for feature in mark.args}
        fit = [harness for harness in discover() if needed <= harness.features]
        metafunc.parametrize("harness", fit, ids=lambda harness: harness.name, indirect=True)


@pytest.fixture
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChannelHarness]:
    made: ChannelHarness = request.param(tmp_path)
    try:
        yield made
    finally:
        await made.stop()
        await made.server_down()


@pytest.fixture
async def live(harness: ChannelHarness) -> AsyncIterator[ChannelHarness]:
    async with harness.running():
        yield harness
