"""The narrow door to the SDK: opens sessions, and speaks plain JSON and our own errors to everybody else.

The only module that imports the SDK for that, with `streams`, `network_door`, `sdk_callbacks` and `sdk_failures`.
Importing it takes more than a second: `connection` does so in a thread, once a server is configured.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import httpcore2  # noqa: F401
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from bot import __version__
from bot.log import get_logger
from bot.security.untrusted import on_one_line
from bot.toolkit.mcp.aside import Aside
from bot.toolkit.mcp.asks import ElicitAction, ElicitAsk, ElicitMode
from bot.toolkit.mcp.child import ServerChild
from bot.toolkit.mcp.listing import PROMPTS, RESOURCES, TEMPLATES, TOOLS, Kind, Listing, entries_of
from bot.toolkit.mcp.network_door import CONNECT_S, NetworkDoor
from bot.toolkit.mcp.offers import Json, Offer
from bot.toolkit.mcp.sdk_callbacks import as_json, asking_people, asking_the_model
from bot.toolkit.mcp.sdk_failures import WORDS_CHARS, as_failure, first_problem, in_words
from bot.toolkit.mcp.server_calls import ProgressListener
from bot.toolkit.mcp.session import (
    CallFailed,
    CallMark,
    Fate,
    Limits,
    SessionFailed,
    SessionSpec,
    Signals,
    current_mark,
)
from bot.toolkit.mcp.streams import Streams, child_streams, overheard

_LOST = ("Connection closed", "SSE stream")
_NO_ANSWER = ("Unexpected content type", "server answered a request with 202")  # of the SDK, for a success
_OF_CALLS = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.INTERNAL_ERROR)  # errors that are not of sessions
_LISTEN_AGAIN_S = 5.0
_KNOWS_S = 5.0  # how long a server may take to say whether it knows a session

_log = get_logger(__name__)

# What the SDK's libraries import when they are first used, which would be on the loop.
for _name in ("anyio._backends._asyncio", "anyio.streams.stapled", "anyio.streams.tls", "httpcore2"):
    importlib.import_module(_name)

# The SDK logs every broken line and every lost connection with a traceback; what matters of it we say ourselves.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


@asynccontextmanager
async def open_session(spec: SessionSpec, signals: Signals) -> AsyncIterator[McpSession]:
    """Open a session; enter and leave in one task. What ends it while it is open is raised on leaving.

    Raises:
        SessionFailed: it cannot be opened.
    """
    mark = CallMark()
    current_mark.set(mark)
    try:
        async with AsyncExitStack() as stack:
            aside = Aside()
            transport = await _transport(spec, signals, aside, stack)
            client = _client(spec, signals, overheard(transport, signals, aside))
            session = McpSession(spec, signals, aside, await stack.enter_async_context(client))
            mark.status = 0  # of a probe that led to the answer; what comes now has marks of its own
            yield session
    except Exception as error:  # noqa: BLE001 - the boundary to the SDK, which raises groups of anything
        raise as_failure(error, signals, mark) from None


async def _transport(
    spec: SessionSpec, signals: Signals, aside: Aside, stack: AsyncExitStack
) -> AbstractAsyncContextManager[Streams]:
    section = spec.section
    if section.command is not None:
        child = await ServerChild.start(spec.name, section, workspace=spec.workspace)
        return child_streams(child, signals)
    assert section.url is not None
    door = NetworkDoor(spec.resolver, signals, aside, allow_private=section.allow_private)
    headers = {name: value.get_secret_value() for name, value in section.headers.items()}
    headers["accept-encoding"] = "identity"

    login = await asyncio.to_thread(spec.oauth) if spec.oauth is not None else None  # imports the SDK's part for it
    if login is None and section.auth == "oauth":
        raise SessionFailed("nobody has logged in yet", wants_login=True)

    def http_client(
        headers: dict[str, str] | None = headers,
        timeout: httpx2.Timeout | None = None,  # noqa: ARG001 - the SDK's, which we do not want
        auth: httpx2.Auth | None = login,
    ) -> httpx2.AsyncClient:
        """Streams may be silent for long, so we give no limits of reading: who makes a call bounds it."""
        limits = httpx2.Timeout(CONNECT_S, read=None)
        return httpx2.AsyncClient(transport=door, headers=headers, timeout=limits, auth=auth)

    if section.transport == "sse":
        return sse_client(section.url, headers=headers, auth=login, httpx_client_factory=http_client)
    client = await stack.enter_async_context(http_client())
    return streamable_http_client(section.url, http_client=client, max_sse_event_size=Limits.MESSAGE_BYTES)


def _client(spec: SessionSpec, signals: Signals, transport: Any) -> Client:
    root = types.Root(uri=spec.workspace.as_uri(), name="workspace")  # type: ignore[arg-type]

    async def roots(context: ClientRequestContext) -> types.ListRootsResult:  # noqa: ARG001
        return types.ListRootsResult(roots=[root])

    async def heard(message: Any) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.ResourceListChangedNotification
            | types.PromptListChangedNotification,
        ):
            signals.changed.set()

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        _log.debug("mcp server logs", server=spec.name, level=params.level, text=on_one_line(str(params.data))[:500])

    return Client(
        transport,
        client_info=types.Implementation(name="dutiful", version=__version__),
        list_roots_callback=roots,
        message_handler=heard,
        logging_callback=logged,
        elicitation_callback=asking_people(spec),
        sampling_callback=asking_the_model(spec),
        cache=None,
    )


class _VisitsWanted(CallFailed):
    """A call was refused until the person has visited pages (2025-11-25, URL mode)."""

    def __init__(self, error: MCPError) -> None:
        super().__init__(on_one_line(error.message)[:WORDS_CHARS], Fate.REFUSED)
        self.visits: list[types.ElicitRequestURLParams] = []
        with suppress(ValidationError, ValueError):
            self.visits = UrlElicitationRequiredError.from_error(error.error).elicitations


class McpSession:
    """See `Session`."""

    def __init__(self, spec: SessionSpec, signals: Signals, aside: Aside, client: Client) -> None:
        self._aside = aside
        self._name = spec.name
        self._elicit = spec.elicit
        self._answer_limit_s = spec.section.answer_timeout_s
        self._signals = signals
        self._client = client
        self._is_http = spec.section.url is not None

    @property
    def signals(self) -> Signals:
        """See `Session.signals`."""
        return self._signals

    @property
    def _is_modern(self) -> bool:
        return self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def list_all(self) -> Offer:
        """See `Session.list_all`."""
        client, can = self._client, self._client.server_capabilities
        tools, resources, templates, prompts = (Listing(kind=kind) for kind in (TOOLS, RESOURCES, TEMPLATES, PROMPTS))
        if can.tools is not None:
            await self._list(tools, client.list_tools)
        if can.resources is not None:
            await self._list(resources, client.list_resources)
            await self._list(templates, client.list_resource_templates)
        if can.prompts is not None:
            await self._list(prompts, client.list_prompts)
        info = client.server_info
        return Offer(
            tools=tuple(tools.entries.values()),
            resources=tuple(resources.entries.values()),
            resource_templates=tuple(templates.entries.values()),
            prompts=tuple(prompts.entries.values()),
            instructions=client.instructions or "",
            server_name=info.name if info else "",
            server_version=info.version if info else "",
            protocol_version=client.protocol_version,
            faults=(*tools.faults, *resources.faults, *templates.faults, *prompts.faults),
        )

    async def _list(self, listing: Listing, ask: Callable[..., Awaitable[Any]]) -> None:
        """Read all pages of one list; a list that cannot be read is a fault and no reason to do without the others."""
        cursor: str | None = None
        seen: set[str | None] = {None}
        for _ in range(Limits.PAGES):
            try:
                page = await self._answer(ask(cursor=cursor))
            except CallFailed as error:
                if error.is_over or error.fate is Fate.UNKNOWN or error.wants_login:
                    raise
                listing.cut(str(error))
                return
            raw = entries_of(page.meta, self._aside)
            listing.add(raw, left_out=_left_out(listing.kind, raw, page))
            cursor = page.next_cursor
            if not cursor or listing.is_full:
                return
            if cursor in seen:
                listing.cut("its pages go round in a circle")
                return
            seen.add(cursor)
        listing.cut(f"it has more than {Limits.PAGES} pages")

    async def call_tool(self, tool: str, arguments: Json, on_progress: ProgressListener | None) -> Json:
        """See `Session.call_tool`."""

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            assert on_progress is not None
            on_progress(progress, total, message or "")

        def send() -> Awaitable[Any]:
            return self._client.call_tool(tool, dict(arguments), progress_callback=heard if on_progress else None)

        try:
            return as_json(await self._answer(send()))
        except _VisitsWanted as wanted:
            await self._visit(wanted)
        try:  # it was refused before it did anything, until now
            return as_json(await self._answer(send()))
        except _VisitsWanted:
            raise CallFailed("it wants the person to visit a page once more", Fate.REFUSED) from None

    async def _visit(self, wanted: _VisitsWanted) -> None:
        """Have the person visit the pages that a call needs first.

        Raises:
            CallFailed: they did not, or nobody can be asked.
        """
        for visit in wanted.visits:
            reply = None
            if self._elicit is not None:
                ask = ElicitAsk(
                    server=self._name,
                    message=visit.message,
                    limit_s=self._answer_limit_s,
                    mode=ElicitMode.URL,
                    url=visit.url,
                )
                reply = await self._elicit(ask)
            if reply is None or reply.action is not ElicitAction.ACCEPT:
                raise CallFailed("the person would have to visit a page first, and did not", Fate.REFUSED)

    async def read_resource(self, uri: str) -> Json:
        """See `Session.read_resource`."""
        return as_json(await self._answer(self._client.read_resource(uri)))

    async def get_prompt(self, prompt: str, arguments: Mapping[str, str]) -> Json:
        """See `Session.get_prompt`."""
        return as_json(await self._answer(self._client.get_prompt(prompt, dict(arguments))))

    async def check(self) -> None:
        """See `Session.check`."""
        if not self._is_modern:
            await self._answer(self._client.session.send_ping(), is_check=True)
        elif self._client.server_capabilities.tools is not None:
            await self._answer(self._client.list_tools())

    async def watch(self) -> None:
        """See `Session.watch`."""
        can = self._client.server_capabilities
        tools = bool(can.tools and can.tools.list_changed)
        resources = bool(can.resources and can.resources.list_changed)
        prompts = bool(can.prompts and can.prompts.list_changed)
        if not self._is_modern or not (tools or resources or prompts):
            return
        while True:
            try:
                async with self._client.listen(
                    tools_list_changed=tools, resources_list_changed=resources, prompts_list_changed=prompts
                ) as events:
                    async for _ in events:
                        self._signals.changed.set()
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return
            except (SubscriptionLost, TimeoutError) as error:
                _log.debug("mcp server ends a subscription", server=self._name, error=str(error)[:200])
            await asyncio.sleep(_LISTEN_AGAIN_S)
            self._signals.changed.set()  # what was missed meanwhile

    async def _knows_session(self) -> bool:
        """Ask the server for something that it never refuses in a session that it knows."""
        try:
            async with asyncio.timeout(_KNOWS_S):
                await self.check()
        except TimeoutError:
            return True
        except CallFailed as error:
            return not error.is_over
        return True

    async def _answer(self, request: Awaitable[Any], *, is_check: bool = False) -> Any:
        """Await a request; every failure as a `CallFailed`."""
        mark = CallMark()
        before = current_mark.set(mark)
        try:
            return await request
        except MCPError as error:
            if error.code == types.URL_ELICITATION_REQUIRED:
                raise _VisitsWanted(error) from None
            if is_check:
                mark.is_session_doubtful = mark.is_session_doubtful or self._is_refused(error, mark)
            elif self._is_http and not self._is_modern and not mark.status and error.code not in _OF_CALLS:
                self._signals.doubt.set()  # some servers say so that they do not know the session
            if mark.is_session_doubtful and (is_check or not await self._knows_session()):
                mark.is_session_gone = True
                self._signals.end("the server does not know the session any more")
            raise self._failure(error, mark) from None
        except ValidationError as error:
            raise CallFailed(f"its answer is not of the protocol ({first_problem(error)})", Fate.UNKNOWN) from None
        except Exception as error:  # noqa: BLE001 - the boundary to the SDK
            fate = Fate.UNSENT if mark.is_unsent else Fate.UNKNOWN
            raise CallFailed(in_words(error), fate, is_over=self._signals.over.is_set()) from None
        finally:
            current_mark.reset(before)

    def _is_refused(self, error: MCPError, mark: CallMark) -> bool:
        """Say whether a session is of no use, as what no server refuses was refused in it."""
        if self._is_modern or not self._is_http or mark.status == HTTPStatus.TOO_MANY_REQUESTS:
            return False
        is_lost = error.code == types.CONNECTION_CLOSED and error.message.startswith(_LOST)
        return bool(mark.status) or not (is_lost or error.code in _OF_CALLS)

    def _failure(self, error: MCPError, mark: CallMark) -> CallFailed:
        signals = self._signals
        if mark.is_unsent or mark.is_session_gone:
            return CallFailed(mark.problem or signals.why or "the connection is lost", Fate.UNSENT, is_over=True)
        if error.code == types.CONNECTION_CLOSED and error.message.startswith(_LOST):
            why = signals.why or f"the connection is lost ({error.message})"
            fate = Fate.UNKNOWN if mark.is_tried or not self._is_http else Fate.UNSENT
            return CallFailed(why, fate, is_over=signals.over.is_set() or error.message == _LOST[0])
        words = on_one_line(error.message)[:WORDS_CHARS]
        if mark.status:
            is_open = mark.status >= HTTPStatus.INTERNAL_SERVER_ERROR and mark.status != HTTPStatus.SERVICE_UNAVAILABLE
            if mark.lacks is not None:
                words = f"the login lacks a permission ({mark.lacks or 'the server does not say which'})"
            return CallFailed(
                f"HTTP {mark.status}: {words}",
                Fate.UNKNOWN if is_open else Fate.REFUSED,
                wants_login=mark.status == HTTPStatus.UNAUTHORIZED or mark.lacks is not None,
            )
        if error.code == types.PARSE_ERROR or (self._is_http and error.message.startswith(_NO_ANSWER)):
            return CallFailed(f"its answer is not of the protocol ({words})", Fate.UNKNOWN)
        return CallFailed(f"{words} (error {error.code})", Fate.REFUSED, is_answer=True)


def _left_out(kind: Kind, raw: list[Any], page: Any) -> dict[str, str]:
    """Return the tools that the SDK has dropped, as 2026-07-28 demands of headers that cannot be."""
    if kind is not TOOLS:
        return {}
    kept = {tool.name for tool in page.tools}
    names = [entry["name"] for entry in raw if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)]
    return {name: "its x-mcp-header cannot be sent" for name in names if name not in kept}
