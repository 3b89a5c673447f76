"""Journeys: speaking to the running service, and hearing it."""

from __future__ import annotations

from tests.platforms.audio_api import HEARING, KEY, OGG, SPEAKING, AudioServer
from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply, text_of
from tests.support.service import Service

ADA = 111


async def test_a_voice_message_is_heard_and_its_answer_read_aloud(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    model.when("bus", [Reply(text="At **nine**.")])
    async with AudioServer() as audio:
        audio.words = "When does the bus leave?"
        endpoint = {"base_url": audio.base_url, "api_key": KEY}
        service.configure(
            service.sections,
            {"transcription": {"model": HEARING, **endpoint}, "speech": {"model": SPEAKING, **endpoint}},
        )
        await service.start()
        telegram.user_says(ADA, "/voice on")
        await telegram.wait_for(lambda: telegram.texts(ADA))
        file = {"file_id": telegram.world.add_file(OGG, "voice/file_1.oga"), "file_unique_id": "u1"}
        telegram.user_says(
            ADA, extra={"voice": {**file, "duration": 2, "mime_type": "audio/ogg", "file_size": len(OGG)}}
        )
        await telegram.wait_for(lambda: [call.method for call in telegram.sent][-1:] == ["sendVoice"])
        assert await service.stop() == 0
    assert telegram.texts(ADA)[1:] == ["At nine.", ""]  # the voice has no caption
    assert "[Voice message, transcribed] When does the bus leave?" in text_of(model.requests[-1]["messages"][-1])
    heard, read = audio.asked
    assert (heard.file[0], heard.file[2]) == ("recording.ogg", OGG)
    assert read.fields["input"] == "At nine."
    assert KEY not in service.log_text()
