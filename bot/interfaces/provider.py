"""What the engine asks of models, for text and for sound, and what commands and tools ask of running turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from bot.messages import (
    Address,
    ToolCall,
    Usage,
)
from bot.records import (
    Message,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call. `tools` are OpenAI function definitions; `tools_json` is the same, encoded once.

    `turn_messages` is how many messages the turn answers: the last so many of the people's in `messages`.
    """

    messages: Sequence[Message]
    turn_messages: int = 1
    tools: Sequence[Message] = ()
    tools_json: bytes = b""
    max_output_tokens: int | None = None
    reasoning_effort: str = ""  # instead of the configured one, where one is configured
    zone: str = "UTC"  # the person's, for a provider that reads times itself
    language: str = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A complete reply. `finish_reason` is the provider's: stop, length, tool_calls, content_filter."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str = ""  # which one answered, by its configured name; "" where that means nothing
    reasoning: str = ""
    reasoning_fields: Mapping[str, Any] = field(default_factory=dict)  # the same as it came, by field name
    malformed_calls: int = 0  # calls that had no usable name or shape and were dropped
    may_repeat: bool = False  # equal calls are no circle: each does what one message asked for
    notice: str = ""  # a sentence to show the person beside the reply, e.g. that a stand-in answered


class Provider(ABC):
    """A source of model replies. A module of `bot.providers` exposes concrete subclasses by `name`."""

    name: ClassVar[str]
    needs_network: ClassVar[bool] = True

    @abstractmethod
    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Return one whole reply; `on_text` gets visible text as it grows (the whole text so far).

        Raises:
            ProviderError: mapped; the caller decides about retries by `retryable`.
        """

    async def warm_up(self) -> None:
        """Import slow SDKs off the loop, so that the first turn does not stall."""

    async def close(self) -> None:
        """Let go of connections; idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Sound as a file's bytes; `suffix` is the ending its format is known by, such as ".ogg"."""

    data: bytes = field(repr=False)
    suffix: str
    mime: str


class Transcriber(Protocol):
    """Turns speech into text."""

    max_bytes: int  # of one recording

    async def transcribe(self, recording: Recording) -> str:
        """Return the words, '' when there are none. Raises `ProviderError`; an error has had its tries."""

    async def close(self) -> None:
        """Let go of connections; idempotent."""


class Speaker(Protocol):
    """Turns text into speech."""

    max_chars: int  # of one call

    async def speak(self, text: str) -> Recording:
        """Return the text read aloud. Raises `ProviderError`; an error has had its tries."""

    async def close(self) -> None:
        """Let go of connections; idempotent."""


class TurnControl(Protocol):
    """Influence on running turns, for commands and tools."""

    def stop(self, address: Address) -> bool:
        """End the running turn of an address and its subagents; False when none is running."""

    def running(self) -> int:
        """Return how many turns run now."""
