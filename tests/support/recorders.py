"""A model beyond the network that answers chats, writes summaries and keeps memories, each as a test wants it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from bot.interfaces import ModelReply, ModelRequest
from tests.support.engine import AnsweringProvider, last_user, said

Answer = Callable[[ModelRequest], ModelReply | Awaitable[ModelReply]]


class FarModel(AnsweringProvider):
    """Tells by a request what it is for; `requests` has all of them in order."""

    needs_network: ClassVar[bool] = True

    def __init__(
        self,
        *,
        chat: Answer = lambda request: said(f"heard {last_user(request)[:20]}"),
        summary: Answer = lambda _: said("## People\nnobody yet"),
        memory: Answer = lambda _: said("Nothing new."),
    ) -> None:
        super().__init__(self._by_purpose)
        self.chat, self.summary, self.memory = chat, summary, memory

    def _by_purpose(self, request: ModelRequest) -> ModelReply | Awaitable[ModelReply]:
        if is_summary(request):
            return self.summary(request)
        return self.memory(request) if is_memory_run(request) else self.chat(request)

    @property
    def chats(self) -> list[ModelRequest]:
        """The requests of people's turns."""
        return [item for item in self.requests if not is_summary(item) and not is_memory_run(item)]

    @property
    def summaries(self) -> list[ModelRequest]:
        """The requests for summaries."""
        return list(filter(is_summary, self.requests))

    @property
    def memories(self) -> list[ModelRequest]:
        """The requests of memory runs."""
        return list(filter(is_memory_run, self.requests))


def is_summary(request: ModelRequest) -> bool:
    """Say whether a request asks for a summary."""
    return str(request.messages[0]["content"]).startswith("You keep the record")


def is_memory_run(request: ModelRequest) -> bool:
    """Say whether a request is one of a memory run."""
    return str(request.messages[0]["content"]).startswith("# Keeping a memory")


def whole(request: ModelRequest) -> str:
    """Return everything that a request says to the model."""
    return "\n".join(_text(row.get("content")) for row in request.messages)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content)
    return str(content or "")
