"""What a Slack message holds: words in plain text, files, shared messages. Pure; imports without the SDK.

Shapes: https://docs.slack.dev/reference/events/message and /messaging/formatting-message-text (read 2026-11-30).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.messages import Attachment, Quote, clean_text

Json = Mapping[str, Any]

Names = Callable[[str], str]
"""Returns the shown name of a user id, '' when it is not known without asking."""

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
"""What reading a payload of an unknown shape raises."""

_MARKED = re.compile(r"<([^<>\s][^<>]*)>")
_SPACES = " \t\n,:"
_LINK_FILES = frozenset({"external", "tombstone", "hidden_by_limit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who we are in the workspace; `bot_id` and `team_id` are '' where nobody told them."""

    user_id: str
    bot_id: str
    team_id: str

    @property
    def account(self) -> str:
        """The installation, for identities of messages and for cursors."""
        return self.user_id

    @property
    def mention(self) -> re.Pattern[str]:
        """Matches a mention of us in a message's raw text."""
        return re.compile(rf"<@{re.escape(self.user_id)}(\|[^<>]*)?>")


def mentions(event: Json, me: Identity) -> bool:
    """Say whether a message names us."""
    return me.mention.search(str(event.get("text") or "")) is not None


def words_of(event: Json, me: Identity, names: Names) -> str:
    """Return what a message says as plain text, without the mentions of us."""
    raw = str(event.get("text") or "")
    return plain_text(_without(raw, me.mention), names)


def plain_text(raw: str, names: Names) -> str:
    """Return text as people see it: Slack's escapes for people, channels, links and `&<>` resolved."""
    out: list[str] = []
    at = 0
    for match in _MARKED.finditer(raw):
        out.append(_unescaped(raw[at : match.start()]))
        out.append(_unescaped(_resolved(match[1], names)))
        at = match.end()
    out.append(_unescaped(raw[at:]))
    return clean_text("".join(out))


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _resolved(inside: str, names: Names) -> str:
    """Return what stands for the inside of a `<…>`."""
    target, _, label = inside.partition("|")
    match target[:1]:
        case "@":
            return f"@{label or names(target[1:]) or target[1:]}"
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            if target.startswith(("!subteam^", "!date^")):
                return label or target[1:]
            return f"@{label.removeprefix('@') or target[1:]}"
    address = target.removeprefix("mailto:").removeprefix("tel:")
    if not label or label in {target, address} or target.removesuffix("/") in {f"http://{label}", f"https://{label}"}:
        return address if target != address else target
    return f"{label} ({target})"


def _without(text: str, marks: re.Pattern[str]) -> str:
    """Return `text` without the marks and the white space that stood around them."""
    while (match := marks.search(text)) is not None:
        before, after = text[: match.start()], text[match.end() :]
        if not before.strip():
            before, after = "", after.lstrip(_SPACES)
        elif before[-1].isspace() and (not after or not after[0].isalnum()):
            before = before.rstrip(" \t")
        text = before + after
    return text.strip()


def instant_us(ts: str) -> int | None:
    """Return the instant of a message's ts, microseconds; None for what is no ts."""
    seconds, _, rest = ts.partition(".")
    if not (seconds.isascii() and seconds.isdigit() and (not rest or (rest.isascii() and rest.isdigit()))):
        return None
    return int(seconds) * 1_000_000 + int(rest[:6].ljust(6, "0") or 0)


def attachments_of(event: Json) -> tuple[Attachment, ...]:
    """Return the message's files by reference: their private address, else their id."""
    files = event.get("files")
    if not isinstance(files, list):
        return ()
    return tuple(_file(item) for item in files if isinstance(item, dict))


def _file(item: Json) -> Attachment:
    mime = str(item.get("mimetype") or "")
    size = item.get("size")
    address = item.get("url_private_download") or item.get("url_private") or ""
    mode = str(item.get("mode") or "")
    error = ""
    if mode in _LINK_FILES or item.get("is_external"):
        reason = {"tombstone": "it was deleted", "hidden_by_limit": "it is hidden by the workspace's plan"}
        error = f"not fetched: {reason.get(mode, 'it is not kept by Slack itself')}"
        address = ""
    return Attachment(
        kind=_kind(item, mime),
        name=clean_text(str(item.get("name") or item.get("title") or "")),
        mime=mime,
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) else None,
        ref="" if error else str(address or item.get("id") or ""),
        error=error,
    )


def _kind(item: Json, mime: str) -> str:
    if item.get("subtype") == "slack_audio":
        return "voice"
    if item.get("subtype") == "slack_video":
        return "video"
    family = mime.partition("/")[0]
    return family if family in {"image", "audio", "video"} else "document"


def shared_message(event: Json, me: Identity, names: Names) -> Quote | None:
    """Return the message that somebody shared along with this one, if there is one."""
    attached = event.get("attachments")
    if not isinstance(attached, list):
        return None
    for item in attached:
        if not isinstance(item, dict) or not (item.get("is_share") or item.get("is_msg_unfurl")):
            continue
        text = plain_text(str(item.get("text") or item.get("fallback") or ""), names)
        if text.strip():
            return Quote(
                message_id=str(item.get("ts") or ""),
                author=_author(item, event, me),
                text=text,
                name=clean_text(str(item.get("author_name") or "")),
            )
    return None


def _author(item: Json, event: Json, me: Identity) -> str:
    author = item.get("author_id")
    if author == me.user_id or (me.bot_id and item.get("bot_id") == me.bot_id):
        return "bot"
    return "sender" if author and author == event.get("user") else "other"
