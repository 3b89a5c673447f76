"""The life that all platforms' connections share: connect, serve, and after a failure wait and begin again."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from random import SystemRandom

from bot.clock import Clock
from bot.errors import ChannelAuthError, ChannelError
from bot.interfaces import Channel, ChannelState
from bot.log import get_logger

_random = SystemRandom()
_log = get_logger(__name__)


class Backoff:
    """Growing waits with jitter, so that many clients do not come back in step."""

    def __init__(self, base_s: float, cap_s: float) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self.failures = 0

    def reset(self) -> None:
        """Start over after a success."""
        self.failures = 0

    def next_s(self) -> float:
        """Return how long to wait after one more failure: half fixed, half chance, at most the cap."""
        span = min(self._cap_s, self._base_s * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return _random.uniform(span / 2, span)


class SupervisedChannel(Channel):
    """A channel whose `serve` connects and receives; whatever ends it but a refused token, it is called again."""

    def __init__(self, clock: Clock, *, retry_base_s: float, retry_cap_s: float) -> None:
        """Wait between `retry_base_s` and `retry_cap_s` after failures."""
        self._clock = clock
        self._retry_cap_s = retry_cap_s
        self._failures = Backoff(retry_base_s, retry_cap_s)
        self.state = ChannelState.STARTING
        self.problem = ""

    @abstractmethod
    async def serve(self) -> None:
        """Connect and receive; ends only by an error.

        Raises:
            ChannelAuthError: the platform refuses what it was given; nothing but another configuration helps.
            ChannelError: the connection was lost or could not be made.
        """

    async def run(self) -> None:
        """See `Channel.run`."""
        while True:
            started_s = self._clock.monotonic_s()
            try:
                await self.serve()
            except ChannelAuthError as exc:
                self.report(ChannelState.FAILED, str(exc))
                raise
            except ChannelError as exc:
                wait_s = max(self._wait_s(started_s), exc.retry_after_s or 0.0)
                self.report(ChannelState.OFFLINE, str(exc))
                _log.warning("platform not reachable", channel=self.name, error=str(exc), retry_in_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)
            except Exception as exc:  # noqa: BLE001  # the channel's supervisor: one fault must not end receiving for good
                wait_s = self._wait_s(started_s)
                self.report(ChannelState.OFFLINE, f"internal error: {type(exc).__name__}")
                _log.exception("receiving failed", channel=self.name, retry_in_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)

    def _wait_s(self, started_s: float) -> float:
        """Return how long to wait now; what went well for a while starts over with short waits."""
        if self._clock.monotonic_s() - started_s > self._retry_cap_s:
            self._failures.reset()
        return self._failures.next_s()

    def report(self, state: ChannelState, problem: str) -> None:
        """Take a new state; `problem` must be free of secrets."""
        if state is not self.state:
            _log.info("channel state", channel=self.name, state=str(state), problem=problem)
        self.problem = problem  # before the state, whose change is announced
        self.state = state
