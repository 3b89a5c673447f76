"""What is known of groups: which messages are meant for the bot, also under another id, and which are forums."""

from __future__ import annotations

from dataclasses import replace

from bot.interfaces import Cursors
from bot.log import get_logger
from bot.messages import Address
from bot.records import moved_prefix
from channels.config import GroupPolicies
from channels.telegram.content import CHANNEL

GENERAL = "1"
"""Id of the topic that every forum has (https://core.telegram.org/api/forum, read 2026-11-30)."""

_log = get_logger(__name__)


class Groups:
    """The policies of the configuration; what it says of a group's old id holds for the new one."""

    def __init__(self, policies: GroupPolicies, cursors: Cursors) -> None:
        self.policies = policies
        self._cursors = cursors
        self._forums: set[str] = set()

    async def restore(self) -> None:
        """Read which groups have moved so far; whoever moves a chat's rows keeps that.

        Raises:
            StoreError: the database cannot be read now.
        """
        prefix = moved_prefix(CHANNEL)
        for name, old_chat_id in (await self._cursors.starting_with(prefix)).items():
            self.moved(old_chat_id, name.removeprefix(prefix))

    def moved(self, old_chat_id: str, new_chat_id: str) -> None:
        """Let a group under its new id have the policy of the old one, unless it has one of its own."""
        chats = self.policies.chats
        if old_chat_id not in chats or new_chat_id in chats:
            return
        _log.warning(
            "group_policy names a group by an id it does not have any more; write the new one",
            old=old_chat_id,
            new=new_chat_id,
        )
        self.policies = replace(self.policies, chats={**chats, new_chat_id: chats[old_chat_id]})

    def note_forum(self, chat_id: str, *, is_forum: bool) -> None:
        """Remember whether a group has topics, as its newest message says."""
        if is_forum:
            self._forums.add(chat_id)
        else:
            self._forums.discard(chat_id)

    def action_thread(self, address: Address) -> str | None:
        """Return the thread to show an action such as typing in.

        Only for actions the General topic of a forum has to be named; messages that name it are refused.
        """
        if address.thread_id is None and address.chat_id in self._forums:
            return GENERAL
        return address.thread_id
