"""Which web addresses may be connected to: the wall between what a model asks for and the network around us.

Judges URLs and addresses; it looks nothing up and connects to nothing. Whoever connects resolves a name once,
has every address judged here, and connects to these very addresses: `bot/web`. A model chooses URLs, pages
choose redirects and whoever owns a name chooses its addresses, so that each of them is judged.

A proxy that answers every name with an address of its own (198.18.0.0/15) hides where a name leads. Whoever
allows that network trusts the proxy: only names of metadata services are still known here.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from bot.errors import DutifulError

IpAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_CHARS = 8_000
"""Longer URLs are refused; servers take between 2,000 and 8,000 characters."""

# https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry (read 2026-11-30),
# narrowest first where one lies within another. 2002::/16 and Teredo carry an IPv4 address that the packet goes
# to in the end; both are out of use, RFC 7526 and RFC 8200, so they are refused whatever they carry.
_SPECIAL: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "an unspecified"),
    ("10.0.0.0/8", "a private"),
    ("100.64.0.0/10", "a carrier's shared"),
    ("127.0.0.0/8", "a loopback"),
    ("169.254.0.0/16", "a link-local"),
    ("172.16.0.0/12", "a private"),
    ("192.0.0.0/24", "a reserved"),
    ("192.0.2.0/24", "a documentation"),
    ("192.31.196.0/24", "a reserved"),
    ("192.52.193.0/24", "a reserved"),
    ("192.88.99.0/24", "a 6to4 relay's"),
    ("192.168.0.0/16", "a private"),
    ("192.175.48.0/24", "a reserved"),
    ("198.18.0.0/15", "a benchmarking"),
    ("198.51.100.0/24", "a documentation"),
    ("203.0.113.0/24", "a documentation"),
    ("224.0.0.0/4", "a multicast"),
    ("240.0.0.0/4", "a reserved"),
    ("::/128", "an unspecified"),
    ("::1/128", "a loopback"),
    ("::/96", "an IPv4-compatible"),
    ("64:ff9b::/96", "a NAT64"),
    ("64:ff9b:1::/48", "a NAT64"),
    ("100::/64", "a discard-only"),
    ("2001::/32", "a Teredo"),
    ("2001:2::/48", "a benchmarking"),
    ("2001::/23", "a reserved"),
    ("2001:db8::/32", "a documentation"),
    ("2002::/16", "a 6to4"),
    ("2620:4f:8000::/48", "a reserved"),
    ("3fff::/20", "a documentation"),
    ("5f00::/16", "a segment-routing"),
    ("fc00::/7", "a private"),
    ("fe80::/10", "a link-local"),
    ("fec0::/10", "a site-local"),
    ("ff00::/8", "a multicast"),
)
_RANGES: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(text), f"{kind} address ({text})") for text, kind in _SPECIAL
)
# All that IANA has given out for global unicast, RFC 4291 section 2.4 and the registry of IPv6 address space.
_GLOBAL_IPV6 = IPv6Network("2000::/3")

# NAT64 (RFC 6052 and RFC 8215 with its usual length of 96 bits) and the IPv4-compatible addresses of RFC 4291.
_IPV4_AT_THE_END = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))

# Services that give credentials of the machine to whoever asks: AWS (also ECS and EKS), Azure, Google, Alibaba,
# Oracle, Scaleway. Each vendor's page on its instance metadata (read 2026-11-30).
_METADATA = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "169.254.42.42",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "fd20:ce::254",
        ),
    )
)
_METADATA_NAMES = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "metadata.oraclecloud.com",
        "instance-data",
        "instance-data.ec2.internal",
    }
)

# https://fetch.spec.whatwg.org/#port-blocking (read 2026-11-30): other protocols listen there, and some of them
# take the lines of an HTTP request for commands.
_BAD_PORTS = frozenset({
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
})  # fmt: skip

_SHOWN_CHARS = 40
_MAX_NAME_CHARS = 253
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"  # as in DNS, with the underscore that some names have
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = r"(?:0x[0-9a-f]*|[0-9]+)"
_ENDS_IN_NUMBER = re.compile(rf"(?:.*\.)?{_NUMBER}")


class BadUrl(DutifulError):
    """The text is no web address. The error's text is for the model."""


class NetworkRefused(DutifulError):
    """The wall says no: this address may not be connected to. The error's text is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A web address in its one form. `url` has neither user name nor fragment; `host` is a name or an address.

    `address` is set when no resolver is needed: the host is written as an address, in whatever form. `login` is
    the user name and password that the URL had.
    """

    url: str
    scheme: str
    host: str
    port: int
    address: IpAddress | None = None
    login: tuple[str, str] | None = field(default=None, repr=False)

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: what a secret header is meant for."""
        return (self.scheme, self.host, self.port)


def parse_target(url: str) -> Target:
    """Return the web address that `url` means; it may be one that is refused.

    The parser is the one that the client connects by: two that disagree about a host would be a hole.

    Raises:
        BadUrl: it has no meaning as a web address.
        NetworkRefused: its scheme is neither http nor https.
    """
    from yarl import URL  # 40 ms, needed by few runs of the program

    if len(url) > MAX_URL_CHARS:
        raise BadUrl(f"the URL has {len(url):,} characters; {MAX_URL_CHARS:,} are possible")
    try:
        parsed = URL(url.strip())
        scheme, host, port = parsed.scheme, parsed.raw_host or "", parsed.port
        login = (parsed.user or "", parsed.password or "")
    except (ValueError, IndexError):  # UnicodeError is one; yarl has the other for "http://[]@"
        raise BadUrl("this is not a URL") from None
    if not scheme:
        raise BadUrl("this is not a full URL such as https://example.org/page")
    if scheme not in {"http", "https"}:
        raise NetworkRefused(f"only http and https can be fetched, not {scheme[:_SHOWN_CHARS]}")
    name, address = _parse_host(host)
    try:
        plain = parsed.with_user(None).with_fragment(None).with_host(name)
        text = str(plain)
        text.encode("ascii")
    except ValueError:
        raise BadUrl("this is not a URL") from None
    if len(text) > MAX_URL_CHARS:
        raise BadUrl(f"the URL has {len(text):,} characters as it is sent; {MAX_URL_CHARS:,} are possible")
    assert port is not None  # http and https have default ports
    return Target(url=text, scheme=scheme, host=name, port=port, address=address, login=login if any(login) else None)


def _parse_host(host: str) -> tuple[str, IpAddress | None]:
    """Return the host's one form, and its address if it is written as one."""
    host = host.lower()
    if ":" in host:
        try:
            address = ip_address(host)
        except ValueError:
            raise BadUrl("the host is not an address, though it looks like one") from None
        if getattr(address, "scope_id", None):
            raise BadUrl("the host names a network interface")
        return str(address), address
    name = host.removesuffix(".")
    if _ENDS_IN_NUMBER.fullmatch(name):
        # As the C library reads it: decimal, octal and hexadecimal, one to four parts. No name ends like this.
        try:
            return (found := IPv4Address(socket.inet_aton(name))).exploded, found
        except OSError:
            raise BadUrl("the host is not an address, though it looks like one") from None
    if len(name) > _MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise BadUrl("the host is not a possible name" if host else "the URL names no host")
    return name, None


class NetworkGuard:
    """Judges targets and addresses by the fixed ranges and by the networks that the operator lets through."""

    def __init__(self, allow: Iterable[Network] = ()) -> None:
        self._allow = tuple(allow)

    def check_target(self, target: Target) -> None:
        """Accept a target as far as its URL tells; the addresses of a name are still to be judged.

        Raises:
            NetworkRefused: the address, name or port is refused, or the URL carries a user name.
        """
        if target.address is not None:
            self.check_address(target.address)
        if target.host in _METADATA_NAMES:
            raise NetworkRefused(f"{target.host} is the metadata service of a cloud, which is never fetched")
        if target.login is not None:
            raise NetworkRefused("URLs with a user name or password in them are not fetched")
        if target.port in _BAD_PORTS:
            raise NetworkRefused(f"port {target.port} belongs to another protocol than HTTP")

    def check_address(self, address: IpAddress) -> None:
        """Accept one address to connect to.

        Raises:
            NetworkRefused: it lies in a refused range that no allowed network covers, or gives out credentials.
        """
        refusal = self.refusal(address)
        if refusal:
            raise NetworkRefused(refusal)

    def refusal(self, address: IpAddress) -> str:
        """Return why an address is refused, '' if it is not. Names the range, never the address itself."""
        plain = _without_scope(address)
        carried = _carried(plain)
        if not _METADATA.isdisjoint((plain, *carried)):
            return "it leads to the metadata service of a cloud, which is never fetched"
        if isinstance(plain, IPv6Address) and plain.ipv4_mapped:
            plain, carried = plain.ipv4_mapped, ()  # the kernel connects to this one
        if any(plain in network for network in self._allow):
            # An allowed tunnel is not a way to what lies behind it.
            return next(filter(None, map(self.refusal, carried)), "")
        for network, what in _RANGES:
            if plain in network:
                return f"it leads to {what}; [tools.web] allow_networks could let it through"
        if isinstance(plain, IPv6Address) and plain not in _GLOBAL_IPV6:
            return "it leads to a reserved address"
        return ""


def _without_scope(address: IpAddress) -> IpAddress:
    return IPv6Address(int(address)) if isinstance(address, IPv6Address) else address


def _carried(address: IpAddress) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address carries by one of the standard mappings."""
    if isinstance(address, IPv4Address):
        return ()
    number = int(address)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address.sixtofour:
        return (address.sixtofour,)
    if address.teredo:
        return address.teredo
    if any(address in network for network in _IPV4_AT_THE_END) and number > 1:  # neither "::" nor "::1"
        return (IPv4Address(number & 0xFFFF_FFFF),)
    return ()
