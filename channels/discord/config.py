"""The `[channels.discord]` section and the channel's fixed timing. Imports without the SDK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from bot.config import SecretText
from channels.config import ChannelSection, allow_list


def _user_id(value: Any) -> Any:
    """Return a user id in its text form."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("is not a Discord id: ids are numbers")  # noqa: TRY004  # pydantic takes this one
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()):
        raise ValueError(
            f"{text!r} is not a Discord id: ids are numbers such as 80351110224678912 (Developer Mode, then"
            " Copy User ID); names can be changed and taken by others"
        )
    return text


def _token(value: SecretStr) -> SecretStr:
    """Refuse what cannot be a token; it stands in a header of every request."""
    secret = value.get_secret_value()
    if any(char.isspace() for char in secret):
        raise ValueError("has white space inside; paste the token alone, without the word Bot")
    if not (secret.isascii() and secret.isprintable()):
        raise ValueError("has characters that no token has")
    return value


class DiscordConfig(ChannelSection):
    """`[channels.discord]`. `group_policy` takes ids of threads, channels and servers; the narrowest wins."""

    group_id: ClassVar[tuple[str, str]] = (
        r"[0-9]+",
        "an id of a thread, channel or server, such as 41771983423143937 (Developer Mode, then Copy … ID)",
    )

    token: Annotated[SecretText, AfterValidator(_token)]
    api_url: str = Field(default="https://discord.com/api/v10", pattern=r"^https?://[^/\s]+")
    gateway_url: str = Field(default="wss://gateway.discord.gg/", pattern=r"^wss?://[^/\s]+")
    allow_from: Annotated[
        list[Annotated[str, BeforeValidator(_user_id)]] | Literal["*"], allow_list("80351110224678912")
    ] = Field(default=[])
    commands: bool = True  # keep the slash commands registered
    long_answers_in_threads: bool = (
        True  # in server channels, an answer of more than three messages goes on in a thread
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the channel waits for what. Not configurable: these follow from the platform's habits."""

    login_s: float = 30.0  # the calls that tell who we are
    application_s: float = 5.0  # of these the one that the gateway can stand in for
    call_s: float = 20.0  # any other answer, waiting for the route's own rate limit included
    place_s: float = 5.0  # to learn where a channel stands; it is taken as no thread then
    history_s: float = 10.0  # a page of what was missed
    overtake_s: float = 10.0  # how long messages wait for older ones of their channel that cannot be read
    overtake_again_s: float = 2.0  # ... that could not be read for so long already
    upload_s: float = 120.0  # a message with files
    answer_s: float = 2.5  # the first answer to an interaction, due within 3 s
    reconnect_s: float = 60.0  # the SDK may try to resume for so long; then everything begins anew
    identify_s: float = 5.0  # before a new session after an invalid one (one IDENTIFY every 5 s is allowed)
    close_s: float = 2.0  # for the goodbye to the gateway
    retry_base_s: float = 0.5  # first wait after a failure; doubles
    retry_cap_s: float = 30.0
