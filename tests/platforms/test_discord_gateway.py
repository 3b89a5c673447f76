"""The loopback Discord's gateway, spoken to frame by frame: what it tells, what it closes with, what it replays."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from tests.platforms.discord_api import DiscordApi
from tests.platforms.discord_faults import Fault
from tests.platforms.discord_gateway import Close, Op
from tests.platforms.discord_objects import Intent, Route

GUILD, CHANNEL, THREAD, DM = 1, 10, 20, 5
EVERYTHING = int(sum(Intent) & ~(Intent.GUILD_MEMBERS | Intent.GUILD_PRESENCES))
PLAIN = EVERYTHING & ~int(Intent.MESSAGE_CONTENT)


class Client:
    """One WebSocket, unhelpful on purpose."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, op: int, data: Any = None) -> None:
        await self.socket.send_str(orjson.dumps({"op": op, "d": data}).decode())

    async def next(self) -> dict[str, Any]:
        message = await self.socket.receive(timeout=10)
        assert message.type is aiohttp.WSMsgType.TEXT, (message.type, self.socket.close_code)
        payload: dict[str, Any] = orjson.loads(message.data)
        return payload

    async def event(self, name: str) -> dict[str, Any]:
        while (payload := await self.next())["t"] != name:
            pass
        return payload

    async def close_code(self) -> int | None:
        while not (await self.socket.receive(timeout=10)).type.name.startswith("CLOS"):
            pass
        return self.socket.close_code

    async def identify(self, token: str, intents: Any = EVERYTHING) -> None:
        await self.send(Op.IDENTIFY, {"token": token, "intents": intents, "properties": {}})


class Line:
    """Opens connections."""

    def __init__(self, api: DiscordApi, session: aiohttp.ClientSession) -> None:
        self.api = api
        self.session = session

    async def open(self, query: str = "v=10&encoding=json") -> Client:
        return Client(await self.session.ws_connect(f"{self.api.gateway_url}?{query}"))

    async def ready(self, intents: int = EVERYTHING) -> tuple[Client, dict[str, Any]]:
        client = await self.open()
        assert (await client.next())["op"] == Op.HELLO
        await client.identify(self.api.token, intents)
        return client, await client.next()

    async def resume(self, ready: dict[str, Any], sequence: int) -> Client:
        client = await self.open()
        await client.next()
        data = {"token": self.api.token, "session_id": ready["d"]["session_id"], "seq": sequence}
        await client.send(Op.RESUME, data)
        return client


@pytest.fixture
async def api() -> AsyncIterator[DiscordApi]:
    async with DiscordApi() as server:
        server.add_dm(channel_id=DM)
        server.add_channel(CHANNEL, GUILD)
        server.add_thread(THREAD, CHANNEL)
        yield server


@pytest.fixture
async def line(api: DiscordApi) -> AsyncIterator[Line]:
    async with aiohttp.ClientSession() as session:
        yield Line(api, session)


async def test_a_session_begins_with_ready_and_the_guilds(api: DiscordApi, line: Line) -> None:
    said = api.user_says(CHANNEL, "before")
    client, ready = await line.ready()
    assert (ready["t"], ready["s"]) == ("READY", 1)
    assert ready["d"]["resume_gateway_url"] == api.gateway_url.rstrip("/")
    assert ready["d"]["guilds"] == [{"id": str(GUILD), "unavailable": True}]
    guild = await client.event("GUILD_CREATE")
    assert guild["s"] == 2
    assert [(c["id"], c["last_message_id"]) for c in guild["d"]["channels"]] == [(str(CHANNEL), str(said))]
    assert [thread["id"] for thread in guild["d"]["threads"]] == [str(THREAD)]


async def test_each_heartbeat_is_answered_and_shows_what_was_received(api: DiscordApi, line: Line) -> None:
    client, _ = await line.ready()
    await client.event("GUILD_CREATE")
    await client.send(Op.HEARTBEAT, 2)
    assert (await client.next())["op"] == Op.HEARTBEAT_ACK
    assert api.gateway.acknowledged == 2
    api.gateway.acknowledges = False
    await client.send(Op.HEARTBEAT, 2)
    api.user_says(CHANNEL, "x")
    assert (await client.next())["t"] == "MESSAGE_CREATE"


async def test_a_client_that_stops_beating_is_closed(api: DiscordApi, line: Line) -> None:
    api.gateway.heartbeat_interval_ms = 50
    client, _ = await line.ready()
    assert await client.close_code() == Close.SESSION_TIMED_OUT


@pytest.mark.parametrize(
    ("op", "data", "code"),
    [
        (Op.IDENTIFY, {"token": "wrong", "intents": 0}, Close.AUTHENTICATION_FAILED),
        (Op.RESUME, {"token": "wrong", "session_id": "x", "seq": 1}, Close.AUTHENTICATION_FAILED),
        (Op.IDENTIFY, {"token": "TOKEN"}, Close.INVALID_INTENTS),
        (Op.IDENTIFY, {"token": "TOKEN", "intents": 1 << 40}, Close.INVALID_INTENTS),
        (Op.IDENTIFY, {"token": "TOKEN", "intents": 0, "shard": [1, 2]}, Close.INVALID_SHARD),
        (Op.PRESENCE, {}, Close.NOT_AUTHENTICATED),
        (99, {}, Close.UNKNOWN_OPCODE),
        (Op.IDENTIFY, {"token": "x" * 5000}, Close.DECODE_ERROR),
    ],
)
async def test_a_client_that_errs_is_closed_with_the_reason(
    api: DiscordApi, line: Line, op: int, data: dict[str, Any], code: Close
) -> None:
    client = await line.open()
    await client.next()
    await client.send(op, {key: api.token if value == "TOKEN" else value for key, value in data.items()})
    assert await client.close_code() == code


async def test_broken_frames_old_versions_and_a_second_identify_are_closed(api: DiscordApi, line: Line) -> None:
    client = await line.open()
    await client.next()
    await client.socket.send_str("{")
    assert await client.close_code() == Close.DECODE_ERROR
    assert await (await line.open("v=9")).close_code() == Close.INVALID_API_VERSION
    client, _ = await line.ready()
    await client.identify(api.token)
    assert await client.close_code() == Close.ALREADY_AUTHENTICATED
    client, _ = await line.ready()
    for _ in range(121):
        await client.send(Op.HEARTBEAT, 1)
    assert await client.close_code() == Close.RATE_LIMITED


async def test_intents_decide_what_is_told(api: DiscordApi, line: Line) -> None:
    client, _ = await line.ready(int(Intent.DIRECT_MESSAGES))
    api.user_says(CHANNEL, "in the guild")
    api.user_says(DM, "in private")
    event = await client.next()
    assert (event["t"], event["d"]["content"], event["s"]) == ("MESSAGE_CREATE", "in private", 2)
    assert "guild_id" not in event["d"]
    api.disallow(Intent.MESSAGE_CONTENT)
    client = await line.open()
    await client.next()
    await client.identify(api.token)
    assert await client.close_code() == Close.DISALLOWED_INTENTS


async def test_content_is_hidden_without_the_intent_but_for_mentions(api: DiscordApi, line: Line) -> None:
    client, _ = await line.ready(PLAIN)
    api.user_says(CHANNEL, "secret", files=[("a", b"a", "")])
    event = await client.event("MESSAGE_CREATE")
    assert (event["d"]["content"], event["d"]["attachments"], event["d"]["guild_id"]) == ("", [], str(GUILD))
    api.user_says(CHANNEL, api.mention("open"))
    assert (await client.event("MESSAGE_CREATE"))["d"]["content"] == api.mention("open")


async def test_a_resume_replays_from_its_sequence_number_and_then_says_so(api: DiscordApi, line: Line) -> None:
    client, ready = await line.ready()
    await client.event("GUILD_CREATE")
    api.user_says(CHANNEL, "one")
    first = await client.event("MESSAGE_CREATE")
    api.gateway.drop()
    await api.wait_for(lambda: not api.gateway.connected)
    api.user_says(CHANNEL, "two")
    again = await line.resume(ready, first["s"] - 1)
    for text in ("one", "two"):
        assert (await again.next())["d"]["content"] == text
    resumed = await again.next()
    assert (resumed["t"], resumed["s"]) == ("RESUMED", 5)
    api.user_says(CHANNEL, "three")
    assert (await again.next())["d"]["content"] == "three"
    third = await line.resume(ready, 3)
    assert [(await third.next())["d"].get("content") for _ in range(3)] == ["two", "three", None]


async def test_a_resume_is_told_before_what_follows_it_and_not_again_later(api: DiscordApi, line: Line) -> None:
    client, ready = await line.ready()
    await client.event("GUILD_CREATE")
    api.gateway.tells = False
    again = await line.resume(ready, 2)
    await api.wait_for(lambda: api.gateway.ready_count == 2)
    api.user_says(CHANNEL, "after")
    api.gateway.tells = True
    api.gateway.wake()
    assert [(await again.next())["t"] for _ in range(2)] == ["RESUMED", "MESSAGE_CREATE"]
    third = await line.resume(ready, 2)
    assert [(await third.next())["t"] for _ in range(2)] == ["MESSAGE_CREATE", "RESUMED"]


async def test_sessions_end_by_a_normal_close_by_choice_and_by_an_unknown_number(api: DiscordApi, line: Line) -> None:
    client, ready = await line.ready()
    await client.socket.close(code=1000)
    await api.wait_for(lambda: api.gateway.closed == [1000])
    assert (await (await line.resume(ready, 1)).next())["op"] == Op.INVALID_SESSION
    client, ready = await line.ready()
    assert await (await line.resume(ready, 99)).close_code() == Close.INVALID_SEQ
    api.gateway.refused_resumes = 1
    assert (await (await line.resume(ready, 1)).next())["op"] == Op.INVALID_SESSION
    assert (await (await line.resume(ready, 1)).next())["t"] == "GUILD_CREATE"
    api.gateway.forget_sessions()
    assert (await (await line.resume(ready, 1)).next())["d"] is False


async def test_a_test_can_ask_for_a_reconnect_invalidate_close_and_tell_again(api: DiscordApi, line: Line) -> None:
    client, _ = await line.ready()
    await client.event("GUILD_CREATE")
    said = api.user_says(CHANNEL, "once")
    api.redeliver()
    events = [await client.next() for _ in range(2)]
    assert [(event["d"]["id"], event["s"]) for event in events] == [(str(said), 3), (str(said), 4)]
    await api.gateway.reconnect()
    assert (await client.next())["op"] == Op.RECONNECT
    await api.gateway.invalidate(resumable=True)
    assert await client.next() == {"op": Op.INVALID_SESSION, "d": True, "s": None, "t": None}
    await asyncio.gather(api.gateway.close(Close.UNKNOWN_ERROR), client.close_code())
    assert client.socket.close_code == Close.UNKNOWN_ERROR


async def test_events_can_be_kept_back(api: DiscordApi, line: Line) -> None:
    client, _ = await line.ready()
    await client.event("GUILD_CREATE")
    api.gateway.tells = False
    api.user_says(CHANNEL, "late")
    await client.send(Op.HEARTBEAT, 2)
    assert (await client.next())["op"] == Op.HEARTBEAT_ACK
    api.gateway.tells = True
    api.gateway.wake()
    assert (await client.next())["d"]["content"] == "late"


async def test_a_hidden_channel_is_silent(api: DiscordApi, line: Line) -> None:
    client, _ = await line.ready()
    await client.event("GUILD_CREATE")
    api.hide(CHANNEL)
    api.user_says(CHANNEL, "unseen")
    api.user_says(THREAD, "unseen too")
    api.user_says(DM, "seen")
    assert (await client.next())["d"]["content"] == "seen"


async def test_zlib_stream_is_one_stream_of_flushed_frames(api: DiscordApi, line: Line) -> None:
    client = await line.open("v=10&encoding=json&compress=zlib-stream")
    inflate = zlib.decompressobj()

    async def frame() -> dict[str, Any]:
        data = (await client.socket.receive(timeout=10)).data
        assert data.endswith(b"\x00\x00\xff\xff")
        payload: dict[str, Any] = orjson.loads(inflate.decompress(data))
        return payload

    assert (await frame())["op"] == Op.HELLO
    await client.identify(api.token)
    assert [(await frame())["t"] for _ in range(2)] == ["READY", "GUILD_CREATE"]


async def test_a_connection_can_be_refused(api: DiscordApi, line: Line) -> None:
    api.faults.add(Fault(route=Route.GATEWAY, status=503))
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await line.open()
    client = await line.open()
    assert (await client.next())["op"] == Op.HELLO
