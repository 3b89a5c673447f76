"""The guarded client against real servers: what is connected to, what is carried where, and what ends a request."""

from __future__ import annotations

import asyncio
import base64
import gzip
import shutil
import sys
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import pytest

from bot.security.network import BadUrl, NetworkRefused
from bot.web.body import read_body
from bot.web.client import GuardedClient
from bot.web.errors import TooManyRedirects, WebError, WebTimeout, WebTooLarge
from bot.web.resolver import SystemResolver
from bot.web.wire import Answer
from tests.platforms.pages import Fault, Page, PageServer, gzip_bomb, redirect
from tests.support.resolvers import ScriptedResolver, connections_tried
from tests.support.ticking import loop_ticks

LOOPBACK = (ip_network("127.0.0.1/32"),)
MIB = 1024 * 1024


@pytest.fixture
async def server() -> AsyncIterator[PageServer]:
    async with PageServer() as pages:
        pages.pages["/"] = Page(body=b"hello")
        yield pages


@pytest.fixture
def resolver() -> ScriptedResolver:
    return ScriptedResolver(
        public_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]], private_test=[["10.0.0.5"]], mixed_test=[
            ["127.0.0.1", "10.0.0.5"]
        ],
    )  # fmt: skip


@pytest.fixture
def client(resolver: ScriptedResolver) -> GuardedClient:
    """A client for which this machine's first loopback address is public, and no other."""
    return GuardedClient(LOOPBACK, resolver=resolver)


def at(server: PageServer, path: str = "/", host: str = "public.test") -> str:
    return f"http://{host}:{server.port}{path}"


async def get(client: GuardedClient, url: str, **options: object) -> Answer:
    return await client.request("GET", url, **options)  # type: ignore[arg-type]


async def test_a_page_comes_with_its_type_and_where_it_came_from(client: GuardedClient, server: PageServer) -> None:
    answer = await get(client, at(server, "/#part"))
    assert (answer.status, answer.body, answer.url) == (200, b"hello", at(server))
    assert (answer.content_type, answer.charset, answer.is_cut, answer.redirects) == ("text/html", "utf-8", False, 0)
    assert server.seen[0].headers["host"] == f"public.test:{server.port}"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9",
        "http://[::1]",
        "http://169.254.169.254/",
        "http://0x7f000001",
        "http://[::ffff:10.0.0.1]",
        "file:///etc/passwd",
        "http://private.test/",
        "http://mixed.test/",
    ],
)
async def test_a_private_address_is_refused_before_a_connection_is_made(url: str, resolver: ScriptedResolver) -> None:
    """C087: every URL of the case; a name with one private address among others is no better."""
    with connections_tried() as tried, pytest.raises(NetworkRefused):
        await get(GuardedClient(resolver=resolver), url)
    assert tried == []


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f000001", "2130706433", "127.1", "[::ffff:127.0.0.1]", "localhost"])
async def test_a_server_on_this_machine_sees_nothing_of_a_refused_request(host: str, server: PageServer) -> None:
    """C087, with something to be reached: the system's own resolver for the name."""
    client = GuardedClient()
    with connections_tried() as tried, pytest.raises(NetworkRefused):
        await get(client, at(server, host=host))
    client.close()
    assert tried == []
    assert server.seen == []


async def test_the_names_of_the_system_are_looked_up(server: PageServer) -> None:
    client = GuardedClient([ip_network("127.0.0.0/8"), ip_network("::1")])
    with connections_tried() as tried:
        assert (await get(client, at(server, host="localhost"))).body == b"hello"
    client.close()
    assert tried[-1] == ("127.0.0.1", server.port)


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("http://169.254.169.254/latest/meta-data/", NetworkRefused),
        ("http://10.0.0.5/", NetworkRefused),
        ("//private.test/", NetworkRefused),
        ("file:///etc/passwd", NetworkRefused),
        ("gopher://127.0.0.1/", NetworkRefused),
        ("http://127.0.0.2:{port}/", NetworkRefused),
        ("http://user:pw@public.test:{port}/", NetworkRefused),
        ("http://[::1", BadUrl),
    ],
)
async def test_every_hop_is_judged(
    location: str, error: type[Exception], client: GuardedClient, server: PageServer
) -> None:
    """C088: a public page that leads to a private address, or to another scheme."""
    server.pages["/away"] = redirect(location.replace("{port}", str(server.port)))
    with connections_tried() as tried, pytest.raises(error):
        await get(client, at(server, "/away"))
    assert tried == [("127.0.0.1", server.port)]
    assert [seen.path for seen in server.seen] == ["/away"]


async def test_a_chain_of_redirects_ends_at_the_limit(client: GuardedClient, server: PageServer) -> None:
    """C088: a chain of 20."""
    for number in range(20):
        server.pages[f"/{number}"] = redirect(f"/{number + 1}")
    server.pages["/20"] = Page(body=b"end")
    with pytest.raises(TooManyRedirects):
        await get(client, at(server, "/0"))
    assert len(server.seen) == 6
    answer = await get(client, at(server, "/15"))
    assert (answer.body, answer.redirects, answer.url) == (b"end", 5, at(server, "/20"))


async def test_a_redirect_to_itself_ends_too(client: GuardedClient, server: PageServer) -> None:
    server.pages["/loop"] = redirect("/loop")
    with pytest.raises(TooManyRedirects):
        await get(client, at(server, "/loop"))


async def test_secret_headers_stay_with_the_host_they_were_meant_for(client: GuardedClient, server: PageServer) -> None:
    """C088: credentials are not carried to another host, whatever their header is called."""
    server.pages["/here"] = redirect("/away")
    server.pages["/away"] = redirect(at(server, "/", "other.test"))
    secrets = {"Authorization": "Bearer s3cret", "Cookie": "id=s3cret", "X-Subscription-Token": "s3cret"}
    await get(client, at(server, "/here"), headers={**secrets, "Accept": "text/html"})
    first, second, third = server.seen
    for seen in (first, second):
        assert seen.headers["authorization"] == "Bearer s3cret"
        assert seen.headers["x-subscription-token"] == "s3cret"
    assert third.headers["host"].startswith("other.test")
    assert not any("s3cret" in value for value in third.headers.values())
    assert third.headers["accept"] == "text/html"


async def test_a_cookie_that_a_server_sets_is_never_sent_back(client: GuardedClient, server: PageServer) -> None:
    server.pages["/set"] = Page(status=302, headers={"Location": "/", "Set-Cookie": "track=1; Path=/"})
    await get(client, at(server, "/set"))
    await get(client, at(server))
    assert not any("cookie" in seen.headers for seen in server.seen)


async def test_the_environments_proxy_is_not_used(
    client: GuardedClient, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await get(client, at(server))).body == b"hello"


async def test_a_name_that_changes_its_address_is_followed_to_the_judged_one_only() -> None:
    """A rebinding resolver: 127.0.0.2 stands for a public address, 127.0.0.1 is refused."""
    resolver = ScriptedResolver(rebind_test=[["127.0.0.2"], ["127.0.0.1"]])
    client = GuardedClient([ip_network("127.0.0.2/32")], resolver=resolver)
    async with PageServer(host="127.0.0.2") as public, PageServer(port=public.port) as private:
        public.pages["/"] = Page(body=b"public")
        public.pages["/again"] = redirect("/")
        with connections_tried() as tried:
            assert (await get(client, at(public, "/", "rebind.test"))).body == b"public"
        assert tried == [("127.0.0.2", public.port)]
        assert resolver.lookups == ["rebind.test"]
        resolver.answers["rebind.test"] = [["127.0.0.2"], ["127.0.0.1"]]
        with connections_tried() as tried, pytest.raises(NetworkRefused):
            await get(client, at(public, "/again", "rebind.test"))
        assert tried == [("127.0.0.2", public.port)]
        assert private.seen == []


async def test_the_fake_addresses_of_a_proxy_pass_only_if_allowed(resolver: ScriptedResolver) -> None:
    """C090: 198.18.0.5 for every name. That a connection is tried is what passing means."""
    resolver.answers["fake.test"] = [["198.18.0.5"]]
    resolver.answers["metadata.google.internal"] = [["198.18.0.5"]]
    with connections_tried() as tried, pytest.raises(NetworkRefused, match=r"198\.18\.0\.0/15"):
        await get(GuardedClient(resolver=resolver), "http://fake.test/")
    assert tried == []
    allowing = GuardedClient([ip_network("198.18.0.0/15"), ip_network("169.254.0.0/16")], resolver=resolver)
    with connections_tried() as tried:
        with suppress(WebError):
            await get(allowing, "http://fake.test/", timeout_s=0.2)
        assert tried == [("198.18.0.5", 80)]
        for url in ("http://169.254.169.254/", "http://metadata.google.internal/"):
            with pytest.raises(NetworkRefused, match="metadata"):
                await get(allowing, url)
    assert tried == [("198.18.0.5", 80)]


async def test_pages_are_fetched_side_by_side(client: GuardedClient, server: PageServer) -> None:
    """Three pages that are held: all three requests are there before any is answered."""
    for name in ("/a", "/b", "/c"):
        server.pages[name] = Page(body=name.encode(), fault=Fault.HELD)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(get(client, at(server, name))) for name in ("/a", "/b", "/c")]
        await server.wait_for(lambda: server.open_now == 3)
        assert not any(task.done() for task in tasks)
        server.gate.set()
    assert [task.result().body for task in tasks] == [b"/a", b"/b", b"/c"]
    assert server.most_at_once == 3


# --- limits


async def test_a_gzip_bomb_is_noticed_at_the_limit(client: GuardedClient, server: PageServer) -> None:
    server.pages["/bomb"] = gzip_bomb(200 * MIB)
    assert len(server.pages["/bomb"].body) < MIB
    with pytest.raises(WebTooLarge):
        await get(client, at(server, "/bomb"))


async def test_an_endless_body_is_left_at_the_limit(client: GuardedClient, server: PageServer) -> None:
    server.pages["/endless"] = Page(body=b"x" * 65_536, fault=Fault.ENDLESS)
    with pytest.raises(WebTooLarge):
        await get(client, at(server, "/endless"))
    await server.wait_for(lambda: server.open_now == 0)
    assert server.sent_bytes < 24 * MIB


async def test_a_body_that_says_it_is_too_large_is_not_read(client: GuardedClient, server: PageServer) -> None:
    server.pages["/large"] = Page(body=b"x" * 2_000)
    with pytest.raises(WebTooLarge, match="2,000"):
        await get(client, at(server, "/large"), max_bytes=1_999)
    assert len((await get(client, at(server, "/large"), max_bytes=2_000)).body) == 2_000


@pytest.mark.parametrize("fault", [Fault.HELD, Fault.STALLED, Fault.ENDLESS])
async def test_a_request_takes_no_longer_than_it_may(fault: Fault, client: GuardedClient, server: PageServer) -> None:
    server.pages["/slow"] = Page(body=b"x" if fault is Fault.STALLED else b"", fault=fault)
    if fault is Fault.ENDLESS:
        server.pages["/slow"] = Page(body=b"x" * 4_096, fault=fault)
    with pytest.raises(WebTimeout, match=r"0\.3 s"):
        await get(client, at(server, "/slow"), timeout_s=0.3, max_bytes=10**12)
    await server.wait_for(lambda: server.open_now == 0)


async def test_a_redirects_own_page_is_not_waited_for(client: GuardedClient, server: PageServer) -> None:
    server.pages["/away"] = Page(status=302, headers={"Location": "/"}, body=b"x", fault=Fault.STALLED)
    assert (await get(client, at(server, "/away"))).body == b"hello"


async def test_a_lookup_that_hangs_ends_with_the_request(server: PageServer) -> None:
    class Hanging(ScriptedResolver):
        async def lookup(self, host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(WebTimeout):
        await get(GuardedClient(resolver=Hanging()), at(server), timeout_s=0.2)


@pytest.mark.parametrize("fault", [Fault.HUGE_HEADERS, Fault.MANY_HEADERS, Fault.NOT_HTTP, Fault.CUT_OFF])
async def test_a_broken_answer_is_an_error_in_words(fault: Fault, client: GuardedClient, server: PageServer) -> None:
    server.pages["/broken"] = Page(body=b"half", fault=fault)
    with pytest.raises(WebError) as caught:
        await get(client, at(server, "/broken"))
    assert "public.test" in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


async def test_a_closed_port_and_an_unknown_name_are_errors(client: GuardedClient, server: PageServer) -> None:
    url = at(server)
    await server.go_down()
    with pytest.raises(WebError, match=r"no connection to public\.test"):
        await get(client, url)
    with pytest.raises(WebError, match="could not be looked up"):
        await get(client, "http://unknown.test/")


async def test_a_plain_server_is_not_spoken_to_securely(client: GuardedClient, server: PageServer) -> None:
    with pytest.raises(WebError, match="secure connection"):
        await get(client, at(server).replace("http:", "https:"))


async def test_nothing_stays_open_after_requests_that_failed(client: GuardedClient, server: PageServer) -> None:
    server.pages["/endless"] = Page(body=b"x" * 65_536, fault=Fault.ENDLESS)
    server.pages["/held"] = Page(fault=Fault.HELD)
    server.pages["/cut"] = Page(body=b"half", fault=Fault.CUT_OFF)

    async def all_of_them() -> None:
        for path, options in (("/endless", {"max_bytes": 1}), ("/held", {"timeout_s": 0.05}), ("/cut", {})):
            with pytest.raises(WebError):
                await get(client, at(server, path), **options)
        await get(client, at(server))
        await server.wait_for(lambda: server.open_now == 0)

    await all_of_them()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        await all_of_them()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


# --- content encodings


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(b"hello " * 100_000)),
        ("x-gzip", gzip.compress(b"hello " * 100_000)),
        ("GZip", gzip.compress(b"hello " * 50_000) + gzip.compress(b"hello " * 50_000)),
        ("gzip", gzip.compress(b"hello " * 100_000) + b"trailing rubbish"),
        ("deflate", zlib.compress(b"hello " * 100_000)),
        ("deflate", raw_deflate(b"hello " * 100_000)),
        ("identity", b"hello " * 100_000),
    ],
)
async def test_packed_bodies_are_unpacked(
    coding: str, packed: bytes, client: GuardedClient, server: PageServer
) -> None:
    server.pages["/packed"] = Page(body=packed, headers={"Content-Encoding": coding})
    assert (await get(client, at(server, "/packed"))).body == b"hello " * 100_000
    assert server.seen[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize(
    ("coding", "packed", "words"),
    [
        ("gzip", b"this is not gzip", "not valid gzip"),
        ("gzip", gzip.compress(b"hello " * 1_000)[:-20], "ends too early"),
        ("deflate", b"\x78\x9c\xff\xff\xff", "not valid deflate"),
        ("br", b"\x0b\x02\x80hello\x03", "not asked for"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x")), "not asked for"),
    ],
)
async def test_damaged_and_unasked_packing_is_an_error(
    coding: str, packed: bytes, words: str, client: GuardedClient, server: PageServer
) -> None:
    server.pages["/packed"] = Page(body=packed, headers={"Content-Encoding": coding})
    with pytest.raises(WebError, match=words):
        await get(client, at(server, "/packed"))


async def test_a_body_of_countless_packed_parts_does_not_hold_up_the_loop(
    client: GuardedClient, server: PageServer
) -> None:
    """After each part the rest was copied: with the whole body at hand, that took a quarter of an hour per 10 MiB."""
    packed = gzip.compress(b"") * 50_000

    async def at_once() -> AsyncIterator[bytes]:
        yield packed

    async with loop_ticks() as ticks:
        assert await read_body(at_once(), "gzip", limit_bytes=10 * MIB) == (b"", False)
    assert ticks.count > 10
    server.pages["/parts"] = Page(body=packed + gzip.compress(b"end"), headers={"Content-Encoding": "gzip"})
    assert (await get(client, at(server, "/parts"))).body == b"end"


async def test_interim_answers_are_taken_only_so_long(client: GuardedClient, server: PageServer) -> None:
    """The library takes any number of them: half a minute in which the loop does little else."""
    server.pages["/"] = Page(fault=Fault.INTERIM)
    with pytest.raises(WebError, match="not HTTP"):
        await get(client, at(server))
    await server.wait_for(lambda: server.open_now == 0)


async def test_a_content_type_of_blanks_does_not_hold_up_the_loop(client: GuardedClient, server: PageServer) -> None:
    """No exact figure: trying each way to split the blanks took eleven seconds."""
    server.pages["/blank"] = Page(body=b"x", content_type="text/plain;charset=" + " " * 16_000 + "!")
    begun = time.process_time()
    assert (await get(client, at(server, "/blank"))).charset == ""
    assert time.process_time() - begun < 2


# --- HTTP errors, other methods, endpoints of the configuration


async def test_an_http_error_is_an_answer_with_the_beginning_of_its_page(
    client: GuardedClient, server: PageServer
) -> None:
    server.pages["/huge"] = Page(status=500, body=b"x" * 65_536, fault=Fault.ENDLESS)
    server.pages["/odd"] = Page(status=503, body=b"x", headers={"Content-Encoding": "br"})
    missing, huge, odd = [await get(client, at(server, path)) for path in ("/missing", "/huge", "/odd")]
    assert (missing.status, missing.body, missing.is_cut) == (404, b"<p>There is no such page.</p>", False)
    assert (huge.status, len(huge.body), huge.is_cut) == (500, 65_536, True)
    assert (odd.status, odd.body) == (503, b"")


async def test_a_trusted_endpoint_may_be_on_this_machine_and_gets_its_login(server: PageServer) -> None:
    client = GuardedClient()
    url = f"http://me:pass%20word@127.0.0.1:{server.port}/"
    answer = await client.request("POST", url, json={"query": "ä"}, trusted=True)
    client.close()
    assert answer.body == b"hello"
    seen = server.seen[0]
    assert (seen.method, seen.body) == ("POST", '{"query":"ä"}'.encode())
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["authorization"] == "Basic " + base64.b64encode(b"me:pass word").decode()


async def test_what_a_trusted_endpoint_redirects_to_is_judged(server: PageServer) -> None:
    client = GuardedClient(resolver=ScriptedResolver(engine_test=[["127.0.0.1"]]))
    server.pages["/out"] = redirect(f"http://127.0.0.1:{server.port}/")
    server.pages["/in"] = redirect("/")
    with pytest.raises(NetworkRefused):
        await get(client, at(server, "/out", "engine.test"), trusted=True)
    assert (await get(client, at(server, "/in", "engine.test"), trusted=True)).body == b"hello"
    assert [seen.path for seen in server.seen] == ["/out", "/in", "/"]


async def test_a_posted_body_goes_to_the_named_place_only(client: GuardedClient, server: PageServer) -> None:
    server.pages["/keep"] = redirect(at(server, "/", "other.test"), 307)
    server.pages["/same"] = redirect("/", 308)
    server.pages["/see"] = redirect(at(server, "/", "other.test"), 303)
    with pytest.raises(NetworkRefused):
        await client.request("POST", at(server, "/keep"), body=b"secret")
    await client.request("POST", at(server, "/same"), body=b"secret")
    await client.request("POST", at(server, "/see"), json={"a": 1})
    methods = [(seen.method, seen.path, seen.body) for seen in server.seen]
    assert methods[1:] == [
        ("POST", "/same", b"secret"),
        ("POST", "/", b"secret"),
        ("POST", "/see", b'{"a":1}'),
        ("GET", "/", b""),
    ]


async def test_a_proxy_is_used_for_trusted_endpoints_only(client: GuardedClient, server: PageServer) -> None:
    """The server stands for a proxy, which is asked for a whole URL."""
    proxy = f"http://127.0.0.1:{server.port}"
    with pytest.raises(ValueError, match="trusted"):
        await get(client, "http://engine.invalid/", proxy=proxy)
    with connections_tried() as tried:
        assert (await get(client, "http://engine.invalid/", proxy=proxy, trusted=True)).body == b"hello"
    assert tried == [("127.0.0.1", server.port)]
    assert server.seen[0].headers["host"] == "engine.invalid"
    server.pages["/"] = redirect("http://elsewhere.invalid/")
    with pytest.raises(NetworkRefused):
        await get(client, "http://engine.invalid/", proxy=proxy, trusted=True)


@pytest.mark.parametrize("headers", [{"X-Bad": "a\r\nInjected: 1"}, {"X\nBad": "a"}])
async def test_headers_cannot_smuggle_others(
    headers: dict[str, str], client: GuardedClient, server: PageServer
) -> None:
    with pytest.raises(WebError):
        await get(client, at(server), headers=headers)
    assert server.seen == []


_FIRST_REQUEST = """
import asyncio, sys, threading
from bot.web.client import GuardedClient
from bot.web.errors import WebError

main, threads = threading.get_ident(), set()
sys.addaudithook(lambda event, args: event == "import" and args[0] == "aiohttp" and threads.add(threading.get_ident()))

async def first():
    try:
        await GuardedClient().request("GET", "http://127.0.0.1:9", trusted=True)
    except WebError:
        print(len(threads), main in threads)

asyncio.run(first())
"""


async def test_the_first_request_does_not_load_its_library_on_the_loop() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _FIRST_REQUEST, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert (await process.communicate())[0] == b"1 False\n"


_HANGING_LOOKUP = """
import asyncio, socket
from bot.web.client import GuardedClient
from bot.web.errors import WebTimeout

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))

async def main():
    client = GuardedClient()
    try:
        await client.request("GET", "http://name.example.org/", timeout_s=0.5)
    except WebTimeout:
        print("given up", flush=True)
    client.close()

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="a name server of its own takes bubblewrap")
async def test_a_lookup_that_hangs_does_not_hold_up_the_end_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:1\n")
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(
        "bwrap", "--unshare-user", "--unshare-net", "--uid", "0", "--cap-add", "CAP_NET_BIND_SERVICE",
        "--dev-bind", "/", "/", "--ro-bind", tmp_path / "resolv.conf", Path("/etc/resolv.conf").resolve(),
        "--chdir", root, sys.executable, "-c", _HANGING_LOOKUP,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(25):  # the lookup itself would take 30 s
        said, complaints = await process.communicate()
    if b"bwrap:" in complaints:
        pytest.skip("bubblewrap is not usable here")
    assert (said, complaints) == (b"given up\n", b"")


async def test_a_lookup_that_takes_too_long_is_given_up() -> None:
    resolver = SystemResolver(limit_s=0.0)
    with pytest.raises(TimeoutError):
        await resolver.lookup("localhost", 80)
    resolver.close()
    resolver.close()
