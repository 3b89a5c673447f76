"""What the whole suite shares: the order of tests, and the option that CI runs with: no skips, no chance."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hypothesis import settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails: nothing it needs may be missing")


def pytest_configure(config: pytest.Config) -> None:
    """Let CI try the same examples each time: it says whether a change broke something, others look for more."""
    settings.register_profile("same examples", derandomize=True, database=None)
    if config.getoption("--no-skips"):
        settings.load_profile("same examples")


@pytest.hookimpl(trylast=True)  # after the marks that folders put on their tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run journeys last: what a fast test can tell should be known before the slow ones start."""
    items.sort(key=lambda item: item.get_closest_marker("journey") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.getoption("--no-skips"):
        _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if collector.config.getoption("--no-skips"):
        _fail_if_skipped(report)
    return report


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"--no-skips: {reason}"
