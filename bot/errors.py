"""Every error the project raises on purpose.

DutifulError
├── ConfigError                 the configuration is wrong: exit 78
├── AlreadyRunning              another process holds the data directory
├── StoreError
│   ├── StoreUnavailable        disk full, read-only folder, damaged file (retryable)
│   ├── QueueFull               the inbox is at its limit: refuse visibly
│   └── StaleLease              another worker owns this turn now: stop at once
├── ChannelError                a platform call failed; `retryable`, `retry_after_s` say what helps
│   ├── ChannelAuthError        the token is refused: this channel is off until the config changes
│   ├── RateLimited             wait `retry_after_s`
│   ├── SendRejected            the platform will never take this message
│   ├── SendUncertain           the message may have arrived
│   ├── ChatGone                blocked, kicked, deleted: nothing can be sent there
│   └── ChatMigrated            the chat has another id now
├── ProviderError               a model call failed; see `kind`
└── ScheduleError               a time, zone or schedule that cannot be kept; text for the person
"""

from __future__ import annotations

from enum import StrEnum


class DutifulError(Exception):
    """Base of all; `retryable` says whether the same act may succeed later, unchanged."""

    retryable = False
    retry_after_s: float | None = None


class ConfigError(DutifulError):
    """The configuration cannot be used. The text names file, key and problem, never a secret's value."""


class AlreadyRunning(DutifulError):
    """Another live process holds the data directory's lock."""


class StoreError(DutifulError):
    """The database refused an operation."""


class StoreUnavailable(StoreError):
    """The database cannot be written now: full disk, read-only file, lock that does not end."""

    retryable = True


class QueueFull(StoreError):
    """The inbox holds its maximum of waiting messages."""

    retryable = True


class StaleLease(StoreError):
    """The turn belongs to another worker; whatever this one still does must not be written."""


class ChannelError(DutifulError):
    """A call to a chat platform failed."""

    def __init__(self, text: str, *, retryable: bool = True, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class ChannelAuthError(ChannelError):
    """The platform refuses the token."""

    def __init__(self, text: str) -> None:
        super().__init__(text, retryable=False)


class RateLimited(ChannelError):
    """The platform asks to wait `retry_after_s` seconds before anything more goes to this chat.

    `everywhere`: before anything more goes out at all, to whatever chat.
    """

    def __init__(self, text: str, *, retry_after_s: float, everywhere: bool = False) -> None:
        super().__init__(text, retry_after_s=retry_after_s)
        self.everywhere = everywhere


class SendRejected(ChannelError):
    """The platform will never accept this message; sending it again cannot help."""

    def __init__(self, text: str) -> None:
        super().__init__(text, retryable=False)


class SendUncertain(ChannelError):
    """The request may have reached the platform, its answer did not reach us."""


class ChatGone(ChannelError):
    """The chat cannot be written to: bot blocked, removed, or the chat deleted."""

    def __init__(self, text: str) -> None:
        super().__init__(text, retryable=False)


class ChatMigrated(ChannelError):
    """The chat lives on under `new_chat_id`."""

    def __init__(self, text: str, *, new_chat_id: str) -> None:
        super().__init__(text)
        self.new_chat_id = new_chat_id


class ProviderErrorKind(StrEnum):
    """What went wrong with a model call; each has one sentence for the user in `bot/texts`."""

    RATE_LIMIT = "rate_limit"  # 429; `retry_after_s` is the provider's own wait time
    QUOTA = "quota"  # out of credit: waiting does not help
    AUTH = "auth"  # key refused
    BAD_REQUEST = "bad_request"  # the request itself is refused
    NOT_FOUND = "not_found"  # no such model, or no such address
    CONTEXT_LENGTH = "context_length"  # the input does not fit the model's window
    WINDOW = "window"  # the model's window does not even hold the instructions and tools
    CONTENT_FILTER = "content_filter"  # the provider declined to answer
    TIMEOUT = "timeout"  # no first token, a stalled stream, or too long in total
    CONNECTION = "connection"  # refused, reset, DNS
    SERVER = "server"  # 5xx
    CUT = "cut"  # the stream ended before its end
    MALFORMED = "malformed"  # not the protocol: broken JSON, no choices


_RETRYABLE = frozenset(
    {
        ProviderErrorKind.RATE_LIMIT,
        ProviderErrorKind.TIMEOUT,
        ProviderErrorKind.CONNECTION,
        ProviderErrorKind.SERVER,
        ProviderErrorKind.CUT,
        ProviderErrorKind.MALFORMED,
    }
)


class ProviderError(DutifulError):
    """A model call failed. `detail` is for the log, already free of secrets; users see a sentence by `kind`.

    `window_tokens` is the model's window, where a CONTEXT_LENGTH error named it.
    """

    def __init__(
        self,
        kind: ProviderErrorKind,
        detail: str,
        *,
        retry_after_s: float | None = None,
        window_tokens: int | None = None,
    ) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retryable = kind in _RETRYABLE
        self.retry_after_s = retry_after_s
        self.window_tokens = window_tokens


class ScheduleError(DutifulError):
    """A schedule that cannot be kept; the text names the bad field and states the current local time."""
