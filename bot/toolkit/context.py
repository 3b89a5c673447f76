"""What a tool is given: its dependencies when it is made, and this call's circumstances when it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from bot.access.policy import AccessPolicy
from bot.clock import Clock
from bot.config import JobsSection, LimitsSection, LlmSection, ToolsConfig
from bot.interfaces import FiringComposer, Signal, Store
from bot.messages import Address, ChatType, Origin, Role
from bot.records import Turn
from bot.toolkit.room import ToolRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Dependencies of tools, the same for the life of the process.

    `room` has what tools share, also which files a request may see. `data_dir` is for what a tool keeps beside
    the database, in a folder of its name. `delivers_jobs` is False when nothing in this process will fire a job
    (one-shot `chat -m`): a receipt then says so. `sections` are the configured plugin sections by `config_key`.
    """

    store: Store
    signal: Signal
    clock: Clock
    policy: AccessPolicy
    composer: FiringComposer
    workspace: Path
    data_dir: Path
    room: ToolRoom
    config: ToolsConfig = field(default_factory=ToolsConfig)
    llm: LlmSection = field(default_factory=LlmSection)
    limits: LimitsSection = field(default_factory=LimitsSection)
    jobs: JobsSection = field(default_factory=JobsSection)
    channels: Collection[str] = ()
    delivers_jobs: bool = True
    sections: Mapping[str, BaseModel] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The circumstances of a turn, as its tool calls see them."""

    turn: Turn
    address: Address
    chat_type: ChatType
    sender_id: str
    role: Role
    zone: str
    language: str
    message_id: str = ""
    reply_to: str = ""
    scope: str = "core"
    tools_away: str = ""  # which tools cannot be used now, and why, for the model

    @property
    def channel(self) -> str:
        """The platform's name."""
        return self.address.channel

    @property
    def chat_id(self) -> str:
        """The platform's id of the chat."""
        return self.address.chat_id

    @property
    def thread_id(self) -> str | None:
        """The thread or topic, None outside of one."""
        return self.address.thread_id

    @property
    def session_key(self) -> str:
        """The lane this turn runs in."""
        return self.turn.lane

    @property
    def turn_id(self) -> int:
        """The turn's row id."""
        return self.turn.id

    @property
    def origin(self) -> Origin:
        """Who caused the turn."""
        return self.turn.origin

    @property
    def tz(self) -> ZoneInfo:
        """The sender's zone as an object."""
        return ZoneInfo(self.zone)


_request: ContextVar[RequestContext] = ContextVar("dutiful_request")
_call_id: ContextVar[str] = ContextVar("dutiful_call_id", default="")
_progress: ContextVar[Callable[[str], None] | None] = ContextVar("dutiful_progress", default=None)


def set_request(request: RequestContext) -> None:
    """Set the circumstances for this task and every task it starts."""
    _request.set(request)


def set_call_id(call_id: str) -> None:
    """Set the id of the call that this task runs."""
    _call_id.set(call_id)


def current_request() -> RequestContext:
    """Return the circumstances of the running turn.

    Raises:
        LookupError: called outside of a turn.
    """
    return _request.get()


def current_call_id() -> str:
    """Return the id of the running call; '' outside of one."""
    return _call_id.get()


def set_progress(show: Callable[[str], None] | None) -> None:
    """Set what shows the person, in one line, how far this task's call is; None where nothing can be shown."""
    _progress.set(show)


def show_progress(line: str) -> None:
    """Show the person how far the running call is; without effect where nothing can be shown. Best effort."""
    show = _progress.get()
    if show is not None:
        show(line)
