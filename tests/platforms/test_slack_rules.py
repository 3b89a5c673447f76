"""What the Slack server refuses in texts and blocks: each limit on its last good and its first bad value."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.platforms.slack_api import SlackApi
from tests.platforms.slack_objects import RefusalError, readable
from tests.platforms.slack_rules import read_blocks

TEAM = "C0TEAM00001"
Json = dict[str, Any]


def section(size: int) -> Json:
    return {"type": "section", "text": {"type": "mrkdwn", "text": "x" * size}}


def header(size: int) -> Json:
    return {"type": "header", "text": {"type": "plain_text", "text": "x" * size}}


def markdown(size: int) -> Json:
    return {"type": "markdown", "text": "x" * size}


def button(label: int = 1, value: int = 1, action_id: int = 1, **more: Any) -> Json:
    text = {"type": "plain_text", "text": "x" * label}
    made = {"type": "button", "text": text, "value": "v" * value, "action_id": "a" * action_id, **more}
    return {"type": "actions", "elements": [made]}


def table(rows: int, columns: int) -> Json:
    return {"type": "table", "rows": [[{"type": "raw_text", "text": "c"}] * columns] * rows}


@pytest.mark.parametrize(
    ("good", "bad", "error"),
    [
        ([section(3_000)], [section(3_001)], "invalid_blocks"),
        ([section(1)], [section(0)], "invalid_blocks"),
        ([header(150)], [header(151)], "invalid_blocks"),
        ([section(1)] * 50, [section(1)] * 51, "invalid_blocks"),
        ([markdown(6_000), markdown(6_000)], [markdown(6_000), markdown(6_001)], "msg_blocks_too_long"),
        ([section(3_000)] * 4 + [section(1_200)], [section(3_000)] * 4 + [section(1_201)], "msg_blocks_too_long"),
        ([button(label=75)], [button(label=76)], "invalid_blocks"),
        ([button(value=2_000)], [button(value=2_001)], "invalid_blocks"),
        ([button(action_id=255)], [button(action_id=256)], "invalid_blocks"),
        ([button(style="danger")], [button(style="loud")], "invalid_blocks"),
        ([table(100, 20)], [table(101, 20)], "invalid_blocks"),
        ([table(1, 20)], [table(1, 21)], "invalid_blocks"),
        ([table(1, 1)], [table(1, 1), table(1, 1)], "invalid_attachments"),
        ([{"type": "divider"}], [{"type": "dividing"}], "invalid_blocks"),
        ([{"type": "divider", "block_id": "a"}], [{"type": "divider", "block_id": "a"}] * 2, "invalid_blocks"),
        ([{"type": "divider"}], [{}], "invalid_blocks_format"),
        ("[]", "[", "invalid_blocks_format"),
        ([], {"type": "divider"}, "invalid_blocks_format"),
    ],
)
def test_blocks_are_taken_to_their_limit_and_refused_beyond_it(good: Any, bad: Any, error: str) -> None:
    assert read_blocks(good) is not None
    with pytest.raises(RefusalError) as refusal:
        read_blocks(bad)
    assert refusal.value.error == error


def test_a_header_takes_no_markup_and_a_button_no_mrkdwn_label() -> None:
    text = {"type": "mrkdwn", "text": "*x*"}
    for block in (
        {"type": "header", "text": text},
        {"type": "actions", "elements": [{"type": "button", "text": text}]},
    ):
        with pytest.raises(RefusalError, match="invalid_blocks"):
            read_blocks([block])


def test_two_buttons_of_a_block_need_different_action_ids() -> None:
    (element,) = button()["elements"]
    with pytest.raises(RefusalError, match="invalid_blocks"):
        read_blocks([{"type": "actions", "elements": [element, element]}])


def test_what_people_read_is_the_blocks_text_without_buttons() -> None:
    rich = {"type": "rich_text_section", "elements": [{"type": "text", "text": "see "}, {"type": "link", "url": "u:x"}]}
    blocks = [header(1), {"type": "rich_text", "elements": [rich]}, table(1, 2), button(), markdown(2)]
    assert readable({"text": "fallback", "blocks": blocks}) == "x\nsee u:x\nc | c\nxx"
    assert readable({"text": "fallback"}) == "fallback"


@pytest.fixture
async def slack() -> AsyncIterator[SlackApi]:
    async with SlackApi() as server:
        server.add_channel(TEAM, "team")
        yield server


async def test_a_text_is_cut_at_its_limit_with_a_warning(slack: SlackApi) -> None:
    client = AsyncWebClient(token=slack.token, base_url=slack.url)
    fits = await client.chat_postMessage(channel=TEAM, text="x" * 40_000)
    assert "response_metadata" not in fits
    cut = await client.chat_postMessage(channel=TEAM, text="x" * 40_001)
    assert cut["response_metadata"]["warnings"] == ["message_truncated"]
    assert [len(text) for text in slack.texts(TEAM)] == [40_000, 40_000]


async def test_a_refusal_of_blocks_says_where(slack: SlackApi) -> None:
    client = AsyncWebClient(token=slack.token, base_url=slack.url)
    with pytest.raises(SlackApiError) as refusal:
        await client.chat_postMessage(channel=TEAM, text="x", blocks=[section(1), section(3_001)])
    answer = refusal.value.response
    assert answer["errors"] == ["must be less than 3001 characters [json-pointer:/blocks/1/text/text]"]
    assert answer["response_metadata"]["messages"][0].startswith("[ERROR] must be less than 3001")
    assert slack.texts(TEAM) == []


async def test_blocks_make_the_text_that_is_missing_and_markdown_text_stands_alone(slack: SlackApi) -> None:
    client = AsyncWebClient(token=slack.token, base_url=slack.url)
    posted = await client.api_call("chat.postMessage", json={"channel": TEAM, "blocks": [section(3)]})
    assert posted["message"]["text"] == "xxx"
    await client.chat_postMessage(channel=TEAM, markdown_text="**b**")
    assert slack.texts(TEAM)[-1] == "**b**"
    for more, error in (({"text": "x", "markdown_text": "y"}, "markdown_text_conflict"), ({}, "no_text")):
        with pytest.raises(SlackApiError) as refusal:
            await client.api_call("chat.postMessage", json={"channel": TEAM, **more})
        assert refusal.value.response["error"] == error
