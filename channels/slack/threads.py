"""The threads in which people talk with us, and whose turn it is there.

Slack has no reply to one message: going on in a thread is how people answer. In a channel a message without a
mention counts as an answer to us when it comes right after our words, or after the same person's words to us. It does
not when it begins by naming somebody else.
"""

from __future__ import annotations

import sys
from collections import OrderedDict

from channels.slack.content import Identity, Json, instant_us

MOST = 500
"""Threads that are remembered; the one that was quiet longest is forgotten."""

_OURS = "*"  # our words came last


class Threads:
    """In memory; what is new or forgotten is handed to whoever keeps it."""

    def __init__(self) -> None:
        # Who wrote last (we, a person to us, or '' for others), and when, by Slack's clock.
        self._last: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()
        self._new: dict[tuple[str, str], None] = {}
        self._forgotten: dict[tuple[str, str], None] = {}

    def restore(self, channel: str, thread_ts: str) -> None:
        """Know a thread of an earlier run; whose words came last there is taken to be us."""
        self._last.setdefault((channel, thread_ts), (_OURS, 0))

    def we_spoke(self, channel: str, thread_ts: str | None, ts: str) -> None:
        """Our words stand in a thread."""
        if thread_ts:
            self._note((channel, thread_ts), _OURS, ts)

    def spoke_to_us(self, channel: str, thread_ts: str | None, sender: str, ts: str) -> None:
        """Somebody wrote to us in a thread."""
        if thread_ts:
            self._note((channel, thread_ts), sender, ts)

    def spoke_otherwise(self, event: Json) -> None:
        """Somebody wrote something in a thread that is not for us."""
        key = _key(event)
        if key in self._last:
            self._note(key, "", str(event.get("ts") or ""))

    def is_to_us(self, event: Json, me: Identity) -> bool:
        """Say whether a message without a mention goes on with a talk with us."""
        if not event.get("thread_ts"):
            return False
        text = str(event.get("text") or "").lstrip()
        if text.startswith(("<@", "<!")):
            return False
        last, last_us = self._last.get(_key(event), (_OURS, sys.maxsize))
        if last_us > (instant_us(str(event.get("ts") or "")) or 0):  # it was written before what we know of
            return event.get("parent_user_id") == me.user_id
        return last == _OURS or (last != "" and last == event.get("user"))

    def of(self, channel: str) -> list[str]:
        """Return the known threads of a conversation, quiet ones first."""
        return [ts for where, ts in self._last if where == channel]

    def new(self) -> list[tuple[str, str]]:
        """Return the threads that came and are not `kept` yet."""
        return list(self._new)

    def kept(self, thread: tuple[str, str]) -> None:
        """A new thread was written down."""
        self._new.pop(thread, None)

    def forgotten(self) -> list[tuple[str, str]]:
        """Return the threads that were dropped and are not `removed` yet."""
        return list(self._forgotten)

    def removed(self, thread: tuple[str, str]) -> None:
        """A forgotten thread is written down no more."""
        self._forgotten.pop(thread, None)

    def _note(self, key: tuple[str, str], last: str, ts: str) -> None:
        instant = instant_us(ts) or 0
        if key not in self._last:
            self._new[key] = None
            self._forgotten.pop(key, None)
        if instant >= self._last.get(key, ("", 0))[1]:
            self._last[key] = (last, instant)
        self._last.move_to_end(key)
        if len(self._last) > MOST:
            gone, _ = self._last.popitem(last=False)
            self._new.pop(gone, None)
            self._forgotten[gone] = None


def _key(event: Json) -> tuple[str, str]:
    return str(event.get("channel") or ""), str(event.get("thread_ts") or "")
