"""The file of one login: what `dutiful mcp login` obtained, readable for this user alone.

`oauth` lives on it, `login` writes it first; each holds it exclusively meanwhile, as do other processes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import ValidationError

from bot.config import McpSection
from bot.log import get_logger
from bot.toolkit.mcp.private_file import FOLDER_MODE, write_private

EARLY_S = 30.0
"""How long before its end an access token is refreshed: the call it is for takes its time, and clocks differ."""

_LONGEST_S = 10 * 365 * 86_400  # of a token's life; beyond it is no life but a mistake
_LOCK_LIMIT_S, _LOCK_PAUSE_S = 60.0, 0.05
_log = get_logger(__name__)

Json = dict[str, Any]


class Grant(StrEnum):
    """How an access token is obtained (RFC 6749, sections 4.1, 4.4 and 6)."""

    CODE = "authorization_code"  # by a person
    CLIENT = "client_credentials"  # by the program itself
    REFRESH = "refresh_token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One login at one server. `id` is drawn when a person logs in, and stays while tokens are refreshed."""

    id: str
    url: str  # of the server: the tokens are sent nowhere else
    client: OAuthClientInformationFull
    tokens: OAuthToken
    token_endpoint: str
    resource: str  # the resource parameter of token requests (RFC 8707); "" where the server knows none
    ends_at: float | None  # seconds since the epoch; None where the server does not say
    grant: str = Grant.CODE
    lacks: str = ""  # the scopes that the server missed in it: the next login asks for them, too
    asked_as: str = ""  # the `oauth_client_id` that it was asked for with
    issuer: str = ""  # of the authorization server; "" where it does not say

    def __repr__(self) -> str:
        return f"Login(url={self.url!r})"  # never a token

    def fits(self, section: McpSection) -> bool:
        """Whether it is for what the configuration has now: tokens are for one server, one client and one issuer."""
        is_issuer = section.oauth_issuer is None or issuers_match(self.issuer, section.oauth_issuer)
        return self.url == section.url and self.asked_as == (section.oauth_client_id or "") and is_issuer

    def is_over(self, now: float) -> bool:
        """Whether the access token is out of date, or will be in a moment."""
        return self.ends_at is not None and now > self.ends_at - EARLY_S

    def is_renewable(self) -> bool:
        """Whether new tokens can be had without a person."""
        return self.grant == Grant.CLIENT or bool(self.tokens.refresh_token)

    def refreshed(self, tokens: OAuthToken, now: float) -> Login:
        """Return the login with new tokens; what an answer leaves out stays (RFC 6749, section 6)."""
        kept = {name: getattr(self.tokens, name) for name in ("refresh_token", "scope") if not getattr(tokens, name)}
        return replace(self, tokens=tokens.model_copy(update=kept), ends_at=end_of(tokens, now))


def end_of(tokens: OAuthToken, now: float) -> float | None:
    """Return when an access token obtained now ends, in seconds since the epoch; one that lives short is used half."""
    if tokens.expires_in is None:
        return None
    return now + max(tokens.expires_in, EARLY_S + min(tokens.expires_in, EARLY_S) / 2)


def tokens_in(answer: bytes) -> OAuthToken | None:
    """Return the tokens of a token endpoint's answer; None when it has none.

    A life that is no number of seconds counts as not said, since it must not cost a refresh token that worked once.
    """
    fields = fields_of(answer)
    fields["expires_in"] = _life_in(fields.get("expires_in"))
    try:
        return OAuthToken.model_validate(fields)
    except ValidationError:
        return None


def fields_of(answer: bytes) -> Json:
    """Return the fields of an answer that is a JSON object; {} for every other."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _life_in(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        life_s = float(value)
    except (ValueError, OverflowError):
        return None
    return min(int(life_s), _LONGEST_S) if math.isfinite(life_s) and life_s >= 1 else None


class LoginFile:
    """The file of one server's login. Its methods block, but for `exclusive` and `forget`."""

    def __init__(self, data_dir: Path, server: str) -> None:
        self.path = data_dir / "mcp" / f"{server}.oauth.json"

    def stamp(self) -> tuple[int, int] | None:
        """Return what changes whenever the file does; None while there is none."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def load(self) -> Login | None:
        """Return the login; None without one, or with one that cannot be read."""
        try:
            body: Json = orjson.loads(self.path.read_bytes())
            body["client"] = OAuthClientInformationFull.model_validate(body["client"])
            body["tokens"] = OAuthToken.model_validate(body["tokens"])
            return Login(**body)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as exc:
            # Not the error's text: it may quote the file.
            _log.warning("login of an mcp server cannot be read", path=str(self.path), error=type(exc).__name__)
            return None

    def save(self, login: Login) -> None:
        """Keep a login. Raises OSError."""
        body = {slot: getattr(login, slot) for slot in Login.__slots__}
        for name in ("client", "tokens"):
            body[name] = body[name].model_dump(mode="json", exclude_none=True)
        write_private(self.path, orjson.dumps(body))

    def save_refreshed(self, login: Login) -> bool:
        """Keep refreshed tokens, unless a person has logged in anew or out meanwhile; returns whether they are kept."""
        known = self.load()
        if self.stamp() is None or (known is not None and known.id != login.id):
            return False
        self.save(login)
        return True

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Keep others from refreshing, logging in or out; waits for them up to a limit, then goes on all the same.

        A refresh token often works once: two that use it side by side lose the login.
        """
        path = self.path.with_suffix(".lock")
        await asyncio.to_thread(path.parent.mkdir, mode=FOLDER_MODE, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(round(_LOCK_LIMIT_S / _LOCK_PAUSE_S)):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_LOCK_PAUSE_S)
            yield
        finally:
            os.close(descriptor)  # and the lock with it

    async def forget(self) -> bool:
        """Remove the login; returns whether there was one."""
        if self.stamp() is None:
            return False
        async with self.exclusive():
            self.path.unlink(missing_ok=True)
        return True
