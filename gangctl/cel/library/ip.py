"""IP addresses: ``ip('10.0.0.1')``. Zones and IPv4-mapped IPv6 addresses are refused."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import ClassVar, Final

from gangctl.cel.library.overload import Overload, function, method
from gangctl.cel.library.values import Extension, invalid

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


def _ip(text: str) -> Ip:
    try:
        return Ip(parse(text))
    except ValueError as error:
        raise invalid(f"ip: {error}") from None


def _is_ip(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


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
OVERLOADS: Final[tuple[Overload, ...]] = (
    function("ip", _ip, "string"),
    function("isIP", _is_ip, "string"),
    function("ip.isCanonical", _is_canonical, "string"),
    function("string", lambda ip: str(ip.address), _KIND),
    method("family", lambda ip: ip.address.version, _KIND),
    method("isUnspecified", lambda ip: ip.address.is_unspecified, _KIND),
    method("isLoopback", lambda ip: ip.address.is_loopback, _KIND),
    method("isLinkLocalMulticast", _is_link_local_multicast, _KIND),
    method("isLinkLocalUnicast", lambda ip: ip.address.is_link_local, _KIND),
    method("isGlobalUnicast", _is_global_unicast, _KIND),
)
