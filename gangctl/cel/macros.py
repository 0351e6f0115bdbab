"""Macros: calls that are a loop, a binding or a test, identified by name and number of arguments as in cel-go."""

from __future__ import annotations

from typing import Final

from gangctl.cel.ast import Call, Comprehension, Name, Node, Select, Span
from gangctl.cel.faults import CompileError, CompileKind

VARIABLES: Final = {
    ("all", 2): 1,
    ("exists", 2): 1,
    ("exists_one", 2): 1,
    ("map", 2): 1,
    ("map", 3): 1,
    ("filter", 2): 1,
    ("sortBy", 2): 1,
    ("optMap", 2): 1,
    ("optFlatMap", 2): 1,
    ("all", 3): 2,
    ("exists", 3): 2,
    ("exists_one", 3): 2,
    ("existsOne", 3): 2,
    ("transformList", 3): 2,
    ("transformList", 4): 2,
    ("transformMap", 3): 2,
    ("transformMap", 4): 2,
    ("transformMapEntry", 3): 2,
    ("transformMapEntry", 4): 2,
}
"""The number of variables of a macro, by its number of arguments."""

LOOPS: Final = frozenset(name for name, _ in VARIABLES) - {"optMap", "optFlatMap"}
"""Macros that visit every element; the others visit one value at most."""

_BIND_ARGUMENTS: Final = 3


def expand(call: Call) -> Node:
    """The macro of ``call``, or the call itself; CompileError for a macro with the wrong arguments."""
    if call.target is None:
        return _has(call) if call.function == "has" and len(call.arguments) == 1 else call
    if is_bind(call):
        if len(call.arguments) != _BIND_ARGUMENTS:
            raise _refused("cel.bind takes a name, its value and an expression", call.span)
        _variable(call.arguments[0], "cel.bind")
    count = VARIABLES.get((call.function, len(call.arguments)))
    if count is None:
        return call
    names = tuple(_variable(argument, call.function) for argument in call.arguments[:count])
    if len(set(names)) < count:
        message = f"the variables of {call.function} have the same name '{names[1]}'"
        raise _refused(message, call.arguments[1].span)
    return Comprehension(call.span, call.function, call.target, names, call.arguments[count:])


def _has(call: Call) -> Node:
    (argument,) = call.arguments
    if not isinstance(argument, Select) or argument.optional or argument.test:
        hint = "has(object.field) asks for a field; for keys of maps write 'key' in object.map"
        raise CompileError(
            CompileKind.SYNTAX,
            "has() takes the selection of a field",
            argument.span.start,
            argument.span.end - argument.span.start,
            hint=hint,
        )
    return Select(call.span, argument.operand, argument.field, test=True)


def is_bind(call: Call) -> bool:
    """Whether it is ``cel.bind``, which Kubernetes does not have."""
    return isinstance(call.target, Name) and call.target.name == "cel" and call.function == "bind"


def _variable(node: Node, macro: str) -> str:
    if not isinstance(node, Name):
        raise _refused(f"{macro} takes the name of a variable here", node.span)
    # cel-go has the result of its macros under this name.
    if node.name == "__result__":
        raise _refused("the name '__result__' is taken", node.span)
    return node.name


def _refused(message: str, span: Span) -> CompileError:
    return CompileError(CompileKind.SYNTAX, message, span.start, span.end - span.start)
