"""Journeys: talking to the running service, in one chat and in several at once."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Json, Reply, text_of
from tests.support.service import Service

ADA, BEN = 111, 222
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


async def test_a_message_is_answered_by_the_model(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    await service.start()
    telegram.user_says(ADA, "hello there")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert await service.stop() == 0
    assert telegram.texts(ADA) == ["hello there"]
    assert model.request_count == 1


async def test_a_tool_call_is_carried_out_and_its_result_reaches_the_model(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    note = service.data_dir / "workspace" / "shared" / "plan.txt"
    note.parent.mkdir(parents=True)
    note.write_text("plant beans\n")
    model.when("plan", [Reply(tool_calls=[("read_file", {"path": "shared/plan.txt"}, "call_a")]), Reply(text="Beans.")])
    await service.start()
    telegram.user_says(ADA, "what is the plan?")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["Beans."]
    result = model.requests[-1]["messages"][-1]
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_a")
    assert "plant beans" in result["content"]


async def test_a_held_chat_does_not_hold_another_and_loses_nothing(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C047."""
    gate = asyncio.Event()
    held = model.when("think hard", [Reply(text="42", hold=gate)])
    await service.start()
    telegram.user_says(ADA, "think hard")
    await model.wait_for(lambda: held.hits)
    telegram.user_says(ADA, "and then?")
    telegram.user_says(BEN, "quick one")
    await telegram.wait_for(lambda: telegram.texts(BEN))
    assert telegram.texts(ADA) == []
    gate.set()
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert telegram.texts(ADA) == ["42", "and then?"]
    assert telegram.texts(BEN) == ["quick one"]


async def test_messages_that_arrive_in_the_instant_a_turn_ends_are_all_handled(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C048: each message goes out the moment the answer before it reaches the platform, or just before that."""
    await service.start()
    for number in range(12):
        gate = asyncio.Event()
        rule = model.when(f"first {number} ", [Reply(text=f"a{number}", hold=gate)])
        telegram.user_says(ADA, f"first {number} ")
        await model.wait_for(lambda rule=rule: rule.hits)  # type: ignore[misc]
        # From before the model answers to after the ending is committed: the window lies somewhere in between.
        late = asyncio.get_running_loop().call_later(number * 0.002, telegram.user_says, ADA, f"second {number}")
        gate.set()
        await telegram.wait_for(lambda number=number: f"second {number}" in telegram.texts(ADA))  # type: ignore[misc]
        late.cancel()
    assert telegram.texts(ADA) == [text for n in range(12) for text in (f"a{n}", f"second {n}")]


async def test_messages_sent_while_a_step_is_under_way_join_the_turn(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    gate = asyncio.Event()
    call = Reply(tool_calls=[("list_dir", {"path": "."})], hold=gate)
    first = model.when("tidy up", [call])
    await service.start()
    telegram.user_says(ADA, "tidy up")
    await model.wait_for(lambda: first.hits)
    update = telegram.user_says(ADA, "but leave the attic")
    await telegram.wait_for(lambda: telegram.confirmed_offset > update)
    gate.set()
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert telegram.texts(ADA) == ["but leave the attic"]
    assert model.request_count == 2


async def test_odd_characters_are_answered_and_lose_nothing(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    for text in ("nul \x00 inside", "half \ud83d of a pair", "\ufeffmark", "right\u202eto left"):
        telegram.user_says(ADA, text)
    telegram.user_says(ADA, "plain")
    await telegram.wait_for(lambda: "plain" in telegram.texts(ADA))
    answers = telegram.texts(ADA)
    assert len(answers) == 5
    assert answers[0].startswith("nul ")
    assert answers[0].endswith(" inside")
    assert answers[1].startswith("half ")
    assert answers[1].endswith(" of a pair")
    assert (await service.status())["dead_letter_count"] == 0


async def test_a_restart_keeps_history_and_order(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    await service.start()
    telegram.user_says(ADA, "my cat is called Tom")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    assert await service.stop() == 0
    await service.start()
    telegram.user_says(ADA, "what is my cat called?")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    said = [text_of(message) for message in model.requests[-1]["messages"] if message["role"] == "user"]
    assert [text.partition("\n")[0] for text in said] == ["my cat is called Tom", "what is my cat called?"]


async def test_a_second_chat_sees_nothing_of_the_first(telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    folder = service.data_dir / "workspace" / "chats" / f"telegram=3A{ADA}"
    folder.mkdir(parents=True)
    (folder / "diary.txt").write_text("dear diary\n")
    job_ids: list[str] = []

    def adas(request: Json) -> Reply:
        *_, job, diary = request["messages"]
        if diary["role"] != "tool":
            add = {"action": "add", "in_seconds": 86_400, "text": "buy the ring"}
            return Reply(tool_calls=[("cron", add), ("read_file", {"path": "diary.txt"})])
        job_ids.extend(re.findall(r"job-\w+", job["content"]))
        return Reply(text="noted" if "dear diary" in diary["content"] else "cannot read my own diary")

    def bens(request: Json) -> Reply:
        if request["messages"][-1]["role"] == "tool":
            return Reply(text="found nothing")
        return Reply(
            tool_calls=[
                ("list_dir", {"path": "."}),
                ("read_file", {"path": f"../telegram=3A{ADA}/diary.txt"}),
                ("read_file", {"path": f"chats/telegram=3A{ADA}/diary.txt"}),
                ("read_file", {"path": str(folder / "diary.txt")}),
                ("cron", {"action": "list"}),
                ("cron", {"action": "remove", "job_id": job_ids[0]}),
                ("cron", {"action": "run_now", "job_id": job_ids[0]}),
                ("message", {"content": "hi Ada", "chat_id": str(ADA)}),
            ]
        )

    model.when("secret plan", adas)
    model.when("what does Ada", bens)
    await service.start()
    telegram.user_says(ADA, "my secret plan")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    telegram.user_says(BEN, "what does Ada do?", user_id=BEN, first_name="Ben")
    await telegram.wait_for(lambda: telegram.texts(BEN))
    everything = "\n".join(text_of(message) for message in model.requests[-1]["messages"])
    assert "dear diary" not in everything
    assert "secret plan" not in everything
    listing, *_ = (message for message in model.requests[-1]["messages"] if message["role"] == "tool")
    assert "diary" not in listing["content"]
    assert "buy the ring" not in everything
    for command in ("/reminders", f"/cancel {job_ids[0]}"):
        telegram.user_says(BEN, command, user_id=BEN, first_name="Ben")
    telegram.user_says(ADA, "/reminders")
    await telegram.wait_for(lambda: len(telegram.texts(BEN)) == 3 and len(telegram.texts(ADA)) == 2)
    assert not any("ring" in text for text in telegram.texts(BEN))
    assert telegram.texts(ADA)[0] == "noted"
    assert "buy the ring" in telegram.texts(ADA)[1]


async def test_a_text_sent_to_this_chat_by_tool_stands_for_the_answer(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    model.when("how many", [Reply(tool_calls=[("message", {"content": "It is 42."})]), Reply(text="I have told you.")])
    await service.start()
    telegram.user_says(ADA, "how many?")
    telegram.user_says(ADA, "/reminders")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert telegram.texts(ADA)[0] == "It is 42."
    assert "I have told you." not in telegram.texts(ADA)


async def test_a_text_sent_to_another_chat_does_not_swallow_the_answer_here(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    """C044."""
    service.configure(service.sections, {"access": {"owners": [f"telegram:{ADA}"]}})
    telegram.add_chat(BEN, name="Ben")
    call = ("message", {"content": "dinner at eight", "chat_id": str(BEN)})
    model.when("tell Ben", [Reply(tool_calls=[call]), Reply(text="Sent to Ben.")])
    await service.start()
    telegram.user_says(ADA, "tell Ben about dinner")
    await telegram.wait_for(lambda: telegram.texts(ADA) and telegram.texts(BEN))
    assert telegram.texts(ADA) == ["Sent to Ben."]
    assert telegram.texts(BEN) == ["dinner at eight"]


async def test_two_bots_keep_to_themselves(
    tmp_path: Path, telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    async with (
        BotApi(token="456:DEF", username="other_bot") as second_api,
        OpenAIApi() as second_model,
        Service(tmp_path / "second", telegram=second_api, model=second_model) as second,
    ):
        await service.start()
        await second.start()
        telegram.user_says(ADA, "to the first")
        second_api.user_says(ADA, "to the second")
        await telegram.wait_for(lambda: telegram.texts(ADA))
        await second_api.wait_for(lambda: second_api.texts(ADA))
        assert telegram.texts(ADA) == ["to the first"]
        assert second_api.texts(ADA) == ["to the second"]
        assert (model.request_count, second_model.request_count) == (1, 1)


async def test_an_album_is_one_turn_with_all_its_pictures_and_one_answer(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    await service.start()
    for caption in ("our trip", None, None):
        telegram.user_says(ADA, photo=PIXEL, caption=caption, media_group_id="g1")
    telegram.user_says(ADA, "/status")
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 2)
    assert "our trip" in telegram.texts(ADA)
    assert model.request_count == 1
    blocks = model.requests[0]["messages"][-1]["content"]
    assert [block["type"] for block in blocks] == ["text", "image_url", "image_url", "image_url"]


async def test_a_model_that_breaks_off_twice_and_then_answers_is_read_as_one_message(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    cut = Reply(text="Good morning, everyone here", cut_after=1)
    greeting = model.when("greet", [cut, cut, Reply(text="Good evening")])
    await service.start()
    telegram.user_says(ADA, "greet us")
    await telegram.wait_for(lambda: telegram.texts(ADA))
    telegram.user_says(ADA, "thanks")
    await telegram.wait_for(lambda: "thanks" in telegram.texts(ADA))
    assert greeting.hits == 3
    assert telegram.texts(ADA) == ["Good evening", "thanks"]


async def test_a_voice_message_that_cannot_be_fetched_is_no_empty_turn(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    telegram.faults.add(Fault(method="getFile", times=None, status=400, description="Bad Request: file is too big"))
    voice = {"voice": {"file_id": "V", "file_unique_id": "u", "duration": 3, "file_size": 25_000_000}}
    await service.start()
    telegram.user_says(ADA, "", extra=voice)
    await telegram.wait_for(lambda: telegram.texts(ADA))
    heard = text_of(model.requests[0]["messages"][-1]).partition("\n")[0]
    assert heard.startswith("[Attachment: voice")
    assert "25,000,000 bytes" in heard
    assert "too big to fetch (25.0 MB): bots may load files of up to 20 MB" in heard
