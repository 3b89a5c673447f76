"""Many chats and several platforms at once: none waits for another, each chat keeps its order."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bot.errors import ChannelAuthError, RateLimited
from bot.messages import Address, OutboundMessage
from tests.support.engine import Rig, rig, said
from tests.support.memory_channel import MemoryChannel, SecondChannel
from tests.support.providers import ScriptedProvider
from tests.support.stores import outbound

PROVIDER = ScriptedProvider(said("unused"))


def to(channel: str, chat: str, text: str) -> OutboundMessage:
    """Return a message for a chat of a channel."""
    return outbound(text, Address(channel=channel, chat_id=chat))


async def queue(engine: Rig, *messages: OutboundMessage) -> None:
    """Commit messages, and ring once."""
    for message in messages:
        await engine.store.outbox.put(message)
    engine.ring()


async def test_a_channel_whose_sends_all_hang_delays_no_other(tmp_path: Path) -> None:
    slow, quick = MemoryChannel(), SecondChannel()
    slow.held = {f"c{number}": asyncio.Event() for number in range(60)}
    async with rig(tmp_path, PROVIDER, channels=(slow, quick), start=["delivery"]) as engine:
        await queue(engine, *(to("memory", chat, text) for chat in slow.held for text in ("one", "two")))
        await engine.until(lambda: len(slow.attempts) >= 16)
        await queue(engine, *(to("second", f"q{number}", "hello") for number in range(40)))
        await quick.bell.wait_for(lambda: len(quick.arrived) == 40, timeout_s=20)
        assert slow.arrived == []
        assert len(slow.attempts) < 32  # places of its own, not one for each chat
        for event in slow.held.values():
            event.set()
        await slow.bell.wait_for(lambda: len(slow.arrived) == 120, timeout_s=20)
        assert all(slow.texts(chat) == ["one", "two"] for chat in slow.held)


async def test_a_long_queue_of_one_channel_does_not_come_before_anothers_message(tmp_path: Path) -> None:
    long, short = MemoryChannel(), SecondChannel()
    async with rig(tmp_path, PROVIDER, channels=(long, short), start=["loop"]) as engine:
        for number in range(600):
            await engine.store.outbox.put(to("memory", f"c{number % 3}", str(number)))
        await engine.store.outbox.put(to("second", "q", "hello"))
        engine.start("delivery")
        await short.bell.wait_for(lambda: short.texts("q") == ["hello"], timeout_s=20)
        assert len(long.arrived) < 200
        await long.bell.wait_for(lambda: len(long.arrived) == 600, timeout_s=60)
        for chat in range(3):
            assert long.texts(f"c{chat}") == [str(number) for number in range(chat, 600, 3)]


async def test_a_limit_for_everything_stops_that_channel_and_no_other(tmp_path: Path) -> None:
    limited, free = MemoryChannel(), SecondChannel()
    limited.failures.append(RateLimited("global", retry_after_s=30, everywhere=True))
    async with rig(tmp_path, PROVIDER, channels=(limited, free), start=["delivery"]) as engine:
        await queue(engine, to("memory", "c1", "first"))
        await engine.until(lambda: len(limited.attempts) == 1)
        await queue(engine, to("memory", "c2", "of another chat"), to("second", "q", "hello"))
        await free.bell.wait_for(lambda: free.texts("q") == ["hello"], timeout_s=10)
        engine.advance(29)
        await queue(engine, to("second", "q", "again"))
        await free.bell.wait_for(lambda: len(free.texts("q")) == 2, timeout_s=10)
        assert len(limited.attempts) == 1
        engine.advance(2)
        await limited.bell.wait_for(lambda: len(limited.arrived) == 2, timeout_s=10)
        assert (limited.texts("c1"), limited.texts("c2")) == (["first"], ["of another chat"])


async def test_a_token_refused_in_the_middle_buries_no_message(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.append(ChannelAuthError("the token was revoked"))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        await queue(engine, to("memory", "c1", "hello"))
        await engine.until(lambda: len(channel.attempts) == 1)
        async with asyncio.timeout(10):
            while not channel.arrived:
                assert (await engine.store.overview.status()).dead_letter_count == 0
                engine.advance(10)
                await asyncio.sleep(0.01)
        assert channel.texts() == ["hello"]


async def test_waiting_for_a_rate_limit_is_no_try_and_makes_no_later_pause_longer(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.extend(RateLimited("429", retry_after_s=1) for _ in range(8))
    async with rig(tmp_path, PROVIDER, channels=(channel,), start=["delivery"]) as engine:
        outbox_id = await engine.bus.publish_outbound(to("memory", "c1", "hello"))
        for count in range(1, 9):
            await engine.until(lambda count=count: len(channel.attempts) >= count)  # type: ignore[misc]
            async with asyncio.timeout(10):
                while (row := await engine.store.outbox.get(outbox_id)) is None or row.state == "sending":
                    await asyncio.sleep(0.005)
            assert row.attempts == 0
            engine.advance(1.1)
        await engine.reads("hello")
