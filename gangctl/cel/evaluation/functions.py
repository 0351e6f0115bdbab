"""The Python function of each CEL name, and the steps that a call costs beside the visits of its arguments.

The evaluator implements ``or``, ``orValue`` and the macros, because they evaluate only the needed operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from gangctl.cel import times
from gangctl.cel.evaluation.conversions import CONVERSIONS
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library import registry
from gangctl.cel.library.strings import compiled
from gangctl.cel.library.values import NONE, Optional, invalid, kind, no_such_overload
from gangctl.cel.times import EARLIEST, Duration, Timestamp
from gangctl.cel.types import DYN, Type


def contains(text: Any, part: Any) -> bool:
    """``text.contains(part)``."""
    _strings(text, part, "contains")
    return part in text


def starts_with(text: Any, part: Any) -> bool:
    """``text.startsWith(part)``."""
    _strings(text, part, "startsWith")
    return bool(text.startswith(part))


def ends_with(text: Any, part: Any) -> bool:
    """``text.endsWith(part)``."""
    _strings(text, part, "endsWith")
    return bool(text.endswith(part))


def _strings(text: Any, part: Any, name: str) -> None:
    if type(text) is not str or type(part) is not str:
        raise no_such_overload(name)


def size(value: Any) -> int:
    """``size(value)``: code points, bytes, elements or entries."""
    if isinstance(value, (str, bytes, list, tuple, Mapping)):
        return len(value)
    raise no_such_overload("size")


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


def of(value: Any) -> Optional:
    """``optional.of(value)``."""
    return Optional(present=True, value=value)


def of_non_zero(value: Any) -> Optional:
    """``optional.ofNonZeroValue(value)``: none for null, 0, false and empty values."""
    if isinstance(value, Duration):
        zero = not value.nanoseconds
    elif isinstance(value, Timestamp):
        # The zero value of Go's time.Time is the first moment of the year 1.
        zero = value.nanoseconds == EARLIEST
    else:
        zero = value is None or (isinstance(value, (int, float, str, bytes, list, tuple, Mapping)) and not value)
    return NONE if zero else of(value)


def has_value(value: Any) -> bool:
    """``value.hasValue()``."""
    return _optional(value, "hasValue").present


def value_of(value: Any) -> Any:
    """``value.value()``; EvalError of an optional without one."""
    optional = _optional(value, "value")
    if not optional.present:
        raise invalid("optional.none() has no value")
    return optional.value


def unwrap(values: Any) -> list[Any]:
    """``values.unwrapOpt()``: the values of the optionals that have one."""
    if type(values) is not list:
        raise no_such_overload("unwrapOpt")
    return [value.value for value in values if _optional(value, "unwrapOpt").present]


def first(values: Any) -> Optional:
    """``values.first()``."""
    if type(values) is not list:
        raise no_such_overload("first")
    return of(values[0]) if values else NONE


def last(values: Any) -> Optional:
    """``values.last()``."""
    if type(values) is not list:
        raise no_such_overload("last")
    return of(values[-1]) if values else NONE


def _optional(value: Any, name: str) -> Optional:
    if not isinstance(value, Optional):
        raise no_such_overload(name)
    return value


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "optional.of": of,
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": of_non_zero,
    "optional.unwrap": unwrap,
}
METHODS: Final[dict[str, Callable[..., Any]]] = {
    "hasValue": has_value,
    "value": value_of,
    "unwrapOpt": unwrap,
    "first": first,
    "last": last,
}


Cost = Callable[[Sequence[Any]], int]

_CHARACTERS_SHIFT: Final = 6
"""Reading 64 characters is a step."""
_SEARCHING_SHIFT: Final = 7
_COMPILING_SHIFT: Final = 4
LARGEST_SEARCH: Final = 1 << 23
"""Characters times instructions: at most some 40 nanoseconds for each, though nearly always far less."""
_SEARCHES: Final = frozenset({"matches", "find", "findAll"})


@dataclass(frozen=True, slots=True)
class ResolvedFunction:
    """``call`` takes the values of the arguments, of a method the target first.

    A ``metered`` one takes a :class:`~gangctl.cel.library.values.Spending` before them: a
    :class:`~gangctl.cel.meter.Frame` is one.
    """

    name: str
    call: Callable[..., Any]
    cost: Cost
    metered: bool = False


_STANDARD_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {**CONVERSIONS, **FUNCTIONS, "size": size}
_STANDARD_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    **ACCESSORS,
    **METHODS,
    "size": size,
    "contains": contains,
    "startsWith": starts_with,
    "endsWith": ends_with,
}


def resolve(name: str, *, member: bool) -> ResolvedFunction | None:
    """The function of a call; None when there is none."""
    standard = (_STANDARD_METHODS if member else _STANDARD_FUNCTIONS).get(name)
    library = (registry.METHODS if member else registry.FUNCTIONS).get(name)
    if standard is None:
        cost = _searching if name in _SEARCHES else _each
        return None if library is None else ResolvedFunction(name, library.call, cost, metered=True)
    if library is None:
        return ResolvedFunction(name, standard, _each if standard is unwrap else _reading)
    return ResolvedFunction(name, _either(standard, library), _reading)


def declared(function: ResolvedFunction, types: Sequence[Type]) -> ResolvedFunction:
    """The function with the overload that the check took alone, as natively; ``types`` are those of the arguments.

    Values may be of others: the check takes the first overload for a type that it does not know, such as that of
    ``a.?b['c'].value()``, and the times of ``namespaceObject`` are text.
    """

    def call(*arguments: Any) -> Any:
        # A metered one takes its meter before them.
        if not all(map(_is_of, arguments[-len(types) :], types)):
            raise no_such_overload(function.name)
        return function.call(*arguments)

    return replace(function, call=call)


def _is_of(value: Any, type_: Type) -> bool:
    """Whether a value is of a type; of a list the first element counts, as in cel-go."""
    if type_ == DYN:
        return True
    if kind(value) != type_.name:
        return False
    return type_.name != "list" or not value or _is_of(value[0], type_.parameters[0])


def _either(standard: Callable[..., Any], library: Callable[..., Any]) -> Callable[..., Any]:
    """CEL's own overloads, then those for Kubernetes' types (``string(ip)``)."""

    def call(*arguments: Any) -> Any:
        try:
            return standard(*arguments)
        except EvalError as error:
            if error.kind is not EvalKind.NO_SUCH_OVERLOAD:
                raise
        return library(*arguments)

    return call


def _reading(arguments: Sequence[Any]) -> int:
    return sum(len(value) >> _CHARACTERS_SHIFT for value in arguments if isinstance(value, (str, bytes)))


def _searching(arguments: Sequence[Any]) -> int:
    """The steps of RE2: its time grows with the text and with the compiled pattern, and so does that of compiling it.

    EvalError when one search could take much longer than any expression may: it cannot be stopped.
    """
    searched, pattern, *_ = arguments
    if type(searched) is not str or type(pattern) is not str:
        return 0
    program = compiled(pattern.encode()).programsize
    work = len(searched) * program
    if work > LARGEST_SEARCH:
        raise EvalError(EvalKind.BUDGET_EXCEEDED, "the text is too long for a pattern of this size")
    return int((work >> _SEARCHING_SHIFT) + (program >> _COMPILING_SHIFT))


def _each(arguments: Sequence[Any]) -> int:
    """A library function may read every element."""
    return _reading(arguments) + sum(len(value) for value in arguments if isinstance(value, (list, Mapping)))
