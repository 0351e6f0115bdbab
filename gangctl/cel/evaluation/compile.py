"""From the tree of a checked expression to Python closures: compiled once per policy, called for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gangctl.cel.ast import Call, Comprehension, Index, ListOf, Literal, MapOf, Name, Node, Select
from gangctl.cel.evaluation import access
from gangctl.cel.evaluation.arithmetic import OPERATORS, RELATIONS, Operator, Relation, negate
from gangctl.cel.evaluation.comprehensions import MACROS, Loop, comprehension
from gangctl.cel.evaluation.functions import ResolvedFunction, declared, resolve
from gangctl.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.cel.library.values import (
    COPIED_SHIFT,
    MISSING,
    KeyedMap,
    Optional,
    TypeValue,
    Uint,
    bounded,
    entered,
    no_such_overload,
    remove,
)
from gangctl.cel.meter import EXHAUSTED, STEPS_PER_PAYMENT, Code, Frame, placed
from gangctl.cel.times import Duration
from gangctl.cel.types import DOUBLE, DURATION, DYN, UINT, Type
from gangctl.cel.unify import dotted

TYPES: Final = {
    name: TypeValue(name)
    for name in (
        *("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"),
        *("google.protobuf.Timestamp", "google.protobuf.Duration"),
    )
}
"""The values of type names, unless a variable has the same name."""

_LOGIC: Final = {"_&&_": False, "_||_": True}
"""The operand value that decides each operator."""
_ZEROS: Final = {DOUBLE.name: 0.0, UINT.name: Uint(0), DURATION.name: Duration(0)}
"""Sums of empty lists, by the declared type of the elements."""
_DECLARED: Final = frozenset(
    {
        *("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"),
        *("isSorted", "max", "min", "sum", "add", "sub", "containsCIDR", "containsIP"),
    }
)
"""Functions with overloads that cel-go chooses from by the types of the check, not by the values."""
_SIZED: Final = (str, bytes, list)
_PYTHON: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def compile_node(node: Node, types: Mapping[int, Type], *, followed: bool = False) -> Code:
    """The code of a tree; ``types`` are the types of its parts by ``id``.

    ``followed`` means that a field or an element of it is selected.
    CompileError of kind UNSUPPORTED for a function that is not implemented.
    """
    match node:
        case Literal():
            return _constant(node.value)
        case Name():
            return _name(node.name, node.span.start)
        case Select():
            return _select(node, types, followed=followed)
        case Index():
            return _index(node, types, followed=followed)
        case Call():
            return _call(node, types, followed=followed)
        case ListOf():
            places = [_place(element) for element in node.elements]
            elements = [compile_node(element, types) for element in node.elements]
            return placed(_list(elements, node.optional, places), node.span.start)
        case MapOf():
            entries = [(compile_node(key, types), compile_node(value, types)) for key, value in node.entries]
            return placed(_map(entries, node.optional), node.span.start)
        case Comprehension():
            if node.macro not in MACROS:
                raise CompileError(CompileKind.UNSUPPORTED, f"there is no macro '{node.macro}'", node.span.start)
            target, *parts = (compile_node(part, types) for part in (node.target, *node.arguments))
            loop = Loop(node.names, parts, _place(node.arguments[0]))
            return placed(comprehension(node.macro, target, loop), node.span.start)


def _constant(value: Any) -> Code:
    def run(frame: Frame) -> Any:
        frame.unpaid += 1
        return value

    return run


def _name(name: str, offset: int) -> Code:
    """A variable, or a type: the second most frequent step."""

    def run(frame: Frame) -> Any:
        frame.unpaid += 1
        if frame.unpaid >= STEPS_PER_PAYMENT:
            frame.settle()
        value = frame.names.get(name, MISSING)
        # A variable without a value, such as ``gang`` of a JobSet without a plan, is an error only where it is read.
        if value.__class__ is EvalError:
            raise EvalError(value.kind, value.message, offset)
        if value is not MISSING:
            return value
        if name in TYPES:
            return TYPES[name]
        raise EvalError(EvalKind.OTHER, f"'{name}' has no value", offset)

    return run


def _select(node: Select, types: Mapping[int, Type], *, followed: bool) -> Code:
    path = dotted(node)
    if path in TYPES:
        return _constant(TYPES[path])
    if node.test or node.optional:
        make = access.has if node.test else access.select_optional
        return placed(make(compile_node(node.operand, types, followed=True), node.field), _place(node))
    # One closure for a whole chain: most steps of policies select a field.
    fields: list[tuple[str, int]] = []
    operand: Node = node
    while isinstance(operand, Select) and not operand.test and not operand.optional and dotted(operand) not in TYPES:
        fields.append((operand.field, _place(operand)))
        operand = operand.operand
    return access.select(compile_node(operand, types, followed=True), fields[::-1], followed=followed)


def _index(node: Index, types: Mapping[int, Type], *, followed: bool) -> Code:
    operand, key = compile_node(node.operand, types, followed=True), compile_node(node.index, types)
    offset = node.index.span.start
    if node.optional:
        return placed(access.index_optional(operand, key, offset), offset)
    return placed(access.index(operand, key, offset, followed=followed), offset)


def _call(node: Call, types: Mapping[int, Type], *, followed: bool) -> Code:
    offset, name = node.name_span.start, node.function
    if name in _LOGIC:
        # false && (false && x) is false && false && x: long chains are shallow.
        return placed(
            _decided([compile_node(operand, types) for operand in _flat(node, name)], by=_LOGIC[name]), offset
        )
    if name == "@in" and isinstance(node.arguments[1], ListOf) and not node.arguments[1].elements:
        # As natively, where nothing is looked up: that the item is missing is no error.
        return _constant(False)
    parts = [] if node.target is None else [compile_node(node.target, types)]
    # A field of a conditional is one of its branches.
    inherited = followed and name == "_?_:_"
    parts += [compile_node(argument, types, followed=inherited) for argument in node.arguments]
    plain = _operator(name, parts)
    if plain is None and node.target is not None and name in _LAZY:
        plain = _LAZY[name](*parts)
    if plain is None:
        given = [*([] if node.target is None else [node.target]), *node.arguments]
        plain = _function(node, parts, [types.get(id(argument), DYN) for argument in given])
    return placed(plain, offset)


def _flat(node: Node, name: str) -> list[Node]:
    """The operands of a chain of one operator, in their order."""
    if not isinstance(node, Call) or node.function != name:
        return [node]
    return [operand for argument in node.arguments for operand in _flat(argument, name)]


def _operator(name: str, parts: Sequence[Code]) -> Code | None:
    if name == "_?_:_":
        return _conditional(*parts)
    if name in RELATIONS:
        return _relation(RELATIONS[name], *parts)
    if name in OPERATORS:
        return _arithmetic(OPERATORS[name], *parts)
    if name == "!_":
        return _not(*parts)
    return _negative(*parts) if name == "-_" else None


def _conditional(condition: Code, yes: Code, no: Code) -> Code:
    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return yes(frame)
        if value is False:
            return no(frame)
        raise no_such_overload("_?_:_")

    return run


def _decided(operands: Sequence[Code], *, by: bool) -> Code:
    """``a && b``, decided by a false, or ``a || b``, decided by a true: then errors of others do not count.

    Otherwise the first error does.
    """

    def run(frame: Frame) -> bool:
        failure: EvalError | None = None
        for operand in operands:
            try:
                value = operand(frame)
                if value is by:
                    return bool(by)
                if value is not (not by):
                    raise no_such_overload("_||_" if by else "_&&_")
            except EvalError as error:
                if error.kind in EXHAUSTED:
                    raise
                failure = failure or error
        if failure is not None:
            raise failure
        return not by

    return run


def _relation(relation: Relation, left: Code, right: Code) -> Code:
    return lambda frame: bool(relation(left(frame), right(frame), frame.charge))


def _arithmetic(operator: Operator, left: Code, right: Code) -> Code:
    def run(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        if type(one) in _SIZED and type(other) in _SIZED:
            # Paid before the value is made, so that repeated concatenation ends before it is large.
            frame.charge((len(one) + len(other)) >> COPIED_SHIFT)
        return operator(one, other)

    return run


def _not(operand: Code) -> Code:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if value is True or value is False:
            return not value
        raise no_such_overload("!_")

    return run


def _negative(operand: Code) -> Code:
    return lambda frame: negate(operand(frame))


def _or(first: Code, second: Code) -> Code:
    """``a.or(b)``: b only where a is none."""

    def run(frame: Frame) -> Optional:
        value = first(frame)
        if type(value) is Optional and not value.present:
            value = second(frame)
        if type(value) is not Optional:
            raise no_such_overload("or")
        return value

    return run


def _or_value(first: Code, second: Code) -> Code:
    """``a.orValue(b)``: b only where a is none."""

    def run(frame: Frame) -> Any:
        value = first(frame)
        if type(value) is not Optional:
            raise no_such_overload("orValue")
        return value.value if value.present else second(frame)

    return run


_LAZY: Final[Mapping[str, Callable[[Code, Code], Code]]] = {"or": _or, "orValue": _or_value}


def _function(node: Call, parts: list[Code], given: list[Type]) -> Code:
    name, member = node.function, node.target is not None
    if name == "sum" and given[0].parameters and given[0].parameters[0].name in _ZEROS:
        parts, given = [*parts, _constant(_ZEROS[given[0].parameters[0].name])], [*given, DYN]
        function = resolve("@sum", member=True)
    else:
        function = resolve(name, member=member)
    if function is None:
        message = f"there is no function '{name}'"
        length = node.name_span.end - node.name_span.start
        raise CompileError(CompileKind.UNSUPPORTED, message, node.name_span.start, length)
    if name in _DECLARED and any(type_ != DYN for type_ in given):
        function = declared(function, given)
    return _called(function, parts)


def _called(function: ResolvedFunction, parts: Sequence[Code]) -> Code:
    """``f(a)`` and ``a.f(b)``."""

    def run(frame: Frame) -> Any:
        arguments = [part(frame) for part in parts]
        # Before the call, which cannot be stopped.
        frame.charge(function.cost(arguments))
        try:
            value = function.call(frame, *arguments) if function.metered else function.call(*arguments)
        # What an implementation raises is an error of the expression, and failurePolicy decides.
        except _PYTHON as error:
            raise EvalError(EvalKind.OTHER, f"{function.name} failed") from error
        if type(value) in _SIZED:
            bounded(len(value), function.name)
        return value

    return run


def _list(elements: Sequence[Code], optional: frozenset[int], places: Sequence[int]) -> Code:
    """``[a, ?b]``."""

    def run(frame: Frame) -> list[Any]:
        made: list[Any] = []
        for position, element in enumerate(elements):
            value = element(frame)
            if position not in optional:
                made.append(value)
            elif type(value) is not Optional:
                raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "an optional element is no optional", places[position])
            elif value.present:
                made.append(value.value)
        return made

    return run


def _map(entries: Sequence[tuple[Code, Code]], optional: frozenset[int]) -> Code:
    """``{a: b, ?c: d}``."""

    def run(frame: Frame) -> dict[str, Any] | KeyedMap:
        made: dict[str, Any] | KeyedMap = {}
        for position, (key_of, value_of) in enumerate(entries):
            key, value = key_of(frame), value_of(frame)
            if position in optional:
                if type(value) is not Optional:
                    raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "an optional entry is no optional")
                if not value.present:
                    # As cel-go: an entry before it with this key is gone.
                    remove(made, key)
                    continue
                value = value.value
            made = entered(made, key, value)
        return made

    return run


def _place(node: Node) -> int:
    """The place at which an error of a part is shown."""
    if isinstance(node, Call):
        return node.name_span.start
    if isinstance(node, Select):
        return max(node.operand.span.end, node.span.start)
    return node.index.span.start if isinstance(node, Index) else node.span.start
