"""The `generate_image` tool: pictures from a model, saved among the chat's files.

The request and what comes back are in `bot/web/images.py`; how files are written, in `bot/security/`.
"""

from __future__ import annotations

import asyncio
import io
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import count as counting
from typing import Any

from bot.clock import from_us
from bot.messages import Replay, Risk
from bot.security.workspace import FileTooLarge, PathMissing, PathRefused, PathTaken, WorkspaceView
from bot.toolkit.base import Tool, ToolResult, tool_parameters
from bot.toolkit.chat_files import one_line, size_text
from bot.toolkit.context import ToolContext, current_request
from bot.toolkit.file_types import file_type, is_whole_image
from bot.toolkit.schema import ArraySchema, IntegerSchema, StringSchema, tool_parameters_schema
from bot.web.images import MAX_PICTURES, ImageMaker, ImagesFailed, Made, Picture

MAX_PROMPT_CHARS = 32_000
"""The API's limit (parameter types of the openai package 3.57, read 2026-11-30)."""

MAX_REFERENCES = 4
MAX_REFERENCE_BYTES = 10 * 1024 * 1024
SIZES = ("auto", "1024x1024", "1536x1024", "1024x1536")
FOLDER = "images"

_REFERENCE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})  # the API's
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}
_SLUG_CHARS = 40


@tool_parameters(
    tool_parameters_schema(
        prompt=StringSchema(
            "What the picture is to show, with its style; for a change of reference pictures, what is to change.",
            min_length=1,
            max_length=MAX_PROMPT_CHARS,
        ),
        reference_images=ArraySchema(
            StringSchema("Path of a picture, relative to this chat's folder.", min_length=1),
            description="Pictures of this chat to work from: PNG, JPEG or WebP (default none). They are sent out.",
            max_items=MAX_REFERENCES,
        ),
        size=StringSchema("Width x height in pixels (default: the model decides).", enum=SIZES),
        count=IntegerSchema(description="How many pictures (default 1). Each costs.", minimum=1, maximum=MAX_PICTURES),
        required=["prompt"],
        additional_properties=False,
    )
)
class GenerateImageTool(Tool):
    """Makes pictures by a model and saves them in the chat's folder.

    Parameters: `prompt` (at most 32,000 characters), `reference_images` (up to 4 paths of this chat: PNG, JPEG or
    WebP, 10 MiB each), `size` (auto, 1024x1024, 1536x1024, 1024x1536), `count` (1 to 4, default 1). It needs
    `[tools.image] model`; address and key are those of `[llm]` unless set there. Limits: 180 s for making the
    pictures, 30 s for fetching those that come as addresses, 20 MiB each. Result: the paths of the new files, under
    images/, ready as media of `message`; no file is ever overwritten. Errors: refused by the content policy, no
    money, rate limit, a fault of the endpoint; when an answer did not come or was cut off, that the pictures may
    have been billed. Refused: reference pictures outside of the chat's files.
    """

    risk = Risk.NET
    replay = Replay.ONCE
    needs = "[tools.image] model"
    timeout_s = 240.0

    def __init__(self, ctx: ToolContext, maker: ImageMaker) -> None:
        self._files = ctx.room.files
        self._clock = ctx.clock
        self._maker = maker

    @classmethod
    def enabled(cls, ctx: ToolContext) -> bool:
        """See `Tool.enabled`: without a model there is no such tool."""
        return ctx.config.image.model is not None

    @classmethod
    def create(cls, ctx: ToolContext) -> GenerateImageTool:
        """Build the tool from the ToolContext."""
        image, llm = ctx.config.image, ctx.llm
        base_url = image.base_url or llm.base_url
        # The model's key is for the model's server alone.
        key = image.api_key or (llm.api_key if base_url == llm.base_url else None)
        maker = ImageMaker(
            ctx.room.web,
            base_url=base_url,
            api_key=key.get_secret_value() if key else "",
            model=image.model or "",
        )
        tool = cls(ctx, maker)
        if not key and not base_url:
            tool.unavailable = "there is no key: set [tools.image] api_key"
        return tool

    @property
    def name(self) -> str:
        """See `Tool.name`."""
        return "generate_image"

    @property
    def description(self) -> str:
        """See `Tool.description`."""
        return (
            "Make pictures from a description, or from up to 4 pictures of this chat and what to change in them. They "
            "are saved as files; nobody sees them until you send their paths as media with message. To look at one "
            "yourself use read_file. Every call costs money."
        )

    async def execute(
        self, *, prompt: str = "", reference_images: Sequence[str] = (), size: str = "", count: int = 1, **_: Any
    ) -> ToolResult:
        """Make the pictures and save them; failures and refusals are results."""
        if not prompt.strip():
            return ToolResult.error("prompt is empty.")
        request = current_request()
        view = self._files.view(request)
        try:
            references = await asyncio.to_thread(_references, view, reference_images)
        except (PathMissing, FileTooLarge, _NoReference) as exc:
            return ToolResult.error(f"reference_images: {exc}.")
        except PathRefused as exc:
            return ToolResult.refused(f"reference_images: {exc}.")
        try:
            made = await self._maker.make(prompt, count=count, size=size, references=references)
        except ImagesFailed as exc:
            return ToolResult.error(f"There is no picture: {exc}.")
        day = from_us(self._clock.now_us(), request.tz).date().isoformat()
        return await asyncio.to_thread(_kept, view, f"{FOLDER}/{day}-{_slug(prompt)}", made)


class _NoReference(Exception):
    """A file that is no picture to work from."""


def _references(view: WorkspaceView, paths: Sequence[str]) -> list[Picture]:
    return [_reference(view, path) for path in paths]


def _reference(view: WorkspaceView, path: str) -> Picture:
    try:
        with view.open_read(path) as file:
            data = file.read(MAX_REFERENCE_BYTES + 1)
    except OSError as exc:
        raise _NoReference(f"{one_line(path)} cannot be read ({exc.strerror})") from None
    if len(data) > MAX_REFERENCE_BYTES:
        raise _NoReference(f"{one_line(path)} is larger than {size_text(MAX_REFERENCE_BYTES)}")
    mime = file_type(io.BytesIO(data), limit_bytes=len(data)).mime
    if mime not in _REFERENCE_TYPES or not is_whole_image(data, mime):
        raise _NoReference(f"{one_line(path)} is not a whole PNG, JPEG or WebP picture ({mime})")
    return Picture(mime=mime, data=data)


def _kept(view: WorkspaceView, stem: str, made: Made) -> ToolResult:
    """Save what was made and tell about it: also what was paid for and cannot be used."""
    saved, problems, numbers = [], list(made.problems), counting(1)
    for picture in made.pictures:
        try:
            shown = _saved(view, stem, picture, numbers)
        except PathRefused as exc:
            problems.append(f"it was made but not saved: {exc}")
        else:
            saved.append(f"- {one_line(shown)} ({picture.mime}, {size_text(len(picture.data))})")
    faults = [f"A picture was paid for but cannot be used: {problem}." for problem in problems]
    if not saved:
        return ToolResult.error("\n".join(faults))
    head = "1 picture was" if len(saved) == 1 else f"{len(saved)} pictures were"
    end = "Send with message by giving the paths as media; read_file lets you look at one."
    return ToolResult("\n".join((f"{head} made and saved:", *saved, *faults, end)))


def _saved(view: WorkspaceView, stem: str, picture: Picture, numbers: Iterator[int]) -> str:
    """Write a picture under the next free number and return its path.

    Raises:
        PathRefused: it cannot be written.
    """
    while True:
        with view.slot(f"{stem}-{next(numbers)}.{_ENDINGS[picture.mime]}", make_parents=True) as slot:
            try:
                slot.create(picture.data)
            except PathTaken:
                continue
            return slot.shown


def _slug(prompt: str) -> str:
    """Return the prompt's first words for a file name: ASCII letters and digits with "-" between them."""
    plain = unicodedata.normalize("NFKD", prompt[: 4 * _SLUG_CHARS]).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)
    return "-".join(words)[:_SLUG_CHARS].strip("-") or "picture"
