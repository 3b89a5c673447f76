"""Servers that ask the model: only where the configuration says so, bounded, at the turn's expense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.agent.mcp_sampling import MAX_OUTPUT_TOKENS
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest
from bot.messages import Usage
from bot.toolkit.mcp.asks import AskRefused, SampleAsk
from tests.platforms.mcp_script import Ask, sample
from tests.platforms.mcp_ways import WAYS
from tests.support.engine import said
from tests.support.mcp_desk import Clerk, answers_of, asking, desk

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
MAY = {"sampling": True}


class Writer(Clerk):
    """Answers a server's own request, beside what a clerk does."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[ModelRequest] = []
        self.error: ProviderError | None = None

    def __call__(self, request: ModelRequest) -> ModelReply:
        if "Runtime Context" not in str(request.messages):
            self.asked.append(request)
            if self.error is not None:
                raise self.error
            return said("A poem.", usage=Usage(input_tokens=70, output_tokens=30), model="scripted")
        return super().__call__(request)


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_may_asks_the_model_without_anything_of_ours(
    way: str, tmp_path: Path, writer: Writer
) -> None:
    tool = asking(sample("Write a poem.", max_tokens=99_999))
    async with desk(tmp_path, writer, tool, way=way, keys=MAY) as (engine, server):
        assert "A poem." in await engine.asks("call book")
        (asked,) = writer.asked
        assert asked.messages == [{"role": "user", "content": "Write a poem."}]
        assert not asked.tools
        assert asked.max_output_tokens == MAX_OUTPUT_TOKENS
        (answer,) = answers_of(server)
        assert answer["content"] == {"type": "text", "text": "A poem."}
        assert answer["role"] == "assistant"
        await engine.idle()
        usage = await engine.store.overview.usage(engine.channel.arrived[0].address, since_us=0)
        assert (usage.input_tokens, usage.output_tokens) == (70, 30)


async def test_a_server_that_may_not_is_not_told_that_it_could(tmp_path: Path, writer: Writer) -> None:
    async with desk(tmp_path, writer, asking(sample("Write a poem."))) as (engine, server):
        await engine.asks("call book")
        assert not writer.asked
        declared = server.record.received("tools/list")[0]["params"]["_meta"]
        assert "sampling" not in declared["io.modelcontextprotocol/clientCapabilities"]


async def test_pictures_go_along_and_other_things_are_refused(tmp_path: Path, writer: Writer) -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    sound = {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"}
    asks = [
        Ask(
            method="sampling/createMessage",
            params={"messages": [{"role": "user", "content": block}], "maxTokens": 50, "systemPrompt": "Be brief."},
        )
        for block in (picture, sound)
    ]
    tools = (asking(asks[0], name="look"), asking(asks[1], name="listen"))
    async with desk(tmp_path, writer, *tools, way="stdio-2025", keys=MAY) as (engine, server):
        await engine.asks("call look")
        (asked,) = writer.asked
        url = f"data:image/png;base64,{PIXEL}"
        assert asked.messages[0] == {"role": "system", "content": "Be brief."}
        assert asked.messages[1]["content"] == [{"type": "image_url", "image_url": {"url": url}}]
        await engine.asks("call listen")
        assert len(writer.asked) == 1
        (refusal,) = [entry["error"] for entry in server.record.of("answered") if "error" in entry]
        assert "other than text and pictures" in refusal["message"]


async def test_nothing_is_asked_outside_of_a_call(tmp_path: Path, writer: Writer) -> None:
    async with desk(tmp_path, writer, asking(sample("x")), keys=MAY) as (engine, _):
        with pytest.raises(AskRefused, match="belongs to no call"):
            await engine.room.asks.sample(SampleAsk(server="desk", params=_params("x")))


async def test_one_call_does_not_ask_without_end(tmp_path: Path, writer: Writer) -> None:
    tool = asking(*(sample(f"poem {number}") for number in range(12)))
    async with desk(tmp_path, writer, tool, way="stdio-2025", keys=MAY) as (engine, server):
        await engine.asks("call book")
        assert len(writer.asked) == 10
        assert "10 times already" in server.record.of("answered")[-1]["error"]["message"]


async def test_a_model_that_is_away_is_an_error_for_the_server_alone(tmp_path: Path, writer: Writer) -> None:
    async with desk(tmp_path, writer, asking(sample("Write a poem.")), way="stdio-2025", keys=MAY) as (engine, server):
        writer.error = ProviderError(ProviderErrorKind.CONNECTION, "refused by 10.0.0.1")
        assert "It waits" not in await engine.asks("call book")
        message = server.record.of("answered")[-1]["error"]["message"]
        assert message == "the model cannot be had: connection"
        assert await engine.asks("hello") == "re: hello"


def _params(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 10}
