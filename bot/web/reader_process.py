"""The process that reads pages: it loads the libraries once and forks a child for each page.

A page meets its own child only, which limits itself before it looks at the markup: processor and wall time, memory,
no file, no process. An order is one message on the control socket: JSON, with the descriptors of the page and of the
pipe for the answer. The process ends with the bot, and by itself when it has had no order for a while.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import select
import signal
import socket
from typing import Any

from bot.security.confinement import end_with_parent, give_way, limit_memory, limit_work
from bot.web.extraction import page_text

MAX_ORDER_BYTES = 32 * 1024

_OPEN_FILES = 16
_DESCRIPTORS = 2


def main(control_fd: str, idle_s: str) -> None:
    """Serve orders until the bot's end of the socket is closed, or nothing came for `idle_s` seconds."""
    end_with_parent()
    give_way()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes ended children away
    with socket.socket(fileno=int(control_fd)) as control:
        control.settimeout(float(idle_s))
        while True:
            try:
                order, descriptors, _, _ = socket.recv_fds(control, MAX_ORDER_BYTES, _DESCRIPTORS)
            except TimeoutError:
                return
            if not order:
                return
            if os.fork() == 0:
                control.close()
                _serve(json.loads(order), *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)


def _serve(order: dict[str, Any], page: int, answer: int) -> None:
    """Read one page and end. Whatever goes wrong, the answer is then missing, which says enough."""
    try:
        _end_with_asker(answer)
        _limit_self(cpu_s=order["cpu_s"], memory_bytes=order["memory_bytes"])
        with open(page, "rb") as file:
            markup = file.read().decode("utf-8", "replace")
        found = page_text(markup, order["url"], markdown=order["markdown"], plain=order["plain"])
        found["total_chars"] = len(found["text"])
        found["text"] = found["text"][: order["max_chars"]]
        fcntl.fcntl(answer, fcntl.F_SETFL, os.O_WRONLY)  # from now on, what is read from the pipe would end it too
        with open(answer, "wb") as file:
            file.write(json.dumps(found).encode())
    finally:
        os._exit(0)  # without taking down what a hostile page may have made huge


def _limit_self(*, cpu_s: int, memory_bytes: int) -> None:
    end_with_parent()  # not inherited over a fork
    signal.alarm(math.ceil(cpu_s * 2))  # its default action ends the process, in native code too
    limit_work(cpu_s=cpu_s, open_files=_OPEN_FILES)
    limit_memory(memory_bytes)


def _end_with_asker(answer: int) -> None:
    """End at once when nobody waits for the answer any more: SIGIO's default action ends the process, see pipe(7)."""
    fcntl.fcntl(answer, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(answer, fcntl.F_SETFL, os.O_WRONLY | os.O_ASYNC)
    poll = select.poll()
    poll.register(answer, 0)
    if poll.poll(0):  # it was given up before
        os._exit(0)
