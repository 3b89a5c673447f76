"""The message tool: to this chat and, where allowed, to others; files of the chat only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.errors import ChannelError, SendRejected
from bot.messages import Button, OutboundKind
from bot.security.workspace import WorkspaceView
from channels.files import read_outbound
from tests.support.engine import MEMBER, OWNER, Rig, again, calls, rig, said, tool_texts
from tests.support.memory_channel import MemoryChannel, SecondChannel
from tests.support.providers import ScriptedProvider
from tests.support.stores import CHAT


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(tmp_path, ScriptedProvider(said("x")), channels=(MemoryChannel(), SecondChannel())) as engine:
        yield engine


async def send(
    engine: Rig, *, sender: str = MEMBER, thread: str | None = None, reply_to: str = "", **arguments: Any
) -> str:
    """Let the model make one message call in a turn of its own; return the tool's result."""
    provider = engine.setup.provider
    assert isinstance(provider, ScriptedProvider)
    arguments.setdefault("content", "words")
    provider.outcomes[:] = [calls(("message", arguments)), said("final")]
    before = len(engine.ended)
    await engine.says("please", sender=sender, thread=thread, reply_to=reply_to)
    await engine.turns_end(before + 1)
    await engine.idle()
    return str(tool_texts(provider.requests[-1])[-1])


async def test_words_buttons_and_reply_go_to_this_chat_and_thread(engine: Rig) -> None:
    result = await send(
        engine, thread="7", reply_to="5", content="**Pick**", buttons=[["Yes", "No"], []], progress=True
    )
    assert result.startswith("Message queued for this chat (outbox ")
    first, second = engine.channel.arrived
    assert (first.text, first.kind, first.address.thread_id, first.reply_to) == (
        "**Pick**", OutboundKind.MESSAGE, "7", "5",
    )  # fmt: skip
    assert first.message.buttons == ((Button(label="Yes", data="Yes"), Button(label="No", data="No")),)
    assert second.text == "final"


async def test_a_message_to_this_chat_stands_for_the_final_text(engine: Rig) -> None:
    await send(engine, content="All of it.")
    assert engine.channel.texts() == ["All of it."]


async def test_a_message_to_another_thread_of_this_chat_does_not(engine: Rig) -> None:
    await send(engine, content="There.", thread_id="9")
    assert engine.channel.texts("c1", "9") == ["There."]
    assert engine.channel.texts() == ["final"]


async def test_another_chat_is_the_owners_to_reach(engine: Rig) -> None:
    assert await send(engine, chat_id="c2") == "message: a member may not do this (reach) in a private chat."
    assert engine.channel.texts("c2") == []
    assert (await send(engine, sender=OWNER, chat_id="c2")).startswith("Message queued for memory:c2")
    assert engine.channel.texts("c2") == ["words"]


async def test_another_channel_needs_a_chat_there_and_must_exist(engine: Rig) -> None:
    assert "name the chat_id there too" in await send(engine, sender=OWNER, channel="second")
    assert "channel 'fax' is not configured; channels: memory, second" in await send(
        engine, sender=OWNER, channel="fax", chat_id="1"
    )
    await send(engine, sender=OWNER, channel="second", chat_id="c9")
    second = engine.channels["second"]
    assert second.texts("c9") == ["words"]
    assert second.texts("c1") == []


async def test_files_of_the_chat_are_attached(engine: Rig) -> None:
    root = await chat_root(engine)
    (root / "plot.png").write_bytes(b"png")
    await send(engine, content="", media=["plot.png"], progress=True)
    (attachment,) = engine.channel.arrived[0].message.attachments
    assert (attachment.name, attachment.kind, attachment.mime, attachment.size_bytes) == (
        "plot.png", "image", "image/png", 3,
    )  # fmt: skip
    assert Path(attachment.path).read_bytes() == b"png"
    assert attachment.root == str(root)


@pytest.mark.parametrize("then", ["overwritten", "replaced", "deleted", "made a link"])
async def test_what_was_accepted_is_what_is_sent(engine: Rig, then: str) -> None:
    root = await chat_root(engine)
    plot = root / "plot.png"
    plot.write_bytes(b"as it was")
    engine.channel.held["c1"] = asyncio.Event()
    sending = asyncio.ensure_future(send(engine, content="", media=["plot.png"], progress=True))
    await engine.until(lambda: len(engine.channel.attempts) == 1)
    match then:
        case "overwritten":
            with plot.open("r+b") as file:  # the same file, in place
                file.write(b"changed since")
        case "replaced":
            plot.unlink()
            plot.write_bytes(b"another one")
        case "deleted":
            plot.unlink()
        case _:
            plot.unlink()
            plot.symlink_to("/etc/passwd")
    (attachment,) = engine.channel.attempts[0].attachments
    assert read_outbound(attachment, limit_bytes=100) == b"as it was"
    assert Path(attachment.path) == plot
    assert Path(attachment.copy).stat().st_mode & 0o777 == 0o600
    assert not Path(attachment.copy).is_relative_to(engine.workspace)
    engine.channel.held.pop("c1").set()
    await sending
    async with asyncio.timeout(10):
        while Path(attachment.copy).exists():
            await asyncio.sleep(0.01)


async def test_a_file_is_kept_for_as_long_as_its_message_may_be_sent_again(engine: Rig) -> None:
    root = await chat_root(engine)
    (root / "plot.png").write_bytes(b"as it was")
    engine.channel.failures.append(SendRejected("no pictures today"))
    await send(engine, content="look", media=["plot.png"], progress=True)
    (root / "plot.png").unlink()
    (letter,) = await engine.store.overview.dead_letters(limit=9)
    (copy,) = await engine.store.outbox.copied_files()
    await engine.room.spool.clean(engine.store.outbox.copied_files)
    assert Path(copy).read_bytes() == b"as it was"
    await engine.store.overview.resend([letter.id])
    engine.ring()
    await engine.reads("final", "look")
    async with asyncio.timeout(10):
        while Path(copy).exists():
            await asyncio.sleep(0.01)


async def test_a_file_goes_out_although_the_data_have_moved_meanwhile(tmp_path: Path) -> None:
    channel = MemoryChannel()
    channel.failures.append(ChannelError("502", retry_after_s=10))
    async with rig(tmp_path / "before", ScriptedProvider(said("x")), channels=(channel,)) as engine:
        (await chat_root(engine) / "plot.png").write_bytes(b"as it was")
        sending = asyncio.ensure_future(send(engine, content="", media=["plot.png"], progress=True))
        await engine.until(lambda: len(channel.attempts) == 1)
        sending.cancel()
    (tmp_path / "before").rename(tmp_path / "after")
    channel.held["c1"] = asyncio.Event()
    engine.setup.clock.advance(10)
    async with again(replace(engine.setup, folder=tmp_path / "after"), start=["delivery"]) as engine:
        await engine.until(lambda: len(channel.attempts) == 2)
        (attachment,) = channel.attempts[1].attachments
        assert read_outbound(attachment, limit_bytes=100) == b"as it was"
        channel.held.pop("c1").set()
        async with asyncio.timeout(10):
            while list((tmp_path / "after" / "outgoing").iterdir()):
                await asyncio.sleep(0.01)


async def test_a_call_with_a_file_that_cannot_go_leaves_no_copies(engine: Rig) -> None:
    root = await chat_root(engine)
    (root / "plot.png").write_bytes(b"png")
    (root / "empty.txt").touch()
    assert "queued" not in await send(engine, media=["plot.png", "missing.txt"], progress=True)
    assert "empty.txt is empty" in await send(engine, media=["plot.png", "empty.txt"], progress=True)
    assert list((engine.setup.folder / "outgoing").iterdir()) == []


async def test_where_no_copy_can_be_made_the_call_says_so_and_nothing_is_queued(engine: Rig) -> None:
    (await chat_root(engine) / "plot.png").write_bytes(b"png")
    (engine.setup.folder / "outgoing").write_text("in the way")
    result = await send(engine, content="look", media=["plot.png"], progress=True)
    assert result.startswith("media: cannot be copied for sending: File exists")
    assert engine.channel.texts() == ["final"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../etc/passwd", "link"])
async def test_a_path_outside_the_workspace_is_refused(engine: Rig, path: str) -> None:
    root = await chat_root(engine)
    (root / "link").symlink_to("/etc/passwd")
    result = await send(engine, media=[path], progress=True)
    assert "queued" not in result
    assert engine.channel.texts() == ["final"]


async def test_a_missing_file_or_no_words_at_all_is_an_error(engine: Rig) -> None:
    assert "queued" not in await send(engine, media=["missing.txt"], progress=True)
    assert "nothing to send" in await send(engine, content="  ", progress=True)
    assert engine.channel.texts() == ["final", "final"]


async def chat_root(engine: Rig) -> Path:
    """Return the folder of chat c1, made by a first visit."""
    root = WorkspaceView.of(engine.workspace, CHAT.rate_key).root
    root.mkdir(parents=True, exist_ok=True)
    return root
