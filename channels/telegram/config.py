"""The `[channels.telegram]` section and the channel's fixed timing. Imports without the SDK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from bot.config import SecretText
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


class TelegramConfig(ChannelSection):
    """`[channels.telegram]`."""

    token: Annotated[SecretText, AfterValidator(_token)]
    api_url: str = Field(default="https://api.telegram.org", pattern=r"^https?://[^/\s]+")
    allow_from: Annotated[list[Annotated[str, BeforeValidator(_user_id)]] | Literal["*"], allow_list("111")] = Field(
        default=[]
    )


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
    album_quiet_s: float = 1.0  # an album is complete when no part came for this long
