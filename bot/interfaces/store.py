"""The store as a whole, and the smaller nouns it keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from bot.interfaces.conversations import History, HistorySearch, Memory, Sessions, Summaries
from bot.interfaces.jobs import Jobs
from bot.interfaces.outbox import Outbox
from bot.interfaces.turns import Inbox, Steps, Turns
from bot.messages import Address, Usage
from bot.records import DeadLetter, Goal, OutboxChange, OutboxPage, Person, StoreStatus, Subagent


class People(Protocol):
    """What people told the bot about themselves, by platform id."""

    async def get(self, channel: str, user_id: str) -> Person:
        """Return a person; unknown ones have empty fields."""

    async def save(self, person: Person) -> None:
        """Write a person's settings."""

    async def note_zone(self, channel: str, user_id: str, zone: str) -> None:
        """Keep the zone of a person's profile; it counts until they choose one themselves."""


class Cursors(Protocol):
    """Named positions in platform streams, such as Telegram's update offset."""

    async def get(self, name: str, *, max_age_us: int | None = None) -> str | None:
        """Return a cursor, or None when unset or older than `max_age_us`."""

    async def set(self, name: str, value: str, *, durable: bool = False) -> None:
        """Commit a cursor; `durable`: so that power loss does not undo it."""

    async def starting_with(self, prefix: str) -> dict[str, str]:
        """Return all cursors whose names begin so, by name."""

    async def remove(self, name: str) -> None:
        """Forget a cursor; nothing happens where there is none."""


class Subagents(Protocol):
    """Background helpers."""

    async def get(self, subagent_id: str) -> Subagent | None:
        """Return one, or None."""

    async def running(self, lane: str) -> int:
        """Return how many are at work whose outcome comes back to this lane."""


class Goals(Protocol):
    """Sustained goals of sessions. They go on by the endings of turns and change through `Unit`."""

    async def current(self, session_id: int) -> Goal | None:
        """Return the goal that is under way in a session, open or paused, or None."""

    async def get(self, goal_id: str) -> Goal | None:
        """Return one, also when it is over, or None."""


class Settings(Protocol):
    """Settings changed at run time, and notes of conversations, both written by `Unit`; what chats have chosen."""

    async def all(self) -> Mapping[str, int]:
        """Return the changed settings by name."""

    async def chosen_model(self, address: Address) -> str:
        """Return the preset that a chat (and thread) has chosen, "" for the default model."""

    async def voice(self, address: Address) -> bool:
        """Return whether answers at an address are read aloud too."""

    async def set_voice(self, address: Address, *, on: bool) -> None:
        """Commit whether they are; the address must have had a turn."""

    async def notes(self, session_id: int) -> Mapping[str, str]:
        """Return a conversation's notes by key, in the order of the keys."""


class Overview(Protocol):
    """Questions of people who look after the bot."""

    async def status(self) -> StoreStatus:
        """Return counts and the newest dead letters."""

    async def usage(self, address: Address, *, since_us: int) -> Usage:
        """Return what turns of a chat (and thread) used that ended since then, its tasks and subagents included."""

    async def dead_letters(self, *, limit: int) -> list[DeadLetter]:
        """Return the newest dead letters, newest first."""

    async def outbox(self, *, before_id: int | None = None, limit: int) -> OutboxPage:
        """Return the newest messages (below an id) that wait, are being sent, are dead or uncertain; oldest first."""

    async def resend(self, ids: Collection[int] | None) -> OutboxChange:
        """Queue dead letters again in their old place, None: all of them; what waits is tried now.

        Parts that are out stay out, and a chat that was closed is tried. One that was named although it is uncertain
        goes out from its first part in doubt on. All or none.
        """

    async def drop(self, ids: Collection[int] | None) -> OutboxChange:
        """Forget messages that are not being sent, None: all dead letters. All or none."""

    async def prune(self, *, older_than_us: int) -> int:
        """Forget bookkeeping that was settled before then, dead letters excepted; returns the rows removed.

        Identities of forgotten messages no longer guard against repeats. Conversations stay.
        """

    async def retire(self, *, older_than_us: int | None) -> int:
        """Forget conversations in which nothing was said since then; returns the rows removed.

        Never one that a turn is running in or a message waits for. None: only the oldest of an address that has
        more than 10,000 archived ones.
        """


class Store(Protocol):
    """All nouns of one database."""

    inbox: Inbox
    turns: Turns
    steps: Steps
    history: History
    sessions: Sessions
    history_search: HistorySearch
    summaries: Summaries
    memory: Memory
    outbox: Outbox
    jobs: Jobs
    people: People
    cursors: Cursors
    subagents: Subagents
    goals: Goals
    settings: Settings
    overview: Overview
