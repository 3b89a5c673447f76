"""What our logins add to the SDK's OAuth provider: clients that are known already, and permissions asked for later.

The provider finds the authorization server, registers where the server lets it, asks a person for a code with PKCE and
exchanges it. Added here: a client that the server's operator registered (RFC 6749, section 2.3), or one that its
address describes (a client id metadata document); access without a person where the authorization server has only
that (RFC 6749, section 4.4); and the scopes that a server missed in an earlier login.

A part of the SDK, and imported only for logging in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, TokenStorage
from mcp.client.auth.utils import (
    create_oauth_metadata_request,
    is_valid_client_metadata_url,
    issuers_match,
    union_scopes,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    TokenEndpointAuthMethod,
)
from pydantic import AnyUrl, ValidationError

from bot.config import McpSection
from bot.toolkit.mcp.login_file import Grant, fields_of, tokens_in

_PROTECTED = "/.well-known/oauth-protected-resource"  # the last place where it may be (RFC 9728, section 3.1)
_SERVER = "/.well-known/oauth-authorization-server"

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Authorization(OAuthClientProvider):
    """Obtains one login. `grant` says how, once it has; `scopes` are asked for beyond those that the server names."""

    def __init__(
        self,
        section: McpSection,
        storage: TokenStorage,
        *,
        redirect_uri: str,
        scopes: str,
        show: Callable[[str], Awaitable[None]],
        come_back: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> None:
        assert section.url is not None
        address = AnyUrl(redirect_uri)
        identity, secret = section.oauth_client_id, section.oauth_client_secret
        is_address = secret is None and is_valid_client_metadata_url(identity)
        super().__init__(
            section.url,
            OAuthClientMetadata(
                client_name="Dutiful",
                redirect_uris=[address],
                grant_types=[Grant.CODE, Grant.REFRESH],
                response_types=["code"],
                token_endpoint_auth_method="none",  # noqa: S106 - no secret: this machine could not keep one
            ),
            storage,
            show,
            come_back,
            client_metadata_url=identity if is_address else None,
        )
        self.grant = Grant.CODE
        self.asked_as = identity or ""
        self._issuer = section.oauth_issuer
        self._old_issuer = ""
        self._scopes = scopes
        self._known: OAuthClientInformationFull | None = None
        if identity is not None and not is_address:
            self._known = OAuthClientInformationFull(
                client_id=identity,
                client_secret=None if secret is None else secret.get_secret_value(),
                redirect_uris=[address],
            )

    async def _initialize(self) -> None:
        """See the SDK's provider: what is known before the first request."""
        await super()._initialize()
        if self._known is not None:
            self.context.client_info = self._known

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See the SDK's provider, which sends here what it would send, and takes the answers."""
        flow = super()._auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                self._check(str(outgoing.url))
                response = yield outgoing
                if outgoing.url.path == _PROTECTED and response.status_code == HTTPStatus.NOT_FOUND:
                    described = yield create_oauth_metadata_request(str(outgoing.url.copy_with(path=_SERVER)))
                    self._old_issuer = _issuer_in(await described.aread(), self._origin())
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _check(self, address: str) -> None:
        """Refuse an address without encryption, unless the server's own has none: secrets would be sent there.

        (https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#communication-security)
        """
        found = urlsplit(address)
        if found.scheme == "https" or urlsplit(self.context.server_url).scheme == "http" or found.hostname in _LOOPBACK:
            return
        raise OAuthFlowError(f"the server leads to {found.scheme}://{found.netloc}, which is not encrypted")

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        """See the SDK's provider, whose errors quote answers with the secrets in them."""
        if not response.is_success:
            await super()._handle_token_response(response)
            return
        answer = await response.aread()
        tokens = tokens_in(answer)
        if tokens is None:
            error = fields_of(answer).get("error")
            words = f"refused with {error}" if isinstance(error, str) else "answered without a token"
            raise OAuthFlowError(f"the authorization server {words}")
        context = self.context
        if tokens.scope is None:
            tokens.scope = context.client_metadata.scope  # RFC 6749, section 5.1
        context.current_tokens = tokens
        context.update_token_expiry(tokens)
        await context.storage.set_tokens(tokens)

    def _expected_issuer(self) -> str:
        """See the SDK's provider.

        Servers of 2025-03-26 describe their authorization server at their own origin, whatever its issuer's path: the
        SDK wants none. Another origin stays refused, as it may be an honest server's that a hostile one passes off.
        """
        if self.context.auth_server_url is None and self._old_issuer:
            return self._old_issuer
        return super()._expected_issuer()

    def _select_authorization_server(self, advertised: list[str]) -> str:
        """See the SDK's provider, which takes the first."""
        return next((one for one in advertised if self._issuer and issuers_match(one, self._issuer)), advertised[0])

    def _origin(self) -> str:
        return self.context.get_authorization_base_url(self.context.server_url)

    async def _perform_authorization(self) -> httpx2.Request:
        """See the SDK's provider: by now the authorization server, the client and the scopes are found."""
        context = self.context
        found = "" if context.oauth_metadata is None else str(context.oauth_metadata.issuer)
        if self._issuer is not None and not issuers_match(found, self._issuer):
            raise OAuthFlowError(f"the server leads to {found or 'no known issuer'}, which is not its oauth_issuer")
        if context.oauth_metadata is not None:
            self._check(str(context.oauth_metadata.authorization_endpoint))
        context.client_metadata.scope = union_scopes(self._scopes or None, context.client_metadata.scope)
        if self._known is not None:
            self._known.token_endpoint_auth_method = self._method(self._known)
            await context.storage.set_client_info(self._known)
        request = None if self.grants(Grant.CODE) else await self.without_person()
        return request or await super()._perform_authorization()

    async def without_person(self) -> httpx2.Request | None:
        """Return the request for a token that needs nobody's consent; None where there is none to make."""
        if self._known is None or self._known.client_secret is None or not self.grants(Grant.CLIENT):
            return None
        self.grant = Grant.CLIENT
        return self.token_request({"grant_type": Grant.CLIENT})

    def grants(self, grant: str) -> bool:
        """Whether the authorization server gives tokens in this way; it need not say that it does for a code."""
        metadata = self.context.oauth_metadata
        named = metadata.grant_types_supported if metadata is not None else None
        return grant in (named or [Grant.CODE])

    def token_request(self, form: dict[str, str]) -> httpx2.Request:
        """Return a request for a token, with the client's authentication, the resource and the scopes."""
        context = self.context
        if context.should_include_resource_param(context.protocol_version):
            form["resource"] = context.get_resource_url()
        if context.client_metadata.scope:
            form["scope"] = context.client_metadata.scope
        form, headers = context.prepare_token_auth(form, dict(FORM))
        return httpx2.Request("POST", self._get_token_endpoint(), data=form, headers=headers)

    def _method(self, client: OAuthClientInformationFull) -> TokenEndpointAuthMethod:
        """Return how a known client proves itself: what the server takes, Basic where it does not say (RFC 8414)."""
        if client.client_secret is None:
            return "none"
        metadata = self.context.oauth_metadata
        taken = (metadata.token_endpoint_auth_methods_supported if metadata is not None else None) or []
        is_post = "client_secret_post" in taken and "client_secret_basic" not in taken
        return "client_secret_post" if is_post else "client_secret_basic"


def _issuer_in(metadata: bytes, origin: str) -> str:
    """Return the issuer that an authorization server's metadata name, if it is of this origin, else ""."""
    try:
        issuer = str(OAuthMetadata.model_validate_json(metadata).issuer)
    except ValidationError:
        return ""
    found, wanted = urlsplit(issuer), urlsplit(origin)
    return issuer if (found.scheme, found.netloc) == (wanted.scheme, wanted.netloc) else ""
