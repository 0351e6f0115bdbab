"""What C++ says when an expression has no value, told by the beginnings of its messages. None is passed on."""

from __future__ import annotations

from typing import Final

from gangctl.policy.cel.faults import EvalError, EvalKind

NO_FIELDS: Final = "Applying SELECT to non-message type"
_KINDS: Final[tuple[tuple[str, EvalKind, str], ...]] = (
    (
        "UNKNOWN: No matching overloads found : _[?_](list, double)",
        EvalKind.INVALID_ARGUMENT,
        "the index of a list is no whole number",
    ),
    ("UNKNOWN: No matching overloads found", EvalKind.NO_SUCH_OVERLOAD, "no such overload"),
    ("NOT_FOUND: Key not found", EvalKind.NO_SUCH_KEY, "no such key"),
    (f"INVALID_ARGUMENT: {NO_FIELDS}", EvalKind.NO_SUCH_KEY, "no such key"),
    ("INVALID_ARGUMENT: Invalid container type", EvalKind.NO_SUCH_KEY, "no such key"),
    ("UNKNOWN: Index error: index=", EvalKind.INDEX_OUT_OF_BOUNDS, "index out of bounds"),
    (
        "UNKNOWN: Index error: expected integer type, got double",
        EvalKind.INVALID_ARGUMENT,
        "the index of a list is no whole number",
    ),
    ("UNKNOWN: Index error", EvalKind.NO_SUCH_OVERLOAD, "the index of a list is no number"),
    ("INVALID_ARGUMENT: Invalid map key type", EvalKind.NO_SUCH_OVERLOAD, "no such overload"),
    ("INVALID_ARGUMENT: divide by zero", EvalKind.DIVIDE_BY_ZERO, "divide by zero"),
    ("INVALID_ARGUMENT: modulus by zero", EvalKind.DIVIDE_BY_ZERO, "modulus by zero"),
    ("OUT_OF_RANGE", EvalKind.OVERFLOW, "overflow"),
    ("INTERNAL: Iteration budget exceeded", EvalKind.BUDGET_EXCEEDED, "more than 9999 elements visited"),
    ("RESOURCE_EXHAUSTED", EvalKind.BUDGET_EXCEEDED, "a value is too large"),
    ("FAILED_PRECONDITION: optional.none()", EvalKind.INVALID_ARGUMENT, "optional.none() has no value"),
    ("INVALID_ARGUMENT", EvalKind.INVALID_ARGUMENT, "an argument that the function does not take"),
)


def failure(message: str) -> EvalError:
    """The error that a message of C++ stands for."""
    for beginning, kind, text in _KINDS:
        if message.startswith(beginning):
            return EvalError(kind, text)
    return EvalError(EvalKind.OTHER, "cel-cpp failed")
