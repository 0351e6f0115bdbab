"""What an expression gives, in words that every engine can be compared in."""

import re
from dataclasses import dataclass
from typing import Final

from gangctl.cel.faults import EvalKind

# Messages of kube-apiserver (cel-go and Kubernetes' own libraries), by class; everything else is an argument that some
# function does not take.
_CLASSES: Final = (
    (r"no such key|no such attribute|undeclared reference", EvalKind.NO_SUCH_KEY),
    (
        r"no such overload|no matching overload|unsupported conversion|unsupported index type|expected iterable",
        EvalKind.NO_SUCH_OVERLOAD,
    ),
    (r"index out of bounds|index out of range|invalid substring range", EvalKind.INDEX_OUT_OF_BOUNDS),
    (r"division by zero|divide by zero|modulus by zero", EvalKind.DIVIDE_BY_ZERO),
    (r"overflow", EvalKind.OVERFLOW),
    (r"cost", EvalKind.BUDGET_EXCEEDED),
)
_ERROR: Final = "resulted in error: "


@dataclass(frozen=True)
class Outcome:
    """`verdict` is true, false, refused (when loaded) or the class of a run-time error; `detail` is for people."""

    verdict: str
    detail: str = ""


def native_outcome(expression: str, warning: str | None) -> Outcome:
    """What the absence or the text of the server's warning means."""
    if warning is None:
        return Outcome("true")
    if warning == f"failed expression: {expression}":
        return Outcome("false")
    detail = warning.partition(_ERROR)[2] or warning
    return Outcome(_kind_of(detail), detail)


def comparable(message: str) -> str:
    """A message as every engine words it: that of an error with its class in place of its details."""
    expression, error, detail = message.partition(_ERROR)
    return f"{expression}{error}{_kind_of(detail)}" if error else message


def _kind_of(detail: str) -> str:
    return next((kind for pattern, kind in _CLASSES if re.search(pattern, detail)), EvalKind.INVALID_ARGUMENT).value
