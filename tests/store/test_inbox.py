"""What the inbox promises, whoever implements it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.clock import US_PER_S
from bot.errors import QueueFull
from bot.interfaces import Store
from bot.messages import Address, Attachment, Origin, Quote
from bot.records import Acceptance, Ending, TurnState
from tests.support.clock import FakeClock
from tests.support.stores import CHAT, OTHER_CHAT, inbound, opened


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with opened(tmp_path / "db", clock) as store:
        yield store


async def test_a_message_is_accepted_once(store: Store) -> None:
    assert await store.inbox.accept(inbound()) is Acceptance.ACCEPTED
    assert await store.inbox.accept(inbound("other words")) is Acceptance.DUPLICATE
    (turn,) = await store.turns.claim(limit=9)
    assert [item.message.text for item in turn.messages] == ["hi"]
    assert await store.turns.claim(limit=9) == []


@pytest.mark.parametrize(
    "different",
    [
        {"message_id": "2"},
        {"variant": "edit-1"},
        {"account": "another bot"},
        {"address": OTHER_CHAT},
        {"address": Address(channel="second", chat_id="c1")},
    ],
    ids=["message", "variant", "account", "chat", "channel"],
)
async def test_each_part_of_the_identity_makes_another_message(store: Store, different: dict[str, object]) -> None:
    await store.inbox.accept(inbound())
    assert await store.inbox.accept(inbound(**different)) is Acceptance.ACCEPTED  # type: ignore[arg-type]


async def test_a_thread_is_no_part_of_the_identity(store: Store) -> None:
    await store.inbox.accept(inbound())
    moved = Address(channel="memory", chat_id="c1", thread_id="7")
    assert await store.inbox.accept(inbound(address=moved)) is Acceptance.DUPLICATE


async def test_everything_of_a_message_comes_back(store: Store) -> None:
    message = inbound(
        "text \x00 with a lone \ud83d surrogate",
        sender_name="Ann\udc00",
        attachments=(
            Attachment(kind="image", name="p\ud800.jpg", mime="image/jpeg", size_bytes=7, ref="r1"),
            Attachment(kind="voice"),
        ),
        quote=Quote(message_id="5", author="bot", text="before\udfff", is_fragment=True),
        sent_us=12,
        reply_to="1",
        origin=Origin.USER,
    )
    await store.inbox.accept(message)
    (turn,) = await store.turns.claim(limit=1)
    stored = turn.messages[0].message
    assert stored.text == "text  with a lone \ufffd surrogate"
    assert stored.sender_name == "Ann\ufffd"
    assert stored.attachments[0] == Attachment(
        kind="image", name="p\ufffd.jpg", mime="image/jpeg", size_bytes=7, ref="r1"
    )
    assert stored.attachments[1] == Attachment(kind="voice")
    assert stored.quote == Quote(message_id="5", author="bot", text="before\ufffd", is_fragment=True)
    assert (stored.sent_us, stored.reply_to, stored.sender_id, stored.account) == (12, "1", "111", "bot")


async def test_a_full_queue_refuses_people_and_keeps_what_is_there(tmp_path: Path, clock: FakeClock) -> None:
    async with opened(tmp_path / "full", clock, max_waiting=2) as store:
        await store.inbox.accept(inbound("a", "1"))
        await store.inbox.accept(inbound("b", "2"))
        with pytest.raises(QueueFull):
            await store.inbox.accept(inbound("c", "3"))
        assert await store.inbox.accept(inbound("a", "1")) is Acceptance.DUPLICATE
        assert await store.inbox.accept(inbound("job", "4", origin=Origin.JOB, lane="job:1")) is Acceptance.ACCEPTED
        assert (await store.overview.status()).inbox_queued == 3
        (turn, _) = await store.turns.claim(limit=2)
        await store.turns.finish(turn, Ending(state=TurnState.DONE))
        assert await store.inbox.accept(inbound("c", "3")) is Acceptance.ACCEPTED


async def test_an_edit_reaches_a_queued_message_only(store: Store) -> None:
    await store.inbox.accept(inbound("helo"))
    assert await store.inbox.replace_queued(inbound("hello"))
    (turn,) = await store.turns.claim(limit=1)
    assert turn.messages[0].message.text == "hello"
    assert not await store.inbox.replace_queued(inbound("too late"))
    assert not await store.inbox.replace_queued(inbound("unknown", "99"))


async def test_an_update_nobody_could_read_is_a_dead_letter_once(store: Store) -> None:
    for _ in range(2):
        await store.inbox.accept_unparsed(
            channel="memory", account="bot", update_id="u7", raw='{"x":"\ud800"}', error="no message"
        )
    (letter,) = await store.overview.dead_letters(limit=9)
    assert (letter.direction, letter.text, letter.error) == ("in", '{"x":"\ufffd"}', "no message")
    assert await store.turns.claim(limit=9) == []


async def test_pruning_forgets_settled_messages_only(store: Store, clock: FakeClock) -> None:
    await store.inbox.accept(inbound("settled", "1"))
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.finish(turn, Ending(state=TurnState.DONE))
    await store.inbox.accept(inbound("waiting", "2"))
    await store.inbox.accept_unparsed(channel="memory", account="bot", update_id="u", raw="raw", error="bad")
    clock.advance(100)
    await store.inbox.accept(inbound("young", "3", OTHER_CHAT))
    (young,) = [turn for turn in await store.turns.claim(limit=9) if turn.address == OTHER_CHAT]
    await store.turns.finish(young, Ending(state=TurnState.DONE))

    assert await store.overview.prune(older_than_us=clock.now_us() - 50 * US_PER_S) == 2  # the message and its turn
    assert await store.inbox.accept(inbound("settled", "1")) is Acceptance.ACCEPTED
    assert await store.inbox.accept(inbound("young", "3", OTHER_CHAT)) is Acceptance.DUPLICATE
    assert (await store.overview.status()).dead_letter_count == 1


async def test_a_message_that_became_a_dead_letter_is_not_taken_again(store: Store) -> None:
    await store.inbox.accept(inbound("deadly"))
    (turn,) = await store.turns.claim(limit=1)
    await store.turns.finish(turn, Ending(state=TurnState.DEAD, error="killed it \ud800"))
    assert await store.inbox.accept(inbound("deadly")) is Acceptance.DUPLICATE
    (letter,) = await store.overview.dead_letters(limit=9)
    assert (letter.text, letter.error, letter.address) == ("deadly", "killed it \ufffd", CHAT)
