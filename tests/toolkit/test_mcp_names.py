"""Names of servers' tools: what providers take, unique, and the same in every run."""

from __future__ import annotations

import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.toolkit.mcp.names import model_names

FIT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def test_names_that_providers_refuse_are_cleaned_and_stay_apart() -> None:
    """C077: with the case's names, and two that are the same after cleaning."""
    tools = ["files.read/all", "21st_builder", "x" * 150, "get.user", "get/user"]
    names = model_names({"srv": tools})
    assert all(FIT.fullmatch(name) for name in names.values())
    assert len(set(names.values())) == len(tools)
    assert names["srv", "files.read/all"] == "mcp_srv_files_read_all"
    assert names["srv", "21st_builder"] == "mcp_srv_21st_builder"
    assert names["srv", "x" * 150].startswith("mcp_srv_xxx")


def test_a_name_that_needs_no_cleaning_is_kept_beside_one_that_becomes_the_same() -> None:
    names = model_names({"srv": ["get.user", "get_user"]})
    assert names["srv", "get_user"] == "mcp_srv_get_user"
    assert re.fullmatch(r"mcp_srv_get_user_[0-9a-f]{6}", names["srv", "get.user"])


def test_tools_of_two_servers_can_come_to_the_same_name() -> None:
    names = model_names({"a": ["b_c"], "a_b": ["c"]})
    assert names["a", "b_c"] == "mcp_a_b_c"
    assert names["a_b", "c"] != "mcp_a_b_c"


def test_what_others_offer_changes_no_name_but_that_of_its_double() -> None:
    alone = model_names({"srv": ["x", "get.user"]})
    more = model_names({"srv": ["x", "get.user", "other", "get.users"], "zoo": ["x"]})
    assert {origin: more[origin] for origin in alone} == alone


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_-]{0,31}", fullmatch=True), st.sets(st.text(min_size=1, max_size=80)), max_size=4
    ),
    st.randoms(use_true_random=False),
)
def test_all_names_are_fit_and_different_whatever_the_order(tools: dict[str, set[str]], order: random.Random) -> None:
    names = model_names(tools)
    assert all(FIT.fullmatch(name) for name in names.values())
    assert len(set(names.values())) == len(names) == sum(map(len, tools.values()))
    shuffled = {server: order.sample(sorted(tools[server]), len(tools[server])) for server in reversed(tools)}
    assert model_names(shuffled) == names
