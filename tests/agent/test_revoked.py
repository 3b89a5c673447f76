"""Work outlives the rights of whoever ordered it; then it must not run (design 5)."""

from __future__ import annotations

from pathlib import Path

from bot.interfaces import ModelReply, ModelRequest
from bot.records import JobState
from tests.support.engine import AnsweringProvider, again, calls, last_user, rig, said


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
