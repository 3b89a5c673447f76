"""Work outlives the rights of whoever ordered it; then it must not run (design 5)."""

from __future__ import annotations

from pathlib import Path

from bot.interfaces import ModelReply, ModelRequest
from bot.records import JobState
from tests.support.engine import MEMBER, OTHER, AnsweringProvider, again, calls, last_user, rig, said
from tests.support.held_model import Held


async def test_a_task_whose_creator_lost_the_right_to_speak_is_paused_and_the_chat_told(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        if last_user(request) == "every hour" and request.messages[-1]["role"] == "user":
            task = {"action": "add", "kind": "task", "text": "look at the mail", "every_seconds": 3600}
            return calls(("cron", task))
        return said("ok")

    provider = AnsweringProvider(answer)
    async with rig(tmp_path, provider) as before:
        assert await before.asks("every hour") == "ok"
        setup = before.setup
        await before.idle()
    setup.allow_from = ()
    asked = len(provider.requests)
    async with again(setup) as after:
        after.advance(3600)
        await after.until(lambda: len(after.channel.texts("c1")) > 1)
        [job] = await after.jobs()
        assert after.channel.texts("c1")[1] == (
            f"“look at the mail” [{job.id}] is paused: whoever made it may not use me any more. "
            "An owner can resume or remove it."
        )
        assert job.state is JobState.PAUSED
        assert len(provider.requests) == asked
        assert job.last_state == "failed"


async def test_a_message_that_waited_while_its_sender_lost_the_right_to_speak_is_not_answered(tmp_path: Path) -> None:
    provider = AnsweringProvider(Held())
    async with rig(tmp_path, provider, start=["delivery"]) as before:
        await before.says("let me in", sender=MEMBER)
        await before.says("and me", sender=OTHER)
        setup = before.setup
    setup.allow_from = (OTHER,)
    async with again(setup) as after:
        await after.reads("re: and me")
        await after.idle()
        assert [last_user(request) for request in provider.requests] == ["and me"]
        assert after.channel.texts() == ["re: and me"]
        [letter] = await after.store.overview.dead_letters(limit=9)
        assert (letter.text, letter.error) == ("let me in", "its sender may not speak here any more")


async def test_all_lines_of_somebody_who_may_not_speak_any_more_are_kept_for_the_owner(tmp_path: Path) -> None:
    provider = AnsweringProvider(Held())
    async with rig(tmp_path, provider, start=["delivery"]) as before:
        await before.says("one")
        await before.says("two")
        setup = before.setup
    setup.allow_from = ()
    async with again(setup) as after:
        await after.turns_end(1)
        await after.idle()
        assert provider.requests == []
        assert after.channel.arrived == []
        letters = await after.store.overview.dead_letters(limit=9)
        assert sorted(letter.text for letter in letters) == ["one", "two"]
