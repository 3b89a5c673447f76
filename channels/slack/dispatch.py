"""The Bolt app: sorts what comes by Socket Mode to our listeners, and says whether it may be acknowledged.

Bolt acknowledges before a listener ends unless it is told otherwise, so it is told: a request counts as answered
when its listener has returned, which it does after the commit. Bolt does not connect by itself here (see `socket`).
"""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import Any, Protocol

from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from bot.log import get_logger
from channels.slack.content import UNREADABLE, Identity

_ANY = re.compile(".*", re.DOTALL)

_log = get_logger(__name__)

# Bolt's warnings quote what people wrote.
_bolt_log = logging.getLogger("channels.slack.bolt")
_bolt_log.setLevel(logging.ERROR)


class Listener(Protocol):
    """What is done with each kind; returns after the commit, or raises and nothing is acknowledged."""

    async def event(self, body: dict[str, Any]) -> None:
        """Take an event of the Events API, in its outer body."""

    async def press(self, body: dict[str, Any]) -> None:
        """Take the press of a button."""

    async def command(self, body: dict[str, Any]) -> None:
        """Take a slash command."""


def build_app(me: Identity, listener: Listener) -> AsyncApp:
    """Return the app with its listeners, not connected; it calls nobody, so it gets no token."""

    async def authorize() -> AuthorizeResult:
        return AuthorizeResult(enterprise_id=None, team_id=me.team_id, bot_user_id=me.user_id, bot_id=me.bot_id)

    app = AsyncApp(
        name="dutiful",
        logger=_bolt_log,
        client=AsyncWebClient(),
        authorize=authorize,
        process_before_response=True,
        request_verification_enabled=False,  # nobody but Slack is on our connection
        ignoring_self_events_enabled=False,  # our own words are looked at: they say whose turn it is in a thread
        ssl_check_enabled=False,
        url_verification_enabled=False,
        attaching_function_token_enabled=False,
        attaching_conversation_kwargs_enabled=False,
    )

    async def on_event(body: dict[str, Any]) -> None:
        await listener.event(body)

    async def on_press(body: dict[str, Any], ack: AsyncAck) -> None:
        await listener.press(body)
        await ack()

    async def on_command(body: dict[str, Any], ack: AsyncAck) -> None:
        await listener.command(body)
        await ack()

    async def on_error(error: Exception) -> BoltResponse:
        if isinstance(error, UNREADABLE):
            raise error  # sent again it would be no better
        _log.warning("not acknowledged", error=f"{type(error).__name__}: {error}")
        return BoltResponse(status=HTTPStatus.SERVICE_UNAVAILABLE)

    app.event(_ANY)(on_event)
    app.action(_ANY)(on_press)
    app.command(_ANY)(on_command)
    app.error(on_error)
    return app


async def is_answered(app: AsyncApp, request: SocketModeRequest) -> bool:
    """Hand a request to the app; True when it may be acknowledged.

    What the app has no listener for is acknowledged as well: it would only come again.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it has another shape than Slack's.
    """
    response = await run_async_bolt_app(app, request)
    return response is None or response.status in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}
