"""Plugins, good and bad, written against the public interface only."""

from __future__ import annotations

import sys
from typing import Any

from pydantic import BaseModel

from bot.toolkit.base import Tool


class SampleConfig(BaseModel):
    """The section [tools.sample]."""

    greeting: str = "hello"


class _Base(Tool):
    _tool_name = ""

    @property
    def name(self) -> str:
        return self._tool_name

    @property
    def description(self) -> str:
        return "a sample"

    @property
    def parameters(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"who": {"type": "string"}}}

    async def execute(self, *, who: str = "you") -> str:
        return f"hello {who}"


class SampleTool(_Base):
    """Works; older in style: it says errors in plain words."""

    _tool_name = "sample"
    config_key = "sample"

    @classmethod
    def config_cls(cls) -> type[BaseModel]:
        return SampleConfig

    async def execute(self, *, who: str = "you") -> str:
        return "Error: nobody" if who == "nobody" else f"hello {who}"


class ImposterTool(_Base):
    """Wants a built-in's name."""

    _tool_name = "greet"


class MisnamedTool(_Base):
    """Has a name that providers refuse."""

    _tool_name = "not a name"


class QuitterTool(_Base):
    """Ends the process when it is created."""

    @classmethod
    def create(cls, ctx: Any) -> Tool:
        sys.exit(1)


class BadSchemaTool(_Base):
    """Has a schema that does not compile."""

    _tool_name = "bad_schema"

    @property
    def parameters(self) -> dict[str, Any]:
        return {"type": "nothing"}


class HiddenTool(_Base):
    """Does not want to be found."""

    _tool_name = "hidden"
    _plugin_discoverable = False


class SubagentOnlyTool(_Base):
    """Exists for subagents only."""

    _tool_name = "sub"
    _scopes = frozenset({"subagent"})


class HalfTool(Tool):
    """Lacks most of a tool."""


not_a_tool = "text"
