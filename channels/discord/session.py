"""A signed-in client and what it lets us do. Loads the SDK: import it late, and in a thread."""

from __future__ import annotations

from dataclasses import dataclass

from bot.clock import Clock
from channels.discord.api import Api
from channels.discord.client import INTENT_PROBLEM, GatewayClient
from channels.discord.config import DiscordConfig, Timing
from channels.discord.drafts import Drafts
from channels.discord.interactions import OpenAnswers
from channels.discord.sending import Sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One client with its REST session. It outlives its connection to the gateway, so that what waits can be sent."""

    client: GatewayClient
    api: Api
    sender: Sender
    drafts: Drafts

    @property
    def bot_id(self) -> str:
        """Our own user id."""
        return self.client.bot_id

    @property
    def application_id(self) -> str:
        """Our application's id."""
        return str(self.client.application_id)

    @property
    def warning(self) -> str:
        """Why the bot does not hear everything, '' when it does."""
        return "" if self.client.asks_content else INTENT_PROBLEM


def build_session(
    section: DiscordConfig,
    timing: Timing,
    clock: Clock,
    answers: OpenAnswers,
    *,
    language: str = "en",
    content: bool = True,
) -> Session:
    """Build a client and what uses it, without network and without a running loop.

    `content` asks for the message content intent, which the platform refuses unless it is switched on for the bot.
    `language` is that of our own words.
    """
    client = GatewayClient(timing, content=content)
    api = Api(client.http, clock)
    return Session(
        client=client,
        api=api,
        sender=Sender(api.call, timing, answers, threads=section.long_answers_in_threads, language=language),
        drafts=Drafts(api.call, timing, answers),
    )
