"""Timestamps and durations as in cel-go: nanoseconds, years 1 to 9999, durations of 64 bits.

The parsers accept RFC 3339 and the format of Go's ``time.ParseDuration``, and read at most 64 characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gangctl.cel.library.values import INT_MAX, INT_MIN, Extension

SECOND: Final = 1_000_000_000
LONGEST_TEXT: Final = 64
EARLIEST: Final = -62_135_596_800 * SECOND
LATEST: Final = 253_402_300_799 * SECOND + SECOND - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_YEARS: Final = 400
_CYCLE: Final = 146_097 * 86_400
"""Seconds after which the calendar repeats, days of the week included."""
_MARGIN: Final = 2 * 86_400
"""Distance from the first and the last timestamp within which local time may be in the year 0 or 10000."""
_MOST_HOURS: Final = 24
_MOST_MINUTES: Final = 60
"""Limits of the offset in a timestamp: Go accepts both values, and refuses greater ones."""

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
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_OFFSET: Final = re.compile(r"([+-]?[0-9]+):([+-]?[0-9]+)")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")


@dataclass(frozen=True, slots=True, order=True)
class Timestamp(Extension):
    """A point in time: nanoseconds since 1970-01-01T00:00:00Z.

    ``offset`` is that of its text from UTC, in seconds: kept as written, and not compared.
    """

    KIND: ClassVar[str] = "google.protobuf.Timestamp"
    STRICT: ClassVar[bool] = False

    nanoseconds: int
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """RFC 3339 at its offset, with as many digits of the second as it takes."""
        seconds, rest = divmod(self.nanoseconds, SECOND)
        year, moment = _calendar(seconds + self.offset)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{year:04d}{moment:-%m-%dT%H:%M:%S}{fraction}{_offset_text(self.offset)}"


@dataclass(frozen=True, slots=True, order=True)
class Duration(Extension):
    """A span of time in nanoseconds."""

    KIND: ClassVar[str] = "google.protobuf.Duration"
    STRICT: ClassVar[bool] = False

    nanoseconds: int

    def __str__(self) -> str:
        """Seconds as a decimal number with an s, as cel-go's ``string(duration)``."""
        whole, rest = divmod(abs(self.nanoseconds), SECOND)
        # By a double, because cel-go prints Go's Duration.Seconds(), which is one.
        seconds = Decimal(repr(whole + rest / 1e9))
        sign = "-" if self.nanoseconds < 0 else ""
        return f"{sign}{_positional(seconds)}s"


def _positional(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _calendar(seconds: int) -> tuple[int, datetime]:
    """The year of seconds since 1970, and the date and time in the equivalent year between 1 and 400."""
    cycles, rest = divmod(seconds - EARLIEST // SECOND, _CYCLE)
    moment = datetime(1, 1, 1, tzinfo=UTC) + timedelta(seconds=rest)
    return moment.year + cycles * _CYCLE_YEARS, moment


def _offset_text(offset: int) -> str:
    if not offset:
        return "Z"
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def timestamp_of(nanoseconds: int, offset: int = 0) -> Timestamp:
    """A timestamp; OverflowError outside of the years 1 to 9999."""
    if not EARLIEST <= nanoseconds <= LATEST:
        raise OverflowError("timestamp outside of the years 1 to 9999")
    return Timestamp(nanoseconds, offset)


def duration_of(nanoseconds: int) -> Duration:
    """A duration; OverflowError beyond 64 bits of nanoseconds."""
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise OverflowError("duration of more than 64 bits of nanoseconds")
    return Duration(nanoseconds)


def parse_timestamp(text: str) -> Timestamp:
    """RFC 3339 with capital T and Z, as Go's ``time.Parse`` reads it: an hour may have one digit, a fraction a comma.

    ValueError for anything else, OverflowError for other years.
    """
    match = _INSTANT.fullmatch(text) if len(text) <= LONGEST_TEXT else None
    if match is None:
        raise ValueError("not an RFC 3339 timestamp")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, hours, minutes = match.groups()[6:]
    # Python has no year 0, but a timestamp of the year 1 may be in it at its offset.
    cycles = 0 if year else 1
    moment = datetime(year + cycles * _CYCLE_YEARS, month, day, hour, minute, second, tzinfo=UTC)
    offset = 0
    if sign:
        if int(hours) > _MOST_HOURS or int(minutes) > _MOST_MINUTES:
            raise ValueError("no such offset from UTC")
        offset = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)
    since = moment - EPOCH
    nanoseconds = int(fraction[:9].ljust(9, "0")) if fraction else 0
    return timestamp_of((since.days * 86400 + since.seconds - cycles * _CYCLE - offset) * SECOND + nanoseconds, offset)


def parse_duration(text: str) -> Duration:
    """Go's ``time.ParseDuration``: ``1h30m``, ``-1.5s``, ``0``.

    ValueError for anything else, OverflowError beyond 64 bits of nanoseconds.
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
        total += int(whole or 0) * UNITS[unit] + _part(fraction or "", UNITS[unit])
        position = term.end()
    if not body:
        raise ValueError("not a duration")
    return duration_of(-total if text.startswith("-") else total)


def _part(fraction: str, unit: int) -> int:
    """A fraction of a unit, by floating point as in Go."""
    digits, scale = 0, 1.0
    for digit in fraction:
        # As leadingFraction of Go: digits that would overflow are read, and do not count.
        if digits > INT_MAX // 10 or digits * 10 + int(digit) > INT_MAX + 1:
            break
        digits = digits * 10 + int(digit)
        scale *= 10
    return int(digits * (unit / scale))


# Limited, because names may come from objects, which tenants write.
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


def local(moment: Timestamp, name: str = "UTC") -> tuple[int, datetime]:
    """The year and, in an equivalent year, date and time of day to seconds; ValueError for an unknown zone.

    ``name`` is that of an IANA time zone, or an offset such as ``-02:00``.
    """
    seconds = moment.nanoseconds // SECOND
    if ":" in name:
        return _calendar(seconds + _written_offset(name))
    cycles = 0
    if seconds > LATEST // SECOND - _MARGIN:
        cycles = 1
    elif seconds < EARLIEST // SECOND + _MARGIN:
        cycles = -1
    date = (EPOCH + timedelta(seconds=seconds - cycles * _CYCLE)).astimezone(zone(name))
    return date.year + cycles * _CYCLE_YEARS, date


def _written_offset(text: str) -> int:
    """Seconds east of UTC, from hours and minutes of any size: beyond 64 bits they wrap around."""
    match = _OFFSET.fullmatch(text) if len(text) <= LONGEST_TEXT else None
    if match is None:
        raise ValueError("no such offset from UTC")
    hours, minutes = int(match[1]), int(match[2])
    if not (INT_MIN <= hours <= INT_MAX and INT_MIN <= minutes <= INT_MAX):
        raise ValueError("no such offset from UTC")
    # By the text: the hours of ``-00:30`` have no sign.
    total = hours * 60 - minutes if text.startswith("-") else hours * 60 + minutes
    nanoseconds = _wrapped(_wrapped(total) * UNITS["m"])
    return abs(nanoseconds) // SECOND * (-1 if nanoseconds < 0 else 1)


def _wrapped(value: int) -> int:
    return (value - INT_MIN) % (1 << 64) + INT_MIN
