"""Kubernetes quantities (``500m``, ``1.5Gi``, ``2e3``) as exact numbers.

The rules are those of ``k8s.io/apimachinery`` ``resource.Quantity``: nothing finer than a billionth, rounded up so that
a positive amount stays positive, nothing above int64. Arithmetic is on fractions: a sum of requests must not depend on
the order of adding.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

MAX: Final = 2**63 - 1

_MILLI: Final = 1000
_FINEST: Final = 10**9
_FOUR_DIGITS: Final = 10**4
_LONGEST: Final = 100
"""Characters. The API server reads longer ones, users do not write them, and reading digits takes time."""

_SUFFIXES: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(10 ** (3 * power)) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(2 ** (10 * power)) for power, suffix in enumerate("KMGTPE", 1)},
}
_FORM: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkMGTPE]?))"
)


def _power_of_ten(exponent: int) -> Fraction:
    """10 ** exponent, within the bounds that matter after rounding and capping."""
    bounded = max(-2 * _LONGEST, min(2 * _LONGEST, exponent))
    return Fraction(10) ** bounded


# A cluster has few different quantities and very many of each.
@lru_cache(maxsize=1024)
def parse_quantity(text: str) -> Fraction:
    """The exact value of a quantity; ValueError when ``text`` is not one."""
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        shown = text if len(text) <= _LONGEST else f"{text[:32]}..."
        raise ValueError(f'"{shown}" is not a quantity: a number with a suffix such as m, k, M, G, Ki, Mi, Gi, or e3')
    scale = _SUFFIXES[match["suffix"]] if match["exponent"] is None else _power_of_ten(int(match["exponent"]))
    magnitude = Fraction(match["number"].rstrip(".")) * scale
    rounded = Fraction(_ceil(magnitude * _FINEST), _FINEST)
    capped = min(rounded, Fraction(MAX))
    return -capped if match["sign"] == "-" else capped


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def whole(value: Fraction) -> int:
    """The value as an integer (bytes, devices), rounded up, at most int64."""
    return min(_ceil(value), MAX)


def milli(value: Fraction) -> int:
    """The value in thousandths (milli-CPU), rounded up, at most int64."""
    return min(_ceil(value * _MILLI), MAX)


def exact_milli(value: int) -> str:
    """Milli-units as Kubernetes writes them: ``1500`` is ``1500m``, ``2000`` is ``2``."""
    units, rest = divmod(value, _MILLI)
    return f"{value}m" if rest else str(units)


def exact_bytes(value: int) -> str:
    """Bytes in the largest binary unit of which they are a multiple."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if value and value % _SUFFIXES[suffix] == 0:
            return f"{int(value / _SUFFIXES[suffix])}{suffix}"
    return str(value)


def show_milli(value: int) -> str:
    """Milli-units for users: ``1500`` is ``1.5``, ``250`` is ``250m``."""
    units, rest = divmod(value, _MILLI)
    if not rest:
        return str(units)
    return f"{units}.{rest:03}".rstrip("0") if units else f"{rest}m"


def show_bytes(value: int) -> str:
    """Bytes in the largest binary unit that shows them exactly in four digits, else rounded and marked ``~``."""
    units = [(2 ** (10 * power), suffix) for power, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))]
    for unit, suffix in reversed(units):
        if value % unit == 0 and 0 < value // unit < _FOUR_DIGITS:
            return f"{value // unit}{suffix}"
    unit, suffix = max((pair for pair in units if pair[0] <= value), default=units[0])
    tenths = (value * 10 + unit // 2) // unit
    return f"~{tenths // 10}.{tenths % 10}{suffix}".replace(".0", "") if value else "0"


_BYTES: Final = ("memory", "storage", "ephemeral-storage", "hugepages-")


def figure(resource: str, amount: int) -> str:
    """An amount of a resource in milli-CPU, bytes or pieces, for users."""
    if resource == "cpu":
        return show_milli(amount)
    return show_bytes(amount) if resource.startswith(_BYTES) else str(amount)


def exact(resource: str, amount: int) -> str:
    """The same as a quantity that is equal to it."""
    if resource == "cpu":
        return exact_milli(amount)
    return exact_bytes(amount) if resource.startswith(_BYTES) else str(amount)
