"""What was said is read for long-term memory on a schedule: once, by nobody's rights, into one folder."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.config import LimitsSection, MemorySection
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, ModelRequest
from bot.memories import HomeKind, MemoryHome
from bot.messages import ChatType
from bot.store.turns import MEMORY_RUNS_AT_ONCE
from tests.support.engine import MEMBER, OTHER, OWNER, AnsweringProvider, Rig, again, calls, rig, said, tool_texts
from tests.support.recorders import FarModel, whole

ANN = MemoryHome(kind=HomeKind.PERSON, channel="memory", ident=MEMBER)
BEN = MemoryHome(kind=HomeKind.PERSON, channel="memory", ident=OTHER)
GROUP = MemoryHome(kind=HomeKind.CHAT, channel="memory", ident="g1")
NIGHTS = [f"2026-11-{day}T04:00:00+01:00" for day in (30,)] + [f"2026-12-0{day}T04:00:00+01:00" for day in range(1, 8)]


def file_of(engine: Rig, home: MemoryHome) -> Path:
    return engine.setup.folder / "memory" / home.folder / "MEMORY.md"


def writes(text: str, path: str = "MEMORY.md") -> Any:
    """Return a model that writes a memory in one step, then ends."""

    def answer(request: ModelRequest) -> ModelReply:
        if request.messages[-1]["role"] == "tool":
            return said("Noted.")
        return calls(("write_file", {"path": path, "content": text}))

    return answer


async def night(engine: Rig, number: int = 0) -> None:
    """Let the time of the next runs come, and wait until they have ended."""
    before = len(engine.ended)
    engine.move_to(NIGHTS[number])
    await engine.until(lambda: len(engine.ended) > before)
    await engine.idle()


async def begin(engine: Rig) -> None:
    """Wait until the schedule has its first point in time: what is due before that is not missed."""
    await engine.store.memory.planned_us()


async def mark(engine: Rig, home: MemoryHome) -> int:
    return await engine.store.memory.mark(home)


async def test_a_run_writes_what_was_said_into_the_persons_file_and_tells_nobody(tmp_path: Path) -> None:
    model = FarModel(memory=writes("# Ann\n\n- likes tea\n"))
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("I like tea.")
        await night(engine)
        path = file_of(engine, ANN)
        assert path.read_text() == "# Ann\n\n- likes tea\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert engine.channel.texts("c1") == ["heard I like tea."]
        assert "I like tea." in whole(model.memories[0])
        assert f"user {MEMBER}: I like tea." in whole(model.memories[0])
        (version,) = await engine.store.memory.versions(ANN, limit=9)
        assert (version.reason, version.body) == ("run", "# Ann\n\n- likes tea\n")
        assert len(await engine.history()) == 2


async def test_rows_are_read_once_and_only_new_ones_the_next_time(tmp_path: Path) -> None:
    model = FarModel()
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("first words")
        await night(engine)
        assert len(model.memories) == 1
        engine.move_to(NIGHTS[1])
        await engine.asks("second words")
        await night(engine, 2)
        assert len(model.memories) == 2
        assert "first words" not in whole(model.memories[1])
        assert "second words" in whole(model.memories[1])


async def test_a_run_has_the_file_tools_of_its_scope_alone(tmp_path: Path) -> None:
    model = FarModel()
    async with rig(tmp_path, model, owners=(f"memory:{OWNER}",)) as engine:
        await begin(engine)
        await engine.asks("hello", sender=OWNER)
        await night(engine)
        names = {tool["function"]["name"] for tool in model.memories[0].tools}
        assert {"read_file", "write_file", "edit_file"} <= names
        assert names <= {"read_file", "write_file", "edit_file", "list_dir", "find_files", "grep"}


PATHS = [
    "../../chats/memory-g1/MEMORY.md",
    "../memory-222/MEMORY.md",
    "../../../workspace/chats/x.txt",
    "/etc/dutiful-test",
    "~/x.txt",
    "shared/../../x.txt",
]


@pytest.mark.parametrize("path", PATHS)
async def test_a_run_cannot_leave_its_folder(tmp_path: Path, path: str) -> None:
    model = FarModel(memory=writes("stolen", path))
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("hello")
        before = {item for item in tmp_path.rglob("*") if item.is_file() and "dutiful.db" not in item.name}
        await night(engine)
        (text,) = tool_texts(model.memories[-1])
        assert text.startswith("Error") or "outside" in text or "leads out" in text
        after = {item for item in tmp_path.rglob("*") if item.is_file() and "dutiful.db" not in item.name}
        assert after == before


async def test_a_run_writes_through_no_link(tmp_path: Path) -> None:
    model = FarModel(memory=writes("stolen"))
    target = tmp_path / "target.txt"
    target.write_text("mine")
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        path = file_of(engine, ANN)
        path.parent.mkdir(parents=True)
        path.symlink_to(target)
        await engine.asks("hello")
        await night(engine)
        assert target.read_text() == "mine"
        assert "link" in tool_texts(model.memories[-1])[0]
        assert await engine.asks("/memory") == "The memory file cannot be changed now. The log says why."


async def test_a_crash_between_run_and_mark_neither_loses_nor_repeats(tmp_path: Path) -> None:
    engines: list[Rig] = []

    async def memory(request: ModelRequest) -> ModelReply:
        if request.messages[-1]["role"] != "tool":
            return calls(("edit_file", {"path": "MEMORY.md", "old_text": "- a\n", "new_text": "- a\n- b\n"}))
        if engines:
            await engines.pop().die()
        return said("Noted.")

    model = FarModel(memory=memory)
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        path = file_of(engine, ANN)
        path.parent.mkdir(parents=True)
        path.write_text("- a\n")
        engines.append(engine)
        await engine.asks("note b please")
        engine.move_to(NIGHTS[0])
        await engine.crashed.wait()
        setup = engine.setup
    assert len(model.memories) == 2
    async with again(setup) as engine:
        await engine.turns_end(1)
        await engine.idle()
        assert file_of(engine, ANN).read_text() == "- a\n- b\n"
        assert len(model.memories) == 3  # only the end of the run
        assert "note b please" in whole(model.memories[2])
        assert [item.reason for item in await engine.store.memory.versions(ANN, limit=9)] == ["run", "hand"]
        assert await mark(engine, ANN) > 0
        assert await engine.store.memory.due() == []


async def test_a_run_that_fails_reads_the_same_rows_the_next_night(tmp_path: Path) -> None:
    async def refuses(_: ModelRequest) -> ModelReply:
        raise ProviderError(ProviderErrorKind.SERVER, "500")

    model = FarModel(memory=refuses)
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("remember the river")
        await night(engine)
        assert await mark(engine, ANN) == 0
        assert engine.channel.texts("c1") == ["heard remember the river"]
        model.memory = writes("- the river")
        await night(engine, 1)
        assert file_of(engine, ANN).read_text() == "- the river"
        assert "remember the river" in whole(model.memories[-1])


async def test_a_run_that_meets_a_bug_tells_nobody(tmp_path: Path) -> None:
    def breaks(_: ModelRequest) -> ModelReply:
        raise RuntimeError("a bug")

    model = FarModel(memory=breaks)
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("hello")
        await night(engine)
        assert len(model.memories) == 1
        assert engine.channel.texts("c1") == ["heard hello"]
        assert await mark(engine, ANN) == 0


async def test_what_is_due_while_the_process_is_down_runs_once_at_the_next_start(tmp_path: Path) -> None:
    model = FarModel()
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("hello")
        setup = engine.setup
    setup.clock.move_to(NIGHTS[4])
    async with again(setup) as engine:
        await engine.turns_end(1)
        await engine.idle()
        assert len(model.memories) == 1
        assert await engine.store.memory.planned_us() == setup.clock.now_us()
        assert await engine.store.memory.due() == []


async def test_a_groups_words_feed_the_groups_memory_whoever_wrote_them(tmp_path: Path) -> None:
    model = FarModel(memory=writes("- meets on Monday"))
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("we play chess", sender=OTHER, chat="g2", chat_type=ChatType.GROUP)
        await engine.asks("we meet on Monday", chat="g1", chat_type=ChatType.GROUP)
        await engine.asks("fine", sender=OTHER, chat="g1", thread="7", chat_type=ChatType.GROUP)
        await engine.asks("my door code is 4711", sender=OTHER, chat="c2")
        await night(engine)
        assert file_of(engine, GROUP).read_text() == "- meets on Monday"
        assert not file_of(engine, ANN).exists()
        (about_group,) = [item for item in model.memories if "we meet on Monday" in whole(item)][:1]
        assert f"user {OTHER}: fine" in whole(about_group)
        assert "4711" not in whole(about_group)
        assert "chess" not in whole(about_group)


async def test_without_a_model_or_switched_off_nothing_happens(tmp_path: Path) -> None:
    near = AnsweringProvider(lambda _: said("hello"))
    async with rig(tmp_path / "near", near) as engine:
        assert engine.scheduler.system_jobs == ()
    off = FarModel()
    async with rig(tmp_path / "off", off, sections={"memory": MemorySection(enabled=False)}) as engine:
        assert engine.scheduler.system_jobs == ()
        assert await engine.asks("/memory") == "Long-term memory is switched off."


async def test_stop_leaves_a_memory_run_alone(tmp_path: Path) -> None:
    engines: list[Rig] = []

    async def memory(_: ModelRequest) -> ModelReply:
        assert await engines[0].asks("/stop") == "Nothing is running."
        return said("done")

    model = FarModel(memory=memory)
    async with rig(tmp_path, model) as engine:
        engines.append(engine)
        await begin(engine)
        await engine.asks("hello")
        await night(engine)
        assert await mark(engine, ANN) > 0


async def test_more_than_a_run_can_read_is_read_by_the_next_ones(tmp_path: Path) -> None:
    model = FarModel()
    async with rig(tmp_path, model, window_tokens=12_000) as engine:
        await begin(engine)
        for number in range(4):
            await engine.asks(f"number-{number} " + "word " * 200)
        for day in range(5):
            if not await engine.store.memory.due():
                break
            await night(engine, day)
        read = [sorted({f"number-{n}" for n in range(4) if f"number-{n}" in whole(item)}) for item in model.memories]
        assert len(read) > 1
        assert sorted(name for names in read for name in names) == [f"number-{n}" for n in range(4)]


async def test_a_run_that_kills_again_and_again_is_given_up_with_its_rows(tmp_path: Path) -> None:
    engines: list[Rig] = []

    async def memory(_: ModelRequest) -> ModelReply:
        await engines[-1].die()
        raise AssertionError

    model = FarModel(memory=memory)
    async with rig(tmp_path, model) as engine:
        engines.append(engine)
        await begin(engine)
        await engine.asks("hello")
        engine.move_to(NIGHTS[0])
        await engine.crashed.wait()
        setup = engine.setup
    for _ in range(2):
        async with again(setup) as engine:
            engines.append(engine)
            await engine.crashed.wait()
    async with again(setup) as engine:
        await engine.turns_end(1)
        assert await mark(engine, ANN) > 0
        assert engine.channel.texts("c1") == ["heard hello"]


async def test_a_file_that_the_run_makes_is_the_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        model = FarModel(memory=writes("- x"))
        async with rig(tmp_path, model) as engine:
            await begin(engine)
            await engine.asks("hello")
            await night(engine)
            assert file_of(engine, ANN).stat().st_mode & 0o777 == 0o600
            assert file_of(engine, ANN).parent.parent.parent.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


async def test_a_change_by_hand_while_a_run_works_is_not_written_over(tmp_path: Path) -> None:
    paths: list[Path] = []

    def memory(request: ModelRequest) -> ModelReply:
        match len(tool_texts(request)):
            case 0:
                return calls(("read_file", {"path": "MEMORY.md"}))
            case 1:
                paths[0].write_text("- by hand\n")
                return calls(("write_file", {"path": "MEMORY.md", "content": "- by run\n"}))
            case 2:
                return calls(("write_file", {"path": "MEMORY.md", "content": "- without looking\n"}))
        return said("Noted.")

    model = FarModel(memory=memory)
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        path = file_of(engine, ANN)
        path.parent.mkdir(parents=True)
        path.write_text("- before\n")
        paths.append(path)
        await engine.asks("hello")
        await night(engine)
        assert "Read it" in tool_texts(model.memories[-1])[1]
        assert path.read_text() == "- by hand\n"
        bodies = [item.body for item in await engine.store.memory.versions(ANN, limit=9)]
        assert bodies == ["- by hand\n", "- before\n"]


async def test_a_file_of_which_no_version_can_be_kept_is_left_to_people(tmp_path: Path) -> None:
    def memory(request: ModelRequest) -> ModelReply:
        steps = [("read_file", {"path": "MEMORY.md"}), ("write_file", {"path": "MEMORY.md", "content": "short"})]
        done = len(tool_texts(request))
        return calls(steps[done]) if done < len(steps) else said("Noted.")

    model = FarModel(memory=memory)
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        path = file_of(engine, ANN)
        path.parent.mkdir(parents=True)
        path.write_text("- by hand\n" * 30_000)
        await engine.asks("hello")
        await night(engine)
        assert path.read_text() == "- by hand\n" * 30_000
        assert await mark(engine, ANN) == 0
        path.write_text("- by hand\n")
        await night(engine, 1)
        assert path.read_text() == "short"
        assert [item.body for item in await engine.store.memory.versions(ANN, limit=9)] == ["short", "- by hand\n"]


@pytest.mark.parametrize("change", ["no model", "switched off"])
async def test_a_queued_run_is_none_once_there_is_no_model_or_it_is_switched_off(tmp_path: Path, change: str) -> None:
    async def memory(_: ModelRequest) -> ModelReply:
        await engine.die()
        raise AssertionError

    model = FarModel(memory=memory)
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        await engine.asks("hello")
        engine.move_to(NIGHTS[0])
        await engine.crashed.wait()
        setup = engine.setup
    model.memory = writes("# Ann\n")
    off, near = {"memory": MemorySection(enabled=False)}, AnsweringProvider(lambda _: said("I know only reminders."))
    changed = replace(setup, sections=off) if change == "switched off" else replace(setup, provider=near)
    async with again(changed) as engine:
        await engine.idle()
        assert await mark(engine, ANN) == 0
        assert not file_of(engine, ANN).exists()
    setup.clock.move_to(NIGHTS[1])
    async with again(setup) as engine:
        await engine.until(lambda: file_of(engine, ANN).exists())
        await engine.idle()
        assert await mark(engine, ANN) > 0


async def test_a_chat_moves_without_waiting_for_a_run_and_is_read_again(tmp_path: Path) -> None:
    moved = MemoryHome(kind=HomeKind.CHAT, channel="memory", ident="g9")
    started, goes_on = asyncio.Event(), asyncio.Event()

    async def memory(request: ModelRequest) -> ModelReply:
        started.set()
        await goes_on.wait()
        answer: ModelReply = writes("- meets on Monday")(request)
        return answer

    model = FarModel(memory=memory)
    async with rig(tmp_path, model) as engine:
        await begin(engine)
        path = file_of(engine, GROUP)
        path.parent.mkdir(parents=True)
        path.write_text("- by hand")
        await engine.asks("we meet on Monday", chat="g1", chat_type=ChatType.GROUP)
        engine.move_to(NIGHTS[0])
        await started.wait()
        async with asyncio.timeout(10):
            await engine.bus.migrate_chat("memory", "g1", "g9")
        goes_on.set()
        await engine.idle()
        assert file_of(engine, moved).read_text() == "- by hand"
        assert await mark(engine, moved) == 0
        await night(engine, 1)
        assert "we meet on Monday" in whole(model.memories[-1])
        assert await mark(engine, moved) > 0


async def test_people_do_not_wait_behind_the_runs_of_a_night(tmp_path: Path) -> None:
    count, at_work, most = 12, 0, 0
    full, goes_on = asyncio.Event(), asyncio.Event()

    async def memory(_: ModelRequest) -> ModelReply:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        if at_work == MEMORY_RUNS_AT_ONCE:
            full.set()
        await goes_on.wait()
        at_work -= 1
        return said("Nothing new.")

    model = FarModel(memory=memory)
    limits = LimitsSection(turns_at_once=4)
    async with rig(tmp_path, model, allow_from="*", limits=limits) as engine:
        await begin(engine)
        for number in range(count):
            await engine.asks("hello", sender=f"u{number}", chat=f"c{number}")
        engine.move_to(NIGHTS[0])
        await full.wait()
        assert await engine.asks("are you there?", sender="u5", chat="c5") == "heard are you there?"
        goes_on.set()
        await engine.until(lambda: len(engine.ended) == 2 * count + 1)
        assert len(model.memories) == count
        assert most == MEMORY_RUNS_AT_ONCE
