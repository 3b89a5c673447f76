"""Roles and the policy matrix (design 5). Pure: it decides, others enforce at the inbox and at every call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Literal

from bot.messages import ChatType, Risk, Role

AllowList = Collection[str] | Literal["*"]


class Decision(StrEnum):
    """What the matrix says of one act."""

    ALLOW = "allow"  # go ahead
    ASK = "ask"  # an owner has to agree first
    DENY = "deny"  # not in this chat, not for this role


_A, _Q, _N = Decision.ALLOW, Decision.ASK, Decision.DENY
_COLUMNS = (Risk.TALK, Risk.READ, Risk.NET, Risk.WRITE, Risk.EXECUTE, Risk.REACH, Risk.ADMIN)
_ROWS = {
    (Role.GUEST, ChatType.PRIVATE): (_A, _N, _N, _N, _N, _N, _N),
    (Role.GUEST, ChatType.GROUP): (_A, _N, _N, _N, _N, _N, _N),
    (Role.MEMBER, ChatType.PRIVATE): (_A, _A, _A, _A, _Q, _N, _N),
    (Role.MEMBER, ChatType.GROUP): (_A, _A, _A, _Q, _N, _N, _N),
    (Role.OWNER, ChatType.PRIVATE): (_A, _A, _A, _A, _Q, _A, _A),
    (Role.OWNER, ChatType.GROUP): (_A, _A, _A, _A, _Q, _Q, _N),
}
MATRIX: Mapping[tuple[Role, ChatType], Mapping[Risk, Decision]] = {
    key: dict(zip(_COLUMNS, row, strict=True)) for key, row in _ROWS.items()
}


class AccessPolicy:
    """Answers for one configuration.

    `owners` holds "channel:user id" entries; `allow_from` maps each channel to the user ids that may speak
    there, or "*". Names are never looked at. Everybody else is a stranger.
    """

    def __init__(self, *, owners: Collection[str], allow_from: Mapping[str, AllowList]) -> None:
        self._owners = frozenset(owners)
        self._allow_from = dict(allow_from)
        self._old_ids: dict[tuple[str, str], str] = {}

    def role_of(self, channel: str, sender_id: str) -> Role:
        """Return the role of a sender. An owner need not be in the channel's allow list."""
        role = self._named(channel, sender_id)
        old_id = self._old_ids.get((channel, sender_id))
        return self._named(channel, old_id) if role is Role.STRANGER and old_id is not None else role

    def moved(self, channel: str, old_id: str, new_id: str) -> bool:
        """Let a chat that writes in its own name and has another id now keep its role.

        Returns whether the configuration names the old id alone, so that somebody should write the new one there.
        """
        if old_id == new_id:
            return False
        self._old_ids[channel, new_id] = old_id
        everybody = self._allow_from.get(channel) == "*"
        named = self._named(channel, old_id) is not Role.STRANGER and self._named(channel, new_id) is Role.STRANGER
        return named and not everybody

    def _named(self, channel: str, sender_id: str) -> Role:
        if f"{channel}:{sender_id}" in self._owners:
            return Role.OWNER
        allowed = self._allow_from.get(channel, ())
        if sender_id and (allowed == "*" or sender_id in allowed):
            return Role.MEMBER
        return Role.STRANGER

    def decide(self, role: Role, chat_type: ChatType, risk: Risk) -> Decision:
        """Return what the matrix says; a stranger may nothing.

        An owner who would have to be asked is the one who asks: the act is allowed.
        """
        row = MATRIX.get((role, chat_type))
        decision = Decision.DENY if row is None else row[risk]
        if decision is Decision.ASK and role is Role.OWNER:
            return Decision.ALLOW
        return decision

    def refusal(self, role: Role, chat_type: ChatType, risk: Risk) -> str:
        """Return why an act is refused, as a sentence for the model, or '' when it is allowed."""
        decision = self.decide(role, chat_type, risk)
        if decision is Decision.ALLOW:
            return ""
        if decision is Decision.ASK:
            return f"a {role} needs an owner's agreement for this ({risk}); an owner can ask for it directly"
        where = "a group" if chat_type is ChatType.GROUP else "a private chat"
        return f"a {role} may not do this ({risk}) in {where}"
