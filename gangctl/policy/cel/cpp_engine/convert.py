"""Values on their way to and from C++: times, bytes, and what Kubernetes adds to CEL.

C++'s Python layer gives times as datetime, which has no nanoseconds: what is below a microsecond is lost
when a time passes through a function written in Python, and nowhere else.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from gangctl.policy.cel.cpp_engine.running import MARK, Evaluation
from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.library.values import Extension, Optional, TypeValue, Uint
from gangctl.policy.cel.times import EPOCH, Duration, Timestamp

_MICROSECOND: Final = timedelta(microseconds=1)
_NANOSECONDS: Final = 1000
_TYPES: Final = {
    "NULL": "null_type",
    "TIMESTAMP": "google.protobuf.Timestamp",
    "DURATION": "google.protobuf.Duration",
}
SAME: Final = frozenset({bool, int, float, str, type(None)})
"""Classes that are the same on both sides."""


def reveal(value: Any, evaluation: Evaluation) -> Any:
    """A value from C++ as the library knows it."""
    cls = type(value)
    if cls in SAME:
        return value
    if cls is list:
        return [each if type(each) in SAME else reveal(each, evaluation) for each in value]
    if cls is dict:
        if MARK in value:
            return evaluation.shown(value[MARK])
        return {key: each if type(each) in SAME else reveal(each, evaluation) for key, each in value.items()}
    if cls is datetime:
        return Timestamp((value - EPOCH) // _MICROSECOND * _NANOSECONDS)
    if cls is timedelta:
        return Duration(value // _MICROSECOND * _NANOSECONDS)
    if cls is bytearray:
        return bytes(value)
    # What is left are types, such as LIST<DYN>.
    name = str(value).partition("<")[0]
    return TypeValue(_TYPES.get(name, name.lower()))


def hide(value: Any, evaluation: Evaluation) -> Any:
    """A value of the library as C++ takes it."""
    cls = type(value)
    if cls in SAME:
        return value
    if cls is list:
        return [each if type(each) in SAME else hide(each, evaluation) for each in value]
    if cls is dict:
        return {key: each if type(each) in SAME else hide(each, evaluation) for key, each in value.items()}
    if cls is Uint:
        return int(value)
    if cls is Optional:
        return [hide(value.value, evaluation)] if value.present else []
    if cls is Timestamp:
        return EPOCH + _MICROSECOND * (value.nanoseconds // _NANOSECONDS)
    if cls is Duration:
        return _MICROSECOND * (value.nanoseconds // _NANOSECONDS)
    if isinstance(value, Extension):
        return evaluation.hide(value)
    if cls is bytes:
        return value
    raise EvalError(EvalKind.OTHER, "cel-cpp cannot take a value of this type; cel-python can")
