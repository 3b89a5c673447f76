"""Which messages of a group are meant for the bot, also after the group got another id."""

from __future__ import annotations

from dataclasses import replace

from bot.interfaces import Cursors
from bot.log import get_logger
from bot.records import moved_prefix
from channels.config import GroupPolicies
from channels.telegram.content import CHANNEL

_log = get_logger(__name__)


class GroupRules:
    """The policies of the configuration; what it says of a group's old id holds for the new one."""

    def __init__(self, policies: GroupPolicies, cursors: Cursors) -> None:
        self.policies = policies
        self._cursors = cursors

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
