"""Names in an expression, of types and with dots, and messages for names and calls that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from gangctl.cel import types
from gangctl.cel.ast import Call, Name, Node, Select, Span
from gangctl.cel.declarations.signature import Overload
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.macros import VARIABLES
from gangctl.cel.types import DYN, Type, list_of, map_of

_ELSEWHERE: Final = {
    "cel": "Kubernetes has no cel.bind: put the value into a variable of the policy",
    "math": "Kubernetes has no math functions: compare with < and >, or use min() and max() of a list",
    "base64": "Kubernetes has no base64 functions in policies",
    "regex": "Kubernetes has find(), findAll() and matches() of strings",
    "jsonpatch": "jsonpatch.escapeKey is for mutating policies only",
    "self": "the object is 'object' in policies",
    "oldSelf": "the object before is 'oldObject' in policies",
    "existsOne": "the macro of one variable is exists_one",
    "includes": "write value in list",
    "length": "write size()",
    "len": "write size()",
    "toLowerCase": "write lowerAscii()",
    "toUpperCase": "write upperAscii()",
    "lower": "write lowerAscii()",
    "upper": "write upperAscii()",
    "any": "write exists(x, ...)",
    "params": "params exist where the policy has a paramKind",
}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known name, or nothing."""
    if word in _ELSEWHERE:
        return _ELSEWHERE[word]
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else ""


_TYPES: Final = {
    each.name: each
    for each in (
        *(types.BOOL, types.BYTES, types.DOUBLE, types.INT, types.NULL, types.STRING, types.UINT),
        *(types.DURATION, types.TIMESTAMP),
    )
} | {"list": list_of(DYN), "map": map_of(DYN, DYN), "type": Type("type", (DYN,))}

UNSUPPORTED: Final = frozenset({"net.IP", "net.CIDR", "optional_type"})
"""Names of types that kube-apiserver supports, but gangctl does not."""


def type_named(name: str) -> Type | None:
    """``type(int)`` of ``int``: the value of a type's name; None for other names."""
    found = _TYPES.get(name)
    return None if found is None else Type("type", (found,))


def dotted(node: Node) -> str | None:
    """``a.b.c`` of plain selections, None of anything else."""
    parts: list[str] = []
    while isinstance(node, Select):
        if node.optional or node.test:
            return None
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Name) else None


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
