"""systemd's notifications over a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.notify import notify, watchdog_interval_s


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(5)
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def test_states_arrive_as_they_are(supervisor: socket.socket) -> None:
    assert notify("READY=1")
    assert notify("STATUS=naïve")
    assert [supervisor.recv(100), supervisor.recv(100)] == [b"READY=1", "STATUS=naïve".encode()]


def test_an_abstract_address_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"dutiful-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(5)
        listener.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        assert notify("WATCHDOG=1")
        assert listener.recv(100) == b"WATCHDOG=1"


def test_without_a_supervisor_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify("READY=1")


@pytest.mark.parametrize(
    ("usec", "pid", "expected"),
    [
        ("60000000", "", 30.0),
        ("60000000", "own", 30.0),
        ("60000000", "1", None),  # meant for another process of the unit
        ("", "", None),
        ("soon", "", None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_asked(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str, expected: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert watchdog_interval_s() == expected
