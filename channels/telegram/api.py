"""The one door to the Bot API: plain calls through the SDK, its errors translated and free of the token.

Importing this costs 0.3 s (the SDK), so only `channel.py` does, late and in a thread. What the calls mean is
up to the callers; results are the API's JSON as it came, since building the SDK's objects for the answer of
every send costs more than the send.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import orjson

from bot.errors import (
    ChannelAuthError,
    ChannelError,
    ChatGone,
    ChatMigrated,
    RateLimited,
    SendRejected,
    SendUncertain,
)
from bot.imports import hidden
from channels.telegram.errors import FileUnavailable, MethodMissing, PollConflict
from channels.telegram.sparse import asked_for
from channels.telegram.updates import ALLOWED_UPDATES

# httpx comes with a command line of its own, the SDK with Telegram Passport: 12 MB and half the time, if what they
# would need happens to be installed for others.
with hidden("httpx._main", "cryptography.hazmat.backends"):
    import httpx
    from telegram import (
        Bot,
        InputFile,
        InputMedia,
        InputMediaAudio,
        InputMediaDocument,
        InputMediaPhoto,
        InputMediaVideo,
        Update,
    )
    from telegram.error import (
        BadRequest,
        Conflict,
        EndPointNotFound,
        Forbidden,
        InvalidToken,
        NetworkError,
        RetryAfter,
        TelegramError,
    )
    from telegram.error import (
        ChatMigrated as SdkChatMigrated,
    )
    from telegram.request import HTTPXRequest

# Without this the SDK warns about its own use of RetryAfter each time it raises one; it reads it at each use.
os.environ.setdefault("PTB_TIMEDELTA", "true")

_CONNECT_S = 10.0
_CONNECTIONS = 64  # one is always taken by the long poll

_ALBUM_FILES: dict[str, Callable[..., InputMedia]] = {
    "photo": InputMediaPhoto,
    "video": InputMediaVideo,
    "audio": InputMediaAudio,
    "document": InputMediaDocument,
}

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

_MAYBE_REFUSED = re.compile(rb'"ok"\s*:\s*false')
_LOOK_BYTES = 4_096  # refusals are short; a long answer holds updates or a file
_BARE = orjson.dumps({"ok": True, "result": True})
_NO_SUCH_METHOD = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_ERROR_STATUSES = range(400, 600)

# Failures before a whole request was written: the platform cannot have acted.
_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.WriteError,
    httpx.WriteTimeout,
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
    httpx.ProxyError,
)

# 400s that mean the same as a 403: nothing can be written there until somebody changes it.
_GONE = (
    "chat not found",
    "peer_id_invalid",
    "user not found",
    "chat_write_forbidden",
    "have no rights to send a message",
    "not enough rights to send text messages",
    "bot is not a member",
    "chat_restricted",
)


class BotApi:
    """Calls of one bot. Built without network; safe to use from many tasks of one loop."""

    def __init__(self, token: str, api_url: str) -> None:
        # Request lines carry the token; a 502's HTML page is reported by us, once, not as a traceback.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        logging.getLogger("telegram.request.BaseRequest").setLevel(logging.CRITICAL)
        # In any letter case: the SDK capitalizes what the platform says, which lowers the rest.
        secrets = {re.escape(token), re.escape(quote(token, safe=""))}
        self._secret = re.compile("|".join(secrets), re.IGNORECASE)
        base = api_url.rstrip("/")
        # One client for everything: a second one would load the trust store a second time (40 ms).
        self._http = _Http(
            connection_pool_size=_CONNECTIONS,
            connect_timeout=_CONNECT_S,
            pool_timeout=_CONNECT_S,
            write_timeout=_CONNECT_S,
        )
        self._bot = Bot(
            token,
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=self._http,
            get_updates_request=self._http,
        )
        self._file_base = f"{base}/file/bot{quote(token, safe=':')}"

    async def call(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> Any:
        """Call `method` (camelCase as documented) and return its `result`; None values are left out.

        Raises:
            ChannelError: mapped; `SendUncertain` when the platform may have acted without our knowing.
        """
        # do_api_request warns about names for which the SDK has a method of its own, in either spelling.
        # This third spelling means the same to it.
        name = _CAMEL.sub("_", method)
        try:
            return await self._bot.do_api_request(name, dict(params), read_timeout=timeout_s)
        except TelegramError as exc:
            raise self._mapped(exc, method) from self._harmless(exc)
        except (LookupError, TypeError, AttributeError) as exc:  # the SDK takes an object for granted
            raise SendUncertain(f"{method}: an answer that is none") from exc

    def parse_update(self, raw: Any) -> Update:
        """Return the SDK's view of one update; raises whatever the SDK stumbles over."""
        if not isinstance(raw, dict):
            raise TypeError(f"an update is an object, not {type(raw).__name__}")
        return Update.de_json(asked_for(raw, ALLOWED_UPDATES), self._bot)

    @staticmethod
    def file(content: bytes, name: str) -> InputFile:
        """Return a file as a parameter for `call`."""
        return InputFile(content, filename=name, attach=False)

    @staticmethod
    def album_file(kind: str, content: bytes, name: str, caption: Mapping[str, Any]) -> InputMedia:
        """Return one file of an album as a part of `call`'s parameter `media`, which takes no plain JSON.

        `kind` is photo, video, audio or document; `caption` holds `caption` and `caption_entities`, as in JSON.
        """
        return _ALBUM_FILES[kind](media=InputFile(content, filename=name, attach=True), api_kwargs=dict(caption))

    async def download(self, file_path: str, *, timeout_s: float) -> bytes:
        """Return the content of a file that getFile named.

        Raises:
            ChannelError: `FileUnavailable` when the platform does not have it (any more).
        """
        try:
            content: bytes = await self._http.retrieve(f"{self._file_base}/{quote(file_path)}", read_timeout=timeout_s)
        except (InvalidToken, BadRequest, Forbidden) as exc:
            raise FileUnavailable(self._scrub(str(exc)), retryable=False) from self._harmless(exc)
        except TelegramError as exc:
            raise self._mapped(exc, "download") from self._harmless(exc)
        return content

    async def close(self) -> None:
        """Close the connections; idempotent."""
        await self._http.shutdown()

    def _scrub(self, text: str) -> str:
        return self._secret.sub("<token>", text)

    def _harmless(self, exc: BaseException) -> BaseException | None:
        """Return the cause to chain, or None when its own text would carry the token into a log."""
        link: BaseException | None = exc
        while link is not None:
            if self._secret.search(repr(link)):
                return None
            link = link.__cause__ or link.__context__
        return exc

    def _mapped(self, exc: TelegramError, method: str) -> ChannelError:
        text = self._scrub(f"{method}: {exc.message}")
        match exc:
            case RetryAfter():
                return RateLimited(text, retry_after_s=_seconds(exc))
            case SdkChatMigrated():
                return ChatMigrated(text, new_chat_id=str(exc.new_chat_id))
            case InvalidToken() | EndPointNotFound():
                return ChannelAuthError(
                    f"Telegram refuses the token ({method}); check [channels.telegram] token (@BotFather, /token)"
                )
            case Conflict():
                return PollConflict(text)
            case Forbidden():
                return ChatGone(text)
            case _NoSuchMethod():
                return MethodMissing(text)
            case _NoSuchPage():
                return ChannelError(text)
            case BadRequest():
                lowered = text.lower()
                return ChatGone(text) if any(mark in lowered for mark in _GONE) else SendRejected(text)
            case NetworkError() if "too large" in text.lower():
                return SendRejected(text)  # 413: for the SDK one of many network errors
            case NetworkError():
                return _network_error(exc, text)
            case _:
                # A success that cannot be read: the call was very likely carried out.
                return SendUncertain(text)


class _NoSuchMethod(BadRequest):
    """What the SDK has no word for."""


class _NoSuchPage(NetworkError):
    """Likewise."""


class _Http(HTTPXRequest):
    """The SDK's transport, for servers that know less than Telegram's and report refusals in their own way."""

    async def do_request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """Return status and body; `"ok": false` decides over a status of 200, and a yes needs no result.

        The SDK takes every 404 for a malformed token. It may as well be an unknown method, and is one once
        getMe, which is asked first, has passed; and from something that is no Bot API it may pass.

        Raises:
            TelegramError: the request failed, or the server does not have the method.
        """
        status, body = await super().do_request(url, *args, **kwargs)
        if status == HTTPStatus.OK:
            if _MAYBE_REFUSED.search(body[:_LOOK_BYTES]):
                status = _refused_with(body) or status
            elif len(body) < _LOOK_BYTES and _is_bare_yes(body):
                body = _BARE
        if status in _NO_SUCH_METHOD:
            if _refused_with(body) is None:
                raise _NoSuchPage(f"{status} {HTTPStatus(status).phrase}, which is not the Bot API's")
            if not url.endswith("/getMe"):
                raise _NoSuchMethod(HTTPStatus(status).phrase)
        return status, body


def _is_bare_yes(body: bytes) -> bool:
    """Say whether a call was carried out without a word about what came of it."""
    if b'"result"' in body:
        return False
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(answer, dict) and answer.get("ok") is True


def _refused_with(body: bytes) -> int | None:
    """Return the status that a body's own words stand for, None when it refuses nothing."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(answer, dict) or answer.get("ok") is not False:
        return None
    code = answer.get("error_code")
    return code if isinstance(code, int) and code in _ERROR_STATUSES else HTTPStatus.BAD_REQUEST


def _network_error(exc: NetworkError, text: str) -> ChannelError:
    """Tell a request that never left from one whose answer is missing.

    A 5xx has no cause and is treated as not carried out: Telegram's gateway answers 502 while what is behind
    it restarts. Counting it as uncertain would end in a lost answer after the second try; repeating it can at
    worst double one.
    """
    cause = exc.__cause__
    if cause is None or not isinstance(cause, httpx.HTTPError):
        return ChannelError(text)
    kind = type(cause).__name__
    detail = text if kind in text else f"{text} ({kind})"
    return ChannelError(detail) if isinstance(cause, _NOT_SENT) else SendUncertain(detail)


def _seconds(exc: RetryAfter) -> float:
    wait = exc.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
