"""What leniency towards sparse Bot API servers must not cost: answers, files, methods that come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import ChannelError, SendRejected, SendUncertain
from bot.interfaces import Draft
from bot.messages import OutboundMessage
from channels.telegram.api import BotApi
from channels.telegram.config import Timing
from channels.telegram.courtesies import REST_S, Courtesies
from channels.telegram.drafts import Drafts
from channels.telegram.errors import MethodMissing
from tests.channels.harness_telegram import PRIVATE, TelegramHarness, served
from tests.channels.test_telegram_files_out import saved
from tests.platforms.bot_api_faults import Fault
from tests.support.clock import FakeClock
from tests.support.recording_intake import RecordingProgress

LONG = "word " * 1500


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path) as made:
        yield made


async def test_an_answer_outlasts_a_server_that_does_not_know_how_to_send_for_a_while(
    harness: TelegramHarness,
) -> None:
    """In the middle of it, too: the part before has shown that the server can."""
    progress = RecordingProgress()
    message = OutboundMessage(address=PRIVATE, text=LONG)
    harness.api.faults.add(Fault(method="sendMessage"))  # the first part passes
    harness.api.faults.add(Fault(method="sendMessage", times=1, status=404, description="Not Found"))
    with pytest.raises(ChannelError) as caught:
        await harness.channel.send(message, progress)
    assert caught.value.retryable
    assert not isinstance(caught.value, SendRejected | SendUncertain)
    assert len(progress.sent_ids) == 1
    await harness.channel.send(message, progress)
    assert [call.method for call in harness.api.sent] == ["sendMessage", "sendMessage"]
    assert len(progress.sent_ids) == 2


async def test_files_follow_although_nobody_told_the_id_of_the_one_before(
    harness: TelegramHarness, tmp_path: Path
) -> None:
    message = OutboundMessage(address=PRIVATE, text="", attachments=saved(tmp_path, "1.pdf", "2.pdf"))
    progress = RecordingProgress()
    harness.api.faults.add(Fault(method="sendMediaGroup", status=400, description="Bad Request: no albums"))
    harness.api.faults.add(Fault(method="sendDocument", garbage=b'{"ok":true}'))
    harness.api.faults.add(Fault(method="sendDocument", status=502, garbage=b"bad gateway"))
    with pytest.raises(ChannelError):
        await harness.channel.send(message, progress)
    assert progress.sent_ids == ["unknown"]
    await harness.channel.send(message, progress)
    assert [content for _, content, _ in harness.api.world.files.values()] == [b"2.pdf"]
    assert len(progress.sent_ids) == 2


async def test_a_courtesy_that_was_not_there_once_is_tried_again_after_its_rest(harness: TelegramHarness) -> None:
    clock = FakeClock()
    api = BotApi(harness.secret, harness.api.url)
    courtesies = Courtesies(Timing(), clock)
    typing = {"chat_id": PRIVATE.chat_id, "action": "typing"}
    fault = harness.api.faults.add(Fault(method="sendChatAction", times=1, status=404, description="Not Found"))
    with pytest.raises(MethodMissing):
        await courtesies.call(api, "sendChatAction", typing)
    await courtesies.call(api, "sendChatAction", typing)
    assert harness.api.faults.hits(fault) == 1
    assert courtesies.rests("sendChatAction")
    clock.advance(REST_S + 1)
    assert not courtesies.rests("sendChatAction")
    await courtesies.call(api, "sendChatAction", typing)
    assert [call.ok for call in harness.api.calls("sendChatAction")] == [False, True]
    await api.close()


async def test_drafts_come_back_after_an_edit_that_was_not_there_once(harness: TelegramHarness) -> None:
    clock = FakeClock()
    api = BotApi(harness.secret, harness.api.url)
    drafts = Drafts(api, Timing(), Courtesies(Timing(), clock))
    draft_id = await drafts.show(Draft(address=PRIVATE, text="It", key="k"))
    harness.api.faults.add(Fault(method="editMessageText", times=1, status=404, description="Not Found"))
    with pytest.raises(MethodMissing):
        await drafts.show(Draft(address=PRIVATE, text="It is", key="k", draft_id=draft_id))
    assert await drafts.show(Draft(address=PRIVATE, text="Another", key="l")) == ""
    clock.advance(REST_S + 1)
    assert await drafts.show(Draft(address=PRIVATE, text="It is so", key="k", draft_id=draft_id)) == draft_id
    assert [shown.text for shown in harness.shown(PRIVATE)] == ["It is so"]
    await api.close()
