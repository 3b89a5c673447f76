"""Names of memory folders: one for each home, the same on every file system, never a way out."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.memories import HomeKind, MemoryHome

idents = st.one_of(
    st.text(min_size=1, max_size=30),
    st.sampled_from([".", "..", "../x", "/etc", "-1001", "A", "a", "a~b", "a%2db", "x" * 500, "CON", "é", "e\u0301"]),
    st.text(alphabet="aA-~%:/.", min_size=1, max_size=6),
)
channels = st.sampled_from(["telegram", "slack", "a", "a-b", "A"])
homes = st.builds(
    lambda kind, channel, ident: MemoryHome(kind=kind, channel=channel, ident=ident),
    st.sampled_from(HomeKind),
    channels,
    idents,
)


@settings(max_examples=500, deadline=None)
@given(one=homes, other=homes)
def test_different_homes_have_folders_that_differ_on_every_file_system(one: MemoryHome, other: MemoryHome) -> None:
    assert (one.folder.casefold() == other.folder.casefold()) == (one == other)


@settings(max_examples=500, deadline=None)
@given(home=homes)
def test_a_folders_name_is_plain_and_short(home: MemoryHome) -> None:
    assert re.fullmatch(r"(people|chats)/[a-z0-9_%][a-z0-9_%~-]{0,100}", home.folder)
    assert len(home.folder) <= 110


@settings(max_examples=300, deadline=None)
@given(
    home=st.builds(lambda k, c, i: MemoryHome(kind=k, channel=c, ident=i), st.sampled_from(HomeKind), channels, idents)
)
def test_a_key_leads_back_to_its_home(home: MemoryHome) -> None:
    assert MemoryHome.parse(home.key) == home


def test_ordinary_names_can_be_read_by_people() -> None:
    assert MemoryHome(kind=HomeKind.PERSON, channel="telegram", ident="12345").folder == "people/telegram-12345"
    assert MemoryHome(kind=HomeKind.CHAT, channel="telegram", ident="-1001").folder == "chats/telegram--1001"
    slack = MemoryHome(kind=HomeKind.PERSON, channel="slack", ident="U0123ABC").folder
    assert re.fullmatch(r"people/slack-u0123abc~[0-9a-f]{16}", slack)
