"""Answers that are read aloud too: in chats that asked for it, a voice message goes out beside the text.

Which words are read is `read_aloud`'s part; how an endpoint is asked, the speaker's. A voice that fails leaves the
text alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bot.agent.commands import CommandResult, Handler
from bot.agent.read_aloud import cut_at_sentence, words_to_read
from bot.errors import ProviderError
from bot.interfaces import Recording, Settings, Speaker
from bot.log import get_logger
from bot.messages import Attachment, OutboundKind, OutboundMessage
from bot.records import Ending, Turn
from bot.texts import say
from bot.toolkit.context import RequestContext

KEEP_S = 7 * 24 * 3_600
"""How long a voice is kept for sending; a platform that is away longer gets the text alone."""

_WORDS = {"on": True, "off": False}

_log = get_logger(__name__)


class Voice:
    """Adds voices to endings. Each turn waits for its own voice only, whatever other chats do."""

    def __init__(self, speaker: Speaker | None, settings: Settings, folder: Path) -> None:
        """Keep voices in `folder`, which must be out of the tools' reach: what lies there is sent as it is."""
        self._speaker = speaker
        self._settings = settings
        self._folder = folder

    async def added_to(self, ending: Ending) -> Ending:
        """Return the ending with a voice for its answer, if its chat wants one and it can be had."""
        at = next((n for n, message in enumerate(ending.outbound) if message.kind is OutboundKind.REPLY), None)
        if self._speaker is None or at is None:
            return ending
        answer = ending.outbound[at]
        if not await self._settings.voice(answer.address):
            return ending
        spoken = await self._spoken(self._speaker, answer)
        return replace(ending, outbound=(*ending.outbound[:at], spoken, *ending.outbound[at + 1 :]))

    async def _spoken(self, speaker: Speaker, answer: OutboundMessage) -> OutboundMessage:
        words = await asyncio.to_thread(words_to_read, answer.text)
        words = cut_at_sentence(words, speaker.max_chars)
        if not words:  # nothing but code or addresses
            return answer
        try:
            recording = await speaker.speak(words)
            path = await asyncio.to_thread(self._keep, recording)
        except ProviderError as exc:
            _log.warning("answer not read aloud", kind=exc.kind, detail=exc.detail)
            return answer
        except OSError as exc:
            _log.warning("voice not kept", error=str(exc))
            return answer
        voice = Attachment(
            kind="voice",
            name=f"voice{recording.suffix}",
            mime=recording.mime,
            size_bytes=len(recording.data),
            path=str(path),
        )
        return replace(answer, attachments=(*answer.attachments, voice))

    def _keep(self, recording: Recording) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        oldest = time.time() - KEEP_S
        for old in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another turn removes it at the same time
                if old.stat().st_mtime < oldest:
                    old.unlink()
        path = self._folder.absolute() / f"{hashlib.sha256(recording.data).hexdigest()}{recording.suffix}"
        partial = path.with_suffix(f".{time.monotonic_ns()}.partial")
        try:
            partial.write_bytes(recording.data)
            partial.replace(path)
        except OSError:  # a full disk is not to be filled further with parts
            partial.unlink(missing_ok=True)
            raise
        return path


class VoiceCommands:
    """`/voice`: whether a chat's answers are read aloud too."""

    def __init__(self, settings: Settings, *, can_speak: bool) -> None:
        """`can_speak` is False where no speech model is configured."""
        self._settings = settings
        self._can_speak = can_speak

    def handlers(self) -> Mapping[str, Handler]:
        """See `CommandGroup.handlers`."""
        return {"voice": self._voice}

    async def _voice(self, turn: Turn, request: RequestContext, arguments: str) -> CommandResult:
        language, wanted = request.language, arguments.lower()
        if not self._can_speak:
            return CommandResult(text=say(language, "voice.unavailable"))
        if wanted in _WORDS:
            await self._settings.set_voice(turn.address, on=_WORDS[wanted])
        elif wanted:
            return CommandResult(text=say(language, "voice.usage"))
        is_on = await self._settings.voice(turn.address)
        return CommandResult(text=say(language, "voice.on" if is_on else "voice.off"))
