"""Scripted providers: a model that says or fails what the test wants, a stand-in that knows one word."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from bot.errors import ProviderError
from bot.interfaces import ModelReply, ModelRequest, Provider


class ScriptedProvider(Provider):
    """Says its outcomes one by one; the last one again and again."""

    name: ClassVar[str] = "scripted"
    needs_network: ClassVar[bool] = False

    def __init__(self, *outcomes: ModelReply | ProviderError) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[ModelRequest] = []
        self.warmed = self.closed = False

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        self.requests.append(request)
        outcome = self.outcomes[0] if len(self.outcomes) == 1 else self.outcomes.pop(0)
        if isinstance(outcome, ProviderError):
            raise outcome
        if on_text is not None:
            on_text(outcome.text)
        return outcome

    async def warm_up(self) -> None:
        self.warmed = True

    async def close(self) -> None:
        self.closed = True


class WordStandIn(ScriptedProvider):
    """Understands requests whose last user message contains `word`."""

    def __init__(self, word: str, *outcomes: ModelReply | ProviderError) -> None:
        super().__init__(*outcomes)
        self.word = word

    def understands(self, request: ModelRequest) -> bool:
        return self.word in str(request.messages[-1].get("content"))
