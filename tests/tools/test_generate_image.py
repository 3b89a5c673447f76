"""generate_image: what is asked of the endpoint, what is kept of its answer, and what it cannot do to the files."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.config import LlmSection, ToolsConfig
from bot.config.tools import ImageSection, WebSection
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Replay, Risk
from bot.toolkit.base import ToolResult
from bot.tools.generate_image import GenerateImageTool
from bot.web.client import GuardedClient
from bot.web.images import FETCH_LIMIT_S, REQUEST_LIMIT_S, ImageMaker, ImagesFailed
from tests.platforms.images_api import KEY, MODEL, AnswerWith, Fault, ImagesServer, png
from tests.platforms.pages import Page, PageServer
from tests.support.clock import FakeClock
from tests.support.contexts import ToolDesk, request_context, tool_context
from tests.support.engine import AnsweringProvider, calls, rig, said, tool_texts
from tests.support.resolvers import connections_tried

ME = request_context("1")


@pytest.fixture
async def server() -> AsyncIterator[ImagesServer]:
    async with ImagesServer() as images:
        yield images


@pytest.fixture
async def desk(tmp_path: Path, server: ImagesServer) -> AsyncIterator[ToolDesk]:
    async with tool_context(tmp_path, FakeClock(), config=configured(server)) as ctx:
        yield ToolDesk(ctx)


def configured(server: ImagesServer, **image: Any) -> ToolsConfig:
    section = {"model": MODEL, "base_url": server.base_url, "api_key": SecretStr(KEY), **image}
    return ToolsConfig(image=ImageSection.model_validate(section))


async def make(desk: ToolDesk, prompt: str = "A red cat", **params: Any) -> ToolResult:
    return await desk.call(ME, "generate_image", prompt=prompt, **params)


def files(desk: ToolDesk) -> dict[str, bytes]:
    """Return the pictures that are there, by path."""
    root = desk.root(ME)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted((root / "images").glob("*"))}


def paths(result: ToolResult) -> list[str]:
    return re.findall(r"^- (\S+) ", result, re.MULTILINE)


async def test_a_picture_is_saved_and_its_path_given(desk: ToolDesk, server: ImagesServer) -> None:
    result = await make(desk)
    assert not result.is_error
    (path,) = paths(result)
    assert re.fullmatch(r"images/\d{4}-\d\d-\d\d-a-red-cat-1\.png", path)
    assert files(desk) == {path: server.pictures[0]}
    assert result == (
        f"1 picture was made and saved:\n- {path} (image/png, {len(server.pictures[0])} bytes)\n"
        "Send with message by giving the paths as media; read_file lets you look at one."
    )
    (asked,) = server.asked
    assert (asked.call, asked.fields) == ("generations", {"model": MODEL, "prompt": "A red cat", "n": 1})
    assert asked.headers["authorization"] == f"Bearer {KEY}"


async def test_several_pictures_of_a_size_are_made_at_once(desk: ToolDesk, server: ImagesServer) -> None:
    result = await make(desk, count=4, size="1536x1024")
    assert [Path(path).stem[-1] for path in paths(result)] == ["1", "2", "3", "4"]
    assert list(files(desk).values()) == server.pictures
    assert len(server.asked) == 1
    assert server.asked[0].fields["size"] == "1536x1024"


async def test_no_picture_is_ever_overwritten(desk: ToolDesk, server: ImagesServer) -> None:
    first = paths(await make(desk))
    server.pictures.reverse()
    second = paths(await make(desk))
    assert first != second
    assert list(files(desk)) == [*first, *second]
    assert files(desk)[first[0]] != files(desk)[second[0]]


@pytest.mark.parametrize(
    ("prompt", "slug"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("Ein Kätzchen, bitte!", "ein-katzchen-bitte"),
        ("一只红色的猫", "picture"),
        ("x" * 300, "x" * 40),
        ("-rf *; $(reboot)\n\x00", "rf-reboot"),
    ],
)
async def test_the_prompt_gives_the_file_a_harmless_name(prompt: str, slug: str, desk: ToolDesk) -> None:
    (path,) = paths(await make(desk, prompt))
    assert re.fullmatch(rf"images/[\d-]{{10}}-{slug}-1\.png", path)


async def test_reference_pictures_are_sent_as_a_form(desk: ToolDesk, server: ImagesServer) -> None:
    root = desk.root(ME)
    (root / "my cat.png").write_bytes(png(0x123456))
    (root / "other.txt").write_bytes(png(0x654321))  # its bytes tell what it is
    result = await make(desk, "Make it blue", reference_images=["my cat.png"], count=2)
    assert len(paths(result)) == 2
    assert len(paths(await make(desk, "Both", reference_images=["my cat.png", "other.txt"], size="auto"))) == 1
    one, both = server.asked
    assert one.call == both.call == "edits"
    assert one.fields == {"model": MODEL, "prompt": "Make it blue", "n": "2"}
    assert one.images == [("image", "reference-1.png", "image/png", png(0x123456))]
    assert [image[3] for image in both.images] == [png(0x123456), png(0x654321)]
    assert {image[0] for image in both.images} == {"image[]"}
    assert one.headers["authorization"] == f"Bearer {KEY}"


async def test_what_is_no_picture_of_the_chat_is_not_sent(tmp_path: Path, desk: ToolDesk, server: ImagesServer) -> None:
    root = desk.root(ME)
    (root / "text.png").write_text("no picture")
    (root / "cut.png").write_bytes(png(1)[:40])
    (root / "moving.gif").write_bytes(b"GIF89a\x00\x3b")
    (root / "large.png").write_bytes(png(1)[:-12] + bytes(10 * 1024 * 1024) + png(1)[-12:])
    (tmp_path / "outside.png").write_bytes(png(1))
    (root / "link.png").symlink_to(tmp_path / "outside.png")
    os.mkfifo(root / "pipe.png")
    other = desk.root(request_context("2"))
    (other / "theirs.png").write_bytes(png(1))
    for path in ("missing.png", "text.png", "cut.png", "moving.gif", "large.png"):
        result = await make(desk, reference_images=[path])
        assert result.is_error, path
        assert not result.is_refused, path
    theirs = str(other / "theirs.png")
    for path in ("link.png", "pipe.png", "../2/theirs.png", theirs, "/etc/passwd", "chats/x/theirs.png"):
        result = await make(desk, reference_images=[path])
        assert result.is_error, path
        assert result.is_refused or "does not exist" in result, path
    assert server.asked == []


@pytest.mark.parametrize(
    "params",
    [
        {"count": 0},
        {"count": 5},
        {"size": "512x512"},
        {"prompt": " "},
        {"prompt": "x" * 32_001},
        {"reference_images": ["a.png"] * 5},
        {"quality": "max"},
    ],
)
async def test_what_the_interface_does_not_know_is_an_error_before_it_is_asked(
    params: dict[str, Any], desk: ToolDesk, server: ImagesServer
) -> None:
    assert (await make(desk, **params)).is_error
    assert server.asked == []


# --- answers with addresses


async def test_pictures_at_the_endpoints_own_address_are_fetched(desk: ToolDesk, server: ImagesServer) -> None:
    server.answer_with = AnswerWith.URL
    assert len(paths(await make(desk, count=2))) == 2
    assert list(files(desk).values()) == server.pictures[:2]
    assert all("authorization" not in headers for headers in server.fetched)


async def test_pictures_in_data_urls_are_taken(desk: ToolDesk, server: ImagesServer) -> None:
    server.answer_with = AnswerWith.DATA_URL
    assert len(paths(await make(desk))) == 1
    assert list(files(desk).values()) == server.pictures[:1]


@pytest.mark.parametrize(
    "origin",
    [
        "http://169.254.169.254",
        "http://127.0.0.2:{port}",
        "http://[::1]:{port}",
        "file:///etc",
        "no url",
        "http://10.0.0.5",
    ],
)
async def test_an_address_elsewhere_is_judged_like_a_pages(origin: str, desk: ToolDesk, server: ImagesServer) -> None:
    server.answer_with = AnswerWith.URL
    server.file_origin = origin.format(port=server.port)
    with connections_tried() as tried:
        result = await make(desk)
    assert result.is_error
    assert "paid for but cannot be used: the picture cannot be fetched from its address" in result
    assert {address for address in tried if address[1] != server.port or address[0] != "127.0.0.1"} == set()
    assert files(desk) == {}


async def test_an_address_elsewhere_that_the_guard_lets_through_gets_no_key(
    tmp_path: Path, server: ImagesServer
) -> None:
    async with PageServer(host="127.0.0.2") as storage:
        storage.pages["/files/0"] = Page(body=png(7), content_type="image/png")
        server.answer_with, server.file_origin = AnswerWith.URL, storage.origin
        config = ToolsConfig(image=configured(server).image, web=WebSection(allow_networks=["127.0.0.2"]))
        async with tool_context(tmp_path, config=config) as ctx:
            assert len(paths(await make(ToolDesk(ctx)))) == 1
        assert "authorization" not in storage.seen[0].headers


# --- failures


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.RATE_LIMIT, "rate limit is reached; try again in 17 s"),
        (Fault.QUOTA, "no money or quota left"),
        (Fault.BILLING, "no money or quota left"),
        (Fault.POLICY, "content policy; the same request will be refused again"),
        (Fault.BROKEN, "has a fault (status 500)"),
        (Fault.PAGE, "no pictures in it; they may be billed"),
        (Fault.NO_DATA, "no pictures in it; they may be billed"),
        (Fault.ENDLESS, "Whether the pictures were made, and are billed, is not known"),
        (Fault.HANG_UP, "Whether the pictures were made, and are billed, is not known"),
        (Fault.NOT_BASE64, "paid for but cannot be used: the picture is not valid base64"),
        (Fault.NOT_A_PICTURE, "paid for but cannot be used: what came is not a picture but text/plain"),
    ],
)
async def test_a_failure_is_told_in_a_sentence(fault: Fault, words: str, desk: ToolDesk, server: ImagesServer) -> None:
    server.fault = fault
    result = await make(desk)
    assert result.is_error
    assert not result.is_refused
    assert words in result
    assert KEY not in result
    assert len(server.asked) == 1  # no second request that costs again
    assert files(desk) == {}


async def test_good_pictures_are_kept_beside_a_damaged_one(desk: ToolDesk, server: ImagesServer) -> None:
    server.fault = Fault.HALF_A_PICTURE
    result = await make(desk, count=3)
    assert not result.is_error
    assert list(files(desk).values()) == [server.pictures[0], server.pictures[2]]
    assert "2 pictures were made and saved:" in result
    assert "A picture was paid for but cannot be used: the picture is cut off or damaged." in result


async def test_a_time_out_leaves_open_whether_it_costs(server: ImagesServer) -> None:
    server.fault = Fault.HELD
    web = GuardedClient()
    maker = ImageMaker(web, base_url=server.base_url, api_key=KEY, model=MODEL, limit_s=0.2)
    with pytest.raises(ImagesFailed, match=r"did not answer in full within 0\.2 s\. Whether .* is not known"):
        await maker.make("A cat", count=1)
    web.close()


async def test_nobody_there_is_told_as_such(tmp_path: Path, server: ImagesServer) -> None:
    config = configured(server, base_url="http://127.0.0.1:1/v1")
    async with tool_context(tmp_path, config=config) as ctx:
        result = await make(ToolDesk(ctx))
    assert "the endpoint cannot be reached: no connection to 127.0.0.1." in result
    assert "not known" not in result


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({"api_key": SecretStr("sk-wrong-key-12345")}, "refuses the key of [tools.image]"),
        ({"model": "sd-1"}, "does not know the model or the address of [tools.image]: \"The model 'sd-1' does"),
    ],
)
async def test_a_wrong_setting_is_told_without_the_key(
    image: dict[str, Any], words: str, tmp_path: Path, server: ImagesServer
) -> None:
    async with tool_context(tmp_path, config=configured(server, **image)) as ctx:
        result = await make(ToolDesk(ctx))
    assert words in result
    assert "sk-" not in result


async def test_the_key_and_the_prompt_do_not_follow_a_redirect(desk: ToolDesk, server: ImagesServer) -> None:
    async with PageServer() as stranger:
        server.fault, server.elsewhere = Fault.ELSEWHERE, f"{stranger.origin}/take"
        assert (await make(desk)).is_error
        assert stranger.seen == []


# --- where it is written


async def test_a_link_in_place_of_the_folder_leads_nowhere(tmp_path: Path, desk: ToolDesk) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (desk.root(ME) / "images").symlink_to(outside)
    result = await make(desk)
    assert result.is_error
    assert "made but not saved" in result
    assert list(outside.iterdir()) == []


async def test_a_link_with_the_files_name_is_not_written_through(tmp_path: Path, desk: ToolDesk) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (path,) = paths(await make(desk))
    taken = desk.root(ME) / path
    taken.unlink()
    taken.symlink_to(victim)
    await make(desk)
    assert victim.read_bytes() == b"mine"


async def test_another_chat_gets_its_own_folder(desk: ToolDesk) -> None:
    other = request_context("2")
    (path,) = paths(await desk.call(other, "generate_image", prompt="A red cat"))
    assert (desk.root(other) / path).exists()
    assert files(desk) == {}


# --- configuration


async def test_without_a_model_there_is_no_such_tool(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as ctx:
        assert "generate_image" not in ToolDesk(ctx).names


async def test_without_key_and_address_it_is_not_usable(tmp_path: Path) -> None:
    async with tool_context(tmp_path, config=ToolsConfig(image=ImageSection(model=MODEL))) as ctx:
        result = await make(ToolDesk(ctx))
    assert result.is_refused
    assert "set [tools.image] api_key" in result


async def test_key_and_address_are_those_of_the_model_unless_set(tmp_path: Path, server: ImagesServer) -> None:
    llm = LlmSection(api_key=SecretStr(KEY), base_url=f"{server.base_url}/chat/completions")
    async with tool_context(tmp_path, config=ToolsConfig(image=ImageSection(model=MODEL))) as ctx:
        assert len(paths(await make(ToolDesk(replace(ctx, llm=llm))))) == 1


async def test_the_models_key_goes_to_the_models_server_only(tmp_path: Path, server: ImagesServer) -> None:
    llm = LlmSection(api_key=SecretStr(KEY), base_url="http://127.0.0.1:9/v1")
    image = ImageSection(model=MODEL, base_url=server.base_url)
    async with tool_context(tmp_path, config=ToolsConfig(image=image)) as ctx:
        result = await make(ToolDesk(replace(ctx, llm=llm)))
    assert result.is_error
    assert "key" in result
    assert [asked.headers.get("authorization") for asked in server.asked] == [None]


async def test_the_tool_writes_and_costs_so_it_is_never_repeated(desk: ToolDesk) -> None:
    tool = desk.registry.get("generate_image")
    assert isinstance(tool, GenerateImageTool)
    assert (tool.risk, tool.replay, tool.read_only) == (Risk.NET, Replay.ONCE, False)
    assert tool.timeout_s > REQUEST_LIMIT_S + FETCH_LIMIT_S


async def test_a_model_makes_a_picture_and_sends_it(tmp_path: Path, server: ImagesServer) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        texts = tool_texts(request)
        match len(texts):
            case 0:
                return calls(("generate_image", {"prompt": "A red cat", "count": 2}))
            case 1:
                media = re.findall(r"^- (\S+) ", texts[0], re.MULTILINE)
                return calls(("message", {"content": "Here they are", "media": media}), prefix="second")
        return said("done")

    provider = AnsweringProvider(answer)
    async with rig(tmp_path, provider, tools_config=configured(server)) as bot:
        assert await bot.asks("draw me a cat") == "Here they are"
        await bot.turns_end(1)
    made, queued = tool_texts(provider.requests[-1])
    assert queued.startswith("Message queued for this chat")
    assert len(paths(ToolResult(made))) == 2
