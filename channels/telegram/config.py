"""The `[channels.telegram]` section and the channel's fixed timing. Imports without the SDK."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from bot.config import SecretText
from bot.config.fields import split_listen
from channels.config import ChannelSection, allow_list


def _user_id(value: Any) -> Any:
    """Return a user or chat id in its text form."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("is not a Telegram id: ids are numbers")  # noqa: TRY004  # pydantic takes this one
    text = str(value).strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text!r} is not a Telegram id: ids are numbers; usernames can change hands")
    return text


def _token(value: SecretStr) -> SecretStr:
    """Refuse what cannot be a token; it stands in the path of every request."""
    if any(char.isspace() for char in value.get_secret_value()):
        raise ValueError("has white space inside")
    return value


_WEBHOOK_PORTS = (443, 80, 88, 8443)
"""Ports that Telegram calls (https://core.telegram.org/bots/api#setwebhook, read 2026-11-30)."""

_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")  # same page, secret_token
_SEEN_CHARS = 16  # the longest emoji sequences have fewer


def _webhook_url(value: str) -> str:
    """Refuse what Telegram would not call."""
    if not value:
        return value
    try:
        parts = urlsplit(value)
        port = parts.port or 443
    except ValueError:
        raise ValueError("is no URL") from None
    if parts.scheme != "https" or not parts.hostname or any(char.isspace() for char in value):
        raise ValueError("must begin with https:// and name a host: Telegram calls nothing else")
    if parts.username or parts.query or parts.fragment:
        raise ValueError("must have neither a user, nor a query, nor a fragment")
    if port not in _WEBHOOK_PORTS:
        known = ", ".join(map(str, _WEBHOOK_PORTS))
        raise ValueError(f"has port {port}, but Telegram calls only {known}; let a proxy listen there")
    return value


def _listen(value: str) -> str:
    """Refuse what is no address to listen on."""
    if split_listen(value) is None:
        raise ValueError("must be host:port, such as '127.0.0.1:8443'")
    return value


def _secret(value: SecretStr) -> SecretStr:
    if not _SECRET.fullmatch(value.get_secret_value()):
        raise ValueError("may have 1 to 256 letters, digits, _ and - only")
    return value


def _seen(value: str) -> str:
    value = value.strip()
    if len(value) > _SEEN_CHARS or (value.isascii() and value):
        raise ValueError('must be one emoji that Telegram has as a reaction, such as "👀", or "" for none')
    return value


class TelegramConfig(ChannelSection):
    """`[channels.telegram]`."""

    group_id: ClassVar[tuple[str, str]] = (r"-[0-9]+", "a group's id such as -1001234567890 (with its minus sign)")

    token: Annotated[SecretText, AfterValidator(_token)]
    api_url: str = Field(default="https://api.telegram.org", pattern=r"^https?://[^/\s]+")
    allow_from: Annotated[list[Annotated[str, BeforeValidator(_user_id)]] | Literal["*"], allow_list("111")] = Field(
        default=[]
    )
    mode: Literal["polling", "webhook"] = "polling"
    webhook_url: Annotated[str, AfterValidator(_webhook_url)] = ""
    webhook_listen: Annotated[str, AfterValidator(_listen)] = "127.0.0.1:8443"
    webhook_secret: Annotated[SecretText, AfterValidator(_secret)] | None = None
    seen_reaction: Annotated[str, AfterValidator(_seen)] = "👀"

    @model_validator(mode="after")
    def _webhook_is_complete(self) -> Self:
        if self.mode == "webhook" and not self.webhook_url:
            raise ValueError('mode = "webhook" needs webhook_url, the public https:// address that Telegram calls')
        return self

    @property
    def webhook_address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        address = split_listen(self.webhook_listen)
        assert address is not None, "checked above"
        return address

    @property
    def webhook_password(self) -> str:
        """What Telegram has to show: the configured secret, else one that only who knows the token can derive."""
        if self.webhook_secret is not None:
            return self.webhook_secret.get_secret_value()
        token = self.token.get_secret_value().encode()
        return hmac.new(token, b"secret of the webhook", hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the channel waits for what. Not configurable: these follow from the platform's habits."""

    poll_s: int = 30  # long poll; the platform allows up to 50 s
    poll_pause_s: float = 1.0  # between two polls that a server without long polling answers with nothing
    poll_margin_s: float = 10.0  # beyond `poll_s`, a silent connection counts as dead
    call_s: float = 20.0  # any other answer
    upload_s: float = 120.0  # sending a file of up to 50 MB
    retry_base_s: float = 0.5  # first wait after a failure; doubles
    retry_cap_s: float = 30.0
    conflict_s: float = 3.0  # pause after another poller took the connection
    webhook_check_s: float = 30.0  # how often Telegram is asked whether it reaches the webhook
    webhook_ready_s: float = 2.0  # how long the first look at the webhook may keep the channel from being ready
    webhook_body_s: float = 30.0  # how long an update may take to come in
    album_quiet_s: float = 1.0  # an album is complete when no part came for this long
