"""How names become addresses: once per connection, before anything is judged."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

LOOKUP_LIMIT_S = 10.0
"""How long one lookup may take."""

# Lookups cannot be ended from outside: with threads of their own, those that hang hold up nothing but names.
_THREADS = 16


class Resolver(Protocol):
    """Gives the addresses of a name."""

    async def lookup(self, host: str, port: int) -> Sequence[str]:
        """Return all addresses of a host as text, the preferred one first.

        Raises:
            OSError: the name is not known, or nobody answered; a TimeoutError is one.
        """

    def close(self) -> None:
        """Give back what was used; idempotent."""


class SystemResolver:
    """Asks the operating system, which knows of /etc/hosts and of the machine's name servers."""

    def __init__(self, *, limit_s: float = LOOKUP_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._threads: ThreadPoolExecutor | None = None

    async def lookup(self, host: str, port: int) -> Sequence[str]:
        """See `Resolver.lookup`."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lookup")
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._limit_s):
            return await loop.run_in_executor(self._threads, _lookup, host, port)

    def close(self) -> None:
        """See `Resolver.close`."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)


def _lookup(host: str, port: int) -> Sequence[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except UnicodeError as exc:  # labels that the idna codec does not take
        raise socket.gaierror(socket.EAI_NONAME, "not a name") from exc
    # A link-local IPv6 address means nothing without its interface.
    return [f"{at[0]}%{scope[0]}" if (scope := at[3:]) and scope[0] else str(at[0]) for *_, at in found]
