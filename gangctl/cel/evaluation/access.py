"""Fields of objects and elements of lists, as closures: ``a.b``, ``a.?b``, ``has(a.b)``, ``a[b]``, ``a[?b]``.

As natively, a chain unwraps an optional only where it begins with it, or has become optional itself. Another one, such
as ``variables.x`` whose expression is ``object.?y``, has neither fields nor elements: ``variables.x.?z`` is none.
``followed`` means that the chain continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gangctl.cel.evaluation.arithmetic import decoded
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.values import KEYS, MISSING, NONE, Optional, Uint, find, invalid
from gangctl.cel.meter import STEPS_PER_PAYMENT, Code, Frame


def select(operand: Code, fields: Sequence[tuple[str, int]], *, followed: bool) -> Code:
    """``operand.a.b``, of each field its name and place: the most frequent steps, and therefore one function."""
    steps, first = len(fields), fields[0][1]

    def run(frame: Frame) -> Any:
        frame.unpaid += steps
        if frame.unpaid >= STEPS_PER_PAYMENT:
            frame.settle()
        offset = first
        try:
            value = operand(frame)
            # Once, as applyQualifiers of cel-go does: an optional further on in the chain is not unwrapped.
            chained = type(value) is Optional
            for field, offset in fields:  # noqa: B007 - it is the place of an error
                # First the most frequent type: an object of JSON.
                if type(value) is dict:
                    entry = value.get(field, MISSING)
                    value = entry if type(entry) in _AS_THEY_ARE else _there(decoded(entry, frame), field)
                elif chained:
                    value = _chained(frame, value, field)
                else:
                    value = _selected(frame, value, field)
        except EvalError as error:
            if error.offset < 0:
                error.offset = offset
            raise
        return _opaque(value) if followed and not chained else value

    return run


def _opaque(value: Any) -> Any:
    """A value on the way; an optional as something without fields and elements."""
    return None if type(value) is Optional else value


def _selected(frame: Frame, value: Any, field: str) -> Any:
    """A field of what is not an object of JSON."""
    if value is frame.variables:
        return _variable(frame, field)
    return _there(MISSING if isinstance(value, (list, tuple)) else _entry(frame, value, field), field)


def _there(found: Any, field: str) -> Any:
    if found is MISSING:
        raise EvalError(EvalKind.NO_SUCH_KEY, f"no such key: {field}")
    return found


_AS_THEY_ARE = frozenset({str, bool, dict, float, type(None)})
"""Types of JSON that :func:`decoded` does not change."""


def _variable(frame: Frame, name: str) -> Any:
    frame.settle()
    try:
        return frame.variables[name]
    except KeyError as error:
        raise EvalError(EvalKind.NO_SUCH_KEY, f"no such key: {name}") from error
    except EvalError as error:
        # Its place belongs to another text, and the error may be raised again for another expression.
        raise EvalError(error.kind, error.message) from error


def has(operand: Code, field: str) -> Code:
    """``has(operand.field)``."""

    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is dict:
            return field in value
        if value is frame.variables:
            return field in frame.variables
        if type(value) is Optional:
            return _chained(frame, value, field).present
        return _entry(frame, value, field) is not MISSING

    return run


def select_optional(operand: Code, field: str) -> Code:
    """``operand.?field``."""
    return lambda frame: _chained(frame, _optional(operand(frame)), field)


def index(operand: Code, key: Code, offset: int, *, followed: bool) -> Code:
    """``operand[key]``."""

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is Optional:
            return _chained(frame, value, _key(key(frame), offset)) if value.present else NONE
        entry = _entry(frame, value, _key(key(frame), offset))
        if entry is MISSING and isinstance(value, (list, tuple)):
            raise EvalError(EvalKind.INDEX_OUT_OF_BOUNDS, "index out of bounds")
        if entry is MISSING:
            raise EvalError(EvalKind.NO_SUCH_KEY, "no such key")
        return _opaque(entry) if followed else entry

    return run


def index_optional(operand: Code, key: Code, offset: int) -> Code:
    """``operand[?key]``; the key is evaluated only where the operand has a value."""

    def run(frame: Frame) -> Optional:
        value = _optional(operand(frame))
        return _chained(frame, value, _key(key(frame), offset)) if value.present else NONE

    return run


def _optional(value: Any) -> Optional:
    return value if type(value) is Optional else Optional(present=True, value=value)


def _chained(frame: Frame, operand: Optional, key: Any) -> Optional:
    """The operand of a chain after ``.?``: its value, or none."""
    value = _entry(frame, operand.value, key) if operand.present else MISSING
    return NONE if value is MISSING else Optional(present=True, value=value)


def _key(key: Any, offset: int) -> Any:
    """The value in brackets: a string, a number or a bool."""
    if type(key) not in KEYS:
        raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "a value of this type cannot be an index", offset)
    return key


def _entry(frame: Frame, operand: Any, key: Any) -> Any:
    """An entry of a map or element of a list, or MISSING: also for values without entries, as natively."""
    if type(operand) is dict or isinstance(operand, Mapping):
        value = find(operand, key)
    elif isinstance(operand, (list, tuple)):
        position = _position(key)
        value = operand[position] if 0 <= position < len(operand) else MISSING
    else:
        return MISSING
    return decoded(value, frame)


def _position(key: Any) -> int:
    """The element that a number selects; any whole number does."""
    cls = type(key)
    if cls is int or cls is Uint:
        return int(key)
    if cls is not float:
        raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "the index of a list is no number")
    if not key.is_integer():
        raise invalid("the index of a list is no whole number")
    return int(key)
