"""Answers read aloud: /voice, what follows the answer, and that a failure costs nothing but the voice."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.agent.voice import KEEP_S, WAITING_LIMIT
from bot.config.models import SpeechSection
from bot.interfaces import ModelRequest
from bot.messages import Attachment, OutboundKind
from bot.providers.openai_audio import MAX_SPEECH_CHARS
from tests.platforms.audio_api import KEY, OGG, SPEAKING, AudioServer, Fault
from tests.support.engine import AnsweringProvider, Rig, again, calls, rig, said
from tests.support.held_model import Held

ON = "Answers in this chat are read aloud too. /voice off ends that."
OFF = "Answers in this chat are text only. With /voice on they are read aloud too."


@pytest.fixture
async def server() -> AsyncIterator[AudioServer]:
    async with AudioServer() as audio:
        yield audio


def sections(server: AudioServer) -> dict[str, Any]:
    section = {"model": SPEAKING, "base_url": server.base_url, "api_key": SecretStr(KEY)}
    return {"speech": SpeechSection.model_validate(section)}


def saying(text: str) -> AnsweringProvider:
    return AnsweringProvider(lambda _: said(text))


def voices(engine: Rig) -> list[Attachment]:
    """Return what was spoken so far; each in a message of its own, behind the text it reads."""
    spoken = [item.message for item in engine.channel.arrived if item.message.attachments]
    assert all((message.text, len(message.attachments)) == ("", 1) for message in spoken)
    return [message.attachments[0] for message in spoken]


async def heard(engine: Rig, count: int = 1) -> Attachment:
    """Wait until so many voices have arrived, and return the newest."""
    await engine.until(lambda: len(voices(engine)) >= count)
    assert len(voices(engine)) == count
    return voices(engine)[-1]


async def in_the_end(engine: Rig, count: int = 0) -> None:
    """Check that no more voices come than these."""
    await engine.voice.settled()
    await engine.idle()
    assert len(voices(engine)) == count


async def test_an_answer_is_sent_as_text_and_as_a_voice(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, saying("The bus **leaves** at 9."), sections=sections(server)) as engine:
        assert await engine.asks("/voice on") == ON
        assert voices(engine) == []
        assert await engine.asks("when?", reply_to="77") == "The bus **leaves** at 9."
        voice = await heard(engine)
        message = engine.channel.arrived[-1].message
        assert (message.kind, message.reply_to, message.answers) == (OutboundKind.MESSAGE, "77", "")
        assert (voice.kind, voice.name, voice.mime, voice.size_bytes) == ("voice", "voice.ogg", "audio/ogg", len(OGG))
        assert Path(voice.path).read_bytes() == OGG
        assert not Path(voice.path).is_relative_to(engine.workspace)
    assert [asked.fields["input"] for asked in server.asked] == ["The bus leaves at 9."]


async def test_voice_is_off_until_it_is_switched_on_and_after_it_is_switched_off(
    tmp_path: Path, server: AudioServer
) -> None:
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        assert await engine.asks("/voice") == OFF
        await engine.asks("hello")
        assert server.asked == []
        assert await engine.asks("/voice ON") == ON
        assert await engine.asks("/voice") == ON
        assert await engine.asks("/voice off") == OFF
        await engine.asks("hello")
    assert server.asked == []


async def test_another_word_changes_nothing(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        assert await engine.asks("/voice loud") == "Say /voice on or /voice off. /voice alone shows how it is."
        assert await engine.asks("/voice") == ON


async def test_each_chat_and_thread_chooses_for_itself(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        assert await engine.asks("/voice", chat="c2") == OFF
        assert await engine.asks("/voice", thread="t1") == OFF
        await engine.asks("/voice on")
        assert await engine.asks("/voice", chat="c2") == OFF
        assert await engine.asks("/voice", thread="t1") == OFF


async def test_the_choice_outlives_a_new_conversation_and_a_restart(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        await engine.asks("/new")
    async with again(engine.setup) as engine:
        await engine.asks("hello", message_id="after the restart")
        assert (await heard(engine)).kind == "voice"


async def test_without_a_model_there_is_no_voice_to_switch_on(tmp_path: Path) -> None:
    async with rig(tmp_path, saying("Yes.")) as engine:
        assert await engine.asks("/voice on") == "I cannot read aloud: no speech model is configured."
        assert "/voice — read answers aloud too: /voice on or off" in await engine.asks("/help")


@pytest.mark.parametrize("fault", [Fault.QUOTA, Fault.RATE_LIMIT, Fault.PAGE, Fault.CUT_SHORT])
async def test_a_failure_leaves_the_text(tmp_path: Path, server: AudioServer, fault: Fault) -> None:
    server.fault = fault
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        assert await engine.asks("hello") == "Yes."
        await in_the_end(engine)
        server.fault = None
        await engine.asks("again")
        await heard(engine)


async def test_a_folder_that_cannot_be_written_leaves_the_text(tmp_path: Path, server: AudioServer) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / "voice").write_text("in the way")
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        assert await engine.asks("hello") == "Yes."
        await in_the_end(engine)


async def test_a_voice_that_cannot_be_kept_leaves_no_part_of_it(tmp_path: Path, server: AudioServer) -> None:
    in_the_way = tmp_path / "media" / "voice" / f"{hashlib.sha256(OGG).hexdigest()}.ogg"
    in_the_way.mkdir(parents=True)
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        assert await engine.asks("hello") == "Yes."
        await in_the_end(engine)
    assert list(in_the_way.parent.iterdir()) == [in_the_way]


async def test_a_long_answer_is_read_up_to_a_sentence_and_sent_in_full(tmp_path: Path, server: AudioServer) -> None:
    text = "This is one of many sentences. " * 200
    async with rig(tmp_path, saying(text), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        assert await engine.asks("hello") == text.strip()
        await heard(engine)
    (asked,) = server.asked
    assert MAX_SPEECH_CHARS - 40 < len(asked.fields["input"]) <= MAX_SPEECH_CHARS
    assert asked.fields["input"].endswith("sentences.")


async def test_an_answer_of_code_alone_is_not_read(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, saying("```\nls -l\n```"), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        await engine.asks("hello")
        await in_the_end(engine)
    assert server.asked == []


async def test_a_voice_that_hangs_holds_up_neither_its_text_nor_anybody_else(
    tmp_path: Path, server: AudioServer
) -> None:
    async with rig(tmp_path, AnsweringProvider(Held()), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        server.fault = Fault.HELD
        assert await engine.asks("one") == "re: one"
        await server.wait_for(lambda: server.asked)
        assert await engine.asks("two") == "re: two"
        assert await engine.asks("hello", chat="c2") == "re: hello"
        assert voices(engine) == []


async def test_voices_of_a_chat_come_in_the_order_of_its_answers(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, AnsweringProvider(Held()), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        for text in ("one", "two", "three"):
            await engine.asks(text)
        await heard(engine, 3)
    assert [asked.fields["input"] for asked in server.asked] == ["re: one", "re: two", "re: three"]


async def test_stop_ends_a_voice_and_the_chat_speaks_again(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        server.fault = Fault.HELD
        await engine.asks("hello")
        await server.wait_for(lambda: server.asked)
        assert await engine.asks("/stop") == "Stopped."
        await in_the_end(engine)
        server.fault = None
        await engine.asks("hello")
        await heard(engine)


async def test_only_so_many_answers_of_a_chat_wait_for_their_voice(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, AnsweringProvider(Held()), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        server.fault = Fault.HELD
        await engine.asks("one")
        await server.wait_for(lambda: server.asked)
        server.fault = None
        for number in range(WAITING_LIMIT + 2):
            await engine.asks(f"more {number}")
        server.release()
        await in_the_end(engine, WAITING_LIMIT)


async def test_a_shutdown_while_a_voice_hangs_keeps_the_answer_and_loses_the_voice(
    tmp_path: Path, server: AudioServer
) -> None:
    provider = saying("Yes.")
    async with rig(tmp_path, provider, sections=sections(server)) as engine:
        await engine.asks("/voice on")
        server.fault = Fault.HELD
        assert await engine.asks("hello") == "Yes."
        await server.wait_for(lambda: server.asked)
        await engine.stop_loop()
    async with again(engine.setup) as engine:
        await in_the_end(engine)
    assert len(provider.requests) == 1


async def test_a_crash_while_a_voice_hangs_loses_the_voice_alone(tmp_path: Path, server: AudioServer) -> None:
    provider = saying("Yes.")
    async with rig(tmp_path, provider, sections=sections(server)) as engine:
        await engine.asks("/voice on")
        server.fault = Fault.HELD
        assert await engine.asks("hello") == "Yes."
        await server.wait_for(lambda: server.asked)
        await engine.crash()
    async with again(engine.setup) as engine:
        await in_the_end(engine)
        server.fault = None
        assert await engine.asks("hello", message_id="after the crash") == "Yes."
        await heard(engine)


async def test_old_voices_are_removed_and_new_ones_stay(tmp_path: Path, server: AudioServer) -> None:
    async with rig(tmp_path, saying("Yes."), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        await engine.asks("one")
        old = Path((await heard(engine)).path)
        past = old.stat().st_mtime - KEEP_S - 60
        os.utime(old, (past, past))
        server.sound = OGG + b"another"
        await engine.asks("two")
        kept = Path((await heard(engine, 2)).path)
        server.sound = OGG + b"third"
        await engine.asks("three")
        newest = Path((await heard(engine, 3)).path)
        assert sorted(old.parent.iterdir()) == sorted({kept, newest})


async def test_what_the_message_tool_sent_as_the_answer_is_not_read(tmp_path: Path, server: AudioServer) -> None:
    def answer(request: ModelRequest) -> Any:
        done = any(row["role"] == "tool" for row in request.messages)
        return said("") if done else calls(("message", {"content": "By tool."}))

    async with rig(tmp_path, AnsweringProvider(answer), sections=sections(server)) as engine:
        await engine.asks("/voice on")
        assert await engine.asks("hello") == "By tool."
        await engine.turns_end(2)
        await in_the_end(engine)
    assert server.asked == []
