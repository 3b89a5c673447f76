"""Slash commands: no model, in order or at once, and harmless when repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.agent.commands import is_immediate, parse_command
from tests.support.clock import FakeClock, instant
from tests.support.engine import MEMBER, OTHER, OWNER, again, rig, said
from tests.support.providers import ScriptedProvider


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/new", ("new", "")),
        ("  /New  ", ("new", "")),
        ("/stop@MyBot", ("stop", "")),
        ("/remind in 5 minutes\ntea", ("remind", "in 5 minutes\ntea")),
        ("/etc/hosts is broken", None),
        ("new", None),
        ("/ new", None),
        ("/1", None),
        ("", None),
    ],
)
def test_what_is_a_command(text: str, expected: tuple[str, str] | None) -> None:
    assert parse_command(text) == expected


def test_only_stop_and_status_act_at_once() -> None:
    names = ("stop", "status", "new", "help", "remind", "reminders", "cancel", "timezone", "restart")
    assert [name for name in names if is_immediate(f" /{name}@bot")] == ["stop", "status"]


async def test_commands_never_ask_the_model_and_paths_do(tmp_path: Path) -> None:
    provider = ScriptedProvider(said("A hosts file."))
    async with rig(tmp_path, provider) as engine:
        assert (await engine.asks("/help")).startswith("I answer messages and keep reminders.\n/new — start")
        assert await engine.asks("/dance") == "I do not know /dance. /help lists what I know."
        assert provider.requests == []
        assert await engine.asks("/etc/hosts") == "A hosts file."


async def test_new_forgets_the_conversation_and_keeps_reminders(tmp_path: Path) -> None:
    provider = ScriptedProvider(said("Noted."))
    async with rig(tmp_path, provider) as engine:
        await engine.asks("my code is 4711")
        await engine.asks("/remind in 10 minutes stretch")
        await engine.asks("/new")
        await engine.asks("what is it?")
        # The system prompt names earlier conversations by their titles; their rows are gone.
        assert "4711" not in str(provider.requests[-1].messages[1:])
        assert len(await engine.jobs()) == 1


async def test_remind_list_and_cancel_without_a_model(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-29T12:00:00+01:00")
    async with rig(tmp_path, ScriptedProvider(said("x")), clock=clock) as engine:
        receipt = await engine.asks("/remind in 10 minutes stretch")
        (job,) = await engine.jobs()
        assert receipt == f"Reminder set: “stretch” — Sun 29 Nov 2026 12:10 (CET, Europe/Berlin) [{job.id}]"
        assert job.next_us == instant("2026-11-29T12:10:00+01:00")
        listing = await engine.asks("/reminders")
        assert listing == (f"Reminders and tasks:\n• stretch — Sun 29 Nov 2026 12:10 (CET, Europe/Berlin) [{job.id}]")
        assert await engine.asks("/cancel nope") == "There is no reminder or task nope in this chat."
        assert await engine.asks(f"/cancel {job.id.removeprefix('job-')}") == f"Removed: “stretch” [{job.id}]"
        assert await engine.jobs() == []
        assert await engine.asks("/reminders") == "No reminders or tasks in this chat."
        assert "Say when and what" in await engine.asks("/remind")
        assert "Say which one" in await engine.asks("/cancel")


async def test_another_chats_jobs_are_not_there_and_another_persons_are_not_ones_own(tmp_path: Path) -> None:
    async with rig(tmp_path, ScriptedProvider(said("x"))) as engine:
        await engine.asks("/remind in 10 minutes stretch", chat="A", sender=MEMBER)
        (job,) = await engine.jobs("A")
        assert await engine.asks("/reminders", chat="B") == "No reminders or tasks in this chat."
        assert "no reminder or task" in await engine.asks(f"/cancel {job.id}", chat="B", sender=OWNER)
        assert await engine.asks(f"/cancel {job.id}", chat="A", sender=OTHER) == "Only an owner may do that."
        assert "Removed" in await engine.asks(f"/cancel {job.id}", chat="A", sender=OWNER)


async def test_a_command_that_a_crash_cut_has_its_effect_once(tmp_path: Path) -> None:
    async with rig(tmp_path, ScriptedProvider(said("x"))) as engine:
        once = engine.store.steps.once

        async def dying(*arguments: Any) -> object:
            await once(*arguments)
            await engine.die()
            return None

        engine.store.steps.once = dying  # type: ignore[method-assign,assignment]
        await engine.says("/remind in 10 minutes stretch")
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        (receipt,) = await engine.texts_count(1)
        (job,) = await engine.jobs()
        assert receipt.endswith(f"[{job.id}]")


async def test_a_zone_is_set_by_name_and_refused_with_close_ones(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-29T12:00:00+00:00")
    async with rig(tmp_path, ScriptedProvider(said("x")), clock=clock) as engine:
        assert "Your time zone is Europe/Berlin; it is Sun 29 Nov 2026 13:00" in await engine.asks("/timezone")
        assert "Your time zone is now Asia/Tokyo; it is Sun 29 Nov 2026 21:00" in await engine.asks(
            "/timezone Asia/Tokyo"
        )
        assert "Did you mean Europe/Berlin" in await engine.asks("/timezone Berlin")
        assert (await engine.asks("/timezone CEST")).startswith("I do not know the time zone “CEST”. Names look like")
        assert "Asia/Tokyo" in await engine.asks("/timezone")
        assert "Europe/Berlin" in await engine.asks("/timezone", sender=OTHER)


async def test_restart_is_the_owners(tmp_path: Path) -> None:
    async with rig(tmp_path, ScriptedProvider(said("x"))) as engine:
        assert await engine.asks("/restart") == "Only an owner may do that."
        assert engine.restarts == 0
        assert "/restart" not in await engine.asks("/help")
        assert "/restart" in await engine.asks("/help", sender=OWNER)


async def test_status_tells_how_things_stand(tmp_path: Path) -> None:
    clock = FakeClock("2026-11-29T12:00:00+01:00")
    async with rig(tmp_path, ScriptedProvider(said("Hello.")), clock=clock) as engine:
        await engine.asks("hi")
        await engine.asks("/remind in 10 minutes stretch")
        answer = await engine.asks("/status")
        assert "Model: scripted\nThis conversation: 2 messages — “hi”\n" in answer
        assert "\nRunning turns: 0, waiting messages: 0\n" in answer
        assert "Reminders and tasks in this chat: 1, next Sun 29 Nov 2026 12:10 (CET, Europe/Berlin)" in answer
