"""What the sections of all chat platforms have in common: who may speak, and which messages of a group are meant.

Imports without any SDK. How a platform's ids look is its own section's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, InstanceOf, field_validator

from bot.config import Section


class GroupPolicy(StrEnum):
    """Which messages of a group the bot answers."""

    MENTION = "mention"  # those that mention it, use a command with its name, or reply to it
    ALL = "all"  # every message it is shown
    OFF = "off"  # none


_STRICTEST_FIRST = (GroupPolicy.OFF, GroupPolicy.MENTION, GroupPolicy.ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPolicies:
    """The policy of all groups, and of those that have one of their own, by the platform's id of the chat."""

    default: GroupPolicy = GroupPolicy.MENTION
    chats: Mapping[str, GroupPolicy] = field(default_factory=dict)

    def of(self, *chat_ids: str) -> GroupPolicy:
        """Return the policy of the first id that has one: give the narrowest place first (thread, channel, server)."""
        return next((self.chats[chat_id] for chat_id in chat_ids if chat_id in self.chats), self.default)

    def of_some(self, *chat_ids: str) -> GroupPolicy:
        """Return the policy of a place of which only some ids are known, its own first: the strictest it may be under.

        It may lie in any of the chats that have one of their own.
        """
        if chat_ids and chat_ids[0] in self.chats:
            return self.chats[chat_ids[0]]
        possible = {self.of(*chat_ids), *self.chats.values()}
        return next(policy for policy in _STRICTEST_FIRST if policy in possible)


def _policy(value: Any, key: str = "") -> GroupPolicy:
    try:
        return GroupPolicy(value)
    except ValueError:
        at = f"{key}: " if key else ""
        raise ValueError(f'{at}must be "mention", "all" or "off"') from None


def _policies(value: Any) -> Any:
    """Turn one policy, or a table of a default and chats, into `GroupPolicies`."""
    if isinstance(value, GroupPolicies):
        return value
    if not isinstance(value, dict):
        return GroupPolicies(default=_policy(value))
    chats = {str(chat_id): _policy(policy, str(chat_id)) for chat_id, policy in value.items()}
    default = chats.pop("default", GroupPolicy.MENTION)
    return GroupPolicies(default=default, chats=chats)


def allow_list(example: str) -> BeforeValidator:
    """Refuse what is neither a list nor "*" in words that say how it is written; `example` is an id as in TOML."""

    def check(value: Any) -> Any:
        if value == "*":
            return value
        if not isinstance(value, list):
            raise ValueError(f'must be a list of ids such as [{example}], or "*" for everybody')  # noqa: TRY004  # pydantic takes this one
        if "*" in value:
            raise ValueError('write allow_from = "*", without brackets, to let everybody in')
        return value

    return BeforeValidator(check)


class ChannelSection(Section):
    """Base of the platforms' sections. `allow_from` is declared by each, with the form of its own ids."""

    model_config = ConfigDict(hide_input_in_errors=True)

    group_id: ClassVar[tuple[str, str]] = (".+", "")
    """How the platform's ids of groups look: a regular expression, and words with an example."""

    group_policy: Annotated[InstanceOf[GroupPolicies], BeforeValidator(_policies)] = Field(
        default_factory=GroupPolicies
    )

    @field_validator("group_policy")
    @classmethod
    def _names_groups_by_id(cls, policies: GroupPolicies) -> GroupPolicies:
        """Refuse a key that can be no group's id: its policy would silently never hold."""
        form, words = cls.group_id
        for chat_id in policies.chats:
            if not re.fullmatch(form, chat_id):
                raise ValueError(f"{chat_id!r} is not {words}")
        return policies
