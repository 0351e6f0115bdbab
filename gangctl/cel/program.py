"""Refuses at load the expressions that kube-apiserver refuses, and text that is too long or nested too deeply.

Some errors show only when ``object`` is known to be a JobSet: fields that do not exist, types that never match.
Natively that is type checking, whose findings are warnings: at run time ``object`` is dyn, and another version of
JobSet may have more fields. ``jobset.json`` is written by ``python -m tests.cel.jobset_types`` from the CRD and the
OpenAPI documents of real API servers.

Checked expressions are compiled to closures that are called for each request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from gangctl.cel import types
from gangctl.cel.ast import Node
from gangctl.cel.constants import check_literals
from gangctl.cel.environments import Checked, Environment
from gangctl.cel.evaluation.compile import compile_node
from gangctl.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.cel.infer import Inference
from gangctl.cel.meter import Code, Frame, StepMeter
from gangctl.cel.parser import parse
from gangctl.cel.types import Type
from gangctl.cel.unify import same


def check(text: str, environment: Environment, *, returns: Sequence[Type] = ()) -> Checked:
    """The expression with its type; CompileError with a place in ``text`` if it cannot be used.

    ``returns`` are the types that it may have (a validation is BOOL, a message STRING, an audit annotation STRING or
    NULL); none means any. ``dyn`` does not count as a bool, as natively.
    """
    return _checked(text, parse(text, environment.minor), environment, returns)


def _checked(text: str, node: Node, environment: Environment, returns: Sequence[Type] = ()) -> Checked:
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


_SCALARS: Final = {
    "string": types.STRING,
    "bytes": types.BYTES,
    "time": types.TIMESTAMP,
    "int": types.INT,
    "double": types.DOUBLE,
    "bool": types.BOOL,
    "dyn": types.DYN,
}


def for_jobsets(environment: Environment) -> Environment:
    """The same environment, with ``object`` and ``oldObject`` as JobSets."""
    roots = {
        name: jobset_type() if name in {"object", "oldObject"} else each for name, each in environment.roots.items()
    }
    return replace(environment, roots=roots)


def typed_check(accepted: Checked, environment: Environment) -> Checked | CompileError:
    """The result of type checking an expression that :func:`check` has accepted, or its first fault.

    ``environment`` comes from :func:`for_jobsets`; its variables may have the types that this found for them.
    """
    try:
        return _checked(accepted.text, accepted.node, environment)
    except CompileError as fault:
        return fault


@lru_cache(maxsize=1)
def jobset_type() -> Type:
    """A JobSet of ``jobset.x-k8s.io/v1alpha2`` as an object with declared fields; quantities and the like are dyn."""
    text = resources.files(__package__).joinpath("jobset.json").read_text(encoding="utf-8")
    table: Mapping[str, Mapping[str, str]] = json.loads(text)
    made: dict[str, Type] = {}
    root = next(iter(table))
    return _object(root, table, made)


def _object(name: str, table: Mapping[str, Mapping[str, str]], made: dict[str, Type]) -> Type:
    if name not in made:
        made[name] = Type(name, fields={field: _type(each, table, made) for field, each in table[name].items()})
    return made[name]


def _type(text: str, table: Mapping[str, Mapping[str, str]], made: dict[str, Type]) -> Type:
    if text.startswith("list("):
        return types.list_of(_type(text[5:-1], table, made))
    if text.startswith("map("):
        return types.map_of(types.STRING, _type(text[4:-1], table, made))
    return _SCALARS.get(text) or _object(text, table, made)


Bindings = Mapping[str, Any]
"""JSON values by variable name (``object``, ``oldObject``, ``request``, ``gang``, ...); None is null. Never changed.

An EvalError in place of a value is the error of every expression that reads the variable.
"""

_PYTHON: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Program:
    """A compiled expression; any number of threads may share it."""

    __slots__ = ("_code",)

    def __init__(self, code: Code) -> None:
        """See :func:`compile_expression`."""
        self._code = code

    def evaluate(self, bindings: Bindings, variables: Mapping[str, Any], meter: StepMeter) -> Any:
        """The expression's value, or EvalError; Python's messages, which may hold whole objects, are dropped.

        ``variables`` is the value of ``variables``: a mapping that computes its values on access, and may raise
        EvalError. It is read only where the expression gets there.
        """
        frame = Frame(bindings, variables, meter)
        try:
            try:
                return self._code(frame)
            finally:
                frame.settle()
        except RecursionError:
            raise EvalError(EvalKind.BUDGET_EXCEEDED, "a value is nested too deeply") from None
        except MemoryError:
            raise EvalError(EvalKind.BUDGET_EXCEEDED, "out of memory") from None
        except _PYTHON:
            raise EvalError(EvalKind.OTHER, "the evaluation failed") from None


def compile_expression(checked: Checked) -> Program:
    """A program; CompileError where a function is missing, or the expression is nested too deeply for Python."""
    try:
        return Program(compile_node(checked.node, checked.types))
    except RecursionError as error:
        raise CompileError(CompileKind.LIMIT, "the expression is nested too deeply", 0) from error
