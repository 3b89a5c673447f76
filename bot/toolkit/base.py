"""What a tool is and what it returns.

A tool holds no state of a turn: who asks and where is in the request context, what a tool needs to live
comes through `create`. Checking and running calls is the registry's part, finding tools the loader's.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex, TypeVar

from bot.messages import Replay, Risk
from bot.toolkit.compiled import CompiledSchema
from bot.toolkit.schema_index import SchemaError

DEFAULT_TIMEOUT_S = 60.0

_ToolT = TypeVar("_ToolT", bound="Tool")


class ToolResult(str):
    """A tool's answer: text for the model, and what the runner must know about it.

    `is_error`: the call failed. `is_refused`: a wall (workspace, network, policy) said no, so that advice to
    try another way would be wrong; always an error too. `blocks`: content blocks (dicts with a "type", such
    as text and image_url) for what text cannot hold; the text then describes them. Operations on the text
    keep the flags; an f-string gives a plain str, for that there is `with_text`.
    """

    __slots__ = ("blocks", "is_error", "is_refused")

    blocks: tuple[dict[str, Any], ...]
    is_error: bool
    is_refused: bool

    def __new__(
        cls,
        text: object = "",
        *,
        is_error: bool = False,
        is_refused: bool = False,
        blocks: Sequence[dict[str, Any]] = (),
    ) -> Self:
        """Make a result; `text` may be anything that has a `str`."""
        result = super().__new__(cls, text)
        result.is_error = is_error or is_refused
        result.is_refused = is_refused
        result.blocks = tuple(blocks)
        return result

    @classmethod
    def error(cls, text: object) -> Self:
        """Return the result of a call that failed; the model is advised to try another way."""
        return cls(text, is_error=True)

    @classmethod
    def refused(cls, text: object) -> Self:
        """Return the result of a call that a wall refused; the model is not told to try around it."""
        return cls(text, is_refused=True)

    def with_text(self, text: str) -> Self:
        """Return the same result with other words."""
        return type(self)(text, is_error=self.is_error, is_refused=self.is_refused, blocks=self.blocks)

    def __add__(self, other: str) -> Self:
        return self.with_text(super().__add__(other))

    def __radd__(self, other: str) -> Self:
        return self.with_text(str.__add__(other, self))

    def __getitem__(self, key: SupportsIndex | slice) -> Self:
        return self.with_text(super().__getitem__(key))

    def __mod__(self, values: Any) -> Self:
        return self.with_text(super().__mod__(values))

    def format(self, *args: object, **kwargs: object) -> Self:
        """As `str.format`, flags kept."""
        return self.with_text(super().format(*args, **kwargs))

    def strip(self, chars: str | None = None, /) -> Self:
        """As `str.strip`, flags kept."""
        return self.with_text(super().strip(chars))

    def lstrip(self, chars: str | None = None, /) -> Self:
        """As `str.lstrip`, flags kept."""
        return self.with_text(super().lstrip(chars))

    def rstrip(self, chars: str | None = None, /) -> Self:
        """As `str.rstrip`, flags kept."""
        return self.with_text(super().rstrip(chars))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Self:
        """As `str.replace`, flags kept."""
        return self.with_text(super().replace(old, new, count))

    def removeprefix(self, prefix: str, /) -> Self:
        """As `str.removeprefix`, flags kept."""
        return self.with_text(super().removeprefix(prefix))

    def removesuffix(self, suffix: str, /) -> Self:
        """As `str.removesuffix`, flags kept."""
        return self.with_text(super().removesuffix(suffix))


class Tool(ABC):
    """Something the model may call.

    A subclass gives `name`, `description`, `parameters` and `execute`. The registry reads the first three
    once, when the tool is registered.
    """

    config_key: str = ""
    """Name of the config section that `config_cls` describes; empty: the tool has none."""

    _plugin_discoverable: bool = True
    """Whether the loader may make this class a tool by itself; False for wrappers built by other code."""

    _scopes: ClassVar[set[str] | frozenset[str]] = frozenset({"core"})
    """Where the tool exists: "core" (turns), "subagent", "memory"."""

    risk: Risk = Risk.READ
    """The least any call touches, for listings; one call is judged by `risk_for`.

    A plugin has to say it: one that does not is taken to be of risk `execute`.
    """

    needs: str = ""
    """What has to be configured before `enabled` says yes, for listings."""

    replay: Replay = Replay.ONCE
    """What may happen to a call that a crash cut short."""

    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long one call may take unless the configuration says otherwise."""

    compiles_late: bool = False
    """Whether the schema is compiled off the event loop after registration, or else by the first call.

    For tools that come by the hundred; what does not compile is set aside when that is found.
    """

    unavailable: str = ""
    """Why no call can work in this installation (no sandbox, no key); empty: the tool is usable.

    Such a tool is not offered to the model, a call of it is refused with this reason, `dutiful tools` shows it.
    """

    repeatable: bool = False
    """Whether equal calls with equal results are normal (polling), not a loop."""

    ends_turn: bool = False
    """Whether a successful call, whose words stand for the answer, ends the turn: the model is not asked again."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name the model calls: letters, digits, `_` and `-`, at most 64."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What the tool does and when to use it, for the model."""

    if TYPE_CHECKING:  # a type checker cannot see that `tool_parameters` supplies it

        @property
        def parameters(self) -> dict[str, Any]: ...  # noqa: D102 - the other branch has it

    else:

        @property
        @abstractmethod
        def parameters(self) -> dict[str, Any]:
            """JSON Schema of the arguments object."""

    @abstractmethod
    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run one call whose arguments were validated.

        Returns text, a `ToolResult`, or content blocks. Exceptions become error results. Arguments come by
        their schema names only (`*args` lets subclasses declare what they have); a tool whose schema is not
        its own takes `self` as positional-only: `self, /`.
        """

    @property
    def read_only(self) -> bool:
        """Whether a call changes nothing anywhere."""
        return False

    @property
    def exclusive(self) -> bool:
        """Whether a call must run alone even though it changes nothing."""
        return False

    @property
    def concurrency_safe(self) -> bool:
        """Whether a call may run beside other such calls."""
        return self.read_only and not self.exclusive

    def risk_for(self, params: dict[str, Any]) -> Risk:  # noqa: ARG002 - subclasses look at it
        """Return what the worst outcome of this call touches; `params` are validated."""
        return self.risk

    def time_limit_s(self, params: dict[str, Any]) -> float:  # noqa: ARG002 - subclasses look at it
        """Return how long this call may take, unless the configuration has a limit for the tool."""
        return self.timeout_s

    def only_looks(self, params: dict[str, Any]) -> bool:  # noqa: ARG002 - subclasses look at it
        """Whether this call changes nothing, even if other calls of this tool do."""
        return self.read_only

    def stands_for_answer(self, params: dict[str, Any]) -> str | None:  # noqa: ARG002 - subclasses look at it
        """Return the words that this call, if it succeeded, put into the turn's own chat in place of its final text.

        None when the final text is to be sent as ever.
        """
        return None

    @classmethod
    def config_cls(cls) -> type[Any] | None:
        """Return the pydantic model of the config section `config_key`, or None."""
        return None

    @classmethod
    def enabled(cls, ctx: Any) -> bool:  # noqa: ARG003 - subclasses look at it
        """Whether the tool can work here; `ctx` is the ToolContext."""
        return True

    @classmethod
    def create(cls, ctx: Any) -> Tool:  # noqa: ARG003 - subclasses look at it
        """Build the tool from the ToolContext."""
        return cls()

    def compiled(self) -> CompiledSchema:
        """Return the parameter schema ready for use, compiled on first need.

        Raises:
            SchemaError: the schema does not compile.
        """
        known: CompiledSchema | None = self.__dict__.get("_compiled")
        if known is None:
            schema = self.parameters
            known = CompiledSchema({} if schema is None else schema)
            self.__dict__["_compiled"] = known
        return known

    def cast_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with small mends by the schema ("12" -> 12); what cannot be mended stays."""
        try:
            cast: dict[str, Any] = self.compiled().cast(params)
        except SchemaError:
            return params
        return cast

    def validate_params(self, params: dict[str, Any]) -> list[str]:
        """Return what is wrong with the arguments, at most 8 messages; empty means valid."""
        if not isinstance(params, dict):
            return [f"parameters must be an object, got {type(params).__name__}"]
        try:
            return self.compiled().errors(params)
        except SchemaError as exc:
            return [f"parameters cannot be checked: {exc}"]

    def to_schema(self) -> dict[str, Any]:
        """Return the tool as OpenAI's function definition."""
        parameters = self.parameters
        if not isinstance(parameters, dict) or not parameters:
            parameters = {"type": "object", "properties": {}}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


def tool_parameters(schema: dict[str, Any]) -> Callable[[type[_ToolT]], type[_ToolT]]:
    """Return a class decorator that gives a `Tool` its `parameters`, a fresh copy of `schema` each time."""
    kept = copy.deepcopy(schema)

    def attach(cls: type[_ToolT]) -> type[_ToolT]:
        def parameters(self: Tool) -> dict[str, Any]:  # noqa: ARG001 - the schema is the class's
            return copy.deepcopy(kept)

        # By setattr: to the type checker the abstract property is a member that nobody assigns to.
        setattr(cls, "parameters", property(parameters, doc="JSON Schema of the arguments object."))  # noqa: B010
        cls.__abstractmethods__ = frozenset(cls.__abstractmethods__ - {"parameters"})
        return cls

    return attach
