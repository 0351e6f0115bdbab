"""``gang``: what a policy sees of the gang that a JobSet becomes, and its CEL type.

It equals ``gangctl plan -o json`` of that JobSet, because the same functions make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

from gangctl.api.jobset import read_jobset
from gangctl.gang.plan import make_plan
from gangctl.gang.report import Planned, PlanReport, plan_report
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.gang.validate import MAX_JOBS
from gangctl.policy.cel.types import BOOL, DYN, INT, STRING, Type, list_of, map_of

GENERATED: Final = "xxxxx"
"""Stands for what the API server will append to ``generateName``."""

TYPE_PREFIX: Final = "gangctl."

_PLAIN: Final[dict[object, Type]] = {str: STRING, int: INT, bool: BOOL}


def gang_of(raw: Mapping[str, Any], rules: ClusterRules) -> PlanReport | None:
    """The plan of a JobSet, or None for what cannot be planned: malformed, refused, or without bounds.

    What is wrong with it is told by who refuses it; a policy sees null.
    """
    jobset, malformed = read_jobset(raw)
    if malformed or sum(rj.replicas for rj in jobset.replicated_jobs) > MAX_JOBS:
        return None
    if not jobset.name and jobset.generate_name:
        jobset = replace(jobset, name=f"{jobset.generate_name}{GENERATED}")
    resolution = resolve(jobset, rules)
    if resolution.errors:
        return None
    plan = make_plan(jobset, resolution.stamps, resolution.config.options)
    report, errors = plan_report(raw, Planned(jobset, plan, resolution.notices, rules.generation))
    return None if errors else report


def _type(kind: Any) -> Type:
    """The CEL type of one type of the report; what may be null is dyn, because CEL's null is a type of its own."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if is_typeddict(kind):
        fields = {name: _type(field) for name, field in get_type_hints(kind, include_extras=True).items()}
        return Type(f"{TYPE_PREFIX}{kind.__name__.removesuffix('Report')}", fields=fields)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(parts[0])
    if origin is Literal:
        return _type(type(parts[0]))
    if origin is list:
        return list_of(_type(parts[0]))
    if origin is dict:
        return map_of(_type(parts[0]), _type(parts[1]))
    if origin is UnionType and NoneType in parts:
        return DYN
    raise TypeError(f"no CEL type for {kind}")


GANG_TYPE: Final = _type(PlanReport)
"""Type of ``gang``, an object with declared fields, from the published types of the report."""
