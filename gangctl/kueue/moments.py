"""The times that Kueue writes, RFC 3339 in whole seconds, and spans of time in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


def moment(text: str) -> datetime | None:
    """The time that is written, in UTC; None where nothing or no time is."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def age(text: str, now: datetime) -> timedelta | None:
    """How long ago a time was, never less than nothing; None where there is no time."""
    found = moment(text)
    return None if found is None else max(timedelta(), now - found)


def span(length: timedelta) -> str:
    """The two largest units, as in ``kubectl get``: 42s, 4m10s, 3h5m, 2d1h."""
    seconds = max(0, round(length.total_seconds()))
    for unit, name, below, lower in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "m"), (MINUTE, "m", 1, "s")):
        if seconds >= unit:
            rest = seconds % unit // below
            return f"{seconds // unit}{name}{rest}{lower}" if rest else f"{seconds // unit}{name}"
    return f"{seconds}s"
