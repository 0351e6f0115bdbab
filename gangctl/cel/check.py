"""Refuses at load the expressions that kube-apiserver refuses, and text that is too long or nested too deeply.

Some errors show only when ``object`` is known to be a JobSet: fields that do not exist, types that never match.
Natively that is type checking, whose findings are warnings: at run time ``object`` is dyn, and another version of
JobSet may have more fields. ``jobset.json`` is written by ``python -m tests.cel.jobset_types`` from the CRD and the
OpenAPI documents of real API servers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Final

from gangctl.cel import types
from gangctl.cel.ast import Node
from gangctl.cel.constants import check_literals
from gangctl.cel.environments import CheckedExpression, Environment
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.infer import Inference
from gangctl.cel.parser import parse
from gangctl.cel.types import Type
from gangctl.cel.unify import same


def check(text: str, environment: Environment, *, returns: Sequence[Type] = ()) -> CheckedExpression:
    """The expression with its type; CompileError with a place in ``text`` if it cannot be used.

    ``returns`` are the types that it may have (a validation is BOOL, a message STRING, an audit annotation STRING or
    NULL); none means any. ``dyn`` does not count as a bool, as natively.
    """
    return _checked(text, parse(text, environment.minor), environment, returns)


def _checked(text: str, node: Node, environment: Environment, returns: Sequence[Type] = ()) -> CheckedExpression:
    inference = Inference(environment)
    type_ = inference.infer(node)
    check_literals(node, inference.types)
    _check_result(node, type_, returns)
    return CheckedExpression(
        text=text,
        node=node,
        type=type_,
        reads=frozenset(inference.reads),
        variables=frozenset(inference.variables),
        functions=frozenset(inference.functions),
        types=inference.types,
    )


def _check_result(node: Node, type_: Type, returns: Sequence[Type]) -> None:
    if not returns or any(same(type_, declared) for declared in returns):
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
        name: jobset_type() if name in {"object", "oldObject"} else root for name, root in environment.roots.items()
    }
    return replace(environment, roots=roots)


def typed_check(accepted: CheckedExpression, environment: Environment) -> CheckedExpression | CompileError:
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
    # The JobSet is the first entry: tests/cel/jobset_types.py writes it there.
    root = next(iter(table))
    return _object(root, table, made)


def _object(name: str, table: Mapping[str, Mapping[str, str]], made: dict[str, Type]) -> Type:
    if name not in made:
        made[name] = Type(name, fields={field: _type(text, table, made) for field, text in table[name].items()})
    return made[name]


def _type(text: str, table: Mapping[str, Mapping[str, str]], made: dict[str, Type]) -> Type:
    if text.startswith("list("):
        return types.list_of(_type(text[5:-1], table, made))
    if text.startswith("map("):
        return types.map_of(types.STRING, _type(text[4:-1], table, made))
    return _SCALARS.get(text) or _object(text, table, made)
