"""What a server answered, as the one form that the model gets: text between marks, pictures, and files it can open.

Everything a server says is data of others. What text cannot hold is kept as a file of the chat by `keep`, the
caller's, so that the model's file tools find it.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bot.security.untrusted import mark_untrusted, on_one_line
from bot.toolkit.base import ToolResult

TEXT_LIMIT_CHARS = 1_000_000
"""More of one answer is cut: a result is stored whole and offloaded to a file, which has to stay readable."""

IMAGE_LIMIT_BYTES = 8 * 1024 * 1024
"""Of one picture; providers refuse larger ones."""

IMAGES_AT_MOST = 8
FILE_LIMIT_BYTES = 20 * 1024 * 1024
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

Json = Mapping[str, Any]

Keep = Callable[[bytes, str], str]
"""Takes a file's content and its ending (".mp3"), returns the path under which the model can open it.

Raises:
    OSError: it cannot be kept.
"""


@dataclass(slots=True)
class _Gathered:
    """What the parts of one answer come to."""

    keep: Keep
    texts: list[str] = field(default_factory=list)
    blocks: list[dict[str, Any]] = field(default_factory=list)

    def add(self, part: Any) -> None:
        """Take one content block of the protocol."""
        if not isinstance(part, Mapping):
            return
        match part.get("type"):
            case "text":
                self.texts.append(_text(part.get("text")))
            case "image":
                self.picture(part.get("data"), _text(part.get("mimeType")))
            case "audio":
                self.file(part.get("data"), _text(part.get("mimeType")), what="audio")
            case "resource":
                self.resource(part.get("resource"))
            case "resource_link":
                self.link(part)
            case kind:
                self.texts.append(f"[a part of the unknown type {on_one_line(str(kind))} was left out]")

    def resource(self, resource: Any) -> None:
        """Take the contents of a resource: text as it is, pictures to look at, anything else as a file."""
        if not isinstance(resource, Mapping):
            return
        uri, mime = on_one_line(_text(resource.get("uri"))), _text(resource.get("mimeType"))
        if isinstance(resource.get("text"), str):
            self.texts.append(f"[resource {uri}]\n{resource['text']}" if uri else resource["text"])
        elif mime in _IMAGE_TYPES:
            self.picture(resource.get("blob"), mime)
        else:
            self.file(resource.get("blob"), mime, what=f"resource {uri}".strip())

    def link(self, part: Json) -> None:
        """Take the link to a resource that the model may read."""
        words = [_text(part.get(key)) for key in ("title", "name", "description")]
        shown = ", ".join(dict.fromkeys(word for word in words if word))
        self.texts.append(f"[link to resource {on_one_line(_text(part.get('uri')))}: {on_one_line(shown)}]")

    def picture(self, data: Any, mime: str) -> None:
        """Take a picture: one that models can look at becomes a block, any other a file."""
        content = _decoded(data)
        if content is None:
            self.texts.append("[a picture that cannot be decoded was left out]")
        elif mime in _IMAGE_TYPES and len(content) <= IMAGE_LIMIT_BYTES and len(self.blocks) < IMAGES_AT_MOST:
            url = f"data:{mime};base64,{base64.b64encode(content).decode()}"
            self.blocks.append({"type": "image_url", "image_url": {"url": url}})
            self.texts.append(f"[picture, {on_one_line(mime)}, {len(content):,} bytes]")
        else:
            self.file(data, mime, what="picture")

    def file(self, data: Any, mime: str, *, what: str) -> None:
        """Take content that only a file can hold."""
        content = _decoded(data)
        about = f"{what}, {on_one_line(mime) or 'of unknown type'}"
        if content is None:
            self.texts.append(f"[{about}: it cannot be decoded and was left out]")
        elif len(content) > FILE_LIMIT_BYTES:
            self.texts.append(f"[{about}, {len(content):,} bytes: too large, it was left out]")
        else:
            ending = mimetypes.guess_extension(mime.partition(";")[0].strip()) or ".bin"
            try:
                place = f"kept as {self.keep(content, ending)}"
            except OSError as exc:
                place = f"it could not be kept: {exc.strerror}"
            self.texts.append(f"[{about}, {len(content):,} bytes: {place}]")

    def result(self, source: str, *, is_error: bool, empty: str) -> ToolResult:
        """Return all of it, marked as the words of others."""
        text = "\n".join(part for part in self.texts if part)
        if len(text) > TEXT_LIMIT_CHARS:
            text = f"{text[:TEXT_LIMIT_CHARS]}\n[cut here: the answer has {len(text):,} characters]"
        if not text.strip():
            return ToolResult(empty, is_error=is_error, blocks=self.blocks)
        return ToolResult(mark_untrusted(text, source=source), is_error=is_error, blocks=self.blocks)


def call_result(answer: Json, *, source: str, keep: Keep) -> ToolResult:
    """Return a CallToolResult. `source` says whose words these are ("MCP server NAME, tool TOOL")."""
    gathered = _Gathered(keep)
    content = answer.get("content")
    for part in content if isinstance(content, list) else ():
        gathered.add(part)
    structured = answer.get("structuredContent")
    if structured is not None and not _is_said(structured, gathered.texts):
        gathered.texts.append(_as_json(structured))
    is_error = answer.get("isError") is True
    empty = "The tool failed without saying why." if is_error else "Done; the tool returned nothing."
    return gathered.result(source, is_error=is_error, empty=empty)


def resource_result(answer: Json, *, source: str, keep: Keep) -> ToolResult:
    """Return a ReadResourceResult."""
    gathered = _Gathered(keep)
    contents = answer.get("contents")
    for resource in contents if isinstance(contents, list) else ():
        gathered.resource(resource)
    return gathered.result(source, is_error=False, empty="The resource is empty.")


def prompt_result(answer: Json, *, source: str, keep: Keep) -> ToolResult:
    """Return a GetPromptResult: the messages of a prompt, each with its role."""
    gathered = _Gathered(keep)
    if description := _text(answer.get("description")):
        gathered.texts.append(description)
    messages = answer.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, Mapping):
            gathered.texts.append(f"{on_one_line(_text(message.get('role')))}:")
            gathered.add(message.get("content"))
    return gathered.result(source, is_error=False, empty="The prompt is empty.")


def _is_said(structured: Any, texts: list[str]) -> bool:
    """Say whether a text already is the structured content, as the protocol asks servers to repeat it.

    Libraries wrap the one text of a tool without a structure of its own: `{"result": "the text"}`.
    """
    only = next(iter(structured.values())) if isinstance(structured, Mapping) and len(structured) == 1 else None
    if isinstance(only, str) and only in texts:
        return True
    for text in texts:
        try:
            if orjson.loads(text) == structured:
                return True
        except orjson.JSONDecodeError:
            continue
    return False


def _as_json(structured: Any) -> str:
    try:
        return orjson.dumps(structured, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # integers beyond 64 bits, or hundreds of levels: the call was made, its result must be told
        pass
    try:
        return json.dumps(structured)
    except RecursionError:
        return "[structured content that is nested too deeply was left out]"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _decoded(data: Any) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) and data else None
    except (binascii.Error, ValueError):
        return None
