"""Probable mistakes in expressions about JobSets: fields that no JobSet has, types that never match.

Kubernetes only warns of them (``status.typeChecking``), because another version of the API may have the field; so they
are warnings here, too, and the policy is in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gangctl.api.meta import JOBSET_GROUP
from gangctl.cel.checked import Environment
from gangctl.cel.typed import for_jobsets, typed_check
from gangctl.cel.types import DURATION, DYN, TIMESTAMP, Type
from gangctl.policy.constraints import MatchResources
from gangctl.policy.loaded import Expression, Problem, Programs, problem_of_expression
from gangctl.policy.match import JOBSETS
from gangctl.policy.reporttypes import TYPE_PREFIX

EnvironmentOf = Callable[[Mapping[str, Type]], Environment]
"""The environment of an expression, from the types of the variables that it may read."""

_STORED: Final = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "null_type", DURATION.name, TIMESTAMP.name}
)


def stored(type_: Type) -> Type:
    """The type of a variable in later expressions: the API server forgets all but the plain ones.

    Those of ``gang`` and ``fit`` and their parts, which it does not know, are kept.
    """
    if type_.name in {"list", "map"}:
        return Type(type_.name, tuple(map(stored, type_.parameters)))
    return type_ if type_.name in _STORED or type_.name.startswith(TYPE_PREFIX) else DYN


def is_about_jobsets(constraints: MatchResources) -> bool:
    """Whether every object that a policy sees is a JobSet."""
    return all(
        rule.api_groups == (JOBSET_GROUP,) and rule.resources == (JOBSETS,) for rule in constraints.resource_rules
    )


def type_warnings(programs: Programs, environment: EnvironmentOf) -> Iterator[Problem]:
    """The type errors in the expressions of a policy that matches only JobSets."""
    for condition in programs.match_conditions:
        yield from _warning(condition, environment({}))
    variables: dict[str, Type] = {}
    for name, expression in programs.variables.items():
        typed = typed_check(expression.text, for_jobsets(environment(variables)))
        if typed.fault is not None:
            yield problem_of_expression(expression.path, expression.text, typed.fault)
        # Types of parts of a JobSet are kept here, so that mistakes behind a variable are found.
        variables[name] = (typed.checked or expression.checked).type
    last = environment(variables)
    for rule in programs.rules:
        yield from _warning(rule.condition, last)
        if rule.message_expression is not None:
            yield from _warning(rule.message_expression, last)
    for _, expression in programs.audit_annotations:
        yield from _warning(expression, last)


def _warning(expression: Expression, environment: Environment) -> Iterator[Problem]:
    fault = typed_check(expression.text, for_jobsets(environment)).fault
    if fault is not None:
        yield problem_of_expression(expression.path, expression.text, fault)
