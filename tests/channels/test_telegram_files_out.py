"""Files that the bot sends: what carries each, albums, limits, and sends that are taken up again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from bot.errors import ChannelError, SendRejected, SendUncertain
from bot.messages import Attachment, Button, OutboundMessage
from channels.telegram.uploads import Carrier, carrier_of, in_albums
from tests.channels.harness_telegram import PRIVATE, TOPIC, TelegramHarness, served
from tests.platforms.bot_api_faults import Fault
from tests.support.recording_intake import RecordingProgress

MEGABYTE = 1024 * 1024


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    async with served(tmp_path) as made:
        yield made


def kind_of(name: str) -> str:
    kinds = {".jpg": "image", ".png": "image", ".gif": "image", ".mp4": "video", ".mov": "video", ".mp3": "audio"}
    return {**kinds, ".wav": "audio", ".ogg": "voice"}.get(Path(name).suffix, "document")


def saved(folder: Path, *names: str) -> tuple[Attachment, ...]:
    """Return files whose content is their name."""
    files = []
    for name in names:
        path = folder / name
        path.write_bytes(name.encode())
        files.append(Attachment(kind=kind_of(name), name=name, size_bytes=len(name), path=str(path)))
    return tuple(files)


def of_size(name: str, size_bytes: int | None) -> Attachment:
    return Attachment(kind=kind_of(name), name=name, size_bytes=size_bytes)


def groups(files: Sequence[Attachment], *, last_alone: bool = False) -> list[list[str]]:
    return [[file.name for file in group] for group in in_albums(files, last_alone=last_alone)]


# --- what carries what -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "carrier"),
    [
        ("a.jpg", Carrier.PHOTO),
        ("a.PNG", Carrier.PHOTO),
        ("a.gif", Carrier.ANIMATION),
        ("a.mp4", Carrier.VIDEO),
        ("a.mov", Carrier.DOCUMENT),
        ("a.mp3", Carrier.AUDIO),
        ("a.wav", Carrier.DOCUMENT),
        ("a.ogg", Carrier.VOICE),
        ("a.pdf", Carrier.DOCUMENT),
        ("a", Carrier.DOCUMENT),
    ],
)
def test_a_file_is_shown_as_what_telegram_plays(name: str, carrier: Carrier) -> None:
    assert carrier_of(Attachment(kind=kind_of(name.lower()), name=name)) is carrier


def test_a_photo_over_ten_megabytes_is_a_document() -> None:
    assert carrier_of(of_size("a.jpg", 10 * MEGABYTE)) is Carrier.PHOTO
    assert carrier_of(of_size("a.jpg", 10 * MEGABYTE + 1)) is Carrier.DOCUMENT


def test_neighbours_of_one_kind_are_an_album_in_their_order() -> None:
    files = [of_size(name, 1) for name in ("1.jpg", "2.mp4", "3.pdf", "4.txt", "5.mp3", "6.mp3", "7.jpg")]
    assert groups(files) == [["1.jpg", "2.mp4"], ["3.pdf", "4.txt"], ["5.mp3", "6.mp3"], ["7.jpg"]]


def test_voices_and_animations_go_alone() -> None:
    files = [of_size(name, 1) for name in ("1.ogg", "2.ogg", "3.gif", "4.gif", "5.jpg")]
    assert groups(files) == [["1.ogg"], ["2.ogg"], ["3.gif"], ["4.gif"], ["5.jpg"]]


def test_an_album_has_at_most_ten_files_and_what_one_request_may_carry() -> None:
    assert [len(group) for group in groups([of_size(f"{n}.jpg", 1) for n in range(23)])] == [10, 10, 3]
    heavy = [of_size(f"{n}.mp4", 20 * MEGABYTE) for n in range(5)]
    assert [len(group) for group in groups(heavy)] == [2, 2, 1]


def test_what_carries_the_buttons_stays_out_of_the_album() -> None:
    files = [of_size(f"{n}.jpg", None) for n in range(3)]
    assert groups(files, last_alone=True) == [["0.jpg", "1.jpg"], ["2.jpg"]]


# --- sending ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("a.jpg", "sendPhoto"),
        ("a.gif", "sendAnimation"),
        ("a.mp4", "sendVideo"),
        ("a.mp3", "sendAudio"),
        ("a.pdf", "sendDocument"),
    ],
)
async def test_each_kind_goes_to_its_topic_with_its_caption(
    harness: TelegramHarness, tmp_path: Path, name: str, method: str
) -> None:
    """C034: files too."""
    await harness.send(OutboundMessage(address=TOPIC, text="**Look**", attachments=saved(tmp_path, name)))
    (call,) = harness.api.sent
    assert (call.method, call.text, call.thread_id) == (method, "Look", 42)
    assert harness.shown(TOPIC)[0].bold == ("Look",)
    assert [content for _, content, _ in harness.api.world.files.values()] == [name.encode()]


@pytest.mark.parametrize("name", ["a.mp4", "a.mp3", "a.gif"])
async def test_what_is_not_taken_as_it_is_goes_as_document(harness: TelegramHarness, tmp_path: Path, name: str) -> None:
    for method in ("sendVideo", "sendAudio", "sendAnimation"):
        harness.api.faults.add(Fault(method=method, status=400, description="Bad Request: wrong file type"))
    await harness.send(OutboundMessage(address=TOPIC, text="Look", attachments=saved(tmp_path, name)))
    (call,) = harness.api.sent
    assert (call.method, call.text, call.thread_id) == ("sendDocument", "Look", 42)


async def test_photos_go_as_one_album_that_replies_and_has_the_caption(
    harness: TelegramHarness, tmp_path: Path
) -> None:
    question = harness.person_says(TOPIC, "show me")
    files = saved(tmp_path, "1.jpg", "2.png", "3.mp4")
    progress = await harness.send(OutboundMessage(address=TOPIC, text="**Look**", attachments=files, reply_to=question))
    assert [call.method for call in harness.api.all_calls if call.method.startswith("send")] == ["sendMediaGroup"]
    shown = harness.shown(TOPIC)
    assert [(part.text, part.thread_id) for part in shown] == [("Look", "42"), ("", "42"), ("", "42")]
    assert (shown[0].bold, shown[0].reply_to) == (("Look",), question)
    assert len(set(progress.sent_ids)) == 3
    assert [content for _, content, _ in harness.api.world.files.values()] == [b"1.jpg", b"2.png", b"3.mp4"]


async def test_a_long_text_goes_before_an_album(harness: TelegramHarness, tmp_path: Path) -> None:
    files = saved(tmp_path, "1.pdf", "2.pdf")
    await harness.send(OutboundMessage(address=PRIVATE, text="x" * 1025, attachments=files, reply_to=""))
    assert [call.method for call in harness.api.sent] == ["sendMessage", "sendMediaGroup", "sendMediaGroup"]


async def test_buttons_are_under_the_last_file_alone(harness: TelegramHarness, tmp_path: Path) -> None:
    files = saved(tmp_path, "1.jpg", "2.jpg", "3.jpg")
    message = OutboundMessage(
        address=PRIVATE, text="Which?", attachments=files, buttons=((Button(label="A", data="a"),),)
    )
    progress = await harness.send(message)
    assert [call.method for call in harness.api.sent] == ["sendMediaGroup", "sendMediaGroup", "sendPhoto"]
    assert [part.buttons for part in harness.shown(PRIVATE)] == [(), (), ("A",)]
    assert len(progress.sent_ids) == 3


async def test_an_album_that_is_refused_goes_file_by_file(harness: TelegramHarness, tmp_path: Path) -> None:
    harness.api.faults.add(Fault(method="sendMediaGroup", status=400, description="Bad Request: IMAGE_PROCESS_FAILED"))
    files = saved(tmp_path, "1.jpg", "2.jpg")
    progress = await harness.send(OutboundMessage(address=TOPIC, text="Look", attachments=files))
    assert [(call.method, call.text) for call in harness.api.sent] == [("sendPhoto", "Look"), ("sendPhoto", "")]
    assert len(progress.sent_ids) == 2


async def test_a_topic_that_is_gone_takes_no_album_away(harness: TelegramHarness, tmp_path: Path) -> None:
    """C015"""
    harness.api.delete_topic(-1001, 42)
    progress = await harness.send(
        OutboundMessage(address=TOPIC, text="Look", attachments=saved(tmp_path, "1.jpg", "2.jpg", "3.pdf"))
    )
    assert [call.thread_id for call in harness.api.sent] == [None, None, None]
    assert len(progress.sent_ids) == 3


# --- taken up again --------------------------------------------------------------------------------------


class Committing(RecordingProgress):
    """Notes what a crash would leave: what was committed when another part was tried."""

    def __init__(self, sent_ids: tuple[str, ...] = ()) -> None:
        super().__init__(sent_ids=sent_ids)
        self.committed: list[int] = []

    async def sent(self, platform_id: str, *, more: bool = False) -> None:
        await super().sent(platform_id, more=more)
        if more:
            self.committed.append(len(self.sent_ids))


async def test_the_messages_of_an_album_are_noted_together(harness: TelegramHarness, tmp_path: Path) -> None:
    progress = Committing()
    files = saved(tmp_path, "1.jpg", "2.jpg", "3.jpg", "4.pdf")
    await harness.channel.send(OutboundMessage(address=PRIVATE, text="x" * 2000, attachments=files), progress)
    assert progress.committed == [1, 4]
    assert len(progress.sent_ids) == 5


async def test_a_send_goes_on_behind_its_album(harness: TelegramHarness, tmp_path: Path) -> None:
    message = OutboundMessage(address=PRIVATE, text="Look", attachments=saved(tmp_path, "1.jpg", "2.jpg", "3.pdf"))
    progress = RecordingProgress()
    harness.api.faults.add(Fault(method="sendDocument", status=502, garbage=b"bad gateway"))
    with pytest.raises(ChannelError):
        await harness.channel.send(message, progress)
    assert len(progress.sent_ids) == 2
    await harness.channel.send(message, progress)
    assert [call.method for call in harness.api.sent] == ["sendMediaGroup", "sendMediaGroup", "sendDocument"]


async def test_files_of_a_refused_album_go_on_at_the_one_that_failed(harness: TelegramHarness, tmp_path: Path) -> None:
    message = OutboundMessage(address=PRIVATE, text="Look", attachments=saved(tmp_path, "1.pdf", "2.pdf", "3.pdf"))
    progress = RecordingProgress()
    harness.api.faults.add(Fault(method="sendMediaGroup", status=400, description="Bad Request: no albums today"))
    harness.api.faults.add(Fault(method="sendDocument"))  # the first one passes
    harness.api.faults.add(Fault(method="sendDocument", status=502, garbage=b"bad gateway"))
    with pytest.raises(ChannelError):
        await harness.channel.send(message, progress)
    assert len(progress.sent_ids) == 1
    await harness.channel.send(message, progress)
    assert [content for _, content, _ in harness.api.world.files.values()] == [b"1.pdf", b"2.pdf", b"3.pdf"]
    assert [call.text for call in harness.api.sent] == ["Look", "", ""]


async def test_an_album_whose_fate_is_unknown_is_not_sent_a_third_time(
    harness: TelegramHarness, tmp_path: Path
) -> None:
    """The delivery passes over the part it stands at; the rest of that request has the same fate."""
    message = OutboundMessage(address=PRIVATE, text="Look", attachments=saved(tmp_path, "1.jpg", "2.jpg", "3.pdf"))
    harness.api.faults.add(Fault(method="sendMediaGroup", drop_after=True))
    progress = RecordingProgress()
    with pytest.raises(SendUncertain):
        await harness.channel.send(message, progress)
    progress.sent_ids.append("??")
    await harness.channel.send(message, progress)
    assert progress.sent_ids[:2] == ["??", "??"]
    assert [call.method for call in harness.api.sent] == ["sendMediaGroup", "sendMediaGroup", "sendDocument"]


# --- limits ----------------------------------------------------------------------------------------------


async def test_a_file_over_the_limit_is_refused_by_name(harness: TelegramHarness, tmp_path: Path) -> None:
    path = tmp_path / "film.mkv"
    with path.open("wb") as file:
        file.truncate(50 * MEGABYTE + 1)
    film = Attachment(kind="document", name="film.mkv", path=str(path))
    with pytest.raises(SendRejected, match=r"film\.mkv has 52 MB, a bot may send up to 52"):
        await harness.send(OutboundMessage(address=PRIVATE, text="", attachments=(film,)))
    assert harness.api.sent == []
    await harness.send(OutboundMessage(address=PRIVATE, text="", attachments=(*saved(tmp_path, "a.pdf"), film)))
    assert [(call.method, call.text) for call in harness.api.sent] == [
        ("sendDocument", ""),
        ("sendMessage", "⚠️ Not sent: film.mkv (it has 52 MB, at most 52 MB can be sent here)"),
    ]


# --- files that cannot go --------------------------------------------------------------------------------


async def test_an_album_without_one_of_its_files_goes_one_by_one(harness: TelegramHarness, tmp_path: Path) -> None:
    files = saved(tmp_path, "1.jpg", "2.jpg", "3.jpg")
    Path(files[0].path).unlink()
    progress = await harness.send(OutboundMessage(address=PRIVATE, text="**Look**", attachments=files))
    assert [(call.method, call.text) for call in harness.api.sent] == [
        ("sendMessage", "Look\n\n⚠️ Not sent: 1.jpg (the file is not there any more)"),
        ("sendPhoto", ""),
        ("sendPhoto", ""),
    ]
    assert harness.shown(PRIVATE)[0].bold == ("Look",)
    assert len(progress.sent_ids) == 3


async def test_a_send_goes_on_behind_the_line_of_a_missing_file(harness: TelegramHarness, tmp_path: Path) -> None:
    files = saved(tmp_path, "1.jpg", "2.jpg", "3.jpg")
    Path(files[0].path).unlink()
    message = OutboundMessage(address=PRIVATE, text="Look", attachments=files)
    harness.api.faults.add(Fault(method="sendPhoto", status=502, garbage=b"bad gateway"))
    progress = RecordingProgress()
    with pytest.raises(ChannelError):
        await harness.channel.send(message, progress)
    assert len(progress.sent_ids) == 1
    Path(files[0].path).write_bytes(b"there again")
    await harness.channel.send(message, progress)
    assert [call.method for call in harness.api.sent] == ["sendMessage", "sendPhoto", "sendPhoto"]
    assert [content for _, content, _ in harness.api.world.files.values()] == [b"2.jpg", b"3.jpg"]


async def test_what_the_platform_will_not_have_leaves_a_line_with_the_buttons(
    harness: TelegramHarness, tmp_path: Path
) -> None:
    harness.api.faults.add(Fault(method="sendDocument", status=400, description="Bad Request: file is bad"))
    button = ((Button(label="A", data="a"),),)
    message = OutboundMessage(address=PRIVATE, text="Which?", attachments=saved(tmp_path, "1.pdf"), buttons=button)
    await harness.send(message)
    (shown,) = harness.shown(PRIVATE)
    assert (shown.text, shown.buttons) == ("Which?\n\n⚠️ Not sent: 1.pdf (it was not accepted here)", ("A",))
