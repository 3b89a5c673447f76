"""Journeys: Telegram is slow, wrong, away or forgetful, and chats move, close and come back."""

from __future__ import annotations

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault, bad_gateway
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import Service, free_port

ADA, BEN = 111, 222
GROUP, SUPERGROUP = -5, -1009


async def test_messages_that_waited_at_the_start_are_answered_in_order(telegram: BotApi, service: Service) -> None:
    for user, text in ((ADA, "one"), (BEN, "two"), (ADA, "three")):
        telegram.user_says(user, text, user_id=user)
    await service.start()
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2 and telegram.texts(BEN))
    assert telegram.texts(ADA) == ["one", "three"]
    assert telegram.texts(BEN) == ["two"]


async def test_polling_survives_resets_and_a_bad_gateway(telegram: BotApi, service: Service) -> None:
    await service.start()
    telegram.user_says(ADA, "before")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    faults = [
        telegram.faults.add(Fault(method="getUpdates", times=2, drop_before=True)),
        telegram.faults.add(bad_gateway("getUpdates")),
    ]
    telegram.user_says(ADA, "after")  # wakes the open poll; the next ones fail
    await telegram.wait_for(lambda: all(telegram.faults.hits(fault) for fault in faults))
    telegram.user_says(ADA, "in the end")
    await telegram.wait_for(lambda: "in the end" in telegram.texts(ADA))
    assert telegram.texts(ADA) == ["before", "after", "in the end"]


async def test_an_answered_update_that_is_delivered_after_a_restart_is_not_answered_again(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    update = telegram.user_says(ADA, "once")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert await service.stop() == 0
    telegram.redeliver(update)
    await service.start()
    telegram.user_says(ADA, "next")
    await telegram.wait_for(lambda: "next" in telegram.texts(ADA))
    assert telegram.texts(ADA) == ["once", "next"]
    assert model.request_count == 2


async def test_a_message_whose_model_call_is_killed_is_answered_after_the_restart(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    held = model.when("think", [Reply(stall_after=0), Reply(text="thought")])
    await service.start()
    telegram.user_says(ADA, "think")
    await model.wait_for(lambda: held.hits)
    await service.kill()
    await service.start()
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["thought"]


async def test_telegram_down_at_the_start_makes_it_unready_but_healthy_until_telegram_is_back(
    telegram: BotApi, service: Service
) -> None:
    service.configure(service.sections, {"server": {"listen": f"127.0.0.1:{free_port()}"}})
    await telegram.go_down()
    await service.start()
    assert (await service.health("/healthz"))[0] == 200
    status, report = await service.health("/readyz")
    assert (status, report["ok"]) == (503, False)
    telegram.user_says(ADA, "anybody home?")
    await telegram.come_up()
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["anybody home?"]
    assert await service.health("/readyz") == (200, {"ok": True, "channels": {"telegram": "ready"}})


async def test_an_answer_whose_connection_broke_is_repeated_at_most_once_and_counted(
    telegram: BotApi, service: Service
) -> None:
    telegram.faults.add(Fault(method="sendMessage", times=2, drop_after=True))
    await service.start()
    telegram.user_says(ADA, "hello")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    telegram.user_says(ADA, "next")
    await telegram.wait_for(lambda: "next" in telegram.texts(ADA))
    assert telegram.texts(ADA) == ["hello", "hello", "next"]
    assert (await service.status())["uncertain_sends"] == 1


async def test_a_group_that_becomes_a_supergroup_keeps_history_and_reminders(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"channels.telegram": {"group_policy": "all"}})
    order = {"action": "add", "in_seconds": 3, "text": "club meets now"}
    model.when("club", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    await service.start()
    telegram.user_says(GROUP, "remind us of the club", chat_type="group")
    await telegram.wait_for(lambda: telegram.texts(GROUP))
    telegram.migrate(GROUP, SUPERGROUP)
    telegram.user_says(SUPERGROUP, "are you still with us?", chat_type="supergroup")
    await telegram.wait_for(lambda: len(telegram.texts(SUPERGROUP)) == 2)
    assert sorted(telegram.texts(SUPERGROUP)) == ["are you still with us?", "club meets now"]
    assert telegram.texts(GROUP) == ["I will."]
    asked = str(model.requests[-1]["messages"])
    assert "remind us of the club" in asked


async def test_a_reminder_learns_from_the_refusal_that_its_group_has_moved(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"channels.telegram": {"group_policy": "all"}})
    order = {"action": "add", "in_seconds": 2, "text": "club meets now"}
    model.when("club", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    await service.start()
    telegram.user_says(GROUP, "remind us of the club", chat_type="group")
    await telegram.wait_for(lambda: telegram.texts(GROUP))
    old = telegram.world.chats[GROUP]
    telegram.add_chat(SUPERGROUP, chat_type="supergroup", name=old.name)
    old.migrated_to = SUPERGROUP  # no service message: only sending finds out
    await telegram.wait_for(lambda: telegram.texts(SUPERGROUP))
    assert telegram.texts(SUPERGROUP) == ["club meets now"]


async def test_a_reminder_for_somebody_who_blocked_the_bot_ends_without_a_storm(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    def order(text: str) -> list[Reply]:
        call = ("cron", {"action": "add", "in_seconds": 1.5, "text": text})
        return [Reply(tool_calls=[call]), Reply(text="I will.")]

    model.when("water", order("drink water"))
    model.when("tea", order("drink tea"))
    await service.start()
    telegram.user_says(BEN, "water", user_id=BEN)
    telegram.user_says(ADA, "tea")
    await telegram.wait_for(lambda: telegram.texts(BEN) and telegram.texts(ADA))
    telegram.world.chats[BEN].gone = "bot was blocked by the user"  # no notice: only sending finds out
    await telegram.wait_for(lambda: "drink tea" in telegram.texts(ADA))
    await telegram.wait_for(lambda: [call for call in telegram.calls("sendMessage") if call.error])
    telegram.user_says(ADA, "all well?")
    await telegram.wait_for(lambda: "all well?" in telegram.texts(ADA))
    assert telegram.texts(BEN) == ["I will."]
    refused = [call for call in telegram.calls("sendMessage") if call.error]
    assert [(call.chat_id, call.text) for call in refused] == [(BEN, "drink water")]
    status = await service.status()
    assert [letter["text"] for letter in status["dead_letters"]] == ["drink water"]


async def test_a_bot_that_was_blocked_answers_again_once_it_is_let_back_in(telegram: BotApi, service: Service) -> None:
    await service.start()
    telegram.user_says(BEN, "hi", user_id=BEN)
    await telegram.wait_for(lambda: telegram.texts(BEN))
    telegram.block(BEN, user_id=BEN)
    telegram.unblock(BEN, user_id=BEN)
    telegram.user_says(BEN, "sorry", user_id=BEN)
    await telegram.wait_for(lambda: len(telegram.texts(BEN)) == 2)
    assert telegram.texts(BEN) == ["hi", "sorry"]


async def test_an_update_nobody_can_read_blocks_nothing_and_is_kept(telegram: BotApi, service: Service) -> None:
    await service.start()
    telegram.push_raw({"message": {"message_id": "not a number", "chat": 7}})
    last = telegram.user_says(ADA, "next")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    await telegram.wait_for(lambda: telegram.confirmed_offset == last + 1)
    assert telegram.texts(ADA) == ["next"]
    assert (await service.status())["dead_letter_count"] == 1


async def test_strangers_get_nothing_whatever_they_call_themselves(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    service.configure(service.sections, {"channels.telegram": {"allow_from": [str(ADA)]}})
    await service.start()
    telegram.user_says(BEN, "let me in", user_id=BEN, first_name=str(ADA))
    telegram.user_says(ADA, "hello")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(BEN) == []
    assert not [call for call in telegram.all_calls if call.chat_id == BEN]
    assert model.request_count == 1


async def test_a_rate_limit_delays_one_chat_and_no_other(telegram: BotApi, service: Service) -> None:
    telegram.faults.add(Fault(method="sendMessage", chat_id=ADA, status=429, description="Too Many", retry_after=2))
    await service.start()
    telegram.user_says(ADA, "slow chat")
    await telegram.wait_for(lambda: telegram.calls("sendMessage"))
    telegram.user_says(BEN, "fast chat", user_id=BEN)
    await telegram.wait_for(lambda: telegram.texts(BEN))
    assert telegram.texts(ADA) == []
    await telegram.wait_for(lambda: telegram.texts(ADA))
    refused, *_, sent = [call for call in telegram.calls("sendMessage") if call.chat_id == ADA]
    assert sent.at_monotonic - refused.at_monotonic >= 2
    assert telegram.texts(ADA) == ["slow chat"]


async def test_the_token_is_in_no_log_line_whatever_the_level(telegram: BotApi, service: Service) -> None:
    service.configure(service.sections, {"log": {"level": "debug"}})
    telegram.faults.add(bad_gateway("getMe"))
    telegram.faults.add(Fault(method="sendMessage", drop_before=True))
    await service.start()
    telegram.user_says(ADA, "hello")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert await service.stop() == 0
    assert '"level": "debug"' in service.log_text()
    assert telegram.token not in service.log_text()
    assert telegram.token.partition(":")[2] not in service.log_text()
