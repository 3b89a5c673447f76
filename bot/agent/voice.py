"""Answers that are read aloud too: in chats that asked for it, a voice message goes out behind the text.

Which words are read is `read_aloud`'s part; how an endpoint is asked, the speaker's. A voice that fails leaves the
text alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bot.agent.commands import CommandResult, Handler
from bot.agent.read_aloud import cut_at_sentence, words_to_read
from bot.bus import MessageBus
from bot.errors import ProviderError, StoreError
from bot.interfaces import Recording, Settings, Speaker
from bot.log import get_logger
from bot.messages import Address, Attachment, OutboundKind, OutboundMessage
from bot.records import Ending, Turn
from bot.texts import say
from bot.toolkit.context import RequestContext

KEEP_S = 7 * 24 * 3_600
"""How long a voice is kept for sending; a platform that is away longer gets the text alone."""

AT_ONCE = 8
"""How many answers are spoken at the same time."""

WAITING_LIMIT = 4
"""How many answers of one chat wait to be spoken, that under way included; what comes beyond stays text."""

_WORDS = {"on": True, "off": False}

_log = get_logger(__name__)


class Voice:
    """Reads answers aloud once their turns have ended; of one chat one after the other, of several at once.

    What is spoken becomes a message of its own behind the text, which never waits for it. It is not kept before it is
    in the outbox: a process that ends in between loses the voice, and only that.
    """

    def __init__(self, speaker: Speaker | None, settings: Settings, bus: MessageBus, folder: Path) -> None:
        """Keep voices in `folder`, which must be out of the tools' reach: what lies there is sent as it is."""
        self._speaker = speaker
        self._settings = settings
        self._bus = bus
        self._folder = folder
        self._waiting: dict[Address, deque[OutboundMessage]] = {}
        self._tasks: dict[Address, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._closed = False

    def turn_ended(self, ending: Ending) -> None:
        """Consider an ending that is committed: its answer is read aloud if its chat wants that. Returns at once."""
        answer = next((message for message in ending.outbound if message.kind is OutboundKind.REPLY), None)
        if self._speaker is None or answer is None or self._closed:
            return
        address = answer.address
        waiting = self._waiting.setdefault(address, deque())
        if len(waiting) >= WAITING_LIMIT:
            _log.warning("answer not read aloud, too many wait", chat=address.key)
            return
        waiting.append(answer)
        if address not in self._tasks:
            task = asyncio.create_task(self._speak_all(self._speaker, address), name=f"voice for {address.key}")
            self._tasks[address] = task
            task.add_done_callback(lambda ended: self._ended(address, ended))

    def stop(self, address: Address) -> bool:
        """Speak nothing more of what an address has been answered so far; False when nothing was to be spoken."""
        task = self._tasks.get(address)
        if task is None:
            return False
        task.cancel()
        return True

    async def settled(self) -> None:
        """Wait until nothing is to be spoken any more."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def close(self) -> None:
        """End everything under way; what is not spoken yet never will be. Idempotent."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, address: Address, task: asyncio.Task[None]) -> None:
        del self._tasks[address], self._waiting[address]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("voice failed", chat=address.key, error=f"{type(error).__name__}: {error}")

    async def _speak_all(self, speaker: Speaker, address: Address) -> None:
        waiting = self._waiting[address]
        while waiting:
            try:
                if await self._settings.voice(address):
                    async with self._places:
                        await self._speak(speaker, waiting[0])
            except StoreError as exc:
                _log.error("voice not sent", error=str(exc))
            waiting.popleft()

    async def _speak(self, speaker: Speaker, answer: OutboundMessage) -> None:
        words = await asyncio.to_thread(words_to_read, answer.text)
        words = cut_at_sentence(words, speaker.max_chars)
        if not words:  # nothing but code or addresses
            return
        try:
            recording = await speaker.speak(words)
            path = await asyncio.to_thread(self._keep, recording)
        except ProviderError as exc:
            _log.warning("answer not read aloud", kind=exc.kind, detail=exc.detail)
            return
        except OSError as exc:
            _log.warning("voice not kept", error=str(exc))
            return
        voice = Attachment(
            kind="voice",
            name=f"voice{recording.suffix}",
            mime=recording.mime,
            size_bytes=len(recording.data),
            path=str(path),
        )
        await self._bus.publish_outbound(
            OutboundMessage(
                address=answer.address,
                text="",
                kind=OutboundKind.MESSAGE,
                reply_to=answer.reply_to,
                attachments=(voice,),
            )
        )

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
