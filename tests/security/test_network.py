"""The network guard: what an address is, in whatever form it is written, decides."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.security.network import BadUrl, NetworkGuard, NetworkRefused, parse_target

GUARD = NetworkGuard()


def refused(url: str, *allow: str) -> bool:
    try:
        NetworkGuard(map(ip_network, allow)).check_target(parse_target(url))
    except NetworkRefused:
        return True
    return False


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.5", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1"),
        *("127.255.255.254", "169.254.1.1", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.7", "192.88.99.1"),
        *("192.168.0.1", "198.18.0.5", "198.19.255.255", "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.1.1.1"),
        *("240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::10.0.0.1", "::8.8.8.8", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:198.18.0.1"),
        *("64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:db8::1"),
        *("2001:0:7f00:1:0:0:f5ff:fffe", "2002:0a00:0001::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1"),
        *("fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "4000::1", "1::1"),
    ],
)
def test_what_is_not_public_is_refused(address: str) -> None:
    """C087: private, loopback, link-local, shared, multicast, reserved, documentation, NAT64, tunnels."""
    assert GUARD.refusal(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "198.17.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "2003::1",
        "::ffff:8.8.8.8",
    ],
)
def test_what_is_public_is_not_refused(address: str) -> None:
    assert GUARD.refusal(ip_address(address)) == ""


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_nothing_that_the_standard_library_calls_private_is_let_through(number: int) -> None:
    address = IPv4Address(number)
    if address.is_private or address.is_multicast or address.is_reserved:
        assert GUARD.refusal(address)
    for carrier in (number | 0xFFFF << 32, number | 0x64_FF9B << 96, number << 80 | 0x2002 << 112, number):
        if GUARD.refusal(address):
            assert GUARD.refusal(IPv6Address(carrier))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9",
        "http://[::1]",
        "http://169.254.169.254/",
        "http://0x7f000001",
        "http://[::ffff:10.0.0.1]",
        "file:///etc/passwd",
    ],
)
def test_the_urls_of_the_case_are_refused(url: str) -> None:
    """C087."""
    assert refused(url)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0X7F000001", "127.0.0.1"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("127。0。0。1", "127.0.0.1"),
        ("①②⑦.0.0.1", "127.0.0.1"),
        ("[::FFFF:7F00:1]", "::ffff:7f00:1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("8.8.8.8", "8.8.8.8"),
    ],
)
def test_an_address_is_known_in_every_form_that_a_connection_would_take(host: str, address: str) -> None:
    target = parse_target(f"http://{host}:8080/a?b#c")
    assert target.address == ip_address(address)
    assert target.host == str(ip_address(address))
    shown = f"[{target.host}]" if ":" in target.host else target.host
    assert target.url == f"http://{shown}:8080/a?b"


@pytest.mark.parametrize(
    "url",
    [
        "",
        " ",
        "example.org",
        "//example.org/",
        "http://",
        "http:///a",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://a b/",
        "http://%31%32%37.0.0.1/",
        "http://1.2.3.4.5/",
        "http://256.0.0.1/",
        "http://127.0.0.08/",
        "http://x:99999/",
        "http://a\\@127.0.0.1/",
        "http://a..b/",
        "http://a\u200bb.com/",
        "http://\ud800/",
        f"http://{'a' * 64}.org/",
        f"http://{'a.' * 127}org/",
        "http://x/" + "a" * 8_000,
        "http://*/",
    ],
)
def test_what_is_no_web_address_is_said_to_be_none(url: str) -> None:
    with pytest.raises(BadUrl):
        parse_target(url)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://example.org/",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://user:secret@example.org/",
        "http://user@example.org/",
        "https://:pw@example.org/",
        "http://example.org:25/",
        "http://example.org:22/",
        "http://example.org:6667/",
        "http://example.org:0/",
    ],
)
def test_other_schemes_logins_and_ports_of_other_protocols_are_refused(url: str) -> None:
    assert refused(url)


@pytest.mark.parametrize(
    "url", ["http://example.org", "https://example.org:8443/a", "http://例え.jp/", "HTTP://A_B.org"]
)
def test_ordinary_urls_are_not_refused(url: str) -> None:
    assert not refused(url)


def test_a_login_is_shown_to_nobody() -> None:
    target = parse_target("http://user:secret@example.org/#part")
    assert target.url == "http://example.org/"
    assert "secret" not in repr(target)


def test_the_network_of_a_fake_address_proxy_passes_only_where_it_is_allowed() -> None:
    """C090: 198.18.0.5 for every name; the default refuses, an explicit entry lets it pass."""
    fake = ip_address("198.18.0.5")
    assert "198.18.0.0/15" in GUARD.refusal(fake)
    assert NetworkGuard([ip_network("198.18.0.0/15")]).refusal(fake) == ""
    assert NetworkGuard([ip_network("198.18.0.5")]).refusal(fake) == ""
    assert NetworkGuard([ip_network("198.18.0.0/15")]).refusal(ip_address("10.0.0.1"))


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
    ],
)
def test_a_metadata_address_stays_refused_whatever_is_allowed(address: str) -> None:
    """C090: the metadata address stays refused, also written within another one, also if it is listed itself."""
    everything = NetworkGuard(map(ip_network, ("0.0.0.0/0", "::/0", "169.254.169.254", "fd00:ec2::254")))
    assert "metadata" in everything.refusal(ip_address(address))


@pytest.mark.parametrize(
    "name", ["metadata.google.internal", "METADATA.google.internal.", "metadata.goog", "instance-data"]
)
def test_a_metadata_name_is_refused_before_anybody_looks_it_up(name: str) -> None:
    """C090: a proxy that gives fake addresses would lead there."""
    assert refused(f"http://{name}/computeMetadata/v1/", "0.0.0.0/0", "::/0")


@pytest.mark.parametrize(
    ("address", "allowed"),
    [("64:ff9b::8.8.8.8", True), ("64:ff9b::10.0.0.1", False), ("64:ff9b::127.0.0.1", False)],
)
def test_an_allowed_tunnel_is_no_way_to_what_lies_behind_it(address: str, allowed: bool) -> None:
    guard = NetworkGuard([ip_network("64:ff9b::/96")])
    assert (guard.refusal(ip_address(address)) == "") is allowed


def test_an_ipv4_network_is_allowed_in_its_mapped_form_too() -> None:
    assert NetworkGuard([ip_network("10.0.0.0/8")]).refusal(ip_address("::ffff:10.0.0.1")) == ""


@given(st.text(max_size=80) | st.text(alphabet="htps:/@[]0123456789abcdefx.%#?\\", max_size=40).map("http://".__add__))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_target_or_refused(text: str) -> None:
    refusal = ""
    try:
        target = parse_target(text)
        GUARD.check_target(target)
    except (BadUrl, NetworkRefused) as exc:
        refusal = str(exc)
    if refusal:
        assert refusal.isprintable()
        assert len(refusal) < 1_200
        return
    assert target.url.isascii()
    assert target.scheme in {"http", "https"}
    assert parse_target(target.url) == target
    assert target.address is None or GUARD.refusal(target.address) == ""


def test_a_url_that_is_short_only_before_it_is_quoted_is_too_long() -> None:
    """One sign becomes twelve; the page's reader and servers get the long form."""
    with pytest.raises(BadUrl, match="as it is sent"):
        parse_target("http://example.org/" + "\U0001f600" * 1_000)
    parse_target("http://example.org/" + "\U0001f600" * 600)
