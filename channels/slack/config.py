"""The `[channels.slack]` section and the channel's fixed timing. Imports without the SDK."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from bot.config import SecretText
from channels.config import ChannelSection, allow_list

_ID = re.compile(r"[UWB][A-Z0-9]{1,30}")
"""Users are U…, in an Enterprise organization also W…; bots without a user are B…
(https://docs.slack.dev/reference/objects/user-object, read 2026-11-30)."""

_KINDS = {"xapp-": "an app-level token", "xoxb-": "a bot token", "xoxp-": "a user's token"}


def _member_id(value: Any) -> Any:
    """Return a member's id."""
    if not isinstance(value, str):
        raise ValueError("is not a Slack member id: ids are text such as U0123ABCD")  # noqa: TRY004  # pydantic takes this one
    text = value.strip()
    if not _ID.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a Slack member id such as U0123ABCD (profile, ⋮, Copy member ID);"
            " names can be changed by whoever bears them"
        )
    return text


def _kind(secret: SecretStr, wrong: tuple[str, ...], advice: str) -> SecretStr:
    """Refuse what is another kind of token, without showing it."""
    value = secret.get_secret_value()
    if any(char.isspace() for char in value):
        raise ValueError("has white space inside")
    for prefix in wrong:
        if value.startswith(prefix):
            raise ValueError(f"is {_KINDS[prefix]} ({prefix}…); {advice}")
    return secret


def _bot_token(secret: SecretStr) -> SecretStr:
    return _kind(secret, ("xapp-", "xoxp-"), "bot_token takes the Bot User OAuth Token (xoxb-…)")


def _app_token(secret: SecretStr) -> SecretStr:
    return _kind(secret, ("xoxb-", "xoxp-"), "app_token takes the App-Level Token (xapp-…)")


class SlackConfig(ChannelSection):
    """`[channels.slack]`."""

    group_id: ClassVar[tuple[str, str]] = (
        r"[CG][A-Z0-9]+",
        "a channel's id such as C0123ABCD (at the bottom of its About tab)",
    )

    bot_token: Annotated[SecretText, AfterValidator(_bot_token)]
    app_token: Annotated[SecretText, AfterValidator(_app_token)]
    api_url: str = Field(default="https://slack.com/api/", pattern=r"^https?://[^/\s]+")
    allow_from: Annotated[
        list[Annotated[str, BeforeValidator(_member_id)]] | Literal["*"], allow_list('"U0123ABCD"')
    ] = Field(default=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the channel waits for what. Not configurable: these follow from the platform's habits."""

    call_s: float = 20.0  # any answer of the Web API
    upload_s: float = 120.0  # the bytes of a file, either way
    connect_s: float = 10.0  # until a new connection says hello
    heartbeat_s: float = 10.0  # a ping each; without an answer within half of it the connection is dead
    overlap_s: float = 15.0  # how long a connection that was told to end is still heard
    ack_s: float = 3.0  # Slack waits this long for an acknowledgement, then sends again
    gate_s: float = 1.5  # what an event may wait for its conversation's missed messages: well within `ack_s`
    overtake_s: float = 10.0  # how long messages wait for older ones that cannot be read
    retry_base_s: float = 0.5  # first wait after a failure; doubles
    retry_cap_s: float = 30.0
    flush_s: float = 5.0  # between two writes of what was seen
    rescan_s: float = 30.0  # before a conversation that could not be caught up is tried again
