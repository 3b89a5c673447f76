"""systemd's notification protocol: READY, WATCHDOG, STOPPING over a datagram socket.

https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html, read 2026-11-29.
"""

from __future__ import annotations

import os
import socket


def notify(state: str) -> bool:
    """Send a state such as "READY=1"; False when no supervisor listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):  # abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto(state.encode(), address)
    except OSError:
        return False
    return True


def watchdog_interval_s() -> float | None:
    """Return how often to report, half of what the supervisor allows; None when it does not ask."""
    usec = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID", "")
    if not usec.isdigit() or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 2_000_000
