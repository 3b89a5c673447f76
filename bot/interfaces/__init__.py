"""The seams: what the engine asks of a store, a signal, a channel, a provider.

Implementations live on higher floors (`bot/store`, `bot/bus.py`, `channels`, `bot/providers`) and are put
together on the roof only. Verbs that write are atomic: they return after the commit, or raise
`StoreUnavailable` with nothing changed. Verbs that take a `Turn` raise `StaleLease` when its lease is lost.
"""

from __future__ import annotations

from bot.interfaces.channel import (
    Channel,
    ChannelContext,
    ChannelState,
    Draft,
    Intake,
    MenuCommand,
    SendProgress,
    Signal,
    Topic,
)
from bot.interfaces.conversations import History, HistorySearch, Memory, Sessions, Summaries
from bot.interfaces.jobs import FiringComposer, Jobs
from bot.interfaces.outbox import Outbox
from bot.interfaces.provider import ModelReply, ModelRequest, Provider, Recording, Speaker, Transcriber, TurnControl
from bot.interfaces.store import Cursors, Goals, Overview, People, Settings, Store, Subagents
from bot.interfaces.turns import Inbox, Steps, Turns, Unit

__all__ = [
    "Channel",
    "ChannelContext",
    "ChannelState",
    "Cursors",
    "Draft",
    "FiringComposer",
    "Goals",
    "History",
    "HistorySearch",
    "Inbox",
    "Intake",
    "Jobs",
    "Memory",
    "MenuCommand",
    "ModelReply",
    "ModelRequest",
    "Outbox",
    "Overview",
    "People",
    "Provider",
    "Recording",
    "SendProgress",
    "Sessions",
    "Settings",
    "Signal",
    "Speaker",
    "Steps",
    "Store",
    "Subagents",
    "Summaries",
    "Topic",
    "Transcriber",
    "TurnControl",
    "Turns",
    "Unit",
]
