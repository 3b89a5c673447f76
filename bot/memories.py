"""Long-term memory as values: whose it is, where it lies, what is still to be read for it.

The files themselves are the agent's part, their versions and marks the store's.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

from bot.messages import Address


class HomeKind(StrEnum):
    """Whose memory it is."""

    PERSON = "person"  # shown in the person's private chats
    CHAT = "chat"  # shown in a group, its threads included


_FOLDERS = {HomeKind.PERSON: "people", HomeKind.CHAT: "chats"}
_NAME_CHARS = 100
_DIGEST_CHARS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHome:
    """A person or a chat of which something may be remembered."""

    kind: HomeKind
    channel: str
    ident: str  # the platform's id of the person or chat

    @property
    def key(self) -> str:
        """The stable text form; what the rows of the store name."""
        return f"{self.kind}:{self.channel}:{self.ident}"

    @property
    def folder(self) -> str:
        """The path of its folder below the folder of all memories: different homes have different ones.

        Names have no capitals and nothing but letters, digits, "_", "-" and "%", so that they mean the same on
        every file system; where something was lost that way, or a name is long, a digest of the key ends it.
        """
        # The first "-" parts channel and id, since a channel's own is written otherwise.
        name = f"{_plain(self.channel).replace('-', '%2d')}-{_plain(self.ident)}"
        if len(name) > _NAME_CHARS or self.key != self.key.lower():
            digest = hashlib.sha256(self.key.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
            name = f"{name[: _NAME_CHARS - _DIGEST_CHARS - 1]}~{digest}"
        return f"{_FOLDERS[self.kind]}/{name}"

    @classmethod
    def of(cls, *, private: bool, address: Address, sender_id: str) -> MemoryHome:
        """Return whose memory a message belongs to: the person's in a private chat, else the chat's."""
        if private:
            return cls(kind=HomeKind.PERSON, channel=address.channel, ident=sender_id)
        return cls(kind=HomeKind.CHAT, channel=address.channel, ident=address.chat_id)

    @classmethod
    def parse(cls, key: str) -> MemoryHome:
        """Return the home of a key.

        Raises:
            ValueError: it is none.
        """
        kind, channel, ident = key.split(":", 2)
        return cls(kind=HomeKind(kind), channel=channel, ident=ident)


def _plain(text: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02x}" for byte in match[0].encode("utf-8", "surrogatepass"))

    return re.sub(r"[^a-z0-9_-]", escaped, text.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDue:
    """A home with rows (after `after`, up to `upto`) that were not read for its memory.

    `address` and `sender_id` are where and by whom was spoken last.
    """

    home: MemoryHome
    address: Address
    sender_id: str
    after: int
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStep:
    """What the end of a memory run makes true: rows after `after`, up to `upto`, are read; the file says `body`.

    Without effect on the mark when that is not at `after` any more. `body` None: as before.
    """

    home: MemoryHome
    after: int
    upto: int
    body: str | None
    reason: str
