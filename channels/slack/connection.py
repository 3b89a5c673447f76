"""One connection's work: the socket, the receiver behind it, catching up and errands, ended together.

Loaded with the SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from slack_bolt.app.async_app import AsyncApp

from bot.clock import Clock
from bot.errors import ChannelError, StoreError
from bot.interfaces import ChannelContext
from bot.log import get_logger
from channels.config import GroupPolicies
from channels.slack.api import WebApi
from channels.slack.catchup import CatchUp
from channels.slack.config import Timing
from channels.slack.content import Identity, Json
from channels.slack.dispatch import build_app, is_answered
from channels.slack.events import Reader
from channels.slack.feedback import check_place, show_outcome
from channels.slack.people import People
from channels.slack.positions import Positions
from channels.slack.receiving import Errands, Receiver
from channels.slack.socket import Envelope, Socket
from channels.slack.threads import Threads

_WAITING = 1_000
"""Envelopes; more than that wait on Slack's side, unacknowledged."""

_log = get_logger(__name__)


class Connection:
    """Receives for one installation until the connection is lost. Built without calling Slack."""

    def __init__(
        self,
        *,
        api: WebApi,
        me: Identity,
        context: ChannelContext,
        policies: GroupPolicies,
        positions: Positions,
        threads: Threads,
        people: People,
        timing: Timing,
    ) -> None:
        self._timing = timing
        self._clock: Clock = context.clock
        self._positions = positions
        self._errands = Errands()
        self._envelopes: asyncio.Queue[Envelope] = asyncio.Queue(_WAITING)

        def in_talk(event: Json) -> bool:
            return threads.is_to_us(event, me)

        async def outcome(body: dict[str, Any], result: Any) -> None:
            await show_outcome(api, context.language, body, result)

        async def place(body: dict[str, Any]) -> None:
            await check_place(api, context.language, body)

        self._receiver = Receiver(
            reader=Reader(me=me, policies=policies, names=people.name, in_talk=in_talk),
            intake=context.intake,
            positions=positions,
            threads=threads,
            errands=self._errands,
            menu=lambda: {command.name for command in context.menu()},
            learn=people.learn,
            show_outcome=outcome,
            check_place=place,
        )
        self._catchup = CatchUp(
            api=api,
            positions=positions,
            threads=threads,
            clock=context.clock,
            timing=timing,
            take=self._receiver.missed,
        )
        self._receiver.gate = self._catchup.gate
        self._receiver.changed = self._catchup.changed
        self._receiver.failed = self._catchup.again
        self.app: AsyncApp = build_app(me, self._receiver)
        self.socket = Socket(api, timing, context.clock, self._envelopes.put)

    async def run(self, connected: Callable[[], None]) -> None:
        """Receive; ends only by an error.

        Raises:
            ChannelAuthError: a token is refused.
            ChannelError: the connection is lost.
        """
        up = asyncio.Event()

        def hello() -> None:
            connected()
            up.set()

        async def catch_up() -> None:
            await up.wait()
            await self._catchup.run()

        try:
            await _first_end(
                {
                    "slack-socket": self.socket.run(hello),
                    "slack-events": self._work(),
                    "slack-catch-up": catch_up(),
                    "slack-overtaking": self._catchup.hasten(),
                    "slack-errands": self._errands.run(),
                    "slack-positions": self._positions.run(),
                }
            )
        finally:
            await self._positions.flush()
            self._positions.connection_lost()

    async def _is_taken(self, envelope: Envelope) -> bool:
        """Say whether an envelope may be acknowledged: what it says is committed, or kept as unreadable."""
        try:
            return await is_answered(self.app, envelope.request)
        except Exception as exc:  # noqa: BLE001  # Bolt stumbles over payloads of an unknown shape
            try:
                await self._receiver.unreadable(envelope.request.payload, exc)
            except StoreError:
                return False
            return True

    async def _work(self) -> NoReturn:
        """Take envelopes in order, and acknowledge each in time or not at all."""
        while True:
            envelope = await self._envelopes.get()
            if await self._is_taken(envelope):
                took_s = self._clock.monotonic_s() - envelope.received_s
                if took_s < self._timing.ack_s:
                    await envelope.acknowledge()
                else:
                    _log.warning("too late to acknowledge, Slack sends again", took_s=round(took_s, 2))
            if self._receiver.ended:
                raise ChannelError(f"Slack says {self._receiver.ended}")


async def _first_end(jobs: dict[str, Coroutine[Any, Any, Any]]) -> None:
    """Run jobs side by side; the first to end ends all, and its error is raised."""
    tasks = [asyncio.create_task(job, name=name) for name, job in jobs.items()]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
