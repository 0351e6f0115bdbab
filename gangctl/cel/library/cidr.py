"""Networks: ``cidr('10.0.0.0/8')``, with the host bits as written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import ClassVar, Final

from gangctl.cel.library import ip
from gangctl.cel.library.ip import Ip
from gangctl.cel.library.overload import Overload, function, method
from gangctl.cel.library.values import Extension, invalid

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


def parse(text: str) -> Cidr:
    """Parse a network; ValueError when ``text`` is none."""
    head, slash, bits = text.rpartition("/")
    if not slash or not _PREFIX.fullmatch(bits):
        raise ValueError("not an address and the length of a prefix")
    address = ip.parse(head)
    prefix = int(bits)
    if prefix > address.max_prefixlen:
        raise ValueError("the prefix is longer than an address")
    return Cidr(address, prefix)


def _cidr(text: str) -> Cidr:
    try:
        return parse(text)
    except ValueError as error:
        raise invalid(f"cidr: {error}") from None


def _is_cidr(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _address(text: str) -> Ip:
    try:
        return Ip(ip.parse(text))
    except ValueError as error:
        raise invalid(f"containsIP: {error}") from None


def _contains_ip(cidr: Cidr, other: Ip) -> bool:
    return cidr.contains(other.address)


def _contains_cidr(cidr: Cidr, other: Cidr) -> bool:
    return cidr.prefix <= other.prefix and cidr.contains(other.address)


def _masked(cidr: Cidr) -> Cidr:
    return Cidr(ip_network((cidr.address, cidr.prefix), strict=False).network_address, cidr.prefix)


_KIND: Final = Cidr.KIND
OVERLOADS: Final[tuple[Overload, ...]] = (
    function("cidr", _cidr, "string"),
    function("isCIDR", _is_cidr, "string"),
    function("string", lambda cidr: f"{cidr.address}/{cidr.prefix}", _KIND),
    method("containsIP", lambda cidr, text: _contains_ip(cidr, _address(text)), _KIND, "string"),
    method("containsIP", _contains_ip, _KIND, Ip.KIND),
    method("containsCIDR", lambda cidr, text: _contains_cidr(cidr, _cidr(text)), _KIND, "string"),
    method("containsCIDR", _contains_cidr, _KIND, _KIND),
    method("ip", lambda cidr: Ip(cidr.address), _KIND),
    method("prefixLength", lambda cidr: cidr.prefix, _KIND),
    method("masked", _masked, _KIND),
)
