"""Refuses at load the expressions that kube-apiserver refuses, and text that is too long or nested too deeply."""

from __future__ import annotations

from collections.abc import Sequence

from gangctl.cel.ast import Node
from gangctl.cel.checked import Checked, Environment
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.infer import Inference
from gangctl.cel.literal_checks import check_literals
from gangctl.cel.parser import parse
from gangctl.cel.types import Type
from gangctl.cel.unify import same


def check(text: str, environment: Environment, *, returns: Sequence[Type] = ()) -> Checked:
    """The expression with its type; CompileError with a place in ``text`` if it cannot be used.

    ``returns`` are the types that it may have (a validation is BOOL, a message STRING, an audit annotation STRING or
    NULL); none means any. ``dyn`` does not count as a bool, as natively.
    """
    node = parse(text, environment.minor)
    inference = Inference(environment)
    type_ = inference.infer(node)
    check_literals(node, inference.types)
    _check_result(node, type_, returns)
    return Checked(
        text=text,
        node=node,
        type=type_,
        reads=frozenset(inference.reads),
        variables=frozenset(inference.variables),
        functions=frozenset(inference.functions),
        types=inference.types,
    )


def _check_result(node: Node, type_: Type, returns: Sequence[Type]) -> None:
    if not returns or any(same(type_, each) for each in returns):
        return
    wanted = " or ".join(map(str, returns))
    hint = ""
    if type_.name == "dyn":
        hint = (
            f"its type is only known at run time: write {returns[0]}(...)"
            if wanted != "bool"
            else "compare it: == true"
        )
    span = node.span
    message = f"the expression must be {wanted}, but it is {type_}"
    raise CompileError(CompileKind.TYPE, message, span.start, span.end - span.start, hint=hint)
