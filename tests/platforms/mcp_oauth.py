"""A small OAuth authorization server for scripted MCP servers: registration, PKCE, refresh, expired and revoked tokens.

After https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization (RFC 9728, 8414, 7591, 7636,
8707, 9207). The person at the browser consents at once; `denies` lets them refuse.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote_plus, urlencode
from uuid import uuid4

from aiohttp import web

from tests.platforms.mcp_script import Json

PROTECTED = "/.well-known/oauth-protected-resource"
METADATA = "/.well-known/oauth-authorization-server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a code or a refresh token stands for."""

    client_id: str
    redirect_uri: str
    challenge: str
    scope: str


@dataclass(slots=True, kw_only=True)
class McpOAuth:
    """Guards an `McpServer` and hands out its tokens; what it holds and saw is in its last fields."""

    # What tokens say of themselves; they end when the test calls `expire_tokens`.
    token_life_s: int = 3600  # those for a code
    refreshed_life_s: int = 3600  # those for a refresh token
    scope: str = "tools"
    denies: bool = False  # the person refuses
    asks: bool = False  # the page wants to be read, and never redirects by itself
    grants_no_more: bool = False  # tokens are good for `scope`, whatever else was asked for
    refuses_registration: bool = False
    refuses_refresh: bool = False
    gives_refresh: bool = True
    # What tokens must be good for, beyond `scope`, by the names of methods and tools.
    needs: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)  # of clients that were registered by hand, by their ids
    grants: tuple[str, ...] = ("authorization_code", "refresh_token")
    is_old: bool = False  # of 2025-03-26: no metadata of the resource, and an issuer with a path
    issuer: str = ""  # what its metadata name instead of the truth
    refuses_initialize: bool = False  # a server of 2026-07-28 only: 400, before it looks at the token
    rotates_refresh: bool = True  # a refresh token works once
    # How the token endpoint misbehaves: status and body of the next answers to refreshes, in place of the true ones;
    # what it says besides, or in place of, the fields of a token; where its metadata say that it is.
    refresh_answers: list[tuple[int, str]] = field(default_factory=list)
    says: Json = field(default_factory=dict)
    token_endpoint: str = ""
    hold: asyncio.Event | None = None  # a refresh is carried out, and answered only once this is set
    held: asyncio.Event = field(default_factory=asyncio.Event, init=False)  # one waits for that
    clients: dict[str, Json] = field(default_factory=dict, init=False)
    codes: dict[str, Grant] = field(default_factory=dict, init=False)
    access_tokens: dict[str, str] = field(default_factory=dict, init=False)  # with what they are good for
    refresh_tokens: dict[str, Grant] = field(default_factory=dict, init=False)
    token_requests: list[dict[str, str]] = field(default_factory=list, init=False)  # the forms, secrets and all
    authorizations: list[dict[str, str]] = field(default_factory=list, init=False)  # the queries

    def expire_tokens(self) -> None:
        """Let every access token be out of date; refresh tokens still work."""
        self.access_tokens.clear()

    def revoke_all(self) -> None:
        """Take every token back; only a new consent helps."""
        self.access_tokens.clear()
        self.refresh_tokens.clear()

    def refusal(self, request: web.BaseRequest, origin: str) -> web.Response | None:
        """Return 401 with the way to the metadata, unless the request carries a good token."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token in self.access_tokens:
            return None
        error = ', error="invalid_token"' if token else ""
        challenge = f'Bearer resource_metadata="{origin}{PROTECTED}{request.path}"{error}'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    def lack(self, request: web.BaseRequest, message: Json) -> web.Response | None:
        """Return 403 with what the request's token is not good for (RFC 6750, section 3.1), if there is something."""
        names = (str(message.get("method")), str((message.get("params") or {}).get("name")))
        token = request.headers["Authorization"].partition(" ")[2]
        missing = [self.needs[name] for name in names if self.needs.get(name, "") not in self.access_tokens[token]]
        if not missing:
            return None
        challenge = f'Bearer error="insufficient_scope", scope="{" ".join(missing)}"'
        return web.Response(status=403, headers={"WWW-Authenticate": challenge})

    async def handle(self, request: web.BaseRequest, origin: str) -> web.Response | None:
        """Answer a request for one of the authorization server's own pages, or return None."""
        match request.method, request.path:
            case "GET", path if path.startswith(PROTECTED) and self.is_old:
                return web.Response(status=404)
            case "GET", path if path.startswith(PROTECTED):
                resource = origin + (path.removeprefix(PROTECTED) or "/mcp")
                described = {"resource": resource, "authorization_servers": [f"{origin}/"]}
                return web.json_response(described | {"scopes_supported": [self.scope]})
            case "GET", path if path.startswith(METADATA):
                return web.json_response(self._metadata(origin))
            case "POST", "/register":
                return self._register(await request.json())
            case "GET", "/authorize":
                return self._authorize(dict(request.query), origin)
            case "POST", "/token":
                form = dict(parse_qsl(await request.text()))
                answer = self._token(form, request.headers.get("Authorization", ""), origin)
                if self.hold is not None and form.get("grant_type") == "refresh_token":
                    self.held.set()
                    await self.hold.wait()
                return answer
        return None

    def _metadata(self, origin: str) -> Json:
        return {
            "issuer": self._issuer(origin),
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": self.token_endpoint or f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": self.grants,
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"] if self.secrets else ["none"],
            "scopes_supported": [self.scope],
            "authorization_response_iss_parameter_supported": True,
        }

    def _issuer(self, origin: str) -> str:
        return self.issuer or f"{origin}/{'oauth' if self.is_old else ''}"

    def _register(self, metadata: Json) -> web.Response:
        if self.refuses_registration or not metadata.get("redirect_uris"):
            return _error("invalid_client_metadata", "not here")
        identity = f"client-{len(self.clients) + 1}"
        self.clients[identity] = metadata
        return web.json_response(metadata | {"client_id": identity, "token_endpoint_auth_method": "none"}, status=201)

    def _authorize(self, query: dict[str, str], origin: str) -> web.Response:
        self.authorizations.append(query)
        client = self.clients.get(query.get("client_id", ""))
        redirect_uri = query.get("redirect_uri", "")
        if query.get("client_id") not in self.secrets and redirect_uri not in (client or {}).get("redirect_uris", ()):
            return web.Response(status=400, text="unknown client or address")  # never redirect to a stranger
        if self.asks:
            return web.Response(text="<form>Really?</form>", content_type="text/html")
        answer = {"iss": self._issuer(origin)} | ({"state": query["state"]} if "state" in query else {})
        if query.get("response_type") != "code" or query.get("code_challenge_method") != "S256":
            answer["error"] = "invalid_request"
        elif not _is_ours(query, origin):
            answer["error"] = "invalid_target"
        elif self.denies:
            answer["error"] = "access_denied"
        else:
            code = answer["code"] = uuid4().hex
            self.codes[code] = Grant(
                client_id=query["client_id"],
                redirect_uri=redirect_uri,
                challenge=query["code_challenge"],
                scope=self.scope if self.grants_no_more else query.get("scope", self.scope),
            )
        separator = "&" if "?" in redirect_uri else "?"
        return web.Response(status=302, headers={"Location": f"{redirect_uri}{separator}{urlencode(answer)}"})

    def _token(self, form: dict[str, str], proof: str, origin: str) -> web.Response:
        self.token_requests.append(form)
        client = form.get("client_id", "")
        if self.secrets:
            pair = base64.b64decode(proof.removeprefix("Basic ")).decode().partition(":")
            client, secret = unquote_plus(pair[0]), unquote_plus(pair[2])  # RFC 6749, section 2.3.1
            if not secret or self.secrets.get(client) != secret:
                return _error("invalid_client", "unknown, or not proved")
        if form.get("grant_type") == "refresh_token" and self.refresh_answers:
            status, body = self.refresh_answers.pop(0)
            return web.Response(status=status, text=body, headers={"Location": f"{origin}/elsewhere"})
        if form.get("grant_type") not in self.grants:
            return _error("unsupported_grant_type", "")
        if not _is_ours(form, origin):
            return _error("invalid_target", "tokens are for this server only")
        life_s = self.token_life_s
        match form.get("grant_type"):
            case "authorization_code":
                grant = self.codes.pop(form.get("code", ""), None)
                if grant is None or form.get("redirect_uri") != grant.redirect_uri:
                    return _error("invalid_grant", "unknown code or another address")
                if _challenge(form.get("code_verifier", "")) != grant.challenge:
                    return _error("invalid_grant", "the verifier does not fit the challenge")
            case "refresh_token":
                life_s = self.refreshed_life_s
                old = form.get("refresh_token", "")
                grant = None if self.refuses_refresh else self.refresh_tokens.get(old)
                if grant is None:
                    return _error("invalid_grant", "unknown refresh token")
                if self.rotates_refresh:
                    del self.refresh_tokens[old]
            case _:
                grant = Grant(client_id=client, redirect_uri="", challenge="", scope=form.get("scope", self.scope))
        if client != grant.client_id:
            return _error("invalid_client", "the grant is another client's")
        return web.json_response(self._issue(grant, life_s), headers={"Cache-Control": "no-store"})

    def _issue(self, grant: Grant, life_s: int) -> Json:
        access, refresh = f"access-{uuid4().hex}", f"refresh-{uuid4().hex}"
        self.access_tokens[access] = grant.scope
        answer = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": life_s,
            "scope": grant.scope,
        } | self.says
        if not self.gives_refresh or not grant.redirect_uri:
            return answer
        self.refresh_tokens[refresh] = grant
        return answer | {"refresh_token": refresh}


def _is_ours(parameters: dict[str, str], origin: str) -> bool:
    """Say whether a request names the resource it wants a token for, as RFC 8707 and MCP demand."""
    return parameters.get("resource", "").startswith(f"{origin}/")


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _error(code: str, description: str) -> web.Response:
    return web.json_response({"error": code, "error_description": description}, status=400)
