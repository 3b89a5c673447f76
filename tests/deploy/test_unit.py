"""The systemd unit is free of mistakes, hardened as promised, and agrees with the program's exit codes."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bot.config import LimitsSection

DEPLOY = Path(__file__).parents[2] / "deploy"

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def copy_unit(folder: Path, *, locked_down: bool) -> Path:
    """Copy the unit, with a program that exists on this machine."""
    text = (DEPLOY / "dutiful.service").read_text()
    unit = folder / "dutiful.service"
    unit.write_text(text.replace("/opt/dutiful/venv/bin/dutiful", sys.executable))
    if locked_down:
        drop_ins = folder / "dutiful.service.d"
        drop_ins.mkdir()
        shutil.copy(DEPLOY / "locked-down.conf", drop_ins)
    return unit


def settings() -> dict[str, str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "dutiful.service")
    return dict(parser["Service"])


@needs_systemd
@pytest.mark.parametrize("locked_down", [False, True])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, locked_down: bool) -> None:
    unit = copy_unit(tmp_path, locked_down=locked_down)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert done.stderr == ""  # unknown keys are warnings only
    assert done.returncode == 0


@needs_systemd
@pytest.mark.parametrize(("locked_down", "limit"), [(False, 3.0), (True, 1.5)])
def test_exposure_stays_below_the_promised_limit(tmp_path: Path, locked_down: bool, limit: float) -> None:
    unit = copy_unit(tmp_path, locked_down=locked_down)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={limit * 10:.0f}", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.splitlines()[-1]
    exposure = re.search(r"Overall exposure level.*: ([0-9.]+)", done.stdout)
    assert exposure is not None
    assert float(exposure[1]) <= limit


def test_the_unit_leaves_room_for_the_command_sandbox() -> None:
    unit = settings()
    assert {"user", "mnt", "pid", "ipc", "uts", "net"} <= set(unit["RestrictNamespaces"].split())
    assert "@mount" in unit["SystemCallFilter"].split()
    assert "AF_NETLINK" in unit["RestrictAddressFamilies"].split()
    # Each of these covers a part of /proc, after which the kernel refuses a sandbox its own /proc.
    assert not {"ProtectKernelTunables", "ProtectKernelLogs", "ProtectHostname", "ProcSubset"} & set(unit)
    assert "MemoryDenyWriteExecute" not in unit  # node and other just-in-time compilers


def test_the_unit_knows_the_exit_codes_and_the_watchdog() -> None:
    unit = settings()
    assert unit["Type"] == "notify"
    assert unit["NotifyAccess"] == "main"
    assert unit["WatchdogSec"] == "60"
    assert unit["Restart"] == "on-failure"
    assert unit["RestartPreventExitStatus"] == "78"
    assert unit["RestartForceExitStatus"] == "75"


def test_systemd_waits_longer_for_the_end_than_the_bot_lets_turns_run() -> None:
    assert float(settings()["TimeoutStopSec"]) > LimitsSection().shutdown_grace_s
