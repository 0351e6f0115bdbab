"""IP addresses and networks: ``ip('10.0.0.1')``, ``cidr('10.0.0.0/8')``.

Zones and IPv4-mapped IPv6 addresses are refused; a network has the host bits as written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import ClassVar, Final

from gangctl.cel.library.values import Extension, Implementation, function, method, no_such_overload, readable, reading

LONGEST: Final = 64
"""Characters of an address."""

_BROADCAST: Final = IPv4Address("255.255.255.255")


@dataclass(frozen=True, slots=True)
class Ip(Extension):
    """An address."""

    KIND: ClassVar[str] = "net.IP"
    address: IPv4Address | IPv6Address


def parse(text: str) -> IPv4Address | IPv6Address:
    """Parse an address; ValueError when ``text`` is none."""
    if len(text) > LONGEST or "%" in text:
        raise ValueError("not an IP address")
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError("not an IP address") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError("IPv4-mapped IPv6 addresses are not allowed")
    return address


_ip: Final = reading("ip", lambda text: Ip(parse(text)))


def _is_canonical(text: str) -> bool:
    return str(_ip(text).address) == text


def _is_link_local_multicast(ip: Ip) -> bool:
    if isinstance(ip.address, IPv4Address):
        return ip.address.packed[:3] == bytes((224, 0, 0))
    return ip.address.packed[0] == 0xFF and ip.address.packed[1] & 0x0F == 0x02  # noqa: PLR2004  RFC 4291, 2.7


def _is_global_unicast(ip: Ip) -> bool:
    """Private addresses count; addresses that can never belong to a single host do not."""
    address = ip.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == _BROADCAST
    )


_KIND: Final = Ip.KIND
OVERLOADS: Final[tuple[Implementation, ...]] = (
    function("ip", _ip, "string"),
    function("isIP", readable(parse), "string"),
    function("ip.isCanonical", _is_canonical, "string"),
    function("string", lambda ip: str(ip.address), _KIND),
    method("family", lambda ip: ip.address.version, _KIND),
    method("isUnspecified", lambda ip: ip.address.is_unspecified, _KIND),
    method("isLoopback", lambda ip: ip.address.is_loopback, _KIND),
    method("isLinkLocalMulticast", _is_link_local_multicast, _KIND),
    method("isLinkLocalUnicast", lambda ip: ip.address.is_link_local, _KIND),
    method("isGlobalUnicast", _is_global_unicast, _KIND),
)


_PREFIX: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cidr(Extension):
    """An address and the length of its prefix."""

    KIND: ClassVar[str] = "net.CIDR"
    address: IPv4Address | IPv6Address
    prefix: int

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether an address of the same family is in the network."""
        shift = self.address.max_prefixlen - self.prefix
        return address.version == self.address.version and int(address) >> shift == int(self.address) >> shift


def parse_cidr(text: str) -> Cidr:
    """Parse a network; ValueError when ``text`` is none."""
    head, slash, bits = text.rpartition("/")
    if not slash or not _PREFIX.fullmatch(bits):
        raise ValueError("not an address and the length of a prefix")
    address = parse(head)
    prefix = int(bits)
    if prefix > address.max_prefixlen:
        raise ValueError("the prefix is longer than an address")
    return Cidr(address, prefix)


_cidr: Final = reading("cidr", parse_cidr)


def _contains_ip(cidr: Cidr, other: Ip) -> bool:
    return cidr.contains(other.address)


def _contains_text(cidr: Cidr, text: str) -> bool:
    try:
        return cidr.contains(parse(text))
    except ValueError:
        # As natively, unlike ip() and cidr().
        raise no_such_overload("containsIP") from None


def _contains_cidr(cidr: Cidr, other: Cidr) -> bool:
    return cidr.prefix <= other.prefix and cidr.contains(other.address)


def _masked(cidr: Cidr) -> Cidr:
    return Cidr(ip_network((cidr.address, cidr.prefix), strict=False).network_address, cidr.prefix)


_CIDR: Final = Cidr.KIND
CIDR_OVERLOADS: Final[tuple[Implementation, ...]] = (
    function("cidr", _cidr, "string"),
    function("isCIDR", readable(parse_cidr), "string"),
    function("string", lambda cidr: f"{cidr.address}/{cidr.prefix}", _CIDR),
    method("containsIP", _contains_text, _CIDR, "string"),
    method("containsIP", _contains_ip, _CIDR, Ip.KIND),
    method("containsCIDR", lambda cidr, text: _contains_cidr(cidr, _cidr(text)), _CIDR, "string"),
    method("containsCIDR", _contains_cidr, _CIDR, _CIDR),
    method("ip", lambda cidr: Ip(cidr.address), _CIDR),
    method("prefixLength", lambda cidr: cidr.prefix, _CIDR),
    method("masked", _masked, _CIDR),
)
