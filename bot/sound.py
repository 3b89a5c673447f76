"""Who hears and who speaks: the transcriber of `[transcription]` and the speaker of `[speech]`, built from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.clock import Clock
from bot.config import Config
from bot.config.models import EndpointSection, LlmSection
from bot.interfaces import Speaker, Transcriber

if TYPE_CHECKING:
    from bot.providers.openai_audio import AudioModel  # see `build_sound`


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """What is there of the two."""

    transcriber: Transcriber | None = None
    speaker: Speaker | None = None

    async def close(self) -> None:
        """Let go of connections; idempotent."""
        for part in (self.transcriber, self.speaker):
            if part is not None:
                await part.close()


def build_sound(config: Config, clock: Clock) -> Sound:
    """Return what the configuration names a model for; no network is used.

    Raises:
        ConfigError: an address or a key can never work.
    """
    hearing, speech = config.transcription, config.speech
    if not (hearing.model or speech.model):
        return Sound()
    from bot.providers.openai_audio import OpenAISpeaker, OpenAITranscriber  # only for those who want it

    return Sound(
        transcriber=OpenAITranscriber(_audio_model(hearing, config.llm), clock=clock) if hearing.model else None,
        speaker=OpenAISpeaker(_audio_model(speech, config.llm), clock=clock) if speech.model else None,
    )


def _audio_model(section: EndpointSection, llm: LlmSection) -> AudioModel:
    from bot.providers.openai_audio import AudioModel  # as above

    base_url = section.base_url or llm.base_url
    # The model's key is for the model's server alone.
    key = section.api_key or (llm.api_key if base_url == llm.base_url else None)
    return AudioModel(model=section.model or "", base_url=base_url or "", api_key=key.get_secret_value() if key else "")
