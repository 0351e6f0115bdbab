"""Messages for calls that do not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.cel.ast import Call, Span
from gangctl.cel.declarations.signature import Overload
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.hints import did_you_mean
from gangctl.cel.macros import VARIABLES
from gangctl.cel.types import Type

_SHOWN: Final = 4
_MACROS: Final = frozenset({*(name for name, _ in VARIABLES), "has"})


def unknown_function(call: Call, table: Mapping[str, Sequence[Overload]]) -> CompileError:
    """The refusal of an unknown function name."""
    name = call.function
    message = f"there is no function '{name}'"
    hint = did_you_mean(name, {*(each for each in table if each[0].isalpha()), *_MACROS})
    if name in _MACROS:
        counts = sorted(count for macro, count in VARIABLES if macro == name)
        if call.target is None and name != "has":
            hint = f"write list.{name}(x, ...)"
        else:
            wanted = " or ".join(map(str, counts)) or "1"
            message = f"{name} takes {wanted} arguments, but there are {len(call.arguments)}"
            hint = "has(object.field)" if name == "has" else f"write list.{name}(x, ...)"
    span = call.name_span
    return CompileError(CompileKind.UNDECLARED, message, span.start, span.end - span.start, hint=hint)


def no_overload(
    function: str, arguments: Sequence[Type], overloads: Sequence[Overload], span: Span, *, method: bool
) -> CompileError:
    """The refusal of arguments that a function does not accept."""
    operator = _operator(function)
    if operator:
        message = f"'{operator}' does not take {' and '.join(map(str, arguments))}"
        return CompileError(
            CompileKind.TYPE, message, span.start, span.end - span.start, hint=_operator_hint(arguments)
        )
    shown = [str(each) for each in arguments]
    call = f"{shown[0]}.{function}({', '.join(shown[1:])})" if method else f"{function}({', '.join(shown)})"
    fitting = [str(each) for each in overloads if each.method == method]
    hint = f"there is {', '.join((fitting or [str(each) for each in overloads])[:_SHOWN])}"
    message = f"{call} does not exist"
    return CompileError(CompileKind.TYPE, message, span.start, span.end - span.start, hint=hint)


def _operator(function: str) -> str:
    if function == "@in":
        return "in"
    if function[0].isalpha() or function[0] == "@":
        return ""
    return {"_?_:_": "? :", "_[_]": "[]", "_[?_]": "[?]"}.get(function, function.replace("_", ""))


def _operator_hint(arguments: Sequence[Type]) -> str:
    names = {each.name for each in arguments}
    if len(names) > 1 and names <= {"int", "uint", "double"}:
        return "convert one of them: int(x), uint(x), double(x)"
    if "kubernetes.Quantity" in names:
        return "quantities are compared by isGreaterThan, isLessThan and compareTo, and added by add"
    if "string" in names and len(names) > 1:
        return "convert the other one: string(x)"
    return ""
