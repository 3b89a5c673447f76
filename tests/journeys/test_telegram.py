"""Journeys that only Telegram has: the webhook, albums over a crash, buttons, reactions, groups that move and open."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from bot.security.workspace import folder_name
from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply, last_user_text
from tests.support.service import Service, free_port

ADA, BEN, GROUP, SUPERGROUP = 111, 222, -5, -1009
PUBLIC = "https://bot.example"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364f80f00010501012718e366"
    "0000000049454e44ae426082"
)


def use_webhook(telegram: BotApi, service: Service) -> None:
    """Let the service receive by webhook, behind a proxy."""
    port = free_port()
    telegram.webhook.proxy[PUBLIC] = f"http://127.0.0.1:{port}"
    section = {"mode": "webhook", "webhook_url": f"{PUBLIC}/hook", "webhook_listen": f"127.0.0.1:{port}"}
    service.configure(service.sections, {"channels.telegram": section})


async def taken(telegram: BotApi, update: int) -> None:
    await telegram.wait_for(lambda: telegram.confirmed_offset > update)


# --- polling ---------------------------------------------------------------------------------------------


async def test_a_kill_during_the_model_call_loses_nothing_and_what_comes_again_is_not_answered_again(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C028: kill -9 during the model call. C029: the same update once more after the answer and a restart."""
    held = model.when("slow", [Reply(text="never", hold=asyncio.Event()), Reply(text="done")])
    await service.start()
    update = telegram.user_says(ADA, "slow one")
    await model.wait_for(lambda: held.hits == 1)
    await service.kill()
    await service.start()
    await telegram.wait_for(lambda: telegram.texts(ADA) == ["done"])
    assert await service.stop() == 0
    telegram.redeliver(update)
    await service.start()
    telegram.user_says(ADA, "next")
    await telegram.wait_for(lambda: "next" in telegram.texts(ADA))
    assert telegram.texts(ADA) == ["done", "next"]
    assert model.request_count == 3


# --- webhook ---------------------------------------------------------------------------------------------


async def test_a_conversation_by_webhook(telegram: BotApi, service: Service) -> None:
    use_webhook(telegram, service)
    await service.start()
    telegram.user_says(ADA, "one")
    await telegram.wait_for(lambda: "one" in telegram.texts(ADA))
    telegram.user_says(ADA, "two")
    await telegram.wait_for(lambda: "two" in telegram.texts(ADA))
    telegram.user_says(BEN, "hello", user_id=BEN)
    await telegram.wait_for(lambda: telegram.texts(BEN))
    assert telegram.poll_count == 0
    assert telegram.webhook.secret not in service.log_text()
    assert await service.stop() == 0
    telegram.user_says(ADA, "while away")
    await service.start()
    await telegram.wait_for(lambda: "while away" in telegram.texts(ADA))
    assert telegram.texts(ADA) == ["one", "two", "while away"]


@pytest.mark.parametrize("point", ["received", "accepted", "claimed", "finished"])
async def test_a_kill_by_webhook_loses_and_doubles_nothing(telegram: BotApi, service: Service, point: str) -> None:
    """C028, C029: what was not answered 200 comes again, what was comes once."""
    use_webhook(telegram, service)
    await service.start(fault=point)
    telegram.user_says(ADA, "one")
    await service.die()
    telegram.user_says(ADA, "two")
    await service.start()
    await telegram.wait_for(lambda: "two" in " ".join(telegram.texts(ADA)))
    assert " ".join(telegram.texts(ADA)).count("one") == 1


async def test_a_restart_whose_update_comes_again_happens_once(telegram: BotApi, service: Service) -> None:
    """C030: Telegram never heard that the command was taken, and posts it to the new process too."""
    use_webhook(telegram, service)
    service.configure(service.sections, {"access": {"owners": [f"telegram:{ADA}"]}})
    telegram.faults.add(Fault(method="webhook", drop_after=True))
    await service.start()
    telegram.user_says(ADA, "/restart")
    assert await service.wait_exit() == 75
    await service.start()
    telegram.user_says(ADA, "are you back?")
    await telegram.wait_for(lambda: "are you back?" in telegram.texts(ADA))
    await telegram.wait_for(lambda: telegram.updates.pending_count == 0)
    assert service.running
    assert "repeated message ignored" in service.log_text()


async def test_what_waited_at_telegram_is_answered_in_order(telegram: BotApi, service: Service) -> None:
    """C031: three updates wait when the webhook is set for the first time."""
    for text in ("one", "two", "three"):
        telegram.user_says(ADA, text)
    use_webhook(telegram, service)
    await service.start()
    await telegram.wait_for(lambda: "three" in " ".join(telegram.texts(ADA)))
    said = " ".join(telegram.texts(ADA))
    assert said.index("one") < said.index("two") < said.index("three")


@pytest.mark.parametrize("mode", ["polling", "webhook"])
async def test_an_album_whose_parts_lie_around_a_kill_is_one_turn(
    telegram: BotApi, model: OpenAIApi, service: Service, mode: str
) -> None:
    """C033, with kill -9 after a part that was confirmed already."""
    if mode == "webhook":
        use_webhook(telegram, service)
    await service.start()
    await taken(telegram, telegram.user_says(ADA, photo=PIXEL, caption="our trip", media_group_id="g1"))
    await service.kill()
    telegram.user_says(ADA, photo=PIXEL, media_group_id="g1")
    telegram.user_says(ADA, photo=PIXEL, media_group_id="g1")
    await service.start()
    await telegram.wait_for(lambda: telegram.texts(ADA))
    (request,) = model.requests
    content = request["messages"][-1]["content"]
    assert [block["type"] for block in content] == ["text", "image_url", "image_url", "image_url"]
    assert len(telegram.texts(ADA)) == 1


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"mode": "webhook"}, "webhook needs webhook_url"),
        ({"mode": "webhook", "webhook_url": "http://bot.example"}, "must begin with https://"),
        ({"mode": "push"}, "polling"),
    ],
)
async def test_a_webhook_that_cannot_work_is_told_before_anything_starts(
    service: Service, section: Mapping[str, Any], told: str
) -> None:
    service.configure(service.sections, {"channels.telegram": section})
    await service.launch()
    assert await service.wait_exit() == 78
    assert told in service.log_text().replace('mode = "webhook"', "webhook").replace("\n", " ")


# --- buttons and reactions -------------------------------------------------------------------------------


async def test_a_button_answers_once_and_shows_it(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    label = "Yes, book the table for eight o'clock on the terrace, please"
    question = {"content": "Shall I?", "buttons": [[label, "No"]]}
    model.when("dinner", [Reply(tool_calls=[("message", question)]), Reply(text="")])
    await service.start()
    telegram.user_says(ADA, "dinner")
    await telegram.wait_for(lambda: "Shall I?" in telegram.texts(ADA))
    chat = telegram.world.chats[ADA]
    asked = next(key for key, text in telegram.messages[ADA].items() if text == "Shall I?")
    data = chat.messages[asked]["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    telegram.press(ADA, asked, data)
    await telegram.wait_for(lambda: label in telegram.texts(ADA))  # the model echoes what the button says
    await telegram.wait_for(lambda: len(chat.messages[asked]["reply_markup"]["inline_keyboard"][0]) == 1)
    assert chat.messages[asked]["reply_markup"]["inline_keyboard"][0][0]["text"] == f"✓ {label}"
    telegram.press(ADA, asked, data)
    await telegram.wait_for(lambda: len(telegram.world.answered_queries) == 2)
    assert label in list(telegram.world.answered_queries.values())[1]["text"]
    telegram.user_says(ADA, "done")
    await telegram.wait_for(lambda: "done" in telegram.texts(ADA))
    assert telegram.texts(ADA).count(label) == 1


async def test_a_reaction_to_an_answer_reaches_the_model_with_that_answer(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    telegram.user_says(ADA, "the plan")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    answer = next(key for key, text in telegram.messages[ADA].items() if key > 1)
    telegram.user_says(ADA, "and more")  # once this is answered, the answer before it is on record
    await telegram.wait_for(lambda: "and more" in telegram.texts(ADA))
    telegram.react(ADA, answer, "👍")
    await telegram.wait_for(lambda: len(model.requests) == 3)
    said = last_user_text(model.requests[-1])
    asked = str(model.requests[-1]["messages"][-1]["content"])
    assert "👍" in said + asked
    assert "the plan" in asked


# --- files -----------------------------------------------------------------------------------------------


async def test_a_file_that_is_too_big_is_told_and_its_caption_handled(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C043: a document of 25 MB with a caption; a voice message that cannot be fetched."""
    await service.start()
    ref = telegram.add_file(b"x", "film.mkv", size_bytes=25_000_000)
    film = {"file_id": ref, "file_unique_id": "u1", "file_name": "film.mkv", "file_size": 25_000_000}
    telegram.user_says(ADA, caption="cut the first minute", extra={"document": film})
    await telegram.wait_for(lambda: telegram.texts(ADA))
    asked = str(model.requests[-1]["messages"][-1]["content"])
    assert "cut the first minute" in asked
    assert "film.mkv, 25,000,000 bytes; it could not be fetched: too big to fetch (25.0 MB)" in asked
    assert "Tell the person which file did not reach you and what they can do" in asked
    voice = {"file_id": "V404", "file_unique_id": "u2", "duration": 3}
    telegram.user_says(ADA, extra={"voice": voice})
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert "Attachment: voice" in str(model.requests[-1]["messages"][-1]["content"])


# --- groups that move, chats that open again -------------------------------------------------------------


async def test_a_group_that_moves_keeps_its_policy_files_and_choices(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C035: -5 becomes -1009; what the configuration says of the old id counts for the new one, also later."""
    policy = {"default": "mention", "-5": "all"}
    service.configure(service.sections, {"channels.telegram.group_policy": policy})
    await service.start()
    telegram.user_says(GROUP, "keep this", chat_type="group", extra={"document": document(telegram, "list.txt")})
    await telegram.wait_for(lambda: telegram.texts(GROUP))
    telegram.migrate(GROUP, SUPERGROUP)
    telegram.user_says(SUPERGROUP, "without a mention", chat_type="supergroup")
    await telegram.wait_for(lambda: "without a mention" in telegram.texts(SUPERGROUP))
    assert "keep this" in str(model.requests[-1]["messages"])
    inbox = service.data_dir / "workspace" / "chats" / folder_name(f"telegram:{SUPERGROUP}") / "inbox"
    assert [path.name.partition("-")[2] for path in inbox.iterdir()] == ["list.txt"]
    await service.stop()
    await service.start()
    telegram.user_says(SUPERGROUP, "after a restart", chat_type="supergroup")
    await telegram.wait_for(lambda: "after a restart" in telegram.texts(SUPERGROUP))


def document(telegram: BotApi, name: str) -> dict[str, object]:
    ref = telegram.add_file(b"content", name)
    return {"file_id": ref, "file_unique_id": f"u{ref}", "file_name": name, "file_size": 7, "mime_type": "text/plain"}


async def test_reminders_go_on_when_the_person_lets_the_bot_in_again(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C036"""
    order = {"action": "add", "in_seconds": 4, "text": "drink water"}
    model.when("water", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    await service.start()
    telegram.user_says(BEN, "water", user_id=BEN)
    await telegram.wait_for(lambda: telegram.texts(BEN))
    await taken(telegram, telegram.block(BEN, user_id=BEN))
    assert "paused" in (await service.cli("jobs", "list")).out
    telegram.unblock(BEN, user_id=BEN)
    await telegram.wait_for(lambda: "drink water" in telegram.texts(BEN))
    assert [call for call in telegram.calls("sendMessage") if call.error] == []
