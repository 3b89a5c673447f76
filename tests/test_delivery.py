"""From the outbox to the platform: order, waits, uncertainty, parts, chats that are gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bot.errors import (
    ChannelError,
    ChatGone,
    ChatMigrated,
    RateLimited,
    SendRejected,
    SendUncertain,
    StoreUnavailable,
)
from bot.interfaces import ChannelState
from bot.messages import Address
from bot.records import JobState
from tests.support.engine import Rig, again, rig, said
from tests.support.memory_channel import MemoryChannel, SecondChannel
from tests.support.providers import ScriptedProvider
from tests.support.stores import CHAT, OTHER_CHAT, outbound, reminder_at

PROVIDER = ScriptedProvider(said("unused"))


async def sent_away(engine: Rig, *, advance_s: float = 0) -> None:
    """Wait until the outbox is settled, whatever became of it; time goes by in steps of `advance_s`."""
    async with asyncio.timeout(10):
        while (await engine.store.overview.status()).outbox_queued:
            if advance_s:
                engine.advance(advance_s)
            await asyncio.sleep(0)


async def test_each_chat_gets_its_messages_in_order_and_none_waits_for_another(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.held["c1"] = asyncio.Event()
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        for text in ("a1", "a2", "a3"):
            await engine.bus.publish_outbound(outbound(text))
        await engine.bus.publish_outbound(outbound("b1", OTHER_CHAT))
        await engine.reads("b1", chat="c2")
        assert channel.texts() == []
        channel.held["c1"].set()
        await engine.reads("a1", "a2", "a3")


async def test_a_rate_limit_is_waited_out_for_the_whole_chat(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.append(RateLimited("429", retry_after_s=10))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("first"))
        await engine.until(lambda: len(channel.attempts) == 1)
        thread = Address(channel="memory", chat_id="c1", thread_id="7")
        await engine.bus.publish_outbound(outbound("second", thread))
        await engine.bus.publish_outbound(outbound("elsewhere", OTHER_CHAT))
        await engine.reads("elsewhere", chat="c2")
        engine.advance(9.9)
        await engine.bus.publish_outbound(outbound("elsewhere again", OTHER_CHAT))
        await engine.reads("elsewhere", "elsewhere again", chat="c2")
        assert [message.text for message in channel.attempts] == ["first", "elsewhere", "elsewhere again"]
        engine.advance(0.2)
        await engine.reads("first")
        await engine.reads("second", thread="7")


async def test_an_uncertain_send_is_repeated_once_and_then_counted(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.extend([SendUncertain("reset"), SendUncertain("reset")])
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("perhaps"))
        await engine.until(lambda: len(channel.attempts) == 1)
        async with asyncio.timeout(10):
            while len(channel.attempts) < 2:
                engine.advance(1)
                await asyncio.sleep(0.01)
        await sent_away(engine, advance_s=1)
        engine.advance(3600)
        await engine.bus.publish_outbound(outbound("next"))
        await engine.reads("next")
        assert not channel.failures
        assert channel.texts() == ["next"]
        status = await engine.store.overview.status()
        assert (status.outbox_uncertain, status.dead_letter_count) == (1, 0)


@pytest.mark.parametrize(
    ("found", "copies", "uncertain"), [(("m1",), 0, 0), ((), 1, 0), (None, 1, 1)], ids=["there", "not there", "unknown"]
)
async def test_a_send_that_a_crash_cut_is_looked_up_first(
    tmp_path: Path, found: tuple[str, ...] | None, copies: int, uncertain: int
) -> None:
    channel = MemoryChannel()
    channel.held["c1"] = asyncio.Event()
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("hello"))
        await engine.until(lambda: len(channel.attempts) == 1)
        await engine.crash()
        engine.crashed.set()
    channel.held.clear()
    channel.found = found
    async with again(engine.setup, start=["delivery"]) as engine:
        await sent_away(engine)
        assert channel.texts() == ["hello"] * copies
        assert (await engine.store.overview.status()).outbox_uncertain == uncertain


async def test_parts_that_are_out_are_not_sent_again(tmp_path: Path) -> None:
    channel = MemoryChannel(part_chars=2)
    channel.failures.append((2, ChannelError("connection refused")))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("aabbccdd"))
        await engine.until(lambda: len(channel.arrived) == 2)
        async with asyncio.timeout(10):
            while len(channel.attempts) < 2:
                engine.advance(1)
                await asyncio.sleep(0.01)
        await engine.reads("aa", "bb", "cc", "dd")


async def test_parts_that_are_out_are_not_sent_again_after_a_bug_either(tmp_path: Path) -> None:
    channel = MemoryChannel(part_chars=2)
    channel.failures.append((2, ValueError("a bug")))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("aabbccdd"))
        await engine.until(lambda: len(channel.arrived) == 2)
        async with asyncio.timeout(10):
            while len(channel.attempts) < 2:
                engine.advance(1)
                await asyncio.sleep(0.01)
        await engine.reads("aa", "bb", "cc", "dd")


async def test_what_the_platform_refuses_for_good_is_a_dead_letter_and_the_next_goes(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.append(SendRejected("message is too strange"))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("bad"))
        await engine.bus.publish_outbound(outbound("good"))
        await engine.reads("good")
        (letter,) = await engine.store.overview.dead_letters(limit=9)
        assert (letter.text, letter.error) == ("bad", "message is too strange")


async def test_a_message_that_cannot_be_delivered_for_a_quarter_of_an_hour_is_given_up(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.extend([ChannelError("502")] * 1000)
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("bad"))
        await engine.until(lambda: len(channel.attempts) == 1)
        async with asyncio.timeout(20):
            while (await engine.store.overview.status()).dead_letter_count == 0:
                engine.advance(60)
                await asyncio.sleep(0.01)
        channel.failures.clear()
        await engine.bus.publish_outbound(outbound("good"))
        await engine.reads("good")
        assert 2 <= len(channel.attempts) <= 20


async def test_a_chat_that_is_gone_is_left_alone_and_its_jobs_sleep(tmp_path: Path) -> None:
    """C036: a reminder is due for a chat whose sends are refused for good."""
    channel = MemoryChannel()
    channel.failures.append(ChatGone("bot was blocked by the user"))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery", "scheduler"]) as engine:
        later = await engine.store.jobs.add(
            reminder_at(engine.clock.now_us() + 3_600_000_000, "later"), limit_per_chat=9
        )
        await engine.store.jobs.add(reminder_at(engine.clock.now_us(), "now"), limit_per_chat=9)
        other = await engine.store.jobs.add(
            reminder_at(engine.clock.now_us() + 3_600_000_000, "other", OTHER_CHAT), limit_per_chat=9
        )
        engine.ring()
        await sent_away(engine)
        async with asyncio.timeout(10):
            while True:
                job = await engine.store.jobs.get(later.id)
                assert job is not None
                if job.state is JobState.PAUSED:
                    break
                await asyncio.sleep(0)
        engine.advance(3600)
        await engine.reads("other", chat="c2")
        assert [message.text for message in channel.attempts] == ["now", "other"]
        done = await engine.store.jobs.get(other.id)
        assert done is not None
        assert done.state is JobState.DONE


async def test_a_chat_that_moved_gets_the_message_at_its_new_id(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.append(ChatMigrated("upgraded", new_chat_id="-1009"))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        job = await engine.store.jobs.add(reminder_at(engine.clock.now_us() + 1_000_000), limit_per_chat=9)
        await engine.bus.publish_outbound(outbound("hello"))
        await engine.reads("hello", chat="-1009")
        assert len(channel.attempts) == 2
        moved = await engine.store.jobs.get(job.id)
        assert moved is not None
        assert moved.address.chat_id == "-1009"


async def test_what_is_for_a_channel_that_is_away_waits_for_it(tmp_path: Path) -> None:
    first, second = MemoryChannel(), SecondChannel()
    second.state = ChannelState.OFFLINE
    async with rig(tmp_path, PROVIDER, channels=(first, second), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("later", Address(channel="second", chat_id="c1")))
        await engine.bus.publish_outbound(outbound("now"))
        await engine.reads("now")
        assert second.attempts == []
        second.state = ChannelState.READY
        await second.bell.wait_for(lambda: second.texts() == ["later"], timeout_s=10)


async def test_an_outbox_that_cannot_be_read_for_a_moment_is_read_again(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["loop"]) as engine:
        claim = engine.store.outbox.claim
        failures = [StoreUnavailable("locked")]

        async def failing(**arguments: object) -> object:
            if failures:
                raise failures.pop()
            return await claim(**arguments)  # type: ignore[arg-type]

        engine.store.outbox.claim = failing  # type: ignore[method-assign,assignment]
        engine.start("delivery")
        await engine.bus.publish_outbound(outbound("hello"))
        await engine.reads("hello")
        assert engine.channel.arrived[0].address == CHAT


async def test_draining_waits_for_what_is_due_and_not_for_what_is_not(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.held["c1"] = asyncio.Event()
    channel.failures.append(None)
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.store.outbox.delay_chat(OTHER_CHAT, engine.clock.now_us() + 60_000_000)
        await engine.bus.publish_outbound(outbound("limited", OTHER_CHAT))
        await engine.bus.publish_outbound(outbound("on its way"))
        await engine.until(lambda: len(channel.attempts) == 1)
        draining = asyncio.ensure_future(engine.delivery.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        channel.held["c1"].set()
        async with asyncio.timeout(10):
            await draining
        assert channel.texts() == ["on its way"]
        assert channel.texts("c2") == []


async def test_a_rate_limit_does_not_use_up_the_patience_with_other_failures(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.extend([RateLimited("429", retry_after_s=1_800), ChannelError("502"), ChannelError("502")])
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("held"))
        await sent_away(engine, advance_s=10)
        assert (channel.texts(), (await engine.store.overview.status()).dead_letter_count) == (["held"], 0)


@pytest.mark.parametrize(
    "failure", [ChannelError("502", retry_after_s=60), RateLimited("429", retry_after_s=60)], ids=["failed", "limited"]
)
async def test_time_in_which_nothing_ran_does_not_use_up_the_patience(tmp_path: Path, failure: ChannelError) -> None:
    channel = MemoryChannel()
    channel.failures.append(failure)
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await engine.bus.publish_outbound(outbound("held"))
        await engine.until(lambda: len(channel.attempts) == 1)
        while (await engine.store.overview.status()).outbox_delayed == 0:
            await asyncio.sleep(0.01)
    engine.clock.advance(8 * 3_600)
    channel.failures.append(failure)
    async with again(engine.setup, start=["delivery"]) as engine:
        await sent_away(engine, advance_s=10)
        assert (channel.texts(), (await engine.store.overview.status()).dead_letter_count) == (["held"], 0)
