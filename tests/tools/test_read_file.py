"""read_file: what a chat sees of its files, and what it never sees of any other."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.messages import ChatType, Role
from bot.toolkit.base import ToolResult
from bot.toolkit.results import ADVICE
from bot.tools.read_file import ReadFileTool
from tests.support.contexts import ToolDesk, request_context, tool_context

SECRET = "TOP SECRET"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ME = request_context("1")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ToolDesk]:
    """The tools of an ordinary turn; a secret lies beside the workspace."""
    (tmp_path / "secret").write_text(SECRET)
    async with tool_context(tmp_path) as ctx:
        yield ToolDesk(ctx)


async def read(desk: ToolDesk, path: str, **params: object) -> ToolResult:
    return await desk.call(ME, "read_file", path=path, **params)


def put(desk: ToolDesk, name: str, content: str | bytes) -> Path:
    file = desk.root(ME) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


async def test_lines_are_numbered_and_the_footer_tells_the_total(desk: ToolDesk) -> None:
    put(desk, "notes/a.txt", "one\ntwo\n\nfour")
    result = await read(desk, "notes/a.txt")
    assert result == "1| one\n2| two\n3| \n4| four\n\n(4 lines; end of file)"
    assert not result.is_error


async def test_a_part_tells_where_to_go_on_until_the_end(desk: ToolDesk) -> None:
    put(desk, "a.txt", "".join(f"line {n}\n" for n in range(1, 6)))
    assert await read(desk, "a.txt", offset=2, limit=2) == (
        "2| line 2\n3| line 3\n\n(lines 2-3 of 5; go on with offset=4)"
    )
    assert await read(desk, "a.txt", offset=4, limit=2) == "4| line 4\n5| line 5\n\n(lines 4-5 of 5; end of file)"
    past = await read(desk, "a.txt", offset=6)
    assert past.is_error
    assert past == f"a.txt: has 5 lines; offset 6 is past its end.\n\n{ADVICE}"


async def test_two_thousand_lines_are_read_unless_more_are_asked_for(desk: ToolDesk) -> None:
    put(desk, "long.txt", "x\n" * 3_000)
    assert (await read(desk, "long.txt")).endswith("\n2000| x\n\n(lines 1-2,000 of 3,000; go on with offset=2001)")
    assert (await read(desk, "long.txt", limit=5_000)).endswith("\n3000| x\n\n(3,000 lines; end of file)")


async def test_an_empty_file_is_no_error(desk: ToolDesk) -> None:
    put(desk, "empty", "")
    assert await read(desk, "empty") == "empty: is empty (0 bytes)."


async def test_every_line_of_a_large_file_can_be_reached_and_is_right(desk: ToolDesk) -> None:
    lines = [f"{n} " + "ä" * (n % 97) for n in range(60_000)]
    put(desk, "big.txt", "\r\n".join(lines))
    for offset in (1, 2, 31_337, 59_999, 60_000):
        result = await read(desk, "big.txt", offset=offset, limit=2)
        shown = result.split("\n\n")[0].split("\n")
        assert shown == [f"{n}| {lines[n - 1]}" for n in range(offset, min(offset + 2, 60_001))]
        assert "of 60,000" in result


async def test_output_ends_before_the_line_that_would_pass_the_limit(desk: ToolDesk) -> None:
    put(desk, "wide.txt", f"{'a' * 70_000}\n{'b' * 70_000}\n{'c' * 10}\n")
    first = await read(desk, "wide.txt")
    assert first == f"1| {'a' * 70_000}\n\n(lines 1-1 of 3; go on with offset=2)"
    assert (
        await read(desk, "wide.txt", offset=2)
    ) == f"2| {'b' * 70_000}\n3| cccccccccc\n\n(lines 2-3 of 3; end of file)"


async def test_a_line_longer_than_the_limit_is_cut_and_its_length_told(desk: ToolDesk) -> None:
    put(desk, "one.json", "a" * 5_000_000 + "\nnext\n")
    result = await read(desk, "one.json")
    assert len(result) < 128_200
    assert result == (
        f"1| {'a' * 128_000}\n\n"
        "(lines 1-1 of 2; go on with offset=2; line 1 goes on for 4,872,000 more characters, which are not shown)"
    )


async def test_crlf_is_no_part_of_a_line_but_is_told(desk: ToolDesk) -> None:
    put(desk, "dos.txt", "a\r\nb\r\n")
    assert await read(desk, "dos.txt") == "1| a\n2| b\n\n(2 lines; end of file; lines end in CRLF)"
    put(desk, "mixed.txt", "a\r\nb\nc\rd\n")
    assert await read(desk, "mixed.txt") == (
        "1| a\n2| b\n3| c␍d\n\n(3 lines; end of file; 1 of these lines end in CRLF)"
    )


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
        (b"\xff\xfe\0\0", "utf-32-le"),
    ],
)
async def test_a_byte_order_mark_decides_and_is_not_part_of_the_text(
    desk: ToolDesk, mark: bytes, encoding: str
) -> None:
    put(desk, "bom.txt", mark + "größe\n第二\n".encode(encoding))
    assert await read(desk, "bom.txt") == (
        f"1| größe\n2| 第二\n\n(2 lines; end of file; encoding {encoding} with byte order mark)"
    )


@pytest.mark.parametrize(
    ("text", "encoding", "told"),
    [
        ("今天天气很好，我们去公园散步。\n你好世界，这是一个测试文件。\n", "gbk", "gb18030"),
        ("こんにちは世界。これはテストファイルです。\n日本語の文章を読みます。\n", "shift_jis", "cp932"),
        ("今天天氣很好，我們去公園散步。\n", "big5", "big5"),
        ("Größe: 5 €, Café, naïve, Straße über München\n", "cp1252", "cp1252"),
        ("Привет мир, это тестовый файл на русском языке\n", "koi8-r", "koi8_r"),
        ("plain text without a mark\n", "utf-16-le", "utf-16-le"),
    ],
)
async def test_text_in_older_encodings_is_recognised(desk: ToolDesk, text: str, encoding: str, told: str) -> None:
    put(desk, "old.txt", (text * 3).encode(encoding))
    result = await read(desk, "old.txt")
    assert [line.split("| ")[1] for line in result.split("\n\n")[0].split("\n")] == (text * 3).splitlines()
    assert result.endswith(f"; end of file; encoding {told} (guessed))")


async def test_an_older_encoding_is_recognised_also_when_it_shows_late_in_the_file(desk: ToolDesk) -> None:
    text = "plain\n" * 400_000 + "今天天气很好，我们去公园散步。\n" * 5
    put(desk, "late.txt", text.encode("gbk"))
    result = await read(desk, "late.txt", offset=400_001, limit=1)
    assert result.startswith("400001| 今天天气很好，我们去公园散步。\n")


async def test_broken_utf8_stays_readable_and_is_told(desk: ToolDesk) -> None:
    put(desk, "broken.txt", "Grüße aus Köln\n".encode() * 3 + b"bad \xff here\n" + "schön\n".encode())
    assert await read(desk, "broken.txt") == (
        "1| Grüße aus Köln\n2| Grüße aus Köln\n3| Grüße aus Köln\n4| bad \ufffd here\n5| schön\n\n"
        "(5 lines; end of file; bytes that are not valid utf-8 are shown as \ufffd)"
    )
    put(desk, "cut.txt", "Grüße".encode() + "é".encode()[:1])
    assert "1| Grüße\ufffd" in await read(desk, "cut.txt")


async def test_a_nul_in_later_text_is_made_visible(desk: ToolDesk) -> None:
    put(desk, "log.txt", "x" * 70_000 + "\nbefore\x00after\n")
    assert "2| before␀after\n" in await read(desk, "log.txt", offset=2)


@pytest.mark.parametrize(
    ("content", "mime"),
    [
        (b"PK\x03\x04" + b"\0" * 26 + b"a.txt", "application/zip"),
        (b"PK\x03\x04" + b"\0" * 26 + b"word/notes.txt", "application/zip"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 90, "application/x-elf"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
        (bytes(range(256)) * 4, "application/octet-stream"),
        (b"\x01\x02\x03\x04" * 100, "application/octet-stream"),
    ],
)  # fmt: skip
async def test_binary_files_are_refused_with_type_and_size_whatever_their_name(
    desk: ToolDesk, content: bytes, mime: str
) -> None:
    put(desk, "notes.txt", content)
    size = f"{len(content)} bytes" if len(content) < 1024 else "1 KiB"
    result = await read(desk, "notes.txt")
    assert result.is_error
    assert not result.is_refused
    assert result == f"notes.txt: is binary ({mime}, {size}) and cannot be read as text.\n\n{ADVICE}"


@pytest.mark.parametrize("text", ["BZh is a prefix", "ID3 tags", "RIFF notes", "PK is short", "OggS of old"])
async def test_text_that_begins_like_a_binary_format_is_text(desk: ToolDesk, text: str) -> None:
    put(desk, "a.bin", text)
    assert await read(desk, "a.bin") == f"1| {text}\n\n(1 line; end of file)"


@pytest.mark.parametrize(
    ("content", "mime"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0data\xff\xd9", "image/jpeg"),
        (b"GIF89a\x01\0\x01\0\0\0\0,\0\x3b", "image/gif"),
        (b"RIFF\x08\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_a_picture_comes_as_an_image_block(desk: ToolDesk, content: bytes, mime: str) -> None:
    put(desk, "picture", content)
    result = await read(desk, "picture")
    assert result == f"picture: a picture ({mime}, {len(content)} bytes)."
    url = f"data:{mime};base64,{base64.b64encode(content).decode()}"
    assert result.blocks == ({"type": "image_url", "image_url": {"url": url}},)


async def test_a_picture_that_is_cut_or_too_large_is_an_error_without_blocks(desk: ToolDesk) -> None:
    put(desk, "cut.png", PNG[:-12])
    cut = await read(desk, "cut.png")
    assert cut.is_error
    assert cut.startswith(f"cut.png: a picture (image/png, {len(PNG) - 12} bytes) that is cut off or damaged.")
    with put(desk, "huge.png", PNG).open("ab") as file:
        file.truncate(8 * 1024 * 1024 + 1)
    huge = await read(desk, "huge.png")
    assert huge.is_error
    assert huge.startswith("huge.png: a picture (image/png, 8 MiB); pictures up to 8 MiB can be looked at.")
    assert cut.blocks == huge.blocks == ()


@pytest.mark.parametrize(("size", "told"), [(100 * 1024**2 + 1, "100 MiB"), (1024**4, "1 TiB")])
async def test_a_file_over_the_limit_is_refused_by_its_size_alone(desk: ToolDesk, size: int, told: str) -> None:
    with put(desk, "sparse", "").open("wb") as file:
        file.truncate(size)
    result = await read(desk, "sparse")
    assert result.is_error
    assert result.startswith(f"sparse: is {told}; files up to 100 MiB can be read.")


async def test_a_file_just_within_the_limit_is_read(desk: ToolDesk) -> None:
    file = put(desk, "full.txt", "")
    with file.open("wb") as out:
        for _ in range(100):
            out.write(b"0123456\n" * 131_072)
    assert file.stat().st_size == 100 * 1024**2
    result = await read(desk, "full.txt", offset=13_107_200)
    assert result == "13107200| 0123456\n\n(lines 13,107,200-13,107,200 of 13,107,200; end of file)"


async def test_an_unchanged_part_is_not_repeated_in_the_same_session_unless_forced(desk: ToolDesk) -> None:
    file = put(desk, "a.txt", "one\ntwo\n")
    full = await read(desk, "a.txt")
    again = await read(desk, "./a.txt")
    assert again.startswith("a.txt: unchanged since")
    assert "force=true" in again
    assert not again.is_error
    assert await read(desk, "a.txt", force=True) == full
    assert (await read(desk, "a.txt", offset=2)).startswith("2| two")
    assert (await read(desk, "a.txt")).startswith("a.txt: unchanged")
    stamp = file.stat()
    file.write_text("one\ntwO\n")  # same size, and the same time stamp
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert await read(desk, "a.txt") == full.replace("two", "twO")


async def test_another_session_and_a_resumed_turn_get_the_full_answer(desk: ToolDesk) -> None:
    put(desk, "a.txt", "one\n")
    full = await read(desk, "a.txt")
    for other in (request_context("1", session_id=2), request_context("1", attempt=2)):
        assert await desk.call(other, "read_file", path="a.txt") == full


async def test_a_picture_is_sent_once_until_it_changes(desk: ToolDesk) -> None:
    put(desk, "p.png", PNG)
    assert (await read(desk, "p.png")).blocks
    assert not (await read(desk, "p.png")).blocks
    put(desk, "p.png", PNG[:-20] + b"xxxxxxxx" + PNG[-12:])
    assert (await read(desk, "p.png")).blocks


async def test_the_memory_of_answers_is_bounded(desk: ToolDesk) -> None:
    put(desk, "a.txt", "x\n" * 600)
    for offset in range(1, 601):
        await read(desk, "a.txt", offset=offset, limit=1)
    tool = desk.registry.get("read_file")
    assert isinstance(tool, ReadFileTool)
    assert len(tool._answered) == 512
    assert (await read(desk, "a.txt", offset=600, limit=1)).startswith("a.txt: unchanged")
    assert (await read(desk, "a.txt", offset=1, limit=1)).startswith("1| x")


@pytest.mark.parametrize(
    "path",
    [
        "../../secret", "../../../secret", "x/../../../../secret", "shared/../../../secret", "..", "/",
        "/etc/passwd", "~", "~/.ssh/id_rsa", "~root/.bashrc", "/proc/self/environ", "/dev/zero", "a\x00b",
        "{tmp}/secret", "{tmp}/store.db", "{tmp}/workspace/../secret", "{tmp}/workspace/chats/telegram=3A2/hers.txt",
        "../telegram=3A2/hers.txt", "chats/../../telegram=3A2/hers.txt", "shared/../../chats/telegram=3A2/hers.txt",
    ],
)  # fmt: skip
async def test_a_path_that_leads_out_is_refused_without_advice_to_try_around_it(
    desk: ToolDesk, tmp_path: Path, path: str
) -> None:
    (desk.root(request_context("2")) / "hers.txt").write_text(SECRET)
    desk.root(ME)
    result = await read(desk, path.format(tmp=tmp_path))
    assert result.is_refused
    assert ADVICE not in result
    assert SECRET not in result


async def test_the_chats_folder_means_nothing_to_others_than_owners_in_private(desk: ToolDesk) -> None:
    hers = request_context("2")
    (desk.root(hers) / "hers.txt").write_text("hers")
    path = "chats/telegram=3A2/hers.txt"
    for role, chat_type in (
        (Role.MEMBER, ChatType.PRIVATE),
        (Role.GUEST, ChatType.PRIVATE),
        (Role.MEMBER, ChatType.GROUP),
        (Role.OWNER, ChatType.GROUP),
    ):
        result = await desk.call(request_context("1", role=role, chat_type=chat_type), "read_file", path=path)
        assert result.is_error
        assert result.startswith(f"{path}: does not exist.")
    owner = request_context("111", role=Role.OWNER)
    assert (await desk.call(owner, "read_file", path=path)).startswith("1| hers")


async def test_threads_of_a_chat_share_its_files_and_equal_chat_ids_of_two_platforms_do_not(desk: ToolDesk) -> None:
    put(desk, "a.txt", "mine")
    topic = request_context("1", thread_id="42", session_id=2)
    assert (await desk.call(topic, "read_file", path="a.txt")).startswith("1| mine")
    other = request_context("1", channel="discord", session_id=3)
    assert (await desk.call(other, "read_file", path="a.txt")).is_error


async def test_shared_files_are_read_by_everyone(desk: ToolDesk) -> None:
    desk.root(ME)
    (desk.workspace / "shared/s.txt").write_text("for all")
    for request in (ME, request_context("2"), request_context("3", chat_type=ChatType.GROUP)):
        assert (await desk.call(request, "read_file", path="shared/s.txt")).startswith("1| for all")


async def test_no_link_shows_a_byte_from_outside(desk: ToolDesk, tmp_path: Path) -> None:
    root = desk.root(ME)
    hers = desk.root(request_context("2"))
    (hers / "hers.txt").write_text(SECRET)
    (root / "link.txt").symlink_to(tmp_path / "secret")
    (root / "relative").symlink_to("../../../secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "zero").symlink_to("/dev/zero")
    (root / "neighbour").symlink_to(hers)
    (root / "loop").symlink_to("loop")
    put(desk, "real/a.txt", "inside")
    (root / "good").symlink_to("real/a.txt")
    for path in ("link.txt", "relative", "folder/secret", "zero", "neighbour/hers.txt", "loop"):
        result = await read(desk, path)
        assert result.is_refused, path
        assert SECRET not in result
        assert str(tmp_path) not in result
    assert (await read(desk, "good")).startswith("1| inside")


async def test_what_is_no_ordinary_file_is_refused_and_nothing_waits_for_it(desk: ToolDesk) -> None:
    root = desk.root(ME)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(Path(os.path.relpath(root)) / "sock"))
        for name in ("pipe", "sock"):
            result = await read(desk, name)
            assert result.is_refused
            assert result == f"{name}: is not an ordinary file."


async def test_a_device_is_refused(desk: ToolDesk) -> None:
    device = desk.root(ME) / "zero"
    try:
        os.mknod(device, 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("making a device needs root")
    result = await read(desk, "zero")
    assert result.is_refused
    assert result.startswith("zero: ")


async def test_a_folder_and_a_missing_file_point_to_list_dir(desk: ToolDesk) -> None:
    put(desk, "notes/a.txt", "x")
    folder = await read(desk, "notes")
    assert (folder.is_error, folder.is_refused) == (True, False)
    assert folder == f"notes: is a folder. list_dir shows what is in it.\n\n{ADVICE}"
    missing = await read(desk, "notes/b.txt")
    assert (missing.is_error, missing.is_refused) == (True, False)
    assert missing == f"notes/b.txt: does not exist. list_dir shows what is there.\n\n{ADVICE}"


@pytest.mark.parametrize(
    "params",
    [{}, {"path": ""}, {"path": 5}, {"path": "a.txt", "offset": 0}, {"path": "a.txt", "limit": 0},
     {"path": "a.txt", "pages": 12.5}, {"path": "a.txt", "ofset": 3}],
)  # fmt: skip
async def test_arguments_outside_of_the_schema_are_refused_before_anything_is_read(
    desk: ToolDesk, params: dict[str, object]
) -> None:
    put(desk, "a.txt", "x")
    result = await desk.call(ME, "read_file", **params)
    assert result.is_error
    assert "Invalid parameters" in result


async def test_the_tool_exists_for_subagents_under_the_same_walls(tmp_path: Path) -> None:
    async with tool_context(tmp_path) as ctx:
        desk = ToolDesk(ctx, "subagent")
        put(desk, "a.txt", "mine")
        request = request_context("1", scope="subagent", session_id=9)
        assert (await desk.call(request, "read_file", path="a.txt")).startswith("1| mine")
        assert (await desk.call(request, "read_file", path="../telegram=3A2/x")).is_refused


async def test_the_call_may_run_beside_others_and_again_after_a_crash(desk: ToolDesk) -> None:
    tool = desk.registry.get("read_file")
    assert tool is not None
    assert tool.concurrency_safe
    assert (tool.risk, tool.replay) == ("read", "safe")


async def test_a_path_through_a_file_is_a_mistake_and_no_refusal(desk: ToolDesk) -> None:
    (desk.root(ME) / "a.txt").write_text("x")
    for tool in ("read_file", "list_dir"):
        result = await desk.call(ME, tool, path="a.txt/below")
        assert "a.txt/below: is not a folder" in result
        assert result.is_error
        assert not result.is_refused


@pytest.mark.parametrize(
    "text",
    ["café\n", "Prix : 5 €\n", "temp: 20 °C\n", "© 2020 Foo\n", "int main(){ /* é */ }\n", "é l'été\n" * 500],
)
async def test_a_few_western_letters_are_not_taken_for_another_script(desk: ToolDesk, text: str) -> None:
    (desk.root(ME) / "a.txt").write_bytes(text.encode("cp1252"))
    result = await read(desk, "a.txt", limit=1)
    assert result.startswith(f"1| {text.splitlines()[0]}\n")
    assert "encoding cp1252 (guessed)" in result
