"""cel-go's extensions that Kubernetes switches on: strings (version 2), lists (version 3) and sets."""

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

LISTS: Final[tuple[Overload, ...]] = (
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
    *overloads((f"list({each})::sort() -> list({each})" for each in COMPARED), scans=True),
)

SETS: Final[tuple[Overload, ...]] = overloads(
    (f"sets.{each}(list(T), list(T)) -> bool" for each in ("contains", "equivalent", "intersects")), scans=True
)
