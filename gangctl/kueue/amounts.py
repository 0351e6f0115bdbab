"""Quantities and times as Kueue counts and writes them.

``cpu`` is in milli-CPU, everything else in whole units, both rounded up. Times are RFC 3339 in whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from gangctl.api.quantity import MAX, milli, parse_quantity, whole

UNLIMITED: Final = MAX
"""The amount of an unlimited quota."""

# Beyond it an amount in milli-CPU is more than int64.
_MOST_CPU: Final = Fraction(MAX // 1000)


def amount(resource: str, quantity: Fraction) -> int:
    """The integer that Kueue uses, at most int64."""
    return milli(quantity) if resource == "cpu" else whole(quantity)


def quota_amount(resource: str, quantity: Fraction) -> int:
    """The integer of a quota; a quantity that int64 cannot hold is :data:`UNLIMITED`."""
    if resource == "cpu" and quantity >= _MOST_CPU:
        return UNLIMITED
    return amount(resource, quantity)


def read_quantity(value: object) -> Fraction | None:
    """A quantity in JSON, a string or a number; None if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, int):
        return Fraction(max(-MAX, min(value, MAX)))
    try:
        # repr of a float is as in the source: 0.1 is a tenth.
        return parse_quantity(value if isinstance(value, str) else repr(value))
    except ValueError:
        return None


def read_amounts(value: object) -> dict[str, int]:
    """A ResourceList; invalid quantities are left out."""
    entries: Mapping[Any, Any] = value if isinstance(value, dict) else {}
    amounts = {}
    for name, written in entries.items():
        quantity = read_quantity(written)
        if quantity is not None:
            amounts[name] = amount(name, quantity)
    return amounts


MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


def moment(text: str) -> datetime | None:
    """The time in a text, in UTC; None if there is none."""
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    # In UTC, a time at an end of the calendar may have another year than there is.
    except (ValueError, OverflowError):
        return None


def age(text: str, now: datetime) -> timedelta | None:
    """How long ago a time was, at least zero; None without a time."""
    time = moment(text)
    return None if time is None else max(timedelta(), now - time)


def span(length: timedelta) -> str:
    """The two largest units, as in ``kubectl get``: 42s, 4m10s, 3h5m, 2d1h."""
    seconds = max(0, round(length.total_seconds()))
    for unit, name, below, lower in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "m"), (MINUTE, "m", 1, "s")):
        if seconds >= unit:
            rest = seconds % unit // below
            return f"{seconds // unit}{name}{rest}{lower}" if rest else f"{seconds // unit}{name}"
    return f"{seconds}s"


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """Format of times in texts: relative to ``now``, or absolute in texts that are ``kept`` and read later.

    A stored text does not depend on the time of writing, and has no "3s ago" that is wrong when it is read.
    """

    now: datetime
    kept: bool = False

    def ago(self, at: datetime) -> str:
        """When something happened: ``3s ago``, or ``at 2026-03-01T11:59:57Z``."""
        return f"at {_written(at)}" if self.kept else f"{span(self.now - at)} ago"

    def lasting(self, at: datetime, word: str = "for") -> str:
        """How long it has been so: ``for 3s``, or ``since 2026-03-01T11:59:57Z``."""
        return f"since {_written(at)}" if self.kept else f"{word} {span(self.now - at)}"

    def ahead(self, at: datetime) -> str:
        """When something will happen: ``in 3s`` or ``now``, or ``at 2026-03-01T12:00:03Z``."""
        if self.kept:
            return f"at {_written(at)}"
        return f"in {span(at - self.now)}" if at > self.now else "now"


def _written(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
