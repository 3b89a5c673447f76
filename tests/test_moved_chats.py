"""A chat that lives on under another id keeps rights, files and its place in the queue, also over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.messages import Address, Button, ButtonPress, ChatType
from bot.records import Acceptance
from bot.security.workspace import folder_name
from bot.toolkit.chat_files import ChatFiles
from tests.support.engine import MEMBER, Rig, again, rig, said
from tests.support.providers import ScriptedProvider
from tests.support.stores import inbound, outbound

PROVIDER = ScriptedProvider(said("x"))
OLD, NEW = Address(channel="memory", chat_id="-5"), Address(channel="memory", chat_id="-1009")


async def as_group(engine: Rig, chat: Address, message_id: str) -> Acceptance:
    """Let somebody speak in the name of a group: its id is the sender's."""
    message = inbound("hi", message_id, chat, sender_id=chat.chat_id, chat_type=ChatType.GROUP)
    return await engine.bus.publish_inbound(message)


async def test_an_entry_of_the_allow_list_counts_for_the_new_id_also_after_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C035"""
    async with rig(tmp_path, PROVIDER, start=["scheduler"], allow_from=("-5",)) as engine:
        assert await as_group(engine, NEW, "1") is Acceptance.REFUSED
        await engine.bus.migrate_chat("memory", "-5", "-1009")
        said = capsys.readouterr()
        assert "write the new one" in said.out + said.err
        assert await as_group(engine, NEW, "2") is Acceptance.ACCEPTED
        setup = engine.setup
    async with again(setup, start=["scheduler"]) as engine:
        await engine.bus.restore_moves()
        assert await as_group(engine, NEW, "3") is Acceptance.ACCEPTED


async def test_a_message_of_the_old_id_that_comes_again_or_late_belongs_to_the_new_chat(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["scheduler"]) as engine:
        before = inbound("before", "7", OLD, sender_id=MEMBER, reply_to="7")
        await engine.bus.publish_inbound(before)
        await engine.bus.migrate_chat("memory", "-5", "-1009")
        assert await engine.bus.publish_inbound(before) is Acceptance.DUPLICATE
        assert await engine.bus.publish_edit(inbound("changed", "7", OLD, sender_id=MEMBER)) is Acceptance.UPDATED
        late = inbound("late", "8", OLD, sender_id=MEMBER, reply_to="8")
        assert await engine.bus.publish_inbound(late) is Acceptance.ACCEPTED
        own = inbound("own", "7", NEW, sender_id=MEMBER)
        assert await engine.bus.publish_inbound(own) is Acceptance.ACCEPTED
        (turn,) = await engine.bus.consume_inbound(lambda: 5)
        assert (turn.address, turn.messages[0].message.text) == (NEW, "changed")
        assert turn.messages[0].message.reply_to == ""


async def test_a_button_of_the_old_chat_can_still_be_pressed(tmp_path: Path) -> None:
    async with rig(tmp_path, PROVIDER, start=["scheduler"]) as engine:
        buttons = ((Button(label="Yes", data="yes"),),)
        outbox_id = await engine.bus.publish_outbound(outbound("Sure?", OLD, buttons=buttons))
        await engine.bus.migrate_chat("memory", "-5", "-1009")
        press = ButtonPress(
            channel="memory",
            chat_id="-5",
            message_id="9",
            outbox_id=outbox_id,
            index=0,
            press_id="p1",
            sender_id=MEMBER,
        )
        assert (await engine.bus.publish_press(press)).acceptance is Acceptance.ACCEPTED
        (turn,) = await engine.bus.consume_inbound(lambda: 5)
        assert turn.address == NEW


# --- files -----------------------------------------------------------------------------------------------


def folder(workspace: Path, address: Address) -> Path:
    return workspace / "chats" / folder_name(address.rate_key)


def keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_files_go_along_and_old_paths_still_lead_to_them(tmp_path: Path) -> None:
    """C035: history and waiting answers name files by their path."""
    async with rig(tmp_path, PROVIDER, start=["scheduler"]) as engine:
        old, new = folder(engine.workspace, OLD), folder(engine.workspace, NEW)
        keep(old / "inbox" / "a.jpg", "picture")
        await engine.bus.migrate_chat("memory", "-5", "-1009")
        assert (new / "inbox" / "a.jpg").read_text() == "picture"
        assert (old / "inbox" / "a.jpg").read_text() == "picture"


def test_what_the_chat_has_under_its_new_id_already_stays(tmp_path: Path) -> None:
    old, new = folder(tmp_path, OLD), folder(tmp_path, NEW)
    keep(old / "inbox" / "a.txt", "old a")
    keep(old / "notes.md", "old notes")
    keep(new / "inbox" / "b.txt", "new b")
    files = ChatFiles(tmp_path)
    for _ in range(2):
        files.move_chat(OLD.rate_key, NEW.rate_key)
    assert (new / "inbox" / "a.txt").read_text() == "old a"
    assert (new / "inbox" / "b.txt").read_text() == "new b"
    assert (old / "notes.md").read_text() == "old notes"
    keep(new / "kept.md", "new")
    assert (old / "kept.md").read_text() == "new"  # the old name is a link by now


def test_two_files_of_one_name_are_both_kept(tmp_path: Path) -> None:
    old, new = folder(tmp_path, OLD), folder(tmp_path, NEW)
    keep(old / "notes.md", "old")
    keep(new / "notes.md", "new")
    ChatFiles(tmp_path).move_chat(OLD.rate_key, NEW.rate_key)
    assert ((old / "notes.md").read_text(), (new / "notes.md").read_text()) == ("old", "new")


def test_a_move_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    new = folder(tmp_path, NEW)
    keep(new / "notes.md", "moved")  # a crash between moving and linking
    ChatFiles(tmp_path).move_chat(OLD.rate_key, NEW.rate_key)
    assert folder(tmp_path, OLD).readlink() == Path(new.name)


def test_a_chat_without_files_leaves_nothing(tmp_path: Path) -> None:
    ChatFiles(tmp_path).move_chat(OLD.rate_key, NEW.rate_key)
    assert list(tmp_path.iterdir()) == []
