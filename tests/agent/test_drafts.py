"""What a chat sees of an answer that is still growing: when, how often, and what the platform's troubles do to it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from bot.agent.draft_pace import DraftPace
from bot.agent.drafting import FAILURES_LIMIT
from bot.errors import ChannelError, ChatGone, RateLimited, SendRejected, SendUncertain
from bot.interfaces import ModelReply
from bot.messages import Address, ChatType, InboundMessage
from tests.support.engine import MEMBER, Rig, last_user, rig, said
from tests.support.memory_channel import DraftingChannel, MemoryChannel
from tests.support.typist import FIRST, MORE, WHOLE, Show, Typist

QUICKLY_S = 0.001


def drafts(channel: MemoryChannel) -> list[str]:
    return [text for _, text in channel.drafts]


async def shown(channel: MemoryChannel, text: str) -> None:
    """Wait until the chat sees a text."""
    await channel.bell.wait_for(lambda: text in channel.screen(), timeout_s=10)


async def asked(channel: MemoryChannel, count: int) -> None:
    """Wait until the platform was asked for so many drafts, refused ones included."""
    await channel.bell.wait_for(lambda: channel.drafts_asked >= count, timeout_s=10)


async def row_waits(engine: Rig) -> None:
    """Wait until a message is put off to a later time."""
    async with asyncio.timeout(10):
        while (await engine.store.outbox.next_due_us(["memory"]) or 0) <= engine.clock.now_us():
            await asyncio.sleep(0)


async def test_the_text_grows_in_one_message_that_becomes_the_answer(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def grow(show: Show) -> ModelReply:
        for text in (FIRST, MORE):
            show(text)
            await shown(channel, text)
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        assert await engine.asks("why?") == WHOLE
        assert channel.screen() == [WHOLE]
        assert drafts(channel) == [FIRST, MORE]
        assert len({identity for identity, _ in channel.drafts}) == 1


async def test_a_few_letters_are_not_shown_and_nothing_is_shown_twice(tmp_path: Path) -> None:
    channel = DraftingChannel()
    short = "x" * (channel.draft_least_bytes - 1)

    async def grow(show: Show) -> ModelReply:
        show(short)
        show(f"{short}\n   ")
        await channel.bell.wait_for(lambda: channel.typing_at, timeout_s=10)  # drafts would have begun by now
        await engine.store.overview.status()
        show(FIRST)
        await shown(channel, FIRST)
        show(FIRST)
        show(FIRST)
        await engine.store.overview.status()
        show(MORE)
        await shown(channel, MORE)
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        await engine.asks("why?")
        assert drafts(channel) == [FIRST, MORE]


async def test_the_newest_text_is_shown_even_if_nothing_comes_after_it(tmp_path: Path) -> None:
    channel = DraftingChannel()
    channel.draft_gate = asyncio.Event()

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await asked(channel, 1)
        show(MORE)  # while the first is under way
        assert channel.draft_gate is not None
        channel.draft_gate.set()
        await shown(channel, MORE)
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        assert await engine.asks("why?") == WHOLE


# --- flood control


async def test_a_refused_edit_stops_everything_in_that_chat_until_the_wait_is_over(tmp_path: Path) -> None:
    """C024: the first edit gets a wait of 10 s while deltas keep coming."""
    channel = DraftingChannel()
    channel.draft_failures.extend([None, RateLimited("slow down", retry_after_s=10)])

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await shown(channel, FIRST)
        show(MORE)
        await asked(channel, 2)
        for number in range(50):
            show(f"{MORE} {number}")
            await engine.store.overview.status()
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        await engine.says("why?")
        await engine.turns_end(1)
        typed = len(channel.typing_at)
        engine.advance(9.5)
        assert await engine.asks("elsewhere", chat="c2") == WHOLE  # by then the first chat had its chance
        assert (channel.drafts_asked, channel.screen(), len(channel.typing_at)) == (2, [FIRST], typed)
        assert [message.address.chat_id for message in channel.attempts] == ["c2"]
        engine.advance(0.5)
        await engine.reads(WHOLE)
        assert channel.screen() == [WHOLE]


async def test_after_the_wait_the_text_grows_on(tmp_path: Path) -> None:
    channel = DraftingChannel()
    channel.draft_failures.extend([None, RateLimited("slow down", retry_after_s=10)])

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await shown(channel, FIRST)
        show(MORE)
        await asked(channel, 2)
        engine.advance(10)
        await shown(channel, MORE)  # although the model has said nothing new since
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        assert await engine.asks("why?") == WHOLE
        assert channel.screen() == [WHOLE]


async def test_a_rate_limited_last_edit_is_made_later_in_the_same_message(tmp_path: Path) -> None:
    """C025: all edits succeed, the last one gets a wait of 5 s."""
    channel = DraftingChannel()
    channel.failures.append(RateLimited("slow down", retry_after_s=5))

    async def grow(show: Show) -> ModelReply:
        for text in (FIRST, MORE):
            show(text)
            await shown(channel, text)
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        await engine.says("why?")
        await engine.until(lambda: len(channel.attempts) == 1)
        await row_waits(engine)
        engine.advance(5)
        await engine.reads(WHOLE)
        assert channel.screen() == [WHOLE]
        assert [message.draft_id for message in channel.attempts] == [channel.drafts[0][0]] * 2


async def test_what_delivery_was_told_to_wait_for_holds_drafts_back_too(tmp_path: Path) -> None:
    channel = DraftingChannel()
    channel.failures.append(RateLimited("slow down", retry_after_s=30))

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        if last_user(provider.requests[-1]) == "two":
            await elsewhere.wait()
            engine.advance(30)
            await shown(channel, FIRST)
        return said(WHOLE)

    provider = Typist(grow)
    elsewhere = asyncio.Event()
    async with rig(tmp_path, provider, channels=(channel,)) as engine:
        await engine.says("one")
        await engine.until(lambda: len(channel.attempts) == 1)
        await row_waits(engine)
        await engine.says("two")
        assert await engine.asks("three", chat="c2") == WHOLE
        assert channel.screen() == []
        elsewhere.set()
        await engine.texts_count(2)
        assert channel.screen() == [WHOLE, WHOLE]  # and not above the answer that had to wait


async def test_one_channels_drafts_keep_a_steady_rate_over_all_its_chats() -> None:
    class Paced(DraftingChannel):
        draft_interval_s = 0.05
        draft_group_interval_s = 0.2
        draft_gap_s = 0.01

    channel, pace, loop = Paced(), DraftPace(), asyncio.get_running_loop()
    times: dict[str, list[float]] = {}

    async def chat(name: str, kind: ChatType, count: int) -> None:
        for _ in range(count):
            await pace.wait(channel, Address(channel="memory", chat_id=name), kind)
            times.setdefault(name, []).append(loop.time())

    async with asyncio.TaskGroup() as group:
        group.create_task(chat("group", ChatType.GROUP, 2))
        group.create_task(chat("group", ChatType.GROUP, 1))  # another topic of the same group
        for number in range(10):
            group.create_task(chat(f"person {number}", ChatType.PRIVATE, 3))
    grain = 0.005  # of the clock; a late wake-up only adds to what is measured here
    assert len(times) == 11
    for name, moments in times.items():
        least = 0.2 if name == "group" else 0.05
        assert all(later - before >= least - grain for before, later in pairwise(moments)), name
    everything = sorted(moment for moments in times.values() for moment in moments)
    assert everything[-1] - everything[0] >= 0.01 * (len(everything) - 1) - grain


# --- other troubles


async def test_a_draft_that_fails_is_shown_later(tmp_path: Path) -> None:
    channel = DraftingChannel()
    channel.draft_failures.extend([ChannelError("bad gateway", retry_after_s=QUICKLY_S)] * (FAILURES_LIMIT - 1))

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await shown(channel, FIRST)
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        assert await engine.asks("why?") == WHOLE
        assert channel.screen() == [WHOLE]


@pytest.mark.parametrize(
    ("failures", "tries"),
    [
        ([ChannelError("bad gateway", retry_after_s=QUICKLY_S)] * FAILURES_LIMIT, FAILURES_LIMIT),
        ([SendRejected("not like this")], 1),
        ([ChatGone("blocked")], 1),
        ([SendUncertain("no answer")], 1),  # it may stand there: a second one would be a copy
    ],
    ids=["three failures", "rejected", "blocked", "uncertain"],
)
async def test_what_does_not_work_is_given_up_for_the_turn(
    tmp_path: Path, failures: list[ChannelError], tries: int
) -> None:
    channel = DraftingChannel()
    channel.draft_failures.extend(failures)

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await asked(channel, tries)
        for number in range(20):
            show(f"{MORE} {number}")
            await engine.store.overview.status()
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        assert await engine.asks("why?") == WHOLE
        assert (channel.drafts_asked, channel.screen()) == (tries, [WHOLE])


async def test_an_edit_with_an_unknown_outcome_is_simply_made_again(tmp_path: Path) -> None:
    channel = DraftingChannel()
    channel.draft_failures.extend([None, SendUncertain("no answer", retry_after_s=QUICKLY_S)])

    async def grow(show: Show) -> ModelReply:
        for text in (FIRST, MORE):
            show(text)
            await shown(channel, text)
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        assert await engine.asks("why?") == WHOLE
        assert channel.screen() == [WHOLE]


async def test_a_draft_that_the_person_deletes_does_not_come_back(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await shown(channel, FIRST)
        channel.screens.clear()
        show(MORE)
        await asked(channel, 2)
        show(WHOLE)
        await engine.store.overview.status()
        assert channel.screen() == []
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        assert await engine.asks("why?") == WHOLE
        assert (channel.drafts_asked, channel.screen()) == (2, [WHOLE])


async def test_the_end_of_a_turn_waits_for_the_draft_under_way(tmp_path: Path) -> None:
    """Else the platform may put it there after the answer, or over it."""
    channel = DraftingChannel()
    channel.draft_gate = asyncio.Event()

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await asked(channel, 1)
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        await engine.says("why?")
        await asked(channel, 1)
        assert await engine.asks("/status", chat="c2")
        assert (engine.loop.running(), channel.screen()) == (1, [])
        channel.draft_gate.set()
        await engine.reads(WHOLE)
        assert channel.screen() == [WHOLE]


# --- who is shown what


async def test_a_chat_whose_platform_takes_long_delays_no_other(tmp_path: Path) -> None:
    slow, quick = DraftingChannel(), _Quick()
    slow.draft_gate = asyncio.Event()

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await asked(slow, 1)
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(slow, quick)) as engine:
        await engine.says("why?")
        await engine.says("why?", channel="quick")
        await quick.bell.wait_for(lambda: quick.texts() == [WHOLE], timeout_s=10)
        assert slow.screen() == []
        slow.draft_gate.set()
        await engine.reads(WHOLE)


class _Quick(MemoryChannel):
    name = "quick"


async def test_a_message_is_marked_as_seen_when_its_turn_begins_and_a_press_is_not(tmp_path: Path) -> None:
    async def wait(show: Show) -> ModelReply:
        await engine.until(lambda: engine.channel.seen_ids == ["1"])
        return said(WHOLE)

    async with rig(tmp_path, Typist(wait)) as engine:
        assert await engine.asks("one", message_id="1") == WHOLE
        press = InboundMessage(
            address=Address(channel="memory", chat_id="c1"),
            message_id="9",
            variant="press-1",
            text="Yes",
            sender_id=MEMBER,
        )
        await engine.bus.publish_inbound(press)
        await engine.texts_count(2)
        assert engine.channel.seen_ids == ["1"]


async def test_a_platform_that_cannot_mark_or_hangs_at_it_does_not_hold_up_the_answer(tmp_path: Path) -> None:
    class Hanging(MemoryChannel):
        async def seen(self, address: Address, message_id: str) -> None:
            if message_id == "1":
                raise ChannelError("no such reaction")
            await asyncio.Event().wait()

    async def at_once(show: Show) -> ModelReply:
        return said(WHOLE)

    async with rig(tmp_path, Typist(at_once), channels=(Hanging(),)) as engine:
        assert await engine.asks("one", message_id="1") == WHOLE
        assert await engine.asks("two", message_id="2") == WHOLE
