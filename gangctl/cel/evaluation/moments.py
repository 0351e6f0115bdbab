"""Parts of timestamps and durations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from gangctl.cel import times
from gangctl.cel.library.values import invalid, no_such_overload
from gangctl.cel.times import Duration, Timestamp

_MILLISECOND: Final = 1_000_000
_DATES: Final[dict[str, Callable[[datetime], int]]] = {
    "getMonth": lambda moment: moment.month - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}
_SPANS: Final = {
    "getHours": 3600 * times.SECOND,
    "getMinutes": 60 * times.SECOND,
    "getSeconds": times.SECOND,
    "getMilliseconds": _MILLISECOND,
}


def _getter(name: str) -> Callable[..., int]:
    def get(value: Any, *zone: Any) -> int:
        if type(value) is Duration and not zone and name in _SPANS:
            whole = abs(value.nanoseconds) // _SPANS[name]
            return -whole if value.nanoseconds < 0 else int(whole)
        if type(value) is not Timestamp or any(type(part) is not str for part in zone) or len(zone) > 1:
            raise no_such_overload(name)
        year, moment = _local(value, *zone)
        if name == "getFullYear":
            return year
        if name == "getMilliseconds":
            return int(value.nanoseconds % times.SECOND // _MILLISECOND)
        return _DATES[name](moment)

    return get


def _local(value: Timestamp, zone: str = "UTC") -> tuple[int, datetime]:
    try:
        return times.local(value, zone)
    except ValueError as error:
        raise invalid("no such time zone") from error


ACCESSORS: Final[dict[str, Callable[..., int]]] = {
    name: _getter(name) for name in (*_DATES, "getFullYear", "getMilliseconds")
}
