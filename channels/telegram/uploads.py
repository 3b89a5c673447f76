"""Files on their way out: which method carries a file, and which files go together as an album.

What Telegram does not take as what it is goes as a document.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.errors import SendRejected
from bot.log import get_logger
from bot.messages import Attachment
from channels.files import read_files, read_outbound
from channels.telegram.place import Place, is_about_markup
from channels.telegram.rendering import TextPart

if TYPE_CHECKING:  # importing the SDK costs 0.3 s; here it only names types
    from telegram import InputMedia

    from channels.telegram.api import BotApi

PHOTO_BYTES = 10 * 1024 * 1024
"""Largest photo (https://core.telegram.org/bots/api#sending-files, read 2026-11-29)."""

UPLOAD_BYTES = 50 * 1024 * 1024
"""Largest file a bot may send (same page); also the most that is put into one album, which is one request."""

ALBUM_FILES = 10
"""Most files of an album (https://core.telegram.org/bots/api#sendmediagroup, read 2026-11-30)."""

_log = get_logger(__name__)


class Carrier(StrEnum):
    """How a file is shown; the value names its field in the Bot API."""

    PHOTO = "photo"
    VIDEO = "video"
    ANIMATION = "animation"
    AUDIO = "audio"
    VOICE = "voice"
    DOCUMENT = "document"


_METHODS = {
    Carrier.PHOTO: "sendPhoto",
    Carrier.VIDEO: "sendVideo",
    Carrier.ANIMATION: "sendAnimation",
    Carrier.AUDIO: "sendAudio",
    Carrier.VOICE: "sendVoice",
    Carrier.DOCUMENT: "sendDocument",
}

# What goes together: photos and videos mixed, documents and audio each among themselves; nothing else.
_ALBUMS = {
    Carrier.PHOTO: "visual",
    Carrier.VIDEO: "visual",
    Carrier.AUDIO: "audio",
    Carrier.DOCUMENT: "document",
}

# By kind, the formats each method takes (https://core.telegram.org/bots/api#sendaudio, #sendvideo and
# #sendanimation, read 2026-11-30). Everything else is a document.
_FORMATS = {
    "image": {
        ".jpg": Carrier.PHOTO,
        ".jpeg": Carrier.PHOTO,
        ".png": Carrier.PHOTO,
        ".webp": Carrier.PHOTO,
        ".gif": Carrier.ANIMATION,
    },
    "audio": {".mp3": Carrier.AUDIO, ".m4a": Carrier.AUDIO},
    "video": {".mp4": Carrier.VIDEO, ".m4v": Carrier.VIDEO},
}


def carrier_of(file: Attachment) -> Carrier:
    """Return how a file is shown; decided by what is stored of it, so that a resumed send decides the same."""
    if file.kind == "voice":
        return Carrier.VOICE
    carrier = _FORMATS.get(file.kind, {}).get(Path(_name(file)).suffix.lower(), Carrier.DOCUMENT)
    if carrier is Carrier.PHOTO and (file.size_bytes or 0) > PHOTO_BYTES:
        return Carrier.DOCUMENT
    return carrier


def in_albums(files: Sequence[Attachment], *, last_alone: bool) -> list[tuple[Attachment, ...]]:
    """Return the files in order, those next to each other that make an album together.

    `last_alone`: the last one is to carry buttons, which an album cannot.
    """
    groups: list[list[Attachment]] = []
    room_bytes = 0
    album = ""
    for number, file in enumerate(files):
        kind = _ALBUMS.get(carrier_of(file), "")
        size = file.size_bytes or 0
        alone = last_alone and number == len(files) - 1
        if groups and kind and kind == album and not alone and len(groups[-1]) < ALBUM_FILES and size <= room_bytes:
            groups[-1].append(file)
            room_bytes -= size
        else:
            groups.append([file])
            album, room_bytes = kind, UPLOAD_BYTES - size
    return [tuple(group) for group in groups]


class Uploader:
    """Sends the files of one message."""

    def __init__(self, api: BotApi, place: Place) -> None:
        self._api = api
        self._place = place

    async def send_one(self, file: Attachment, caption: TextPart | None, params: dict[str, Any]) -> str:
        """Send one file and return the message's id.

        Raises:
            FileLeftOut: it cannot be read, or is too large.
            ChannelError: it was not sent, or `SendUncertain`.
        """
        content = await asyncio.to_thread(read_outbound, file, limit_bytes=UPLOAD_BYTES)
        carrier = carrier_of(file)
        if carrier is Carrier.PHOTO and len(content) > PHOTO_BYTES:
            carrier = Carrier.DOCUMENT
        params = {**params, **_caption(caption)}
        if carrier is not Carrier.DOCUMENT:
            try:
                return await self._post(carrier, file, content, params)
            except SendRejected as exc:
                # Too many pixels, another codec, a person who takes no voices: a document has no such limits.
                _log.warning("sent as document", carrier=str(carrier), chat=self._place.address.key, error=str(exc))
        try:
            return await self._post(Carrier.DOCUMENT, file, content, params)
        except SendRejected as exc:
            if caption is None or not caption.entities or not is_about_markup(exc):
                raise
            return await self._post(Carrier.DOCUMENT, file, content, {**params, "caption_entities": None})

    async def _post(self, carrier: Carrier, file: Attachment, content: bytes, params: dict[str, Any]) -> str:
        upload = self._api.file(content, _name(file))
        (platform_id,) = await self._place.post(_METHODS[carrier], {**params, carrier.value: upload})
        return platform_id

    async def send_album(
        self, files: Sequence[Attachment], caption: TextPart | None, params: dict[str, Any]
    ) -> list[str] | None:
        """Send files as one album and return the messages' ids; None when they do not make one, or it is refused."""
        contents, left_out = await read_files(files, limit_bytes=UPLOAD_BYTES)
        if left_out:
            return None
        media: list[InputMedia] = []
        for number, (file, content) in enumerate(contents):
            words = _caption(caption) if number == 0 else {}
            media.append(self._api.album_file(carrier_of(file).value, content, _name(file), words))
        try:
            return await self._place.post("sendMediaGroup", {**params, "media": media}, count=len(files))
        except SendRejected as exc:
            _log.warning("album refused, its files go one by one", chat=self._place.address.key, error=str(exc))
            return None


def _caption(caption: TextPart | None) -> dict[str, Any]:
    if caption is None:
        return {}
    made: dict[str, Any] = {"caption": caption.text}
    if caption.entities:
        made["caption_entities"] = list(caption.entities)
    return made


def _name(file: Attachment) -> str:
    return file.name or Path(file.path).name
