"""/memory: people see, correct and end what is remembered of them; a group's memory is its owners' to change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bot.interfaces import ModelReply, ModelRequest
from bot.memories import MemoryStep
from bot.messages import ChatType
from bot.store.memory import VERSIONS_KEPT, end_memory_run
from tests.agent.test_memory_runs import ANN, GROUP, begin, file_of, night, writes
from tests.support.engine import MEMBER, OTHER, OWNER, Rig, rig, said
from tests.support.recorders import FarModel, whole


def by_hand(engine: Rig, text: str) -> Path:
    path = file_of(engine, ANN)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_memory_shows_the_file_and_every_change_is_a_version(tmp_path: Path) -> None:
    model = FarModel(memory=writes("- likes tea"))
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        assert await engine.asks("/memory") == "I have noted nothing for the long term yet."
        await engine.asks("I like tea")
        await night(engine)
        assert await engine.asks("/memory") == "What I remember of you:\n\n- likes tea"
        path = by_hand(engine, "- likes coffee!")
        log = await engine.asks("/memory log")
        title, *lines = log.splitlines()
        assert title == "Versions, the newest first:"
        assert [re.sub(r": .*?, (?=changed|from)", ": ", line) for line in lines] == [
            "2: changed by hand, 15 characters (+4)",
            "1: from the conversation, 11 characters (+11)",
        ]
        assert (await engine.asks("/memory show 1")).endswith(":\n\n- likes tea")
        assert (await engine.asks("/memory restore 1")).startswith("What I remember is now as in version 1.")
        assert path.read_text() == "- likes tea"
        log = await engine.asks("/memory log")
        assert "\n3: " in log
        assert "back to 1" in log


async def test_versions_of_others_cannot_be_seen_or_restored(tmp_path: Path) -> None:
    async with rig(tmp_path, FarModel()) as engine:
        by_hand(engine, "secret")
        await engine.asks("/memory log")
        answers = [
            await engine.asks("/memory show 1", sender=OTHER, chat="c2"),
            await engine.asks("/memory restore 1", sender=OTHER, chat="c2"),
            await engine.asks("/memory show 1", chat="g1", chat_type=ChatType.GROUP),
        ]
        assert all(answer.startswith("There is no version 1 here.") for answer in answers[:2])
        assert "secret" not in "".join(answers)


async def test_a_groups_memory_is_read_by_members_and_changed_by_owners(tmp_path: Path) -> None:
    async with rig(tmp_path, FarModel()) as engine:
        path = file_of(engine, GROUP)
        path.parent.mkdir(parents=True)
        path.write_text("- meets on Monday")
        in_group = {"chat": "g1", "chat_type": ChatType.GROUP}
        assert await engine.asks("/memory", **in_group) == "What I remember of this chat:\n\n- meets on Monday"
        await engine.asks("/memory log", **in_group)
        assert await engine.asks("/memory forget", **in_group) == "Only an owner may do that."
        assert await engine.asks("/memory restore 1", **in_group) == "Only an owner may do that."
        assert path.exists()
        assert (await engine.asks("/memory forget", sender=OWNER, **in_group)).startswith("Forgotten")
        assert not path.exists()


async def test_forgetting_leaves_no_version_and_the_same_words_are_not_noted_again(tmp_path: Path) -> None:
    model = FarModel(memory=writes("- likes tea"))
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("I like tea")
        await night(engine)
        await engine.asks("and milk")
        assert (await engine.asks("/memory forget")).startswith("Forgotten")
        assert not file_of(engine, ANN).exists()
        assert await engine.asks("/memory log") == "I have noted nothing for the long term yet."
        assert await engine.store.memory.due() == []


async def test_forgetting_takes_the_text_out_of_the_records_of_runs(tmp_path: Path) -> None:
    model = FarModel(memory=writes("- wrote tea down"))
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("I like tea")
        await engine.asks("I like coffee", sender=OTHER, chat="c2")
        await night(engine)
        await engine.asks("/memory forget")

        def kept(conn: Any) -> Any:
            sql = "SELECT s.lane FROM history h JOIN sessions s ON s.id = h.session_id WHERE h.body LIKE '%wrote tea%'"
            calls = "SELECT count(*) FROM calls WHERE arguments LIKE '%wrote tea%'"
            return [row[0] for row in conn.execute(sql)], conn.execute(calls).fetchone()[0]

        lanes, calls = await engine.store._database.read(kept)
        assert lanes
        assert all(lane.startswith(f"mem:person:memory:{OTHER}:") for lane in lanes)
        assert calls == 1


async def test_a_run_that_ends_just_after_forgetting_brings_nothing_back(tmp_path: Path) -> None:
    async with rig(tmp_path, FarModel()) as engine:
        await engine.asks("I like tea")
        await engine.store.memory.forget(ANN)
        step = MemoryStep(home=ANN, after=0, upto=1, body="- likes tea", reason="run")
        await engine.store._database.write(lambda conn: end_memory_run(conn, step, now_us=1))
        assert await engine.store.memory.versions(ANN, limit=9) == []
        assert await engine.store.memory.mark(ANN) > 1


async def test_nothing_is_changed_while_a_run_is_at_work(tmp_path: Path) -> None:
    answers: list[str] = []
    engines: list[Rig] = []

    async def memory(_: ModelRequest) -> ModelReply:
        answers.append(await engines[0].asks("/memory forget"))
        answers.append(await engines[0].asks("/memory restore 1"))
        return said("done")

    async with rig(tmp_path, FarModel(memory=memory)) as engine:
        engines.append(engine)
        await begin(engine)
        by_hand(engine, "- a")
        await engine.asks("/memory")
        await engine.asks("hello")
        await night(engine)
        await engine.idle()
        assert [answer.split(".")[0] for answer in answers] == ["I am just bringing my memory up to date"] * 2
        assert (await engine.asks("/memory forget")).startswith("Forgotten")


async def test_a_run_that_was_queued_before_forgetting_does_nothing(tmp_path: Path) -> None:
    model = FarModel(memory=writes("- likes tea"))
    async with rig(tmp_path, model, start=("delivery", "scheduler", "loop")) as engine:
        await begin(engine)
        await engine.asks("I like tea")
        due = await engine.store.memory.due()
        await engine.store.memory.forget(ANN)
        assert await engine.store.memory.plan(due, due_us=1) == 0
        assert model.memories == []


async def test_only_so_many_versions_are_kept(tmp_path: Path) -> None:
    async with rig(tmp_path, FarModel()) as engine:
        for number in range(VERSIONS_KEPT + 5):
            by_hand(engine, f"- {number}")
            await engine.memory_book.look(ANN)
        versions = await engine.store.memory.versions(ANN, limit=1_000)
        assert [item.body for item in versions] == [f"- {number}" for number in range(VERSIONS_KEPT + 4, 4, -1)]


async def test_a_chat_that_moves_keeps_its_memory(tmp_path: Path) -> None:
    async with rig(tmp_path, FarModel()) as engine:
        path = file_of(engine, GROUP)
        path.parent.mkdir(parents=True)
        path.write_text("- ours")
        await engine.asks("/memory", chat="g1", chat_type=ChatType.GROUP)
        await engine.bus.migrate_chat("memory", "g1", "g2")
        answer = await engine.asks("/memory", chat="g2", chat_type=ChatType.GROUP)
        assert answer.endswith("- ours")
        assert "changed by hand, 6 characters (+6)" in await engine.asks(
            "/memory log", chat="g2", chat_type=ChatType.GROUP
        )


async def test_what_it_does_not_understand_it_explains(tmp_path: Path) -> None:
    async with rig(tmp_path, FarModel()) as engine:
        for wrong in ("/memory x", "/memory show", "/memory show -1", "/memory share", "/memory restore all"):
            assert (await engine.asks(wrong)).startswith("/memory shows what I remember."), wrong


async def test_a_file_too_large_to_be_kept_is_said_to_be_so(tmp_path: Path) -> None:
    async with rig(tmp_path, FarModel()) as engine:
        by_hand(engine, "x" * 10_000_000)
        assert "too large" in await engine.asks("/memory")


async def test_facts_of_a_private_chat_stay_out_of_other_chats_unless_shared(tmp_path: Path) -> None:
    """C064: A states a door code in a private chat; B asks in another one, and in a group both are in."""
    model = FarModel(memory=writes("- door code 4711\n\n## Shared\n- the door code is 4711\n"))
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("My door code is 4711, please remember it and tell the others.", sender=MEMBER, chat="c1")
        await night(engine)

        await engine.asks("What is the door code?", sender=MEMBER, chat="c1")
        assert "door code 4711" in str(model.chats[-1].messages[0]["content"])
        await engine.asks("What is the door code?", sender=OTHER, chat="c2")
        assert "4711" not in whole(model.chats[-1])
        group = {"chat": "g1", "chat_type": ChatType.GROUP}
        await engine.asks("What is the door code?", sender=OTHER, **group)
        await engine.asks("I know it.", sender=MEMBER, **group)
        assert "4711" not in whole(model.chats[-1])

        assert (await engine.asks("/memory share on", sender=MEMBER, chat="c1")).startswith("Groups you write in")
        await engine.asks("Now I tell.", sender=MEMBER, **group)
        row = str(model.chats[-1].messages[-1]["content"])
        assert "the door code is 4711" in row[row.index("[Runtime Context") :]
        await engine.asks("What is the door code?", sender=OTHER, chat="c2")
        assert "4711" not in whole(model.chats[-1])

        assert (await engine.asks("/memory share off", sender=MEMBER, chat="c1")).startswith(
            "Groups get to know nothing"
        )
        await engine.asks("And now?", sender=MEMBER, **group)
        assert "4711" not in str(model.chats[-1].messages[-1]["content"])
        assert row in [str(item["content"]) for item in model.chats[-1].messages]  # replayed as it was
