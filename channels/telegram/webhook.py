"""Receiving by webhook: Telegram posts each update, and is told 200 only after the desk has committed it.

The SDK's own server answers when it queued, hence this route. Whatever else is answered makes Telegram repeat the
update; of one chat it sends the next only after the one before was taken
(https://core.telegram.org/bots/api#setwebhook, read 2026-11-30).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import importlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from bot.clock import Clock
from bot.errors import ChannelAuthError, ChannelError, RateLimited, StoreError
from bot.interfaces import ChannelState, Cursors
from bot.log import get_logger
from channels.supervision import Backoff
from channels.telegram.config import TelegramConfig, Timing
from channels.telegram.content import CHANNEL
from channels.telegram.desk import UpdateDesk
from channels.telegram.errors import MethodMissing
from channels.telegram.updates import ALLOWED_UPDATES

if TYPE_CHECKING:  # importing them costs 0.3 and 0.15 s; here they only name types
    from aiohttp import web

    from channels.telegram.api import BotApi

SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105  # the name of the header

_HTTPS_PORT = 443
_BODY_BYTES = 1024 * 1024  # updates have some thousand bytes
_SHUTDOWN_S = 5.0  # for updates that are just being committed

_log = get_logger(__name__)

Json = dict[str, Any]
Report = Callable[[ChannelState, str], None]


class WebhookReceiver:
    """Listens for one bot until cancelled, and keeps Telegram posting here."""

    def __init__(
        self,
        *,
        api: BotApi,
        desk: UpdateDesk,
        section: TelegramConfig,
        account: str,
        cursors: Cursors,
        clock: Clock,
        timing: Timing,
        report: Report,
    ) -> None:
        self._api = api
        self._desk = desk
        self._url = section.webhook_url
        self._path = unquote(urlsplit(section.webhook_url).path) or "/"
        self._address = section.webhook_address
        self._secret = section.webhook_password
        self._cursor = f"{CHANNEL}:{account}:webhook"
        self._cursors = cursors
        self._clock = clock
        self._timing = timing
        self._report = report
        self._last_trouble: Any = None
        self._is_set = False  # as far as anybody knows
        self._is_told = False  # that the server does not say
        self.asked_at_s: float | None = None

    async def run(self) -> None:
        """Receive until cancelled; the desk must be serving.

        Raises:
            ChannelAuthError: the token is refused.
            ChannelError: it cannot listen, or Telegram cannot be reached.
        """
        await asyncio.to_thread(importlib.import_module, "aiohttp.web")  # 0.15 s that nobody should wait for
        async with self._listening():
            # A first look that takes long must not keep answers from going out.
            soon = asyncio.get_running_loop().call_later(
                self._timing.webhook_ready_s, self._report, ChannelState.READY, ""
            )
            try:
                problem = await self._look_after()
            finally:
                soon.cancel()
            self._report(ChannelState.READY, problem)
            await self._watch()

    async def _watch(self) -> None:
        """Ask Telegram now and then whether it still posts here; this also shows whether it can be reached."""
        failures = Backoff(self._timing.retry_base_s, self._timing.retry_cap_s)
        while True:
            goes_well = self._is_set and not failures.failures
            await asyncio.sleep(self._timing.webhook_check_s if goes_well else failures.next_s())
            try:
                problem = await self._look_after()
            except ChannelAuthError:
                raise
            except RateLimited as exc:
                await asyncio.sleep(exc.retry_after_s or self._timing.retry_base_s)
            except ChannelError as exc:
                failures.next_s()
                self._report(ChannelState.OFFLINE, str(exc))
                _log.warning("webhook cannot be looked after", error=str(exc))
            else:
                if self._is_set:
                    failures.reset()
                self._report(ChannelState.READY, problem)

    # --- Telegram's side

    async def _look_after(self) -> str:
        """Set the webhook where it is not ours; return what keeps Telegram from reaching it, '' when nothing does."""
        self.asked_at_s = self._clock.monotonic_s()
        info = await self._info()
        if not (self._is_set if info is None else await self._is_ours(info)):
            self._is_set = False
            if problem := await self._try_to_set():
                return problem
            info = None
        self._is_set = True
        info = info or {}
        self.asked_at_s = self._clock.monotonic_s()
        waiting, trouble = info.get("pending_update_count"), str(info.get("last_error_message") or "")
        if not waiting or not trouble:
            return ""
        if info.get("last_error_date") != self._last_trouble:
            self._last_trouble = info.get("last_error_date")
            _log.warning("telegram does not get through to the webhook", url=self._url, error=trouble, waiting=waiting)
        return f"Telegram does not get through to webhook_url: {trouble} ({waiting} updates wait there)"

    async def _info(self) -> Json | None:
        """Return what Telegram knows of the webhook, None from a server that can be reached but does not tell.

        Raises:
            ChannelError: it cannot be reached, or wants to be left alone.
        """
        try:
            info = await self._api.call("getWebhookInfo", {}, timeout_s=self._timing.call_s)
        except (ChannelAuthError, RateLimited):
            raise
        except ChannelError as exc:
            await self._api.call("getMe", {}, timeout_s=self._timing.call_s)
            if not self._is_told:
                _log.warning("the server does not say how the webhook is set", error=str(exc))
                self._is_told = True
            return None
        return info if isinstance(info, dict) else None

    async def _try_to_set(self) -> str:
        """Set the webhook; return what the server has against it. One that knows no webhooks may post all the same.

        Raises:
            ChannelError: the server wants to be left alone, or refuses the token.
        """
        try:
            await self._set()
        except (ChannelAuthError, RateLimited):
            raise
        except MethodMissing as exc:
            _log.warning("webhook not set, whoever knows the address may post", error=str(exc))
        except ChannelError as exc:
            problem = f"the webhook cannot be set: {exc}"
            if problem != self._last_trouble:
                _log.warning("webhook not set, trying again", error=str(exc))
                self._last_trouble = problem
            return problem
        return ""

    async def _is_ours(self, info: Json) -> bool:
        if _canonical(str(info.get("url"))) != _canonical(self._url):
            return False
        if set(info.get("allowed_updates") or ()) != set(ALLOWED_UPDATES):
            return False
        # Telegram does not tell the secret it has.
        try:
            return await self._cursors.get(self._cursor) == self._fingerprint()
        except StoreError as exc:
            raise ChannelError(f"the database cannot be read now: {exc}") from exc

    async def _set(self) -> None:
        await self._api.call(
            "setWebhook",
            {
                "url": self._url,
                "secret_token": self._secret,
                "allowed_updates": list(ALLOWED_UPDATES),
                "drop_pending_updates": False,
            },
            timeout_s=self._timing.call_s,
        )
        _log.info("webhook set", url=self._url)
        try:
            await self._cursors.set(self._cursor, self._fingerprint())
        except StoreError as exc:
            _log.warning("webhook not noted, will be set again", error=str(exc))

    def _fingerprint(self) -> str:
        return hashlib.sha256(f"{self._url} {self._secret}".encode()).hexdigest()

    # --- our side

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        from aiohttp import web  # loaded by `run`

        app = web.Application(client_max_size=_BODY_BYTES)
        # Not the path itself: the router would take braces in it for a pattern and mind how it is quoted.
        app.router.add_post("/{path:.*}", self._receive)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_S)
        listener = self._bind()
        try:
            await runner.setup()
            await web.SockSite(runner, listener).start()
            host, port = listener.getsockname()[:2]
            _log.info("webhook listens", host=host, port=port)
            yield
        finally:
            await runner.cleanup()
            listener.close()

    def _bind(self) -> socket.socket:
        """Take the address.

        Raises:
            ChannelError: it cannot be had now; whoever has it may give it back.
        """
        host, port = self._address
        try:
            return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as exc:
            raise ChannelError(
                f"[channels.telegram] webhook_listen: cannot listen on {host}:{port}: {exc.strerror or exc}"
            ) from exc

    async def _receive(self, request: web.Request) -> web.Response:
        """Answer one post. Who does not know the secret learns nothing and costs no log line."""
        from aiohttp import web  # loaded by `run`

        if request.path != self._path:
            return web.Response(status=HTTPStatus.NOT_FOUND)
        shown = request.headers.get(SECRET_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(shown, self._secret.encode()):
            _log.debug("post without the secret refused")
            return web.Response(status=HTTPStatus.UNAUTHORIZED)
        try:
            async with asyncio.timeout(self._timing.webhook_body_s):
                raw = json.loads(await request.read())
        except (ValueError, RecursionError):
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        except TimeoutError:
            return web.Response(status=HTTPStatus.REQUEST_TIMEOUT)
        try:
            await self._desk.take(raw)
        except StoreError as exc:
            _log.warning("update not stored, telegram will repeat it", error=str(exc))
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        return web.Response()


def _canonical(url: str) -> tuple[str, int | None, str]:
    """Return what of an address counts: servers may report it in another spelling than it was set in."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _HTTPS_PORT
    except ValueError:
        return url, None, ""
    return host, port, parts.path or "/"
