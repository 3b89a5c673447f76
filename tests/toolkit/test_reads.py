"""What a conversation knows of files is bounded and keeps to the conversation."""

from __future__ import annotations

from bot.security.workspace import FileIdentity
from bot.toolkit.reads import ReadLedger


def identity(number: int) -> FileIdentity:
    return FileIdentity(device=1, inode=number, modified_ns=0, size_bytes=number, sha256=b"%d" % number)


def test_the_last_note_of_a_session_and_path_counts_until_it_is_forgotten() -> None:
    reads = ReadLedger()
    reads.note(1, "a.txt", identity(1))
    reads.note(1, "a.txt", identity(2))
    reads.note(2, "a.txt", identity(3))
    assert reads.known(1, "a.txt") == identity(2)
    assert reads.known(2, "a.txt") == identity(3)
    assert reads.known(1, "b.txt") is None
    reads.forget(1, "a.txt")
    reads.forget(1, "never")
    assert reads.known(1, "a.txt") is None
    assert reads.known(2, "a.txt") == identity(3)


def test_the_one_noted_longest_ago_is_dropped_first() -> None:
    reads = ReadLedger(limit=2)
    for path in ("a", "b", "a", "c"):
        reads.note(1, path, identity(1))
    assert [path for path in "abc" if reads.known(1, path)] == ["a", "c"]
