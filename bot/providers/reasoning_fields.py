"""Reasoning that arrives in fields of its own, put together while it streams and kept for its sender.

Field names as the endpoints have them: `reasoning_content` (DeepSeek, Kimi, Qwen, vLLM, llama.cpp), `reasoning`
(OpenRouter, Groq, Ollama), `reasoning_details` (OpenRouter: blocks with the signatures of the model behind it,
https://openrouter.ai/docs/use-cases/reasoning-tokens), `extra_content` (Gemini: thought signatures, beside a
text and on tool calls, https://ai.google.dev/gemini-api/docs/thought-signatures); read 2026-11-30. Which of
them go back to whom is decided in `openai_dialect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN_FIELDS = ("reasoning_content", "reasoning")
"""Reasoning as text; endpoints that send both send the same text twice."""

SIGNED_FIELDS = ("reasoning_details", "extra_content")
"""What only its sender understands, and wants back exactly as it was."""

REASONING_MODEL_FIELD = "reasoning_model"
"""On rows with reasoning fields: the model that wrote them. Signed thoughts of one model are refused by another."""

REPLAY_FIELDS = (*SIGNED_FIELDS, *PLAIN_FIELDS, REASONING_MODEL_FIELD)
"""What a governor lets through to a provider that decides itself what to send back."""

_GROWING = ("text", "summary", "data")  # parts of a block that come in pieces


class ReasoningFields:
    """Collects the fields of one reply."""

    def __init__(self) -> None:
        self._name = ""
        self._texts: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._extra: dict[str, Any] = {}

    def take(self, message: Mapping[str, Any]) -> bool:
        """Take a delta or a message; says whether it held any reasoning."""
        found = False
        for name in PLAIN_FIELDS:
            text = message.get(name)
            if isinstance(text, str) and text:
                self._name = self._name or name
                self._texts.append(text)
                found = True
                break
        blocks = message.get("reasoning_details")
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict):
                self._take_block(block)
                found = True
        extra = message.get("extra_content")
        if isinstance(extra, dict):
            merge_into(self._extra, extra)
        return found

    @property
    def text(self) -> str:
        """The reasoning as text, '' when it came only in blocks that nobody can read."""
        if self._texts:
            return "".join(self._texts)
        parts = (block.get("text") or block.get("summary") for block in self._blocks)
        return "\n".join(part for part in parts if isinstance(part, str))

    @property
    def fields(self) -> dict[str, Any]:
        """Everything by field name, as the history keeps it."""
        found: dict[str, Any] = {}
        if self._texts:
            found[self._name] = "".join(self._texts)
        if self._blocks:
            found["reasoning_details"] = self._blocks
        if self._extra:
            found["extra_content"] = self._extra
        return found

    def _take_block(self, piece: dict[str, Any]) -> None:
        known = next((block for block in reversed(self._blocks) if _continues(block, piece)), None)
        if known is None:
            self._blocks.append(dict(piece))
            return
        for key, value in piece.items():
            if key in _GROWING and isinstance(value, str) and isinstance(known.get(key), str):
                known[key] += value
            elif value is not None:
                known[key] = value


def merge_into(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add the values of `more`, tables inside tables too; nothing is lost to a null."""
    for key, value in more.items():
        inner = known.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            merge_into(inner, value)
        elif value is not None:
            known[key] = dict(value) if isinstance(value, dict) else value


def _continues(block: Mapping[str, Any], piece: Mapping[str, Any]) -> bool:
    """Say whether a piece belongs to a block: the same index and type, and no other id."""
    if block.get("type") != piece.get("type") or block.get("index") != piece.get("index"):
        return False
    # Without an index a signature ends its block: the next piece of the type begins another.
    if piece.get("index") is None and block.get("signature"):
        return False
    return block.get("id") is None or piece.get("id") in (None, block["id"])
