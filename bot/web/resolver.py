"""How names become addresses: once per connection, before anything is judged."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

LOOKUP_LIMIT_S = 10.0
"""How long one lookup may take."""

# Lookups cannot be ended from outside. Each has a thread of its own that the end of the program does not wait for, and
# one that is given up has no place any more: names that hang hold up no others.
_AT_ONCE = 16


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
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def lookup(self, host: str, port: int) -> Sequence[str]:
        """See `Resolver.lookup`."""
        async with asyncio.timeout(self._limit_s), self._places:
            found: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
            threading.Thread(target=_look_up_for, args=(found, host, port), name=f"lookup-{host}", daemon=True).start()
            return await found

    def close(self) -> None:
        """See `Resolver.close`."""


def _look_up_for(found: asyncio.Future[Sequence[str]], host: str, port: int) -> None:
    addresses: Sequence[str] = ()
    error: OSError | None = None
    try:
        addresses = _lookup(host, port)
    except OSError as exc:
        error = exc
    with suppress(RuntimeError):  # the loop has ended meanwhile
        found.get_loop().call_soon_threadsafe(_settle, found, addresses, error)


def _settle(found: asyncio.Future[Sequence[str]], addresses: Sequence[str], error: OSError | None) -> None:
    if found.done():  # given up
        return
    if error is None:
        found.set_result(addresses)
    else:
        found.set_exception(error)


def _lookup(host: str, port: int) -> Sequence[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except UnicodeError as exc:  # labels that the idna codec does not take
        raise socket.gaierror(socket.EAI_NONAME, "not a name") from exc
    # A link-local IPv6 address means nothing without its interface.
    return [f"{at[0]}%{scope[0]}" if (scope := at[3:]) and scope[0] else str(at[0]) for *_, at in found]
