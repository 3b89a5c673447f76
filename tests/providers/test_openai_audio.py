"""The audio endpoint: what is asked, what is taken as an answer, and how each failure comes out."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.errors import ConfigError, ProviderError, ProviderErrorKind
from bot.interfaces import Recording
from bot.providers.openai_audio import (
    MAX_SPEECH_CHARS,
    MAX_UPLOAD_BYTES,
    AudioLimits,
    AudioModel,
    OpenAISpeaker,
    OpenAITranscriber,
)
from tests.platforms.audio_api import HEARING, KEY, OGG, SPEAKING, AudioServer, Fault

VOICE = Recording(data=OGG, suffix=".ogg", mime="audio/ogg")
QUICK = AudioLimits(wait_s=0.0)


@pytest.fixture
async def server() -> AsyncIterator[AudioServer]:
    async with AudioServer() as audio:
        yield audio


@pytest.fixture
async def ear(server: AudioServer) -> AsyncIterator[OpenAITranscriber]:
    made = OpenAITranscriber(AudioModel(model=HEARING, base_url=server.base_url, api_key=KEY), limits=QUICK)
    yield made
    await made.close()


@pytest.fixture
async def mouth(server: AudioServer) -> AsyncIterator[OpenAISpeaker]:
    made = OpenAISpeaker(AudioModel(model=SPEAKING, base_url=server.base_url, api_key=KEY), limits=QUICK)
    yield made
    await made.close()


async def failure(work: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await work
    return caught.value


async def test_a_recording_becomes_its_words(ear: OpenAITranscriber, server: AudioServer) -> None:
    server.words = "  Wann fährt der Bus?\x00 "
    assert await ear.transcribe(VOICE) == "Wann fährt der Bus?"
    (asked,) = server.asked
    assert asked.fields == {"model": HEARING, "response_format": "json"}
    assert asked.file == ("recording.ogg", "audio/ogg", OGG)
    assert asked.headers["authorization"] == f"Bearer {KEY}"


async def test_a_text_becomes_sound(mouth: OpenAISpeaker, server: AudioServer) -> None:
    assert await mouth.speak("Hello.") == VOICE
    (asked,) = server.asked
    assert asked.fields == {"model": SPEAKING, "input": "Hello.", "voice": "alloy", "response_format": "opus"}


@pytest.mark.parametrize(
    ("sound", "suffix"),
    [
        (b"ID3\x04rest", ".mp3"),
        (b"\xff\xf3\x84\xc4", ".mp3"),
        (b"RIFF....WAVE", ".wav"),
        (b"fLaC", ".flac"),
    ],
)
async def test_another_format_than_asked_for_is_taken_as_what_it_is(
    mouth: OpenAISpeaker, server: AudioServer, sound: bytes, suffix: str
) -> None:
    server.sound = sound
    recording = await mouth.speak("Hello.")
    assert (recording.data, recording.suffix) == (sound, suffix)


async def test_an_endpoint_without_keys_gets_none_not_even_the_environments(
    server: AudioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    server.key = ""
    ear = OpenAITranscriber(AudioModel(model=HEARING, base_url=server.base_url))
    assert await ear.transcribe(VOICE) == "Good morning."
    await ear.close()


async def test_the_whole_address_of_the_call_works_as_base_url(server: AudioServer) -> None:
    mouth = OpenAISpeaker(AudioModel(model=SPEAKING, base_url=f"{server.base_url}/audio/speech", api_key=KEY))
    assert await mouth.speak("Hello.") == VOICE
    await mouth.close()


async def test_a_passing_error_is_tried_once_more(ear: OpenAITranscriber, server: AudioServer) -> None:
    server.fault = Fault.BROKEN_ONCE
    assert await ear.transcribe(VOICE) == "Good morning."
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("fault", "kind", "tries"),
    [
        (Fault.BROKEN, ProviderErrorKind.SERVER, 2),
        (Fault.HANG_UP, ProviderErrorKind.CONNECTION, 2),
        (Fault.RATE_LIMIT, ProviderErrorKind.RATE_LIMIT, 1),  # it asks for a longer wait than anybody has
        (Fault.QUOTA, ProviderErrorKind.QUOTA, 1),
        (Fault.CUT_SHORT, ProviderErrorKind.CUT, 1),
        (Fault.PAGE, ProviderErrorKind.MALFORMED, 1),
        (Fault.NO_TEXT, ProviderErrorKind.MALFORMED, 1),
        (Fault.REPORTED, ProviderErrorKind.SERVER, 1),
        (Fault.ENDLESS, ProviderErrorKind.MALFORMED, 1),
    ],
)
async def test_each_failure_of_a_transcription_has_its_kind(
    ear: OpenAITranscriber, server: AudioServer, fault: Fault, kind: ProviderErrorKind, tries: int
) -> None:
    server.fault = fault
    error = await failure(ear.transcribe(VOICE))
    assert (error.kind, len(server.asked)) == (kind, tries), error


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.BROKEN, ProviderErrorKind.SERVER),
        (Fault.CUT_SHORT, ProviderErrorKind.CUT),
        (Fault.PAGE, ProviderErrorKind.MALFORMED),
        (Fault.ENDLESS, ProviderErrorKind.MALFORMED),
    ],
)
async def test_each_failure_of_speech_has_its_kind(
    mouth: OpenAISpeaker, server: AudioServer, fault: Fault, kind: ProviderErrorKind
) -> None:
    server.fault = fault
    assert (await failure(mouth.speak("Hello."))).kind == kind


async def test_an_answer_without_sound_is_no_voice(mouth: OpenAISpeaker, server: AudioServer) -> None:
    server.sound = b""
    assert "no sound came" in str(await failure(mouth.speak("Hello.")))


async def test_an_endpoint_that_is_not_there_is_a_failed_connection(server: AudioServer) -> None:
    ear = OpenAITranscriber(AudioModel(model=HEARING, base_url=server.base_url, api_key=KEY), limits=QUICK)
    await server.go_down()
    assert (await failure(ear.transcribe(VOICE))).kind == ProviderErrorKind.CONNECTION
    await ear.close()


async def test_a_silent_endpoint_ends_at_the_time_limit(server: AudioServer) -> None:
    limits = AudioLimits(total_s=1.0)
    ear = OpenAITranscriber(AudioModel(model=HEARING, base_url=server.base_url, api_key=KEY), limits=limits)
    server.fault = Fault.HELD
    async with asyncio.timeout(8):
        error = await failure(ear.transcribe(VOICE))
    assert (error.kind, error.detail) == (ProviderErrorKind.TIMEOUT, "no answer within 1 s")
    await ear.close()


async def test_whoever_is_cancelled_stops_asking(ear: OpenAITranscriber, server: AudioServer) -> None:
    server.fault = Fault.HELD
    work = asyncio.create_task(ear.transcribe(VOICE), name="transcription")
    await server.wait_for(lambda: server.asked)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_no_error_shows_the_key(server: AudioServer) -> None:
    key = "geheim123456"
    ear = OpenAITranscriber(AudioModel(model=HEARING, base_url=server.base_url, api_key=key))
    error = await failure(ear.transcribe(VOICE))
    assert error.kind == ProviderErrorKind.AUTH
    assert key not in str(error)
    assert "Incorrect API key provided" in str(error)
    assert key not in repr(AudioModel(model=HEARING, api_key=key))
    await ear.close()


async def test_the_largest_recording_is_taken_and_a_larger_one_not_even_sent(
    ear: OpenAITranscriber, server: AudioServer
) -> None:
    whole = Recording(data=OGG + bytes(MAX_UPLOAD_BYTES - len(OGG)), suffix=".ogg", mime="audio/ogg")
    assert await ear.transcribe(whole) == "Good morning."
    error = await failure(ear.transcribe(Recording(data=whole.data + b"x", suffix=".ogg", mime="audio/ogg")))
    assert error.kind == ProviderErrorKind.BAD_REQUEST
    assert len(server.asked) == 1


async def test_the_longest_text_is_taken(mouth: OpenAISpeaker, server: AudioServer) -> None:
    await mouth.speak("a" * MAX_SPEECH_CHARS)
    assert len(server.asked[0].fields["input"]) == MAX_SPEECH_CHARS


def test_an_address_or_key_that_cannot_work_names_its_section() -> None:
    with pytest.raises(ConfigError, match=r"^transcription\.base_url must be"):
        OpenAITranscriber(AudioModel(model=HEARING, base_url="ftp://example.org"))
    with pytest.raises(ConfigError, match=r"^speech\.api_key contains") as caught:
        OpenAISpeaker(AudioModel(model=SPEAKING, api_key="geheimer schlüssel"))
    assert "geheim" not in str(caught.value)


def test_building_a_client_imports_no_sdk() -> None:
    script = (
        "import sys; from bot.providers.openai_audio import *; OpenAISpeaker(AudioModel(model='m'));"
        "print({'openai', 'httpx2', 'aiohttp'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
