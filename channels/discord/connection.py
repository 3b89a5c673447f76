"""One connection to the gateway: what it tells goes to the receiver and the interactions, until it is lost for good."""

from __future__ import annotations

import asyncio
from asyncio import TaskGroup
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from bot.errors import ChannelAuthError
from bot.interfaces import ChannelContext, ChannelState
from bot.log import get_logger
from channels.discord import commands
from channels.discord.config import DiscordConfig, Timing
from channels.discord.content import BotIdentity
from channels.discord.errors import SessionLost
from channels.discord.events import Reader
from channels.discord.interactions import Interactions, OpenAnswers
from channels.discord.positions import Positions
from channels.discord.receiving import Receiver

if TYPE_CHECKING:  # importing the SDK costs 0.25 s; here it only names types
    from channels.discord.session import Session

Report = Callable[[ChannelState, str], None]

_log = get_logger(__name__)


class _Link:
    """Whether the gateway hears us."""

    def __init__(self) -> None:
        self._up, self._down = asyncio.Event(), asyncio.Event()
        self._down.set()

    def set(self, *, up: bool) -> None:
        """Note a change."""
        now, past = (self._up, self._down) if up else (self._down, self._up)
        now.set()
        past.clear()

    async def lost(self, patience_s: float) -> None:
        """Wait until it was down for longer than the patience."""
        while True:
            await self._down.wait()
            try:
                async with asyncio.timeout(patience_s):
                    await self._up.wait()
            except TimeoutError:
                return


class Connection:
    """Runs once."""

    def __init__(
        self,
        *,
        session: Session,
        context: ChannelContext,
        section: DiscordConfig,
        timing: Timing,
        positions: Positions,
        answers: OpenAnswers,
        open_chats: set[str],
        report: Report,
    ) -> None:
        self._session = session
        self._context = context
        self._section = section
        self._timing = timing
        self._report = report
        self._link = _Link()
        self._answers = answers
        self._takes_no_commands = False
        self._tasks: TaskGroup | None = None
        me = BotIdentity(id=session.bot_id)
        self._receiver = Receiver(
            call=session.api.call,
            directory=session.client,
            reader=Reader(me=me, policies=section.group_policy),
            intake=context.intake,
            positions=positions,
            open_chats=open_chats,
            clock=context.clock,
            timing=timing,
        )
        self._interactions = Interactions(
            call=session.api.call,
            me=me,
            intake=context.intake,
            answers=answers,
            positions=positions,
            timing=timing,
            policies=section.group_policy,
            language=context.language,
        )

    async def run(self) -> None:
        """Receive until cancelled.

        Raises:
            ChannelAuthError: the token is refused.
            SessionLost: the connection is gone and does not come back.
        """
        try:
            async with TaskGroup() as tasks:
                self._tasks = tasks
                self._session.client.sink = self._take
                tasks.create_task(self._receiver.run(), name="discord-receiver")
                tasks.create_task(self._session.client.listen(), name="discord-gateway")
                tasks.create_task(self._watch(), name="discord-watch")
        except ExceptionGroup as group:
            raise _telling(group) from group
        finally:
            self._tasks = None

    async def _watch(self) -> None:
        await self._link.lost(self._timing.reconnect_s)
        raise SessionLost("Discord's gateway did not come back")

    def _take(self, name: str, data: dict[str, Any]) -> None:
        """Take an event of the client; returns at once."""
        if self._tasks is None:
            return
        if name == "READY":
            self._answers.application_id = self._session.application_id  # told here for the first time, perhaps
            self._set_up()
            if self._section.commands:
                self._beside(self._sync_commands(), "discord-commands")
            _log.info("discord connected", bot_id=self._session.bot_id, servers=len(data.get("guilds") or ()))
            self._receiver.take(name, data)
        elif name == "UP":
            self._set_up()
        elif name == "DOWN":
            self._link.set(up=False)
            self._report(ChannelState.OFFLINE, "the connection to Discord's gateway was lost")
        elif name == "INTERACTION_CREATE":
            self._beside(self._interactions.handle(data), "discord-interaction")
        else:
            self._receiver.take(name, data)

    def _beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let something go on beside; while the connection is being given up it is left out."""
        if self._tasks is None:
            work.close()
            return
        try:
            self._tasks.create_task(work, name=name)
        except RuntimeError as exc:  # the group is shutting down
            work.close()
            _log.debug("left out at the end", task=name, error=str(exc))

    def _set_up(self) -> None:
        self._link.set(up=True)
        self._report(ChannelState.READY, self._session.warning)

    async def _sync_commands(self) -> None:
        wanted = commands.wanted(self._context.menu(), self._context.language)
        if wanted and not self._takes_no_commands:
            call, application_id = self._session.api.call, self._session.application_id
            self._takes_no_commands = not await commands.sync(call, application_id, wanted, self._timing)


def _telling(group: ExceptionGroup[Exception]) -> Exception:
    """Return the error of a group that says what to do next."""
    errors = [_telling(error) if isinstance(error, ExceptionGroup) else error for error in group.exceptions]
    return next((error for error in errors if isinstance(error, ChannelAuthError)), errors[0])
