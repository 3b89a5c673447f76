"""What a run of a turn is given and what comes of it: values shared by the loop, the runner and its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bot.access.policy import AccessPolicy
from bot.agent.governor import ContextGovernor
from bot.agent.images import ImageStore
from bot.agent.models import Model, ModelShelf
from bot.config import LimitsSection
from bot.errors import ProviderError
from bot.interfaces import Steps
from bot.messages import Usage
from bot.records import Message, QueuedMessage, Turn
from bot.toolkit.context import RequestContext
from bot.toolkit.registry import ToolRegistry
from bot.toolkit.settings import RuntimeSettings
from bot.toolkit.waits import WaitingTurns

Offload = Callable[[RequestContext, str, str], str]
"""Keeps a tool's full output (request, digest, text) where `read_file` finds it; returns the path to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerParts:
    """What every run works with; the same for the life of the process."""

    models: ModelShelf
    registry: ToolRegistry
    steps: Steps
    governor: ContextGovernor
    policy: AccessPolicy
    limits: LimitsSection
    settings: RuntimeSettings
    offload: Offload
    images: ImageStore
    waits: WaitingTurns


class StopReason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"  # the model gave its final text
    STEPS = "steps"  # the limit of steps is reached
    BUDGET = "budget"  # the budget of the goal it works for is used up
    REPEAT = "repeat"  # the same call kept giving the same result
    BROKEN_CALL = "broken_call"  # the model kept sending calls that cannot be used
    EMPTY = "empty"  # the model gave no text, also when asked again
    NO_MODEL = "no_model"  # the model could not be had, or not in time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a run needs beside its turn.

    `history` are stored rows, `fresh` the rows of this turn that are not stored yet (its user message).
    `compose` makes the row of a message that joins the turn; it runs on the store's thread. `tools` names the
    tools that exist in this turn. `time_limit_s` bounds the whole run, None leaves it to the limits of its parts.
    `is_spent` is asked after each step whether the run has to come to its end.
    """

    request: RequestContext
    system: str
    history: Sequence[Message]
    fresh: Sequence[Message]
    compose: Callable[[QueuedMessage], Message]
    tools: frozenset[str]
    model: Model
    on_text: Callable[[str], None] | None = None
    time_limit_s: float | None = None
    is_spent: Callable[[RunOutcome], Awaitable[bool]] | None = None


@dataclass(slots=True, kw_only=True)
class RunOutcome:
    """How a run ended. `rows` are not stored yet: the ending of the turn stores them."""

    turn: Turn
    stop: StopReason
    text: str = ""
    rows: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)  # of this run
    recorded: Usage = field(default_factory=Usage)  # the part of it that steps have stored already
    answered_by_tool: bool = False  # a message to this very chat stands for the final text
    tool_words: str = ""  # what that message said
    silent: bool = False  # the model chose to say nothing, where nobody had asked
    concluded: bool = False  # that message ends the turn
    used: Counter[str] = field(default_factory=Counter)  # successful calls by tool name
    changed: Counter[str] = field(default_factory=Counter)  # those of them that did not only look
    culprit: str = ""  # the tool that a stop is about
    notice: str = ""
    context_tokens: int = 0  # what its last request held, as far as estimated; 0: it made none
    error: ProviderError | None = None  # why the model could not be had

    @property
    def unrecorded(self) -> Usage:
        """What the ending has to count."""
        return self.usage - self.recorded
