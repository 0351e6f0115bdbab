"""Timestamps and durations as cel-go has them: nanoseconds, years 1 to 9999, durations of 64 bits.

The parsers take what RFC 3339 and Go's ``time.ParseDuration`` take, and look at no more than 64 characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gangctl.policy.cel.library.values import INT_MAX, INT_MIN, Extension

SECOND: Final = 1_000_000_000
LONGEST_TEXT: Final = 64
EARLIEST: Final = -62_135_596_800 * SECOND
LATEST: Final = 253_402_300_799 * SECOND + SECOND - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOURS: Final = 24
_MINUTES: Final = 60

UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "\N{GREEK SMALL LETTER MU}s": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_INSTANT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_OFFSET: Final = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{1,2})")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")


@dataclass(frozen=True, slots=True, order=True)
class Timestamp(Extension):
    """A moment: nanoseconds since 1970-01-01T00:00:00Z."""

    KIND: ClassVar[str] = "google.protobuf.Timestamp"

    nanoseconds: int

    def __str__(self) -> str:
        """RFC 3339 in UTC, with as many digits of the second as it takes."""
        seconds, rest = divmod(self.nanoseconds, SECOND)
        moment = EPOCH + timedelta(seconds=seconds)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{moment.year:04d}{moment:-%m-%dT%H:%M:%S}{fraction}Z"


@dataclass(frozen=True, slots=True, order=True)
class Duration(Extension):
    """A span of time in nanoseconds."""

    KIND: ClassVar[str] = "google.protobuf.Duration"

    nanoseconds: int

    def __str__(self) -> str:
        """Seconds as a decimal number with an s, as cel-go's ``string(duration)``."""
        whole, rest = divmod(abs(self.nanoseconds), SECOND)
        seconds = Decimal(repr(whole + rest / 1e9))
        sign = "-" if self.nanoseconds < 0 else ""
        return f"{sign}{_positional(seconds)}s"


def _positional(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def timestamp_of(nanoseconds: int) -> Timestamp:
    """A timestamp; OverflowError outside of the years 1 to 9999."""
    if not EARLIEST <= nanoseconds <= LATEST:
        raise OverflowError("timestamp outside of the years 1 to 9999")
    return Timestamp(nanoseconds)


def duration_of(nanoseconds: int) -> Duration:
    """A duration; OverflowError where 64 bits of nanoseconds do not hold it."""
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise OverflowError("duration of more than 64 bits of nanoseconds")
    return Duration(nanoseconds)


def parse_timestamp(text: str) -> Timestamp:
    """RFC 3339 with capital T and Z; ValueError for anything else, OverflowError for other years."""
    found = _INSTANT.fullmatch(text) if len(text) <= LONGEST_TEXT else None
    if found is None:
        raise ValueError("not an RFC 3339 timestamp")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, hours, minutes = found.groups()[6:]
    if year == 0:
        raise OverflowError("timestamp outside of the years 1 to 9999")
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    if sign and int(hours) >= _HOURS:
        raise ValueError("no such offset from UTC")
    offset = _offset(sign, hours, minutes) if sign else 0
    since = moment - EPOCH
    nanoseconds = int(fraction[:9].ljust(9, "0")) if fraction else 0
    return timestamp_of((since.days * 86400 + since.seconds - offset) * SECOND + nanoseconds)


def _offset(sign: str, hours: str, minutes: str) -> int:
    """Seconds east of UTC."""
    if int(minutes) >= _MINUTES:
        raise ValueError("no such offset from UTC")
    seconds = int(hours) * 3600 + int(minutes) * 60
    return -seconds if sign == "-" else seconds


def parse_duration(text: str) -> Duration:
    """Go's ``time.ParseDuration``: ``1h30m``, ``-1.5s``, ``0``.

    ValueError for anything else, OverflowError where 64 bits of nanoseconds do not hold it.
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError("not a duration")
    body = text[1:] if text[:1] in {"+", "-"} else text
    if body == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(body):
        term = _TERM.match(body, position)
        if term is None:
            raise ValueError("not a duration")
        whole, fraction, unit = term.groups()
        if not whole and not fraction:
            raise ValueError("not a duration")
        total += int(whole or 0) * UNITS[unit]
        if fraction:
            total += int(fraction) * UNITS[unit] // 10 ** len(fraction)
        position = term.end()
    if not body:
        raise ValueError("not a duration")
    return duration_of(-total if text.startswith("-") else total)


@lru_cache(maxsize=64)
def zone(name: str) -> tzinfo:
    """A time zone by its IANA name; ValueError when there is none such."""
    if name in {"", "UTC", "Local"}:
        return UTC
    if len(name) > LONGEST_TEXT or not _ZONE.fullmatch(name):
        raise ValueError("no such time zone")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError("no such time zone") from error


def local(moment: Timestamp, name: str = "UTC") -> datetime:
    """The date and time of day in an IANA time zone or at an offset such as ``-02:00``, to seconds.

    ValueError for a zone that there is not, OverflowError before year 1 and after 9999.
    """
    utc = EPOCH + timedelta(seconds=moment.nanoseconds // SECOND)
    fixed = _OFFSET.fullmatch(name)
    if fixed is None:
        return utc.astimezone(zone(name))
    return utc + timedelta(seconds=_offset(*fixed.groups()))
