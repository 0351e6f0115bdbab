"""The Python function of each CEL name, and the steps that a call costs beside the visits of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl.cel.evaluation import optionals, text
from gangctl.cel.evaluation.conversions import CONVERSIONS
from gangctl.cel.evaluation.moments import ACCESSORS
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library import registry
from gangctl.cel.library.regex import compiled
from gangctl.cel.library.values import no_such_overload

Cost = Callable[[Sequence[Any]], int]

_CHARACTERS_SHIFT: Final = 6
"""Reading 64 characters is a step."""
_SEARCHING_SHIFT: Final = 7
_COMPILING_SHIFT: Final = 4
LARGEST_SEARCH: Final = 1 << 23
"""Characters times instructions: at most some 40 nanoseconds for each, though nearly always far less."""
_SEARCHES: Final = frozenset({"matches", "find", "findAll"})


@dataclass(frozen=True, slots=True)
class Function:
    """``call`` takes the values of the arguments, of a method the target first.

    A ``metered`` one takes a :class:`~gangctl.cel.library.overload.Spending` before them: a
    :class:`~gangctl.cel.evaluation.frame.Frame` is one.
    """

    name: str
    call: Callable[..., Any]
    cost: Cost
    metered: bool = False


_STANDARD_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **CONVERSIONS,
    **optionals.FUNCTIONS,
    "size": text.size,
}
_STANDARD_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    **ACCESSORS,
    **optionals.METHODS,
    "size": text.size,
    "contains": text.contains,
    "startsWith": text.starts_with,
    "endsWith": text.ends_with,
}


def resolve(name: str, *, member: bool) -> Function | None:
    """The function of a call; None when there is none."""
    standard = (_STANDARD_METHODS if member else _STANDARD_FUNCTIONS).get(name)
    library = (registry.METHODS if member else registry.FUNCTIONS).get(name)
    if standard is None:
        return None if library is None else Function(name, library.call, _cost(name), metered=True)
    if library is None:
        return Function(name, standard, _reading)
    return Function(name, _either(standard, library), _reading)


def strict(function: Function) -> Function:
    """The function without overloads for text: the declared times of ``namespaceObject`` hold text, as natively."""

    def call(*arguments: Any) -> Any:
        value = arguments[-1]
        if any(type(each) is str for each in (value if type(value) is list else (value,))):
            raise no_such_overload(function.name)
        return function.call(*arguments)

    return replace(function, call=call)


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


def _cost(name: str) -> Cost:
    return _searching if name in _SEARCHES else _each


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
