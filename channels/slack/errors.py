"""What Slack's error strings mean for us. Imports without the SDK.

Strings: https://docs.slack.dev/reference/methods/chat.postMessage and its neighbours (read 2026-11-30).
"""

from __future__ import annotations

from bot.errors import ChannelAuthError, ChannelError, ChatGone, RateLimited, SendRejected, SendUncertain

_TOKEN = {
    "invalid_auth": "the token is not valid",
    "not_authed": "no token was sent",
    "account_inactive": "the token belongs to a removed app or workspace",
    "token_revoked": "the token was revoked",
    "token_expired": "the token has expired",
    "not_allowed_token_type": "it is not the kind of token this takes",
    "org_login_required": "the workspace is being moved to an organization",
    "team_access_not_granted": "the app may not use this workspace",
}

_GONE = {
    "channel_not_found": "the channel does not exist or the bot cannot see it",
    "not_in_channel": "the bot is not in the channel (any more)",
    "is_archived": "the channel is archived",
    "is_inactive": "the channel is archived",
    "cannot_dm_bot": "this is a bot, which takes no direct messages",
    "user_disabled": "the person's account is deactivated",
    "user_not_found": "there is no such person",
    "restricted_action": "the workspace does not let the bot write in this channel",
    "restricted_action_read_only_channel": "the channel is read-only for the bot",
    "messages_tab_disabled": "the app's messages tab is switched off",
}

_UNCERTAIN = frozenset({"internal_error", "fatal_error"})
"""Documented as "some aspect of the operation" may have succeeded."""

_LATER = frozenset(
    {"service_unavailable", "request_timeout", "team_added_to_org", "accesslimited", "ekm_access_denied"}
)
_RATE = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_DEFAULT_WAIT_S = 5.0  # where a refusal for haste names no time
NOT_THERE = frozenset({"unknown_method", "method_deprecated"})
"""Of a method that this server does not have."""


class Refused(SendRejected):  # named like its family in bot/errors.py
    """Slack refuses a call with an error string, `code`."""

    def __init__(self, text: str, *, code: str) -> None:
        super().__init__(text)
        self.code = code


class PageMissing(Refused):  # likewise
    """A page says that there is no such method, which is not how Slack says it: perhaps only a proxy's outage."""


class ServerTrouble(ChannelError):  # likewise
    """Slack, or what stands before it, answers a call with a 5xx: what changes something in place can be repeated."""


class AccountInactive(ChannelAuthError):  # likewise
    """What Slack says of a removed app, and of a person who left: only auth.test tells these apart."""


def refusal(
    method: str, code: str, *, sends: bool, retry_after_s: float | None = None, needed: str = "", key: str = "bot_token"
) -> ChannelError:
    """Return the error for a refused call. `sends`: repeating the call could double a message."""
    if code in _RATE:
        wait_s = _DEFAULT_WAIT_S if retry_after_s is None else retry_after_s
        return RateLimited(f"{method}: {code}", retry_after_s=wait_s)
    if code in _TOKEN:
        text = f"Slack refuses the token ({method}: {code}): {_TOKEN[code]}; check [channels.slack] {key}"
        return AccountInactive(text) if code == "account_inactive" else ChannelAuthError(text)
    if code in _GONE:
        return ChatGone(f"{method}: {code}: {_GONE[code]}")
    if code in _UNCERTAIN:
        return SendUncertain(f"{method}: {code}") if sends else ChannelError(f"{method}: {code}")
    if code in _LATER:
        return ChannelError(f"{method}: {code}", retry_after_s=retry_after_s)
    if code == "missing_scope":
        return Refused(f"{method}: the app lacks the scope {needed or '(not named)'}", code=code)
    return Refused(f"{method}: {code}", code=code)
