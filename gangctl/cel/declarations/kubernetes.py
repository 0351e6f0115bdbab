"""cel-go's extensions that Kubernetes switches on, and the libraries of its API server.

Strings (version 2), lists (version 3) and sets; ``k8s.io/apiserver/pkg/cel/library``.
"""

from __future__ import annotations

from typing import Final

from gangctl.cel.declarations.signature import Overload, overloads

COMPARED: Final = ("int", "uint", "double", "bool", "Duration", "Timestamp", "string", "bytes")
"""In the order of cel-go and of ``k8s.io/apiserver``, ``pkg/cel/library/lists.go``."""

STRINGS: Final[tuple[Overload, ...]] = (
    *overloads(
        """
        string::charAt(int) -> string
        string::substring(int) -> string
        string::substring(int, int) -> string
        """
    ),
    *overloads(
        """
        string::format(list(dyn)) -> string
        string::indexOf(string) -> int
        string::indexOf(string, int) -> int
        string::lastIndexOf(string) -> int
        string::lastIndexOf(string, int) -> int
        string::lowerAscii() -> string
        string::replace(string, string) -> string
        string::replace(string, string, int) -> string
        string::split(string) -> list(string)
        string::split(string, int) -> list(string)
        string::trim() -> string
        string::upperAscii() -> string
        list(string)::join() -> string
        list(string)::join(string) -> string
        strings.quote(string) -> string
        """,
        scans=True,
    ),
)

EXTENDED_LISTS: Final[tuple[Overload, ...]] = (
    *overloads(
        """
        list(T)::distinct() -> list(T)
        list(T)::reverse() -> list(T)
        list(T)::slice(int, int) -> list(T)
        list(list(T))::flatten() -> list(T)
        list(dyn)::flatten(int) -> list(dyn)
        lists.range(int) -> list(int)
        """,
        scans=True,
    ),
    *overloads((f"list({type_name})::sort() -> list({type_name})" for type_name in COMPARED), scans=True),
)

SETS: Final[tuple[Overload, ...]] = overloads(
    (f"sets.{verb}(list(T), list(T)) -> bool" for verb in ("contains", "equivalent", "intersects")), scans=True
)


_NAMED: Final = [
    "byte",
    "date",
    "datetime",
    "dns1035Label",
    "dns1035LabelPrefix",
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "labelValue",
    "qualifiedName",
    "uri",
    "uuid",
]

LISTS: Final[tuple[Overload, ...]] = (
    *overloads((f"list({type_name})::isSorted() -> bool" for type_name in COMPARED), scans=True),
    *overloads((f"list({type_name})::min() -> {type_name}" for type_name in COMPARED), scans=True),
    *overloads((f"list({type_name})::max() -> {type_name}" for type_name in COMPARED), scans=True),
    *overloads(
        (f"list({type_name})::sum() -> {type_name}" for type_name in ("int", "uint", "double", "Duration")), scans=True
    ),
    *overloads(("list(A)::indexOf(A) -> int", "list(A)::lastIndexOf(A) -> int"), scans=True),
)

TEXT: Final[tuple[Overload, ...]] = (
    *overloads(
        """
        string::find(string) -> string
        string::findAll(string) -> list(string)
        string::findAll(string, int) -> list(string)
        url(string) -> URL
        isURL(string) -> bool
        Format::validate(string) -> optional(list(string))
        """,
        scans=True,
    ),
    *overloads(
        """
        URL::getEscapedPath() -> string
        URL::getHost() -> string
        URL::getHostname() -> string
        URL::getPort() -> string
        URL::getQuery() -> map(string, list(string))
        URL::getScheme() -> string
        format.named(string) -> optional(Format)
        """
    ),
    *overloads(f"format.{name}() -> Format" for name in _NAMED),
)

QUANTITY: Final[tuple[Overload, ...]] = overloads(
    """
    quantity(string) -> Quantity
    isQuantity(string) -> bool
    sign(Quantity) -> int
    Quantity::add(Quantity) -> Quantity
    Quantity::add(int) -> Quantity
    Quantity::asApproximateFloat() -> double
    Quantity::asInteger() -> int
    Quantity::compareTo(Quantity) -> int
    Quantity::isGreaterThan(Quantity) -> bool
    Quantity::isInteger() -> bool
    Quantity::isLessThan(Quantity) -> bool
    Quantity::sub(Quantity) -> Quantity
    Quantity::sub(int) -> Quantity
    """
)

NETWORK: Final[tuple[Overload, ...]] = overloads(
    """
    ip(string) -> IP
    isIP(string) -> bool
    ip.isCanonical(string) -> bool
    string(IP) -> string
    IP::family() -> int
    IP::isGlobalUnicast() -> bool
    IP::isLinkLocalMulticast() -> bool
    IP::isLinkLocalUnicast() -> bool
    IP::isLoopback() -> bool
    IP::isUnspecified() -> bool
    cidr(string) -> CIDR
    isCIDR(string) -> bool
    string(CIDR) -> string
    CIDR::containsCIDR(string) -> bool
    CIDR::containsCIDR(CIDR) -> bool
    CIDR::containsIP(string) -> bool
    CIDR::containsIP(IP) -> bool
    CIDR::ip() -> IP
    CIDR::masked() -> CIDR
    CIDR::prefixLength() -> int
    """
)

SEMVER: Final[tuple[Overload, ...]] = overloads(
    """
    semver(string) -> Semver
    semver(string, bool) -> Semver
    isSemver(string) -> bool
    isSemver(string, bool) -> bool
    Semver::compareTo(Semver) -> int
    Semver::isGreaterThan(Semver) -> bool
    Semver::isLessThan(Semver) -> bool
    Semver::major() -> int
    Semver::minor() -> int
    Semver::patch() -> int
    """
)

AUTHORIZER: Final[tuple[Overload, ...]] = overloads(
    """
    Authorizer::group(string) -> GroupCheck
    Authorizer::path(string) -> PathCheck
    Authorizer::serviceAccount(string, string) -> Authorizer
    GroupCheck::resource(string) -> ResourceCheck
    ResourceCheck::subresource(string) -> ResourceCheck
    ResourceCheck::namespace(string) -> ResourceCheck
    ResourceCheck::name(string) -> ResourceCheck
    ResourceCheck::fieldSelector(string) -> ResourceCheck
    ResourceCheck::labelSelector(string) -> ResourceCheck
    ResourceCheck::check(string) -> Decision
    PathCheck::check(string) -> Decision
    Decision::allowed() -> bool
    Decision::error() -> string
    Decision::errored() -> bool
    Decision::reason() -> string
    """
)
"""Each call needs a request to the API server: declared so that the refusal can be precise."""
