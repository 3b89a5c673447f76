"""What becomes of a draft: the answer, or nothing at all; after every ending and every crash there is one message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest

from bot.agent.drafting import FIRST_AFTER_S
from bot.errors import ChannelError, ChatGone, ProviderError, ProviderErrorKind, RateLimited, SendRejected
from bot.interfaces import ModelReply, Topic
from bot.messages import Attachment, OutboundMessage
from bot.records import Ending, TurnState
from bot.store.store import SqlStore
from tests.support.engine import OTHER, Rig, again, calls, last_user, rig, said
from tests.support.memory_channel import DraftingChannel
from tests.support.tools import MadeTool
from tests.support.typist import FIRST, MORE, WHOLE, Show, Typist

STEP = "First I look at what there is in the folder."


async def see(engine: Rig, text: str, chat: str = "c1", thread: str | None = None) -> None:
    """Wait until a chat sees a text."""
    await engine.until(lambda: text in engine.channel.screen(chat, thread))


async def crash(engine: Rig) -> ModelReply:
    await engine.die()
    raise AssertionError("not reached")


async def test_a_draft_shows_the_text_of_the_step_under_way_and_stays_while_tools_run(tmp_path: Path) -> None:
    channel = DraftingChannel()
    seen: list[list[str]] = []

    async def look(_params: object) -> str:
        seen.append(channel.screen())
        return "a.txt"

    async def first(show: Show) -> ModelReply:
        show(STEP)
        await see(engine, STEP)
        return calls(("look", {}), text=STEP)

    async def second(show: Show) -> ModelReply:
        show(FIRST)
        await see(engine, FIRST)
        return said(WHOLE)

    async with rig(tmp_path, Typist(first, second), channels=(channel,), tools=[MadeTool("look", run=look)]) as engine:
        assert await engine.asks("look") == WHOLE
        assert seen == [[STEP]]
        assert channel.screen() == [WHOLE]
        assert len({identity for identity, _ in channel.drafts}) == 1


async def test_a_message_of_the_tool_takes_the_place_of_the_draft_above_it(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def first(show: Show) -> ModelReply:
        show(STEP)
        await see(engine, STEP)
        return calls(("message", {"content": "By tool."}), text=STEP)

    async def second(show: Show) -> ModelReply:
        return said("")

    async with rig(tmp_path, Typist(first, second), channels=(channel,)) as engine:
        assert await engine.asks("send it") == "By tool."
        await engine.turns_end(1)
        await engine.idle()
        assert channel.screen() == ["By tool."]
        assert channel.dropped == [channel.drafts[0][0]]


async def test_after_a_note_on_the_way_the_answer_grows_and_ends_below_it(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def first(show: Show) -> ModelReply:
        show(STEP)
        await see(engine, STEP)
        return calls(("message", {"content": "on it", "progress": True}), text=STEP)

    async def second(show: Show) -> ModelReply:
        show(FIRST)
        await see(engine, FIRST)
        assert channel.screen() == ["on it", FIRST]
        return said(WHOLE)

    async with rig(tmp_path, Typist(first, second), channels=(channel,)) as engine:
        await engine.says("send it")
        await engine.reads("on it", WHOLE)
        assert channel.screen() == ["on it", WHOLE]


async def test_a_first_draft_that_a_message_of_the_tool_overtakes_gives_way_to_it(tmp_path: Path) -> None:
    """The platform has the draft already when the tool speaks, its answer comes later."""
    channel = DraftingChannel()
    channel.draft_gate = asyncio.Event()

    async def first(show: Show) -> ModelReply:
        show(STEP)
        await channel.bell.wait_for(lambda: channel.drafts_asked == 1, timeout_s=10)
        return calls(("message", {"content": "on it", "progress": True}), text=STEP)

    async def second(show: Show) -> ModelReply:
        assert channel.draft_gate is not None
        channel.draft_gate.set()
        await channel.bell.wait_for(lambda: bool(channel.drafts), timeout_s=10)
        show(FIRST)
        await see(engine, FIRST)
        return said(WHOLE)

    async with rig(tmp_path, Typist(first, second), channels=(channel,)) as engine:
        await engine.says("send it")
        await engine.reads("on it", WHOLE)
        await engine.idle()
        assert channel.dropped == [channel.drafts[0][0]]
        assert channel.screen() == ["on it", WHOLE]


async def test_a_first_draft_that_the_person_overtakes_gives_way(tmp_path: Path) -> None:
    channel = DraftingChannel()
    channel.draft_gate = asyncio.Event()

    async def first(show: Show) -> ModelReply:
        show(STEP)
        await channel.bell.wait_for(lambda: channel.drafts_asked == 1, timeout_s=10)
        await engine.says("and be quick")
        return calls(("look", {}), text=STEP)

    async def second(show: Show) -> ModelReply:
        assert channel.draft_gate is not None
        channel.draft_gate.set()
        await channel.bell.wait_for(lambda: bool(channel.drafts), timeout_s=10)
        show(FIRST)
        await see(engine, FIRST)
        return said(WHOLE)

    async with rig(tmp_path, Typist(first, second), channels=(channel,), tools=[MadeTool("look")]) as engine:
        assert await engine.asks("look") == WHOLE
        await engine.idle()
        assert channel.screen() == [WHOLE]
        assert channel.dropped == [channel.drafts[0][0]]


async def test_what_goes_to_another_thread_leaves_the_draft_where_it_is(tmp_path: Path) -> None:
    channel = DraftingChannel()
    elsewhere = {"content": "There.", "chat_id": "c1", "thread_id": "t2"}

    async def first(show: Show) -> ModelReply:
        show(STEP)
        await see(engine, STEP)
        return calls(("message", elsewhere), text=STEP)

    async def second(show: Show) -> ModelReply:
        return said(WHOLE)

    async with rig(tmp_path, Typist(first, second), channels=(channel,)) as engine:
        assert await engine.asks("send it") == WHOLE
        await engine.reads("There.", thread="t2")
        assert (channel.screen(), channel.screen("c1", "t2"), channel.dropped) == ([WHOLE], ["There."], [])


async def test_what_the_person_adds_is_answered_below_it(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def first(show: Show) -> ModelReply:
        show(STEP)
        await see(engine, STEP)
        await engine.says("and be quick")
        return calls(("look", {}), text=STEP)

    async def second(show: Show) -> ModelReply:
        assert last_user(provider.requests[-1]) == "and be quick"
        show(FIRST)
        await see(engine, FIRST)
        assert channel.screen() == [FIRST]
        return said(WHOLE)

    provider = Typist(first, second)
    async with rig(tmp_path, provider, channels=(channel,), tools=[MadeTool("look")]) as engine:
        assert await engine.asks("look") == WHOLE
        await engine.idle()
        assert channel.screen() == [WHOLE]
        assert len({identity for identity, _ in channel.drafts}) == 2
        assert channel.dropped == [channel.drafts[0][0]]


async def test_stop_removes_what_was_shown(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def hang(show: Show) -> ModelReply:
        show(FIRST)
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    async with rig(tmp_path, Typist(hang), channels=(channel,)) as engine:
        await engine.says("why?")
        await see(engine, FIRST)
        assert await engine.asks("/stop") == "Stopped."
        await engine.until(lambda: channel.screen() == ["Stopped."])


async def test_a_draft_that_stop_meets_on_its_way_is_removed_too(tmp_path: Path) -> None:
    channel = DraftingChannel()
    channel.draft_gate = asyncio.Event()

    async def hang(show: Show) -> ModelReply:
        show(FIRST)
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    async with rig(tmp_path, Typist(hang), channels=(channel,)) as engine:
        await engine.says("why?")
        await engine.until(lambda: channel.drafts_asked)
        assert await engine.asks("/stop") == "Stopped."
        channel.draft_gate.set()
        await engine.until(lambda: channel.dropped)
        assert channel.screen() == ["Stopped."]


@pytest.mark.parametrize(
    "trouble", [RateLimited("slow down", retry_after_s=5), ChannelError("bad gateway", retry_after_s=5)]
)
async def test_a_removal_that_fails_is_made_later(tmp_path: Path, trouble: ChannelError) -> None:
    channel = DraftingChannel()

    async def by_tool(show: Show) -> ModelReply:
        if len(provider.requests) == 2:
            return said("")
        show(STEP)
        await see(engine, STEP)
        channel.failures.append(trouble)
        return calls(("message", {"content": "By tool."}), text=STEP)

    provider = Typist(by_tool)
    async with rig(tmp_path, provider, channels=(channel,)) as engine:
        await engine.says("send it")
        await engine.turns_end(1)
        await engine.until(lambda: not channel.failures)
        async with asyncio.timeout(10):
            while channel.screen() != ["By tool."]:
                engine.advance(5)
                await asyncio.sleep(0)


@pytest.mark.parametrize("trouble", [SendRejected("not yours to delete"), ChatGone("blocked"), "fails on"])
async def test_a_removal_that_never_works_is_no_dead_letter(tmp_path: Path, trouble: Exception | str) -> None:
    """Nobody could do anything with one: it has no words."""
    channel = DraftingChannel()
    error = trouble if isinstance(trouble, Exception) else ChannelError("bad gateway")
    async with rig(tmp_path, Typist(), channels=(channel,), start=["scheduler"]) as engine:
        await engine.says("why?")
        (turn,) = await engine.store.turns.claim(limit=1)
        await engine.store.turns.save_draft(turn, "d1")
        await engine.store.turns.finish(turn, Ending(state=TurnState.DONE))
        channel.failures.extend([error] * 50)
        engine.start("delivery")
        async with asyncio.timeout(10):
            while (await engine.store.overview.status()).outbox_queued:
                engine.advance(60)
                await asyncio.sleep(0)
        status = await engine.store.overview.status()
        assert (status.dead_letter_count, channel.dropped) == (0, [])


async def test_a_chat_that_closes_leaves_no_dead_letter_without_words(tmp_path: Path) -> None:
    async with rig(tmp_path, Typist(), start=["scheduler"]) as engine:
        await engine.says("why?")
        (turn,) = await engine.store.turns.claim(limit=1)
        await engine.store.turns.save_draft(turn, "d1")
        file = OutboundMessage(address=turn.address, text="", attachments=(Attachment(kind="photo", name="a.png"),))
        await engine.store.turns.finish(turn, Ending(state=TurnState.DONE, outbound=(file,)))
        await engine.bus.close_chat(turn.address, "blocked")
        status = await engine.store.overview.status()
        assert (status.dead_letter_count, status.outbox_queued) == (1, 0)


async def test_dropping_an_answer_takes_its_unfinished_text_away_too(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def grow(show: Show) -> ModelReply:
        show(FIRST)
        await see(engine, FIRST)
        channel.failures.append(SendRejected("too rude"))
        return said(WHOLE)

    async with rig(tmp_path, Typist(grow), channels=(channel,)) as engine:
        await engine.says("why?")
        async with asyncio.timeout(10):
            while not (letters := await engine.store.overview.dead_letters(limit=1)):
                await asyncio.sleep(0)
        assert channel.screen() == [FIRST]
        await engine.store.overview.drop([letters[0].id])
        engine.bus.ring(Topic.OUTBOUND)
        await engine.until(lambda: channel.dropped)
        await engine.idle()
        assert channel.screen() == []
        page = await engine.store.overview.outbox(limit=9)
        assert page.total == 0


async def test_a_failure_that_retries_end_well_leaves_one_message(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def stumbling(show: Show) -> ModelReply:
        for text in (MORE, FIRST, MORE):  # two tries that broke off, each begun anew
            show(text)
            await see(engine, text)
        return said(WHOLE)

    async with rig(tmp_path, Typist(stumbling), channels=(channel,)) as engine:
        assert await engine.asks("why?") == WHOLE
        assert channel.screen() == [WHOLE]


async def test_a_turn_that_fails_puts_its_notice_in_place_of_the_draft(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def broken(show: Show) -> ModelReply:
        show(FIRST)
        await see(engine, FIRST)
        raise ProviderError(ProviderErrorKind.CUT, "cut")

    async with rig(tmp_path, Typist(broken), channels=(channel,)) as engine:
        notice = await engine.asks("why?")
        assert notice == "The answer broke off. Please try again."
        assert channel.screen() == [notice]


async def test_a_bug_in_mid_stream_puts_its_notice_in_place_of_the_draft(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def broken(show: Show) -> ModelReply:
        show(FIRST)
        await see(engine, FIRST)
        raise RuntimeError("a bug")

    async with rig(tmp_path, Typist(broken), channels=(channel,)) as engine:
        notice = await engine.asks("why?")
        assert notice.startswith("Something went wrong on my side")
        assert channel.screen() == [notice]


async def test_two_chats_at_once_keep_their_own_drafts(tmp_path: Path) -> None:
    """C045: turns of A and B overlap, only A uses the message tool."""
    channel = DraftingChannel()
    barrier = asyncio.Barrier(2)

    async def script(show: Show) -> ModelReply:
        rows = provider.requests[-1].messages
        who = "A" if "by tool" in str(rows[1]["content"]) else "B"
        if rows[-1]["role"] == "tool":
            return said("")
        show(f"{FIRST} {who}")
        await see(engine, f"{FIRST} {who}", who)
        await barrier.wait()
        if who == "A":
            return calls(("message", {"content": "tool words"}), text=FIRST)
        return said(f"{WHOLE} {who}")

    provider = Typist(script)
    async with rig(tmp_path, provider, channels=(channel,)) as engine:
        await engine.says("by tool", chat="A")
        await engine.says("by words", chat="B", sender=OTHER)
        await engine.turns_end(2)
        await engine.idle()
        assert (channel.screen("A"), channel.screen("B")) == (["tool words"], [f"{WHOLE} B"])


# --- crashes


async def test_a_resumed_turn_goes_on_in_the_same_message(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def dies(show: Show) -> ModelReply:
        show(FIRST)
        await see(engine, FIRST)
        await _saved(engine)
        return await crash(engine)

    provider = Typist(dies)
    async with rig(tmp_path, provider, channels=(channel,)) as engine:
        await engine.says("why?")
        await engine.crashed.wait()
    assert channel.screen() == [FIRST]

    async def goes_on(show: Show) -> ModelReply:
        show(MORE)
        await see(engine, MORE)
        return said(WHOLE)

    provider.scripts[:] = [goes_on]
    async with again(engine.setup) as engine:
        await engine.reads(WHOLE)
        assert channel.screen() == [WHOLE]


async def _saved(engine: Rig) -> None:
    """Wait until the draft's id is committed."""

    def committed(conn: object) -> bool:
        return bool(conn.execute("SELECT 1 FROM turns WHERE draft_id <> ''").fetchone())  # type: ignore[attr-defined]

    async with asyncio.timeout(10):
        while not await engine.store._database.read(committed):
            await asyncio.sleep(0)


class FindingChannel(DraftingChannel):
    """A platform that finds a draft again by its key."""

    finds_drafts: ClassVar[bool] = True


@pytest.mark.parametrize("knows_keys", [True, False])
async def test_a_crash_before_the_id_is_known_is_mended_where_the_platform_knows_repeats(
    tmp_path: Path, *, knows_keys: bool
) -> None:
    """Without such a mark the beginning stays there, once: the documented gap."""
    channel = FindingChannel() if knows_keys else DraftingChannel()
    channel.knows_keys = knows_keys

    async def dies(show: Show) -> ModelReply:
        show(FIRST)
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    provider = Typist(dies)
    async with rig(tmp_path, provider, channels=(channel,)) as engine:
        channel.draft_gate = asyncio.Event()
        await engine.says("why?")
        await engine.until(lambda: channel.drafts_asked)
        await engine.store.close()  # nothing is written any more, as if the process were gone
        channel.draft_gate.set()
        await engine.until(lambda: channel.screen() == [FIRST])
        engine.crashed.set()

    async def goes_on(show: Show) -> ModelReply:
        show(MORE)
        if knows_keys:
            await see(engine, MORE)
        else:
            await asyncio.sleep(2 * FIRST_AFTER_S)  # in which it would be shown
        return said(WHOLE)

    provider.scripts[:] = [goes_on]
    async with again(engine.setup) as engine:
        await engine.reads(WHOLE)
        assert channel.screen() == ([WHOLE] if knows_keys else [FIRST, WHOLE])
        assert channel.drafts_asked == (2 if knows_keys else 1)  # each could be left there by a kill


@pytest.mark.parametrize("reply", [WHOLE, ""])
async def test_a_resumed_turn_takes_over_the_draft_of_before_even_when_it_shows_none(
    tmp_path: Path, reply: str
) -> None:
    channel = FindingChannel()
    channel.knows_keys = True

    async def dies(show: Show) -> ModelReply:
        show(FIRST)
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    provider = Typist(dies)
    async with rig(tmp_path, provider, channels=(channel,)) as engine:
        channel.draft_gate = asyncio.Event()
        await engine.says("why?")
        await engine.until(lambda: channel.drafts_asked)
        await engine.store.close()
        channel.draft_gate.set()
        await engine.until(lambda: channel.screen() == [FIRST])
        engine.crashed.set()

    async def is_quick(show: Show) -> ModelReply:
        return said(reply)

    provider.scripts[:] = [is_quick] * 5
    async with again(engine.setup) as engine:
        await engine.until(channel.texts)
        assert channel.screen() == channel.texts()


async def test_a_sender_without_rights_at_the_restart_leaves_no_draft(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def dies(show: Show) -> ModelReply:
        show(FIRST)
        await see(engine, FIRST)
        await _saved(engine)
        return await crash(engine)

    async with rig(tmp_path, Typist(dies), channels=(channel,)) as engine:
        await engine.says("why?")
        await engine.crashed.wait()
    engine.setup.allow_from = ()
    async with again(engine.setup) as engine:
        await engine.turns_end(1)
        await engine.until(lambda: channel.screen() == [])


async def test_a_removal_that_a_crash_cut_short_is_made_again_and_counts_as_nothing(tmp_path: Path) -> None:
    channel = DraftingChannel()

    async def by_tool(show: Show) -> ModelReply:
        show(STEP)
        await see(engine, STEP)
        await _saved(engine)
        await engine.stop_delivery()
        return calls(("message", {"content": "By tool."}), text=STEP)

    async def nothing(show: Show) -> ModelReply:
        return said("")

    async with rig(tmp_path, Typist(by_tool, nothing), channels=(channel,)) as engine:
        await engine.says("send it")
        await engine.turns_end(1)
        rows, _ = await engine.store.outbox.claim(limit=9, channels=["memory"])  # and then the process dies
        assert [row.message.withdraws for row in rows] == [True]
        await engine.crash()
        engine.crashed.set()
    async with again(engine.setup) as engine:
        engine.advance(600)  # the lease of the send is over
        await engine.reads("By tool.")
        assert channel.screen() == ["By tool."]
        assert (await engine.store.overview.status()).outbox_uncertain == 0


# --- which message takes the draft


@pytest.mark.parametrize("kind", ["another thread", "files", "blank", "none"])
async def test_only_plain_words_for_the_same_place_take_the_draft(tmp_path: Path, kind: str) -> None:
    """An ending made by hand: what it sends first must not inherit a message that is not its own."""
    async with rig(tmp_path, Typist(), start=["scheduler"]) as engine:
        store: SqlStore = engine.store
        await engine.says("why?", thread="t1")
        (turn,) = await store.turns.claim(limit=1)
        await store.turns.save_draft(turn, "d1")
        address = turn.address
        home = {"chat_id": address.chat_id, "channel": address.channel}
        file = Attachment(kind="document", name="a.txt", path="/nowhere/a.txt")
        other = type(address)(**home, thread_id="t2")
        first = {
            "another thread": (OutboundMessage(address=other, text="there"),),
            "files": (OutboundMessage(address=address, text="here", attachments=(file,)),),
            "blank": (OutboundMessage(address=address, text=" \n"),),
            "none": (),
        }[kind]
        await store.turns.finish(turn, Ending(state=TurnState.DONE, outbound=first))
        rows, _ = await store.outbox.claim(limit=9, channels=["memory"])
        by_place = {row.message.address.thread_id: row.message for row in rows}
        assert by_place["t1"].withdraws
        assert by_place["t1"].draft_id == "d1"
        if kind == "another thread":
            assert by_place["t2"].draft_id == ""
