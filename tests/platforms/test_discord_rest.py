"""What the loopback Discord takes and refuses over REST, asked without an SDK that would check first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import orjson
import pytest

from tests.platforms.discord_api import DiscordApi
from tests.platforms.discord_faults import Fault, Scope, answer_lost, rate_limited
from tests.platforms.discord_objects import EPOCH_MS, Route

GUILD, CHANNEL, THREAD, DM = 1, 10, 20, 5
MESSAGES = f"/channels/{CHANNEL}/messages"


class Caller:
    """Calls the API the way the documentation says."""

    def __init__(self, api: DiscordApi, session: aiohttp.ClientSession) -> None:
        self.api = api
        self.session = session
        self.headers: dict[str, str] = {}

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bot {self.api.token}"}
        if body is not None:
            more["json"] = body
        async with self.session.request(method, self.api.url + path, headers=headers, **more) as response:
            self.headers = dict(response.headers)
            raw = await response.read()
            return response.status, orjson.loads(raw) if response.content_type == "application/json" else raw

    async def post(self, path: str, **body: Any) -> Any:
        status, answer = await self.call("POST", path, body)
        assert status == 200, answer
        return answer

    async def refusal(self, method: str, path: str, **body: Any) -> tuple[int, int]:
        status, answer = await self.call(method, path, body if method != "GET" else None)
        assert status >= 400, answer
        return status, answer["code"]

    async def upload(self, payload: dict[str, Any], files: Sequence[tuple[str, bytes]]) -> tuple[int, Any]:
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("payload_json", orjson.dumps(payload).decode(), content_type="application/json")
        for number, (name, content) in enumerate(files):
            form.add_field(f"files[{number}]", content, filename=name, content_type="text/plain")
        return await self.call("POST", MESSAGES, data=form)


@pytest.fixture
async def api() -> AsyncIterator[DiscordApi]:
    async with DiscordApi() as server:
        server.add_dm(channel_id=DM)
        server.add_channel(CHANNEL, GUILD)
        server.add_thread(THREAD, CHANNEL)
        yield server


@pytest.fixture
async def bot(api: DiscordApi) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as session:
        yield Caller(api, session)


def row(*ids: str) -> dict[str, Any]:
    buttons = [{"type": 2, "style": 1, "label": "x", "custom_id": custom_id} for custom_id in ids]
    return {"type": 1, "components": buttons}


async def test_a_wrong_token_and_a_wrong_scheme_are_unauthorized(api: DiscordApi, bot: Caller) -> None:
    for value in ("Bot wrong", api.token, f"Bearer {api.token}"):
        async with bot.session.get(f"{api.url}/users/@me", headers={"Authorization": value}) as response:
            assert response.status == 401
    status, me = await bot.call("GET", "/users/@me")
    assert (status, me["id"], me["bot"]) == (200, str(api.bot_id), True)
    assert bot.headers["Content-Type"] == "application/json"
    assert await bot.refusal("GET", "/nothing") == (404, 0)


async def test_ids_tell_the_time_and_only_grow(api: DiscordApi, bot: Caller) -> None:
    ids = [int((await bot.post(MESSAGES, content="x"))["id"]) for _ in range(3)]
    ids += [api.user_says(CHANNEL, "y") for _ in range(50)]
    assert ids == sorted(set(ids))
    assert abs((ids[-1] >> 22) + EPOCH_MS - api.world.clock.now_s() * 1000) < 10_000


async def test_length_is_counted_in_code_points(api: DiscordApi, bot: Caller) -> None:
    assert await bot.refusal("POST", MESSAGES, content="🙂" * 2001) == (400, 50035)
    _status, answer = await bot.call("POST", MESSAGES, {"content": "x" * 2001})
    assert answer["errors"]["content"]["_errors"][0]["code"] == "BASE_TYPE_MAX_LENGTH"
    assert (await bot.post(MESSAGES, content="🙂" * 2000))["content"] == "🙂" * 2000
    assert len(api.sent) == 1
    message_id = api.sent[0].message_id
    assert await bot.refusal("PATCH", f"{MESSAGES}/{message_id}", content="x" * 2001) == (400, 50035)


async def test_what_says_nothing_is_refused_and_outer_space_dropped(api: DiscordApi, bot: Caller) -> None:
    for body in ({}, {"content": ""}, {"content": " \n"}, {"content": None}):
        assert await bot.refusal("POST", MESSAGES, **body) == (400, 50006)
    message = await bot.post(MESSAGES, content=" a b \n")
    assert message["content"] == "a b"
    assert await bot.refusal("PATCH", f"{MESSAGES}/{message['id']}", content="") == (400, 50006)
    async with bot.session.post(
        api.url + MESSAGES,
        data=b"{",
        headers={"Authorization": f"Bot {api.token}", "Content-Type": "application/json"},
    ) as response:
        assert (response.status, (await response.json())["code"]) == (400, 50109)


async def test_components_have_their_limits(bot: Caller) -> None:
    fits = [row(*(f"{r}{b}" for b in range(5))) for r in range(5)]
    assert len((await bot.post(MESSAGES, content="x", components=fits))["components"]) == 5
    await bot.post(MESSAGES, content="x", components=[row("i" * 100)])
    for bad in (
        [row(str(r)) for r in range(6)],
        [row(*"abcdef")],
        [row()],
        [row("i" * 101)],
        [row("")],
        [row("a", "a")],
        [row("a"), row("a")],
        [{"type": 2, "style": 1, "label": "x", "custom_id": "bare"}],
        [{"type": 1, "components": [{"type": 2, "style": 1, "label": "l" * 81, "custom_id": "a"}]}],
    ):
        assert await bot.refusal("POST", MESSAGES, content="x", components=bad) == (400, 50035), bad


async def test_where_the_bot_may_not_write_it_is_told_why(api: DiscordApi, bot: Caller) -> None:
    assert await bot.refusal("POST", "/channels/99/messages", content="x") == (404, 10003)
    assert await bot.refusal("POST", "/channels/xy/messages", content="x") == (400, 50035)
    api.silence(CHANNEL)
    assert await bot.refusal("POST", MESSAGES, content="x") == (403, 50013)
    api.hide(CHANNEL)
    assert await bot.refusal("POST", MESSAGES, content="x") == (403, 50001)
    assert await bot.refusal("GET", MESSAGES) == (403, 50001)
    assert await bot.refusal("POST", f"/channels/{THREAD}/messages", content="x") == (403, 50001)
    api.close_dms()
    assert await bot.refusal("POST", f"/channels/{DM}/messages", content="x") == (403, 50007)
    assert await bot.refusal("POST", f"/channels/{DM}/typing") == (403, 50007)
    api.delete_channel(CHANNEL)
    assert await bot.refusal("POST", MESSAGES, content="x") == (404, 10003)
    assert api.sent == []


async def test_a_dm_is_opened_once_and_not_with_bots_or_strangers(api: DiscordApi, bot: Caller) -> None:
    assert (await bot.post("/users/@me/channels", recipient_id="111"))["id"] == str(DM)
    api.add_user(222, "Ben")
    first = await bot.post("/users/@me/channels", recipient_id="222")
    assert (first["type"], first["recipients"][0]["id"]) == (1, "222")
    assert await bot.post("/users/@me/channels", recipient_id="222") == first
    assert await bot.refusal("POST", "/users/@me/channels", recipient_id="999") == (400, 50033)
    api.add_user(333, "Robot", is_bot=True)
    assert await bot.refusal("POST", "/users/@me/channels", recipient_id="333") == (403, 50007)


async def test_an_archived_thread_opens_for_a_message_unless_it_is_locked(api: DiscordApi, bot: Caller) -> None:
    path = f"/channels/{THREAD}/messages"
    message = await bot.post(path, content="x")
    api.archive(THREAD)
    assert await bot.refusal("PATCH", f"{path}/{message['id']}", content="y") == (400, 50083)
    assert await bot.refusal("PUT", f"{path}/{message['id']}/reactions/%F0%9F%91%80/@me") == (400, 50083)
    await bot.post(path, content="back")
    assert not api.world.channels[THREAD].archived
    api.archive(THREAD, locked=True)
    assert await bot.refusal("POST", path, content="z") == (400, 50083)
    assert api.texts(THREAD) == ["x", "back"]


async def test_a_reply_needs_its_message_unless_it_says_otherwise(api: DiscordApi, bot: Caller) -> None:
    said = api.user_says(CHANNEL, "hello")
    answer = await bot.post(MESSAGES, content="x", message_reference={"message_id": str(said)})
    assert (answer["type"], answer["referenced_message"]["content"]) == (19, "hello")
    assert [user["id"] for user in answer["mentions"]] == ["111"]
    gone = {"message_id": "12345"}
    status, refused = await bot.call("POST", MESSAGES, {"content": "x", "message_reference": gone})
    assert (status, refused["code"]) == (400, 50035)
    assert refused["errors"]["message_reference"]["_errors"][0]["code"] == "REPLIES_UNKNOWN_MESSAGE"
    plain = await bot.post(MESSAGES, content="y", message_reference={**gone, "fail_if_not_exists": False})
    assert (plain["type"], "message_reference" in plain) == (0, False)
    api.delete(CHANNEL, said)
    _, again = await bot.call("GET", f"{MESSAGES}/{answer['id']}")
    assert again["referenced_message"] is None


async def test_mentions_ping_only_whom_they_are_allowed_to(bot: Caller) -> None:
    for allowed, pinged in (({}, []), ({"parse": ["users"]}, ["111"]), ({"users": ["111"]}, ["111"])):
        message = await bot.post(MESSAGES, content="<@111>", allowed_mentions=allowed)
        assert [user["id"] for user in message["mentions"]] == pinged
    both = {"parse": ["users"], "users": ["111"]}
    assert await bot.refusal("POST", MESSAGES, content="x", allowed_mentions=both) == (400, 50035)


async def test_an_enforced_nonce_gives_the_message_that_exists_for_some_minutes(api: DiscordApi, bot: Caller) -> None:
    first = await bot.post(MESSAGES, content="x", nonce="n1", enforce_nonce=True)
    assert first["nonce"] == "n1"
    assert (await bot.post(MESSAGES, content="y", nonce="n1", enforce_nonce=True))["id"] == first["id"]
    assert (await bot.post(f"/channels/{DM}/messages", content="x", nonce="n1", enforce_nonce=True))["id"] != first[
        "id"
    ]
    assert (await bot.post(MESSAGES, content="z", nonce="n1"))["id"] != first["id"]
    assert api.texts(CHANNEL) == ["x", "z"]
    assert [call.text for call in api.sent] == ["x", "x", "z"]
    api.world.clock.advance(600)
    await bot.post(MESSAGES, content="late", nonce="n1", enforce_nonce=True)
    assert api.texts(CHANNEL) == ["x", "z", "late"]
    assert await bot.refusal("POST", MESSAGES, content="x", nonce="n" * 26) == (400, 50035)


async def test_two_sends_with_one_nonce_at_the_same_time_make_one_message(api: DiscordApi, bot: Caller) -> None:
    made = await asyncio.gather(*(bot.post(MESSAGES, content="x", nonce="n", enforce_nonce=True) for _ in range(5)))
    assert len({message["id"] for message in made}) == 1
    assert api.texts(CHANNEL) == ["x"]


async def test_only_own_messages_are_edited_and_deleted(api: DiscordApi, bot: Caller) -> None:
    said = api.user_says(CHANNEL, "mine")
    assert await bot.refusal("PATCH", f"{MESSAGES}/{said}", content="yours") == (403, 50005)
    assert await bot.refusal("DELETE", f"{MESSAGES}/{said}") == (403, 50013)
    private = api.user_says(DM, "mine")
    assert await bot.refusal("DELETE", f"/channels/{DM}/messages/{private}") == (403, 50003)
    own = await bot.post(MESSAGES, content="one", components=[row("a")])
    status, edited = await bot.call("PATCH", f"{MESSAGES}/{own['id']}", {"content": "two", "components": []})
    assert (status, edited["content"], edited["components"]) == (200, "two", [])
    assert edited["edited_timestamp"] is not None
    assert await bot.call("DELETE", f"{MESSAGES}/{own['id']}") == (204, b"")
    for method in ("GET", "PATCH", "DELETE"):
        assert await bot.refusal(method, f"{MESSAGES}/{own['id']}") == (404, 10008)


async def test_history_is_newest_first_and_pages_both_ways(api: DiscordApi, bot: Caller) -> None:
    ids = [api.user_says(CHANNEL, str(number)) for number in range(7)]

    async def history(query: str) -> list[str]:
        status, found = await bot.call("GET", f"{MESSAGES}?{query}")
        assert status == 200
        return [message["content"] for message in found]

    assert await history("limit=2") == ["6", "5"]
    assert await history(f"limit=2&before={ids[5]}") == ["4", "3"]
    assert await history(f"limit=2&after={ids[1]}") == ["3", "2"]
    assert await history(f"limit=3&around={ids[3]}") == ["4", "3", "2"]
    assert await history("") == ["6", "5", "4", "3", "2", "1", "0"]
    for query in ("limit=0", "limit=101", "limit=x", "before=1&after=2"):
        assert await bot.refusal("GET", f"{MESSAGES}?{query}") == (400, 50035)
    api.world.channels[CHANNEL].no_history = True
    assert await bot.refusal("GET", MESSAGES) == (403, 50001)


async def test_files_have_their_limits_and_an_edit_keeps_what_it_names(api: DiscordApi, bot: Caller) -> None:
    status, message = await bot.upload({"attachments": [{"id": 0, "description": "d"}]}, [("a.txt", b"a"), ("b", b"b")])
    assert status == 200
    assert [a["filename"] for a in message["attachments"]] == ["a.txt", "b"]
    assert message["attachments"][0]["description"] == "d"
    async with bot.session.get(message["attachments"][1]["url"]) as response:
        assert await response.read() == b"b"
    async with bot.session.get(message["attachments"][1]["url"].partition("?")[0]) as response:
        assert response.status == 404
    kept = {"attachments": [{"id": message["attachments"][1]["id"]}]}
    _, edited = await bot.call("PATCH", f"{MESSAGES}/{message['id']}", kept)
    assert [a["filename"] for a in edited["attachments"]] == ["b"]
    assert (await bot.upload({}, [("x", b"x")] * 10))[0] == 200
    assert (await bot.upload({}, [("x", b"x")] * 11))[1]["code"] == 50035
    assert (await bot.upload({"attachments": [{"id": 3, "filename": "no"}]}, [("x", b"x")]))[1]["code"] == 50035
    api.rest.upload_limit_bytes = 100
    assert (await bot.upload({}, [("x", b"x" * 100)]))[0] == 200
    status, refused = await bot.upload({}, [("x", b"x" * 101)])
    assert (status, refused["code"]) == (413, 40005)


async def test_a_thread_takes_its_messages_id_and_is_made_once(api: DiscordApi, bot: Caller) -> None:
    said = api.user_says(CHANNEL, "hello")
    thread = await bot.post(f"{MESSAGES}/{said}/threads", name="T")
    assert (thread["id"], thread["parent_id"], thread["type"]) == (str(said), str(CHANNEL), 11)
    _, source = await bot.call("GET", f"{MESSAGES}/{said}")
    assert source["thread"]["id"] == str(said)
    assert await bot.refusal("POST", f"{MESSAGES}/{said}/threads", name="T") == (400, 160004)
    inside = api.user_says(said, "inside")
    assert await bot.refusal("POST", f"/channels/{said}/messages/{inside}/threads", name="T") == (400, 50024)
    private = api.user_says(DM, "hello")
    assert await bot.refusal("POST", f"/channels/{DM}/messages/{private}/threads", name="T") == (400, 50024)
    other = api.user_says(CHANNEL, "hello")
    for bad in ({"name": ""}, {"name": "n" * 101}, {"name": "n", "auto_archive_duration": 7}):
        assert await bot.refusal("POST", f"{MESSAGES}/{other}/threads", **bad) == (400, 50035)
    assert await bot.refusal("POST", f"{MESSAGES}/1/threads", name="T") == (404, 10008)


async def test_reactions_are_real_emoji(api: DiscordApi, bot: Caller) -> None:
    said = api.user_says(CHANNEL, "hello")
    for emoji in ("eyes", "party:123"):
        assert await bot.refusal("PUT", f"{MESSAGES}/{said}/reactions/{emoji}/@me") == (400, 10014)
    assert (await bot.call("PUT", f"{MESSAGES}/{said}/reactions/%F0%9F%91%80/@me"))[0] == 204
    assert api.world.reactions[said] == [("👀", api.bot_id)]
    assert (await bot.call("DELETE", f"{MESSAGES}/{said}/reactions/%F0%9F%91%80/@me"))[0] == 204
    assert api.world.reactions[said] == []


async def test_commands_are_overwritten_as_a_whole_and_keep_their_ids(api: DiscordApi, bot: Caller) -> None:
    path = f"/applications/{api.bot_id}/commands"
    ask, stop = ({"name": name, "description": "d"} for name in ("ask", "stop"))
    _, first = await bot.call("PUT", path, [ask, stop])
    _, second = await bot.call("PUT", path, [ask])
    assert [command["id"] for command in second] == [first[0]["id"]]
    assert (await bot.call("GET", path))[1] == second
    for bad in (
        [{"name": "Ask", "description": "d"}],
        [{"name": "ask"}],
        [ask, ask],
        [{**ask, "description": "d" * 101}],
    ):
        status, refused = await bot.call("PUT", path, bad)
        assert (status, refused["code"]) == (400, 50035)
    assert await bot.refusal("GET", "/applications/5/commands") == (403, 20012)


async def test_an_interaction_is_answered_once_in_time_and_followed_up_for_15_minutes(
    api: DiscordApi, bot: Caller
) -> None:
    await bot.call("PUT", f"/applications/{api.bot_id}/commands", [{"name": "ask", "description": "d"}])
    used = api.slash(CHANNEL, "ask")
    callback, hook = f"/interactions/{used.id}/{used.token}/callback", f"/webhooks/{api.bot_id}/{used.token}"
    assert await bot.refusal("POST", hook, content="early") == (404, 10015)
    assert await bot.refusal("POST", f"/interactions/{used.id}/wrong/callback", type=5) == (404, 10062)
    assert await bot.refusal("POST", callback, type=6) == (400, 50035)
    assert await bot.refusal("POST", callback, type=4, data={"content": "x" * 2001}) == (400, 50035)
    assert (await bot.call("POST", callback, {"type": 5}))[0] == 204
    assert await bot.refusal("POST", callback, type=5) == (400, 40060)
    await bot.post(hook, content="answer")
    await bot.post(hook, content="secret", flags=64)
    assert api.texts(CHANNEL) == ["answer"]
    assert [message["content"] for message in used.messages.values()] == ["answer", "secret"]
    api.world.clock.advance(899)
    assert (await bot.call("PATCH", f"{hook}/messages/@original", {"content": "changed"}))[0] == 200
    api.world.clock.advance(2)
    assert await bot.refusal("POST", hook, content="late") == (401, 50027)
    late = api.slash(CHANNEL, "ask")
    api.world.clock.advance(3.5)
    assert await bot.refusal("POST", f"/interactions/{late.id}/{late.token}/callback", type=5) == (404, 10062)
    assert api.texts(CHANNEL) == ["changed"]
    with pytest.raises(ValueError, match="there is no command /other"):
        api.slash(CHANNEL, "other")


async def test_the_application_says_which_intents_are_on(api: DiscordApi, bot: Caller) -> None:
    _, application = await bot.call("GET", "/applications/@me")
    _, same = await bot.call("GET", "/oauth2/applications/@me")
    assert application == same
    assert application["flags"] & 1 << 19
    _, gateway = await bot.call("GET", "/gateway/bot")
    assert (gateway["url"], gateway["shards"]) == (api.gateway_url.rstrip("/"), 1)


async def test_faults_strike_their_route_and_channel_as_often_as_they_say(api: DiscordApi, bot: Caller) -> None:
    fault = api.faults.add(rate_limited(Route.CREATE_MESSAGE, 0.25, channel_id=DM, times=2))
    await bot.post(MESSAGES, content="elsewhere")
    for _ in range(2):
        status, answer = await bot.call("POST", f"/channels/{DM}/messages", {"content": "x"})
        assert (status, answer["retry_after"], answer["global"]) == (429, 0.25, False)
        assert (bot.headers["Via"], bot.headers["Retry-After"]) == ("1.1 google", "1")
    await bot.post(f"/channels/{DM}/messages", content="x")
    assert api.faults.hits(fault) == 2
    api.faults.add(rate_limited(None, 3.0, scope=Scope.GLOBAL))
    assert (await bot.call("GET", "/users/@me"))[1]["global"] is True
    assert bot.headers["X-RateLimit-Global"] == "true"
    api.faults.add(Fault(route=Route.GET_ME, status=503))
    assert (await bot.call("GET", "/users/@me"))[0] == 503
    assert (await bot.call("GET", "/users/@me"))[0] == 200


async def test_a_call_can_be_cut_before_or_after_it_took_effect_and_held(api: DiscordApi, bot: Caller) -> None:
    api.faults.add(Fault(route=Route.CREATE_MESSAGE, drop_before=True))
    with pytest.raises(aiohttp.ClientError):
        await bot.post(MESSAGES, content="never")
    assert api.texts(CHANNEL) == []
    api.faults.add(answer_lost())
    with pytest.raises(aiohttp.ClientError):
        await bot.post(MESSAGES, content="once")
    assert api.texts(CHANNEL) == ["once"]
    assert [call.ok for call in api.calls(Route.CREATE_MESSAGE)] == [False, True]
    release = asyncio.Event()
    held = api.faults.add(Fault(route=Route.CREATE_MESSAGE, hold=release))
    task = asyncio.create_task(bot.post(MESSAGES, content="held"))
    await api.wait_for(lambda: api.faults.hits(held))
    assert api.texts(CHANNEL) == ["once"]
    release.set()
    await task
    assert api.texts(CHANNEL) == ["once", "held"]


async def test_a_limit_is_told_in_headers_and_holds_for_each_channel(api: DiscordApi, bot: Caller) -> None:
    api.limits.set(Route.CREATE_MESSAGE, calls=2, per_s=60.0)
    for left in ("1", "0"):
        await bot.post(MESSAGES, content="x")
        assert bot.headers["X-RateLimit-Remaining"] == left
    status, answer = await bot.call("POST", MESSAGES, {"content": "x"})
    assert status == 429
    assert 50 < answer["retry_after"] <= 60
    await bot.post(f"/channels/{DM}/messages", content="x")
    assert api.texts(CHANNEL) == ["x", "x"]
