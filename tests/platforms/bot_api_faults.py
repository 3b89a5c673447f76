"""The faults a test can switch on in the Bot API server: what goes wrong, for which call, how often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.platforms.bot_api_objects import RefusalError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fault:
    """One thing that goes wrong.

    It hits calls of `method` ("*" = any, "file" = a file download) and, if given, of `chat_id`, `times`
    times (None = always). Fields combine: a held call can then be dropped. Order in the server: delay and
    hold, then `drop_before`, `garbage` and refusal (nothing is done in these three cases), then the call,
    then `drop_after`.
    """

    method: str = "*"
    chat_id: int | None = None
    times: int | None = 1
    status: int = 0  # not 0: refuse with it
    description: str = ""
    retry_after: int | None = None  # seconds, answered as parameters.retry_after
    migrate_to: int | None = None  # answered as parameters.migrate_to_chat_id
    garbage: bytes | None = None  # answer these bytes, with `status` or 200
    drop_before: bool = False  # close the connection, do nothing
    drop_after: bool = False  # do it, then close the connection without an answer
    delay_s: float = 0.0
    hold: asyncio.Event | None = None  # go on when the test sets it
    ignore_offset: bool = False  # getUpdates only: nothing is confirmed by this call

    def refusal(self) -> RefusalError | None:
        """Return the error answer this fault stands for, if it is one."""
        if not self.status:
            return None
        parameters: dict[str, int] = {}
        if self.retry_after is not None:
            parameters["retry_after"] = self.retry_after
        if self.migrate_to is not None:
            parameters["migrate_to_chat_id"] = self.migrate_to
        return RefusalError(self.status, self.description, parameters)


def too_many_requests(method: str, retry_after: int, *, chat_id: int | None = None, times: int | None = 1) -> Fault:
    """Return a 429 with its wait in seconds."""
    return Fault(
        method=method,
        chat_id=chat_id,
        times=times,
        status=429,
        description=f"Too Many Requests: retry after {retry_after}",
        retry_after=retry_after,
    )


def cannot_parse(method: str = "sendMessage", *, times: int | None = 1) -> Fault:
    """Return the 400 for markup or entities the platform does not take."""
    return Fault(
        method=method,
        times=times,
        status=400,
        description="Bad Request: can't parse entities: Can't find end of Bold entity at byte offset 0",
    )


def blocked(chat_id: int, *, method: str = "*", times: int | None = None) -> Fault:
    """Return the 403 of a person who blocked the bot."""
    description = "Forbidden: bot was blocked by the user"
    return Fault(method=method, chat_id=chat_id, times=times, status=403, description=description)


def upgraded(chat_id: int, new_chat_id: int, *, times: int | None = None) -> Fault:
    """Return the 400 of a group that lives on as a supergroup."""
    description = "Bad Request: group chat was upgraded to a supergroup chat"
    return Fault(chat_id=chat_id, times=times, status=400, description=description, migrate_to=new_chat_id)


def bad_gateway(method: str = "*", *, times: int | None = 1) -> Fault:
    """Return a proxy's 502 with an HTML page."""
    page = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
    return Fault(method=method, times=times, status=502, garbage=page)


def conflict(*, times: int | None = 1) -> Fault:
    """Return the 409 that a second poller causes."""
    return Fault(method="getUpdates", times=times, status=409, description=OTHER_POLLER)


OTHER_POLLER = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"


@dataclass(slots=True)
class _Armed:
    fault: Fault
    left: int | None
    hits: int = 0


@dataclass(slots=True)
class Faults:
    """The faults that are switched on, first added first."""

    _armed: list[_Armed] = field(default_factory=list)

    def add(self, fault: Fault) -> Fault:
        """Switch a fault on; returned for `hits` and `remove`."""
        self._armed.append(_Armed(fault, fault.times))
        return fault

    def remove(self, fault: Fault) -> None:
        """Switch one fault off."""
        self._armed = [armed for armed in self._armed if armed.fault is not fault]

    def clear(self) -> None:
        """Switch all faults off."""
        self._armed.clear()

    def hits(self, fault: Fault) -> int:
        """Return how often a fault struck."""
        return sum(armed.hits for armed in self._armed if armed.fault is fault)

    def strike(self, method: str, chat_id: int | None) -> Fault | None:
        """Return the fault this call meets, counting it; a used-up fault strikes no more."""
        for armed in self._armed:
            fault = armed.fault
            if armed.left == 0 or fault.method not in {"*", method}:
                continue
            if fault.chat_id is not None and fault.chat_id != chat_id:
                continue
            if armed.left is not None:
                armed.left -= 1
            armed.hits += 1
            return fault
        return None
