"""The one narrow door to Discord's REST API: discord.py's HTTP client, its errors translated.

The SDK keeps the routes' rate limits. What it would do by itself after a failure is left to the caller: a 429 and
a 5xx end the call at once, so that delivery decides when to try again and nothing else waits meanwhile.
Importing this costs 0.25 s (discord.py), hence it happens late and in a thread.
"""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import discord
from discord.http import HTTPClient, Route

from bot.clock import Clock
from bot.errors import ChannelAuthError, ChannelError, ChatGone, RateLimited, SendUncertain
from channels.discord.attempt import Attempt, BadAnswer, Wait
from channels.discord.errors import GONE, INVALID_WEBHOOK_TOKEN, Refused, ServerTrouble
from channels.discord.leniency import parsed

_SHOWN_CHARS = 300  # of a refusal's own words

IDEMPOTENT = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Methods whose call can be repeated without doubling anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file of a message."""

    name: str
    content: bytes


class Api:
    """Calls with the session of one client; usable once that has logged in."""

    def __init__(self, http: HTTPClient, clock: Clock) -> None:
        self._http = http
        self._clock = clock
        self._closed_until_s = 0.0  # a limit for the whole bot

    async def call(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        json: Any = None,
        files: Sequence[Upload] = (),
        query: Mapping[str, str] | None = None,
        **parts: str,
    ) -> Any:
        """Call a route and return the answer's JSON; `parts` fill the braces in `path`.

        Raises:
            ChannelError: mapped; `Refused` with Discord's own code, `SendUncertain` when a call that is not
                idempotent may have been carried out without our knowing.
        """
        name = f"{method} {path}"
        left_s = self._closed_until_s - self._clock.monotonic_s()
        if left_s > 0:
            raise RateLimited(f"{name}: the bot as a whole is rate limited", retry_after_s=left_s, everywhere=True)
        options: dict[str, Any] = {"params": dict(query)} if query else {}
        if files:
            options["form"] = _form(json, files)
        elif json is not None:
            options["json"] = json
        attempt = Attempt()
        try:
            async with asyncio.timeout(timeout_s):
                route = Route(method, path, metadata=None, **parts)
                return parsed(await self._http.request(route, middlewares=(attempt,), **options))
        except Wait as exc:
            if exc.everywhere:
                self._closed_until_s = self._clock.monotonic_s() + exc.seconds
            raise RateLimited(f"{name}: {exc}", retry_after_s=exc.seconds, everywhere=exc.everywhere) from None
        except discord.RateLimited as exc:
            raise RateLimited(f"{name}: {exc}", retry_after_s=exc.retry_after) from exc
        except BadAnswer as exc:
            # Discord's proxy answers so while what is behind it restarts: taken as not carried out.
            raise ServerTrouble(f"{name}: Discord answers {exc}") from None
        except discord.HTTPException as exc:
            raise refusal(exc, name) from exc
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            sent = attempt.began and not isinstance(exc, aiohttp.ClientConnectorError)
            detail = f"{name}: {type(exc).__name__}"
            raise (SendUncertain(detail) if sent and method not in IDEMPOTENT else ChannelError(detail)) from exc
        except ValueError as exc:  # an answer that says it is JSON and is not
            if attempt.status >= HTTPStatus.BAD_REQUEST:
                raise _refused(attempt.status, f"{name}: HTTP {attempt.status}", 0) from exc
            detail = f"{name}: the answer cannot be read"
            raise (ChannelError(detail) if method in IDEMPOTENT else SendUncertain(detail)) from exc
        except (RuntimeError, AttributeError) as exc:  # what closed and unopened sessions of the SDK say
            raise ChannelError(f"{name}: not connected") from exc

    async def download(self, url: str, *, timeout_s: float, limit_bytes: int) -> bytes:
        """Return what stands at one of the platform's own addresses, without showing it the token.

        Raises:
            Refused: the platform does not have it (any more).
            ChannelError: it did not come, or is longer than `limit_bytes`.
        """
        try:
            async with asyncio.timeout(timeout_s), aiohttp.ClientSession() as session, session.get(url) as response:
                if response.status != HTTPStatus.OK:
                    raise Refused(f"the file is not there (HTTP {response.status})", status=response.status, code=0)
                content = bytearray()
                async for chunk in response.content.iter_chunked(64 * 1024):
                    content += chunk
                    if len(content) > limit_bytes:
                        raise ChannelError("the file is longer than it says", retryable=False)
                return bytes(content)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            raise ChannelError(f"the download broke off ({type(exc).__name__})") from exc


def refusal(exc: discord.HTTPException, name: str) -> ChannelError:
    """Return what a refusal means. The SDK's text names code and fields, never the token."""
    code = exc.code or _code_in(exc.text)
    text = f"{name}: {exc.text[:_SHOWN_CHARS] or exc.status} (HTTP {exc.status}, code {code})"
    return _refused(exc.status, text, code)


def _refused(status: int, text: str, code: int) -> ChannelError:
    if status == HTTPStatus.UNAUTHORIZED and code != INVALID_WEBHOOK_TOKEN:
        return ChannelAuthError(
            "Discord refuses the token; check [channels.discord] token (Developer Portal, Bot, Reset Token)"
        )
    if status > HTTPStatus.NOT_IMPLEMENTED or (status == HTTPStatus.FORBIDDEN and not code):
        return ChannelError(text)  # the latter comes from the proxy before Discord, which blocks networks for a while
    if code in GONE:
        return ChatGone(f"{GONE[code]} (code {code})")
    return Refused(text, status=status, code=code)


def _code_in(text: str) -> int:
    """Return Discord's own code from a refusal whose content type did not say that it is JSON, 0 without one."""
    body = parsed(text)
    code = body.get("code") if isinstance(body, dict) else None
    return code if isinstance(code, int) else 0


def _form(payload: Any, files: Sequence[Upload]) -> list[dict[str, Any]]:
    """Return a multipart body (https://docs.discord.com/developers/reference#uploading-files)."""
    parts: list[dict[str, Any]] = [
        {"name": "payload_json", "value": json_text.dumps(payload), "content_type": "application/json"}
    ]
    parts.extend(
        {
            "name": f"files[{number}]",
            "value": file.content,
            "filename": file.name,
            "content_type": "application/octet-stream",
        }
        for number, file in enumerate(files)
    )
    return parts
