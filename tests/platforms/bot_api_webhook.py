"""Telegram's side of a webhook: posts updates, those of one chat one after another, until each is answered 2xx.

Semantics from https://core.telegram.org/bots/api#setwebhook (read 2026-11-30). Between the public address and the
bot stands a proxy that ends TLS; here it is only a table from one origin to the other.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Task
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from tests.platforms.bot_api_faults import Fault, Faults
from tests.platforms.bot_api_objects import Json, bad_request
from tests.platforms.bot_api_updates import UpdateQueue
from tests.platforms.loopback import Bell

PORTS = (443, 80, 88, 8443)
_POST_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One delivery; status 0: no connection, or the answer got lost."""

    update_id: int
    status: int


class Webhook:
    """What the bot has set, and the posting of what waits. `repeat_s` is far shorter than the platform's."""

    def __init__(self, queue: UpdateQueue, faults: Faults, bell: Bell) -> None:
        self.proxy: dict[str, str] = {}  # public origin -> where the bot listens
        self.posts: list[Post] = []
        self.repeat_s = 0.02
        self.secret = ""
        self.last_error = ""
        self.last_error_at = 0
        self._queue = queue
        self._faults = faults
        self._bell = bell
        self._chats: dict[int, Task[None]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._loop_task: Task[None] | None = None

    @property
    def url(self) -> str:
        """The address that was set, "" for none."""
        return self._queue.webhook_url

    def call(self, method: str, params: Json) -> Any:
        """Carry out setWebhook, deleteWebhook or getWebhookInfo (in lower case)."""
        if method == "getwebhookinfo":
            return self._info()
        if str(params.get("drop_pending_updates", "")).lower() == "true":
            self._queue.drop_pending()
        url = str(params.get("url", "")) if method == "setwebhook" else ""
        if url:
            parts = urlsplit(url)
            if parts.scheme != "https":
                raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
            if (parts.port or 443) not in PORTS:
                raise bad_request("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443")
            if "allowed_updates" in params:
                self._queue.allowed = list(params["allowed_updates"] or [])
        self._queue.webhook_url = url
        self.secret = str(params.get("secret_token") or "")
        self.last_error = ""
        self._bell.ring()
        return True

    def _info(self) -> Json:
        info: Json = {
            "url": self.url,
            "has_custom_certificate": False,
            "pending_update_count": self._queue.pending_count,
        }
        if self.url and self._queue.allowed:
            info["allowed_updates"] = self._queue.allowed
        if self.last_error:
            info |= {"last_error_message": self.last_error, "last_error_date": self.last_error_at}
        return info

    # --- posting

    def start(self) -> None:
        """Begin to post."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_POST_S))
        self._loop_task = asyncio.create_task(self._run(), name="bot-api-webhook")

    async def stop(self) -> None:
        """Cut what is being posted."""
        tasks = [task for task in (self._loop_task, *self._chats.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._chats.clear()
        self._loop_task = None
        if self._session is not None:
            await self._session.close()

    async def _run(self) -> None:
        while True:
            if self.url:
                for update_id, encoded in self._queue.waiting():
                    chat = _chat_of(encoded)
                    if chat not in self._chats:
                        self._chats[chat] = asyncio.create_task(
                            self._post_one(chat, update_id, encoded), name=f"bot-api-webhook {chat}"
                        )
            await self._bell.wait()

    async def _post_one(self, chat: int, update_id: int, encoded: bytes) -> None:
        """Post an update until it is taken; the next of the chat comes after it."""
        try:
            while self.url and not await self._post(chat, update_id, encoded):
                await asyncio.sleep(self.repeat_s)
            if self.url:
                self._queue.taken(update_id)
        finally:
            self._chats.pop(chat, None)
            self._bell.ring()

    async def _post(self, chat: int, update_id: int, encoded: bytes) -> bool:
        fault = self._faults.strike("webhook", chat) or Fault()
        if fault.hold is not None:
            await fault.hold.wait()
        status, error = 0, "Connection refused"
        if not fault.drop_before:
            status, error = await self._request(encoded)
        if fault.drop_after:
            status, error = 0, "Read timeout expired"
        self.posts.append(Post(update_id=update_id, status=status))
        taken = status in range(200, 300)
        if not taken:
            self.last_error, self.last_error_at = error, int(time.time())
        self._bell.ring()
        return taken

    async def _request(self, encoded: bytes) -> tuple[int, str]:
        parts = urlsplit(self.url)
        target = self.proxy.get(f"{parts.scheme}://{parts.netloc}", "")
        headers = {"Content-Type": "application/json"}
        if self.secret:
            headers["X-Telegram-Bot-Api-Secret-Token"] = self.secret
        if not target or self._session is None:
            return 0, "Failed to resolve host"
        try:
            async with self._session.post(target + (parts.path or "/"), data=encoded, headers=headers) as answer:
                return answer.status, f"Wrong response from the webhook: {answer.status} {answer.reason}"
        except (aiohttp.ClientError, TimeoutError) as exc:
            return 0, f"Connection failed: {type(exc).__name__}"


def _chat_of(encoded: bytes) -> int:
    """Return the chat an update belongs to, 0 when it names none."""
    try:
        update = orjson.loads(encoded)
        for value in update.values():
            if isinstance(value, dict):
                return int((value.get("message") or value)["chat"]["id"])
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError, AttributeError):
        pass
    return 0
