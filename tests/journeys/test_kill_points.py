"""Journeys: SIGKILL at every named point, a restart without the fault, and nothing is lost or doubled.

What a check reads is what the platforms saw. Only a send that was cut short may show twice: Telegram cannot be
asked what arrived, and an answer lost would be worse.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Mapping
from itertools import groupby
from typing import Any, Protocol

import pytest
import pytest_asyncio

from bot.security.workspace import folder_name
from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.service import ROOT, Service

ADA, BEN = 111, 222

PLAIN = ("received", "accepted", "claimed", "replied", "finished", "sending", "sent", "settled")

# One step of three calls (a file, a job, a message on the way), then the final text.
WITH_TOOLS = (
    *("received", "accepted", "claimed", "replied:1", "before-call:1", "after-call:1", "before-call:2"),
    *("after-call:2", "before-call:3", "after-call:3", "recorded", "sending:1", "sent:1", "settled:1"),
    *("replied:2", "finished", "sending:2", "sent:2", "settled:2"),
)

# A patch of two files: each is replaced, then the change is committed.
OF_A_PATCH = ("change-prepared", "change-under-way:1", "change-under-way:2", "change-committed")

# A draft is shown, its id kept, and then it is edited into the answer.
OF_A_DRAFT = ("drafted", "draft-saved", "finished", "sending", "sent", "settled")

# A file is copied, its message committed, sent, and the copy removed.
OF_A_FILE = ("copied", "after-call", "sending", "sent", "settled")

# The turn's own answer passes each point once, the reminder the second time.
OF_A_REMINDER = ("sending:2", "sent:2", "settled:2")


def test_every_kill_point_in_the_source_has_its_journey() -> None:
    named = {
        name
        for package in ("bot", "channels")
        for file in (ROOT / package).rglob("*.py")
        for name in re.findall(r"fault_point\(\s*(?!name\b)([^)]*)\)", file.read_text())
    }
    assert all(re.fullmatch(r'"[a-z-]+"', name) for name in named), "names are literals, to be found here"
    exercised = {point.partition(":")[0] for _, point in SCENARIOS}
    assert {name.strip('"') for name in named} == exercised


async def check_once(point: str, expected: list[str], telegram: BotApi, service: Service) -> None:
    """Check that Ada's chat holds these texts in this order, once each but for sends that were cut short.

    A kill at `sending` or `sent` cuts its own send, before or after the platform has the text. At any other
    point an earlier message may be on its way by chance.
    """
    texts = telegram.texts(ADA)
    assert [text for text, _ in groupby(texts)] == expected
    extra = len(texts) - len(expected)
    name = point.partition(":")[0]
    if name in {"sending", "sent", "settled"} or extra:
        uncertain = (await service.status())["uncertain_sends"]
        assert extra <= uncertain <= 1
        if name != "settled":
            assert uncertain == 1
    if name == "sent":
        assert extra == 1


async def a_message_is_answered(point: str, telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    await service.start(fault=point)
    telegram.user_says(ADA, "one")
    await service.die()
    telegram.user_says(ADA, "two")
    last = telegram.user_says(BEN, "three")
    await service.start()
    await telegram.wait_for(lambda: "two" in telegram.texts(ADA) and telegram.texts(BEN))
    await check_once(point, ["one", "two"], telegram, service)
    assert telegram.texts(BEN) == ["three"]
    await telegram.wait_for(lambda: telegram.confirmed_offset == last + 1)


def carry_out(request: dict[str, Any]) -> Reply:
    """Play the model of the turn with tools, at whatever point it is asked again."""
    if request["messages"][-1]["role"] == "tool":
        return Reply(text="done")
    return Reply(
        tool_calls=[
            ("read_file", {"path": "shared/notes.txt"}),
            ("cron", {"action": "add", "in_seconds": 86_400, "text": "call mum"}),
            ("message", {"content": "on it", "progress": True}),
        ]
    )


async def a_turn_with_tools_goes_on(point: str, telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    notes = service.data_dir / "workspace" / "shared" / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mum: 0123\n")
    model.when("work", carry_out)
    await service.start(fault=point)
    telegram.user_says(ADA, "work")
    await service.die()
    last = telegram.user_says(ADA, "/reminders")
    await service.start()
    await telegram.wait_for(lambda: any("call mum" in text for text in telegram.texts(ADA)))
    listing = telegram.texts(ADA)[-1]
    await check_once(point, ["on it", "done", listing], telegram, service)
    assert listing.count("call mum") == 1
    results = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert len(results) == 3
    assert "mum: 0123" in results[0]
    assert not any("interrupted" in result for result in results)
    await telegram.wait_for(lambda: telegram.confirmed_offset == last + 1)


async def a_reminder_arrives(point: str, telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    order = {"action": "add", "in_seconds": 0.5, "text": "stretch now"}
    model.when("stretch", [Reply(tool_calls=[("cron", order)]), Reply(text="I will.")])
    await service.start(fault=point)
    telegram.user_says(ADA, "remind me to stretch")
    await service.die()
    telegram.user_says(ADA, "/reminders")
    await service.start()
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) >= 3 and telegram.texts(ADA)[-1] != "stretch now")
    listing = telegram.texts(ADA)[-1]
    await check_once(point, ["I will.", "stretch now", listing], telegram, service)
    assert "stretch" not in listing


PATCH = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-old\n+new\n" for name in "ab")


async def a_patch_is_whole(point: str, telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    folder = service.data_dir / "workspace" / "chats" / folder_name(f"telegram:{ADA}")
    folder.mkdir(parents=True)
    for name in "ab":
        (folder / name).write_text("old\n")
    model.when("patch", [Reply(tool_calls=[("apply_patch", {"patch": PATCH})]), Reply(text="done")])
    await service.start(fault=point)
    telegram.user_says(ADA, "patch them")
    await service.die()
    await service.start()
    await telegram.wait_for(lambda: telegram.texts(ADA) != [])
    await check_once(point, ["done"], telegram, service)
    assert {(folder / name).read_text() for name in "ab"} == {"new\n" if point == "change-committed" else "old\n"}
    (result,) = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert "interrupted" in result


BEGINNING = "Let me think about that for a moment."
GROWN = f"{BEGINNING} The answer is that it depends."


async def a_draft_becomes_the_answer(point: str, telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    """Only between the platform's taking of the draft and the commit of its id a kill leaves it there."""
    go_on = asyncio.Event()
    chunks = [BEGINNING, GROWN.removeprefix(BEGINNING)]
    model.when("grow", lambda _: Reply(text=GROWN, chunks=chunks, stall_after=2, stall_until=go_on))
    await service.start(fault=point)
    telegram.user_says(ADA, "grow")
    await telegram.wait_for(lambda: telegram.texts(ADA) == [BEGINNING])
    go_on.set()
    await service.die()
    await service.start()
    telegram.user_says(ADA, "and now?")
    await telegram.wait_for(lambda: "and now?" in telegram.texts(ADA))
    left = [BEGINNING] if point == "drafted" else []
    assert telegram.texts(ADA) == [*left, GROWN, "and now?"]


def send_the_plan(request: dict[str, Any]) -> Reply:
    """Play the model that sends a file, at whatever point it is asked again."""
    if request["messages"][-1]["role"] == "tool":
        return Reply(text="there")
    return Reply(tool_calls=[("message", {"content": "", "media": ["plan.txt"], "progress": True})])


async def a_file_goes_out_as_it_was(point: str, telegram: BotApi, model: OpenAIApi, service: Service) -> None:
    """Killed before its message was committed, the call is made again, with the file as it is then."""
    folder = service.data_dir / "workspace" / "chats" / folder_name(f"telegram:{ADA}")
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("first")
    model.when("plan", send_the_plan)
    await service.start(fault=point)
    telegram.user_says(ADA, "the plan")
    await service.die()
    (folder / "plan.txt").write_text("second")
    await service.start()
    await telegram.wait_for(lambda: "there" in telegram.texts(ADA))
    sent = [content for _, content, _ in telegram.world.files.values()]
    doubled = [b"first"] if point == "sent" else []
    assert sent == [b"second" if point == "copied" else b"first", *doubled]
    await telegram.wait_for(lambda: list((service.data_dir / "outgoing").iterdir()) == [])


class Scenario(Protocol):
    """What happens around a kill at `point`, and what must be true afterwards."""

    __name__: str

    def __call__(
        self, point: str, telegram: BotApi, model: OpenAIApi, service: Service, /
    ) -> Coroutine[Any, Any, None]: ...


SCENARIOS: list[tuple[Scenario, str]] = [
    *((a_message_is_answered, point) for point in PLAIN),
    *((a_turn_with_tools_goes_on, point) for point in WITH_TOOLS),
    *((a_reminder_arrives, point) for point in OF_A_REMINDER),
    *((a_patch_is_whole, point) for point in OF_A_PATCH),
    *((a_draft_becomes_the_answer, point) for point in OF_A_DRAFT),
    *((a_file_goes_out_as_it_was, point) for point in OF_A_FILE),
]
AT_ONCE = 2  # a start is work for one core, and half of a journey is waiting


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def under_way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Mapping[tuple[Scenario, str], asyncio.Task[None]]]:
    """The journeys of the selected tests, a few at a time; each test waits for its own."""
    places = asyncio.Semaphore(AT_ONCE)

    async def journey(scenario: Scenario, point: str) -> None:
        folder = tmp_path_factory.mktemp("killed")
        async with places, BotApi() as telegram, OpenAIApi(strict=True) as model:
            async with Service(folder, telegram=telegram, model=model) as service:
                await scenario(point, telegram, model, service)
            assert model.violations == []

    chosen = {item.name for item in request.session.items}
    tasks = {
        (scenario, point): asyncio.create_task(journey(scenario, point))
        for scenario, point in SCENARIOS
        if f"{test_nothing_is_lost_or_doubled.__name__}[{scenario.__name__}-{point}]" in chosen
    }
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("scenario", "point"), SCENARIOS, ids=lambda value: getattr(value, "__name__", value))
async def test_nothing_is_lost_or_doubled(
    scenario: Scenario, point: str, under_way: Mapping[tuple[Scenario, str], asyncio.Task[None]]
) -> None:
    await under_way[scenario, point]


async def test_a_long_answer_goes_on_with_the_part_at_which_the_process_was_killed(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    parts = [letter * 4_000 for letter in "abc"]
    model.when("long", [Reply(text="\n\n".join(parts))])
    await service.start(fault="sent:2")
    telegram.user_says(ADA, "something long")
    await service.die()
    await service.start()
    await telegram.wait_for(lambda: len(telegram.texts(ADA)) >= 4)
    a, b, c = parts
    assert telegram.texts(ADA) == [a, b, b, c]


async def test_a_message_that_kills_the_process_each_time_is_buried_and_everyone_else_is_served(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    model.when("poison", lambda request: Reply(tool_calls=[("list_dir", {"path": "."})]))
    await service.start(fault="before-call")
    telegram.user_says(ADA, "poison")
    telegram.user_says(BEN, "hello")
    await service.die()
    for _ in range(2):
        await service.start(fault="before-call")
        await service.die()
    await service.start(fault="before-call")
    telegram.user_says(ADA, "and now?")
    await telegram.wait_for(lambda: "and now?" in telegram.texts(ADA) and telegram.texts(BEN))
    notice, answer = telegram.texts(ADA)
    assert "3 attempts" in notice
    assert "poison" in notice
    assert answer == "and now?"
    status = await service.status()
    # Ben's answer may be on its way when the process dies: then it is sent once more, and counted.
    assert telegram.texts(BEN) == ["hello"] * (1 + status["uncertain_sends"])
    assert [letter["text"] for letter in status["dead_letters"]] == ["poison"]
    assert service.running


async def test_a_turn_in_flight_beside_a_deadly_one_is_not_buried_with_it(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    released = asyncio.Event()
    slow = model.when("slow", lambda request: Reply(text="at last", hold=released))
    model.when("poison", lambda request: Reply(tool_calls=[("list_dir", {"path": "."})]))
    await service.start(fault="before-call")
    telegram.user_says(BEN, "slow")
    await model.wait_for(lambda: slow.hits)
    telegram.user_says(ADA, "poison")
    await service.die()
    await service.start(fault="before-call")
    await service.die()
    released.set()  # both were cut short twice now; from here each is tried alone, the older one first
    await service.start(fault="before-call")
    await service.die()
    await service.start(fault="before-call")
    await telegram.wait_for(lambda: telegram.texts(ADA) and telegram.texts(BEN))
    assert "poison" in telegram.texts(ADA)[0]
    status = await service.status()
    assert [letter["text"] for letter in status["dead_letters"]] == ["poison"]
    # The deadly turn's trial begins the moment this answer is in the outbox, so its send may have been cut short.
    assert telegram.texts(BEN) in (["at last"], ["at last"] * (1 + status["uncertain_sends"]))
