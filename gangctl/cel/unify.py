"""Type inference: which types match, the types that type variables get, and messages for what does not exist.

The rules are cel-go's, because its acceptance counts: ``dyn`` matches everything, null matches objects, times and
opaque types, and a variable gets the more general of its types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from gangctl.cel import types
from gangctl.cel.ast import Call, Name, Node, Select, Span
from gangctl.cel.declarations.signature import Overload, is_parameter
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.macros import VARIABLES
from gangctl.cel.types import DYN, Type, list_of, map_of

_PLAIN: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes"})
_CONTAINERS: Final = frozenset({"list", "map"})
_VARIABLE: Final = "%"


def is_variable(type_: Type) -> bool:
    """Whether a type is a variable of the inference."""
    return type_.name.startswith(_VARIABLE)


def is_optional(type_: Type) -> bool:
    """Whether it is ``optional_type(...)``."""
    return type_.name == "optional_type" and bool(type_.parameters)


def same(one: Type, other: Type) -> bool:
    """Whether two types are the same; objects are compared by name."""
    return (
        one.name == other.name
        and len(one.parameters) == len(other.parameters)
        and all(map(same, one.parameters, other.parameters))
    )


MOST_STEPS: Final = 200_000
"""Parts of types that are visited for one expression."""


class Unifier:
    """Type variables of one expression and their values."""

    def __init__(self) -> None:
        """Without any variable."""
        self._bound: dict[str, Type] = {}
        # In place of the copies that cel-go makes of all variables for each overload: only changes cost.
        self._journal: list[tuple[str, Type | None]] = []
        self._count = 0
        self._steps = 0

    def _step(self) -> None:
        """CompileError for types that grow without end: each ``.map(a, {a: a})`` doubles them."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            message = "the types of the expression are too large"
            raise CompileError(CompileKind.LIMIT, message, 0, hint="put parts of it into variables")

    def fresh(self) -> Type:
        """A new variable."""
        self._count += 1
        return Type(f"{_VARIABLE}{self._count}")

    def instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """Parameters and result of an overload with type parameters of its own."""
        if not overload.generic:
            return overload.parameters, overload.result
        names: dict[str, Type] = {}
        parameters = tuple(self._renamed(parameter, names) for parameter in overload.parameters)
        return parameters, self._renamed(overload.result, names)

    def _renamed(self, type_: Type, names: dict[str, Type]) -> Type:
        if is_parameter(type_):
            if type_.name not in names:
                names[type_.name] = self.fresh()
            return names[type_.name]
        if not type_.parameters:
            return type_
        return Type(type_.name, tuple(self._renamed(parameter, names) for parameter in type_.parameters), type_.fields)

    def assign(self, types: Sequence[Type], to: Sequence[Type]) -> bool:
        """Whether each type matches its counterpart; changes of variables are kept only if all do."""
        mark = len(self._journal)
        if self._all_fit(types, to):
            return True
        while len(self._journal) > mark:
            name, before = self._journal.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def resolved(self, type_: Type, *, free: bool = True) -> Type:
        """A type with its variables replaced by their values; unless ``free``, unknown ones become dyn."""
        self._step()
        if is_variable(type_):
            bound = self._bound.get(type_.name)
            if bound is not None:
                return self.resolved(bound, free=free)
            return type_ if free else DYN
        if not type_.parameters:
            return type_
        return Type(
            type_.name, tuple(self.resolved(parameter, free=free) for parameter in type_.parameters), type_.fields
        )

    def _all_fit(self, types: Sequence[Type], to: Sequence[Type]) -> bool:
        return len(types) == len(to) and all(self._fits(one, other) for one, other in zip(types, to, strict=True))

    # cel-go's internalIsAssignable, with its order: first the variables, then dyn, then null.
    def _fits(self, one: Type, other: Type) -> bool:
        self._step()
        if is_variable(other):
            if self._substitutes(one, other):
                return True
            if other.name in self._bound:
                return False
        if is_variable(one):
            return self._substitutes(other, one)
        if "dyn" in {one.name, other.name}:
            return True
        if "null_type" in {one.name, other.name}:
            return _nullable(one) and _nullable(other)
        return one.name == other.name and (one.name == "type" or self._all_fit(one.parameters, other.parameters))

    # cel-go's isValidTypeSubstitution.
    def _substitutes(self, type_: Type, variable: Type) -> bool:
        """Whether ``variable`` may be replaced by ``type_``."""
        if same(type_, variable):
            return True
        bound = self._bound.get(variable.name)
        if bound is None:
            if self._occurs(variable, type_):
                return False
            self._bind(variable, type_)
            return True
        if same(type_, bound):
            return True
        if not self._fits(type_, bound):
            return False
        general = more_general(type_, bound)
        if not self._occurs(variable, general):
            self._bind(variable, general)
        return True

    def _bind(self, variable: Type, type_: Type) -> None:
        self._journal.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = type_

    def _occurs(self, variable: Type, type_: Type) -> bool:
        self._step()
        if same(variable, type_):
            return True
        if is_variable(type_):
            bound = self._bound.get(type_.name)
            return bound is not None and self._occurs(variable, bound)
        return any(self._occurs(variable, parameter) for parameter in type_.parameters)


def _nullable(type_: Type) -> bool:
    return type_.name not in _PLAIN and type_.name not in _CONTAINERS and type_.name != "type"


def more_general(one: Type, other: Type) -> Type:
    """The more general of two types that match."""
    return one if _is_more_general(one, other) else other


# cel-go's isEqualOrLessSpecific.
def _is_more_general(one: Type, other: Type) -> bool:
    if one.name == "dyn" or is_variable(one):
        return True
    if other.name == "dyn" or is_variable(other) or one.name != other.name:
        return False
    return one.name == "type" or all(map(_is_more_general, one.parameters, other.parameters))


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
    type_.name: type_
    for type_ in (
        *(types.BOOL, types.BYTES, types.DOUBLE, types.INT, types.NULL, types.STRING, types.UINT),
        *(types.DURATION, types.TIMESTAMP),
    )
} | {"list": list_of(DYN), "map": map_of(DYN, DYN), "type": Type("type", (DYN,))}

UNSUPPORTED: Final = frozenset({"net.IP", "net.CIDR", "optional_type"})
"""Names of types that kube-apiserver supports, but gangctl does not."""


def type_named(name: str) -> Type | None:
    """``type(int)`` of ``int``: the value of a type's name; None for other names."""
    parameter = _TYPES.get(name)
    return None if parameter is None else Type("type", (parameter,))


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
    hint = did_you_mean(name, {*(word for word in table if word[0].isalpha()), *_MACROS})
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
    shown = [str(argument) for argument in arguments]
    call = f"{shown[0]}.{function}({', '.join(shown[1:])})" if method else f"{function}({', '.join(shown)})"
    fitting = [str(overload) for overload in overloads if overload.method == method]
    hint = f"there is {', '.join((fitting or [str(overload) for overload in overloads])[:_SHOWN])}"
    message = f"{call} does not exist"
    return CompileError(CompileKind.TYPE, message, span.start, span.end - span.start, hint=hint)


def _operator(function: str) -> str:
    if function == "@in":
        return "in"
    if function[0].isalpha() or function[0] == "@":
        return ""
    return {"_?_:_": "? :", "_[_]": "[]", "_[?_]": "[?]"}.get(function, function.replace("_", ""))


def _operator_hint(arguments: Sequence[Type]) -> str:
    names = {argument.name for argument in arguments}
    if len(names) > 1 and names <= {"int", "uint", "double"}:
        return "convert one of them: int(x), uint(x), double(x)"
    if "kubernetes.Quantity" in names:
        return "quantities are compared by isGreaterThan, isLessThan and compareTo, and added by add"
    if "string" in names and len(names) > 1:
        return "convert the other one: string(x)"
    return ""
