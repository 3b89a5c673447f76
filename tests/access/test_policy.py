"""Who may do what: the whole matrix, and that names never count."""

from __future__ import annotations

import pytest

from bot.access.policy import MATRIX, AccessPolicy, Decision
from bot.messages import ChatType, Risk, Role

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
PRIVATE, GROUP = ChatType.PRIVATE, ChatType.GROUP

# The table of the design, an owner's "asks" being the owner's own agreement.
EXPECTED = {
    (Role.STRANGER, PRIVATE): "n n n n n n n",
    (Role.STRANGER, GROUP): "n n n n n n n",
    (Role.GUEST, PRIVATE): "y n n n n n n",
    (Role.GUEST, GROUP): "y n n n n n n",
    (Role.MEMBER, PRIVATE): "y y y y ? n n",
    (Role.MEMBER, GROUP): "y y y ? n n n",
    (Role.OWNER, PRIVATE): "y y y y y y y",
    (Role.OWNER, GROUP): "y y y y y y n",
}
LETTERS = {"y": ALLOW, "?": ASK, "n": DENY}
RISKS = (Risk.TALK, Risk.READ, Risk.NET, Risk.WRITE, Risk.EXECUTE, Risk.REACH, Risk.ADMIN)
CASES = [
    (role, chat_type, risk, LETTERS[letter])
    for (role, chat_type), row in EXPECTED.items()
    for risk, letter in zip(RISKS, row.split(), strict=True)
]


@pytest.fixture
def policy() -> AccessPolicy:
    return AccessPolicy(owners=["memory:1"], allow_from={"memory": ["111"], "open": "*"})


@pytest.mark.parametrize(("role", "chat_type", "risk", "expected"), CASES)
def test_the_matrix(policy: AccessPolicy, role: Role, chat_type: ChatType, risk: Risk, expected: Decision) -> None:
    assert policy.decide(role, chat_type, risk) is expected
    refusal = policy.refusal(role, chat_type, risk)
    assert (refusal == "") is (expected is ALLOW)
    if expected is ASK:
        assert "needs an owner's agreement" in refusal


def test_the_table_covers_every_role_chat_and_risk() -> None:
    assert len(CASES) == len(Role) * len(ChatType) * len(Risk)
    assert set(MATRIX) == {key for key in EXPECTED if key[0] is not Role.STRANGER}


@pytest.mark.parametrize(
    ("channel", "sender", "role"),
    [
        ("memory", "1", Role.OWNER),
        ("memory", "111", Role.MEMBER),
        ("memory", "222", Role.STRANGER),
        ("memory", "", Role.STRANGER),
        ("memory", "11", Role.STRANGER),
        ("memory", "1111", Role.STRANGER),
        ("memory", " 111", Role.STRANGER),
        ("memory", "anna", Role.STRANGER),
        ("memory", "*", Role.STRANGER),
        ("open", "999", Role.MEMBER),
        ("open", "", Role.STRANGER),
        ("open", "1", Role.MEMBER),
        ("closed", "111", Role.STRANGER),
        ("closed", "1", Role.STRANGER),
    ],
)
def test_a_role_follows_from_the_channels_stable_id(
    policy: AccessPolicy, channel: str, sender: str, role: Role
) -> None:
    assert policy.role_of(channel, sender) is role


def test_an_owner_need_not_be_in_the_allow_list() -> None:
    policy = AccessPolicy(owners=["memory:1"], allow_from={})
    assert policy.role_of("memory", "1") is Role.OWNER


def test_an_id_that_holds_a_colon_is_not_mistaken_for_another_channels_owner() -> None:
    policy = AccessPolicy(owners=["a:b:c"], allow_from={})
    assert policy.role_of("a", "b:c") is Role.OWNER
    assert policy.role_of("b", "c") is Role.STRANGER


@pytest.mark.parametrize("entry", ["anna", "@anna", "Anna Smith"])
def test_a_name_in_the_allow_list_admits_nobody_by_name(entry: str) -> None:
    policy = AccessPolicy(owners=[], allow_from={"memory": [entry]})
    assert policy.role_of("memory", "999") is Role.STRANGER


def test_a_chat_that_has_another_id_now_keeps_its_role() -> None:
    """C035: a group that speaks in its own name is let in by its id, which its upgrade changes."""
    policy = AccessPolicy(owners=["memory:-7"], allow_from={"memory": ["-5", "-1008"], "open": "*"})
    assert policy.moved("memory", "-5", "-1009") is True  # somebody should write the new one
    assert policy.moved("memory", "-5", "-1008") is False
    assert policy.moved("memory", "-6", "-1006") is False
    assert policy.moved("open", "-5", "-1009") is False
    assert policy.moved("memory", "-5", "-5") is False
    policy.moved("memory", "-7", "-1007")
    roles = [policy.role_of("memory", sender) for sender in ("-1009", "-1008", "-1006", "-1007", "-5")]
    assert roles == [Role.MEMBER, Role.MEMBER, Role.STRANGER, Role.OWNER, Role.MEMBER]
