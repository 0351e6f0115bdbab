"""CEL's standard library, as cel-go declares it with comparisons across numeric types.

``duration(int)`` is not here: 1.35 and 1.36 declare it, but it fails for every number.
"""

from __future__ import annotations

from typing import Final

from gangctl.cel.declarations.signature import Overload, overloads

_ORDERED: Final = (
    *(
        (type_name, type_name)
        for type_name in ("bool", "bytes", "double", "int", "string", "uint", "Duration", "Timestamp")
    ),
    *(("double", "int"), ("double", "uint"), ("int", "double"), ("int", "uint"), ("uint", "double"), ("uint", "int")),
)
_TIME_PARTS: Final = [
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
]

OPERATORS: Final[tuple[Overload, ...]] = (
    *overloads(
        """
        @in(A, list(A)) -> bool
        _==_(A, A) -> bool
        _!=_(A, A) -> bool
        _+_(bytes, bytes) -> bytes
        _+_(string, string) -> string
        _+_(list(A), list(A)) -> list(A)
        """,
        scans=True,
    ),
    *overloads(
        """
        !_(bool) -> bool
        -_(double) -> double
        -_(int) -> int
        _&&_(bool, bool) -> bool
        _||_(bool, bool) -> bool
        _?_:_(bool, A, A) -> A
        _[_](list(A), int) -> A
        _[_](map(A, B), A) -> B
        _[_](optional(list(A)), int) -> optional(A)
        _[_](optional(map(A, B)), A) -> optional(B)
        _[?_](list(A), int) -> optional(A)
        _[?_](map(A, B), A) -> optional(B)
        _[?_](optional(list(A)), int) -> optional(A)
        _[?_](optional(map(A, B)), A) -> optional(B)
        @in(A, map(A, B)) -> bool
        _+_(double, double) -> double
        _+_(int, int) -> int
        _+_(uint, uint) -> uint
        _+_(Duration, Duration) -> Duration
        _+_(Duration, Timestamp) -> Timestamp
        _+_(Timestamp, Duration) -> Timestamp
        _-_(double, double) -> double
        _-_(int, int) -> int
        _-_(uint, uint) -> uint
        _-_(Duration, Duration) -> Duration
        _-_(Timestamp, Duration) -> Timestamp
        _-_(Timestamp, Timestamp) -> Duration
        _*_(double, double) -> double
        _*_(int, int) -> int
        _*_(uint, uint) -> uint
        _/_(double, double) -> double
        _/_(int, int) -> int
        _/_(uint, uint) -> uint
        _%_(int, int) -> int
        _%_(uint, uint) -> uint
        """
    ),
    *overloads(
        f"_{operator}_({left}, {right}) -> bool" for operator in ("<", "<=", ">", ">=") for left, right in _ORDERED
    ),
)

CONVERSIONS: Final[tuple[Overload, ...]] = (
    *overloads(
        """
        bool(bool) -> bool
        bool(string) -> bool
        bytes(bytes) -> bytes
        double(double) -> double
        double(int) -> double
        double(uint) -> double
        duration(Duration) -> Duration
        dyn(A) -> dyn
        int(int) -> int
        int(double) -> int
        int(Duration) -> int
        int(Timestamp) -> int
        int(uint) -> int
        string(string) -> string
        string(bool) -> string
        string(double) -> string
        string(Duration) -> string
        string(Timestamp) -> string
        string(int) -> string
        string(uint) -> string
        timestamp(Timestamp) -> Timestamp
        timestamp(int) -> Timestamp
        type(A) -> type(A)
        uint(uint) -> uint
        uint(double) -> uint
        uint(int) -> uint
        """
    ),
    *overloads(
        """
        bytes(string) -> bytes
        double(string) -> double
        duration(string) -> Duration
        int(string) -> int
        string(bytes) -> string
        timestamp(string) -> Timestamp
        uint(string) -> uint
        """,
        scans=True,
    ),
)

FUNCTIONS: Final[tuple[Overload, ...]] = (
    *overloads(
        """
        size(bytes) -> int
        size(list(A)) -> int
        size(map(A, B)) -> int
        size(string) -> int
        bytes::size() -> int
        list(A)::size() -> int
        map(A, B)::size() -> int
        string::size() -> int
        """
    ),
    *overloads(
        """
        matches(string, string) -> bool
        string::matches(string) -> bool
        string::contains(string) -> bool
        string::endsWith(string) -> bool
        string::startsWith(string) -> bool
        """,
        scans=True,
    ),
    *overloads(f"Timestamp::{part}({zone}) -> int" for part in _TIME_PARTS for zone in ("", "string")),
    *overloads(f"Duration::{part}() -> int" for part in ("getHours", "getMilliseconds", "getMinutes", "getSeconds")),
)

OPTIONALS: Final[tuple[Overload, ...]] = (
    *overloads(
        """
        optional.none() -> optional(V)
        optional.of(V) -> optional(V)
        optional.ofNonZeroValue(V) -> optional(V)
        optional(V)::hasValue() -> bool
        optional(V)::or(optional(V)) -> optional(V)
        optional(V)::orValue(V) -> V
        optional(V)::value() -> V
        list(V)::first() -> optional(V)
        list(V)::last() -> optional(V)
        """
    ),
    *overloads(
        """
        optional.unwrap(list(optional(V))) -> list(V)
        list(optional(V))::unwrapOpt() -> list(V)
        """,
        scans=True,
    ),
)
