"""The variables ``gang`` and ``fit`` of policies, with their CEL types: a JobSet's gang, and whether it can run.

It equals ``gangctl plan -o json`` of that JobSet, because the same functions make it.

It equals ``gangctl fit -o json`` of that JobSet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Protocol, get_args, get_origin, get_type_hints, is_typeddict

from gangctl.api.jobset import read_jobset
from gangctl.cel.types import BOOL, DYN, INT, STRING, Type, list_of, map_of
from gangctl.fit.report import FitReport, report_of
from gangctl.gang.plan import make_plan
from gangctl.gang.report import Planned, PlanReport, plan_report
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.gang.validate import MAX_JOBS

TYPE_PREFIX: Final = "gangctl."

_PLAIN: Final[dict[object, Type]] = {str: STRING, int: INT, bool: BOOL}


def type_of(kind: Any) -> Type:
    """The CEL type of one type of a report; a nullable one is dyn, because CEL's null is a separate type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if is_typeddict(kind):
        fields = {name: type_of(field) for name, field in get_type_hints(kind, include_extras=True).items()}
        return Type(f"{TYPE_PREFIX}{kind.__name__.removesuffix('Report')}", fields=fields)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_of(parts[0])
    if origin is Literal:
        return type_of(type(parts[0]))
    if origin is list:
        return list_of(type_of(parts[0]))
    if origin is dict:
        return map_of(type_of(parts[0]), type_of(parts[1]))
    if origin is UnionType and NoneType in parts:
        return DYN
    raise TypeError(f"no CEL type for {kind}")


GENERATED: Final = "xxxxx"
"""Placeholder for the suffix that the API server will append to ``generateName``."""


def gang_of(raw: Mapping[str, Any], rules: ClusterRules) -> PlanReport | str:
    """The plan of a JobSet, or the reason why it cannot be planned: malformed, refused, or without bounds.

    Such a JobSet may run all the same, because JobSet and the API server check less: to a policy it is an error, never
    the same as one that asks for no gang.
    """
    jobset, malformed = read_jobset(raw)
    if malformed:
        return _unplanned(malformed[0])
    jobs = sum(rj.replicas for rj in jobset.replicated_jobs)
    if jobs > MAX_JOBS:
        return _unplanned(f"{jobs} Jobs, at most {MAX_JOBS} can be planned")
    if not jobset.name and jobset.generate_name:
        jobset = replace(jobset, name=f"{jobset.generate_name}{GENERATED}")
    resolution = resolve(jobset, rules)
    if resolution.errors:
        return _unplanned(resolution.errors[0])
    plan = make_plan(jobset, resolution.stamps, resolution.config)
    report, errors = plan_report(raw, Planned(jobset, plan, resolution.notices, rules.generation))
    return _unplanned(errors[0]) if errors else report


def _unplanned(why: object) -> str:
    return f"this JobSet cannot be planned: {why}"


GANG_TYPE: Final = type_of(PlanReport)
"""Type of ``gang``, an object with declared fields, from the published types of the report."""


FIT_TYPE: Final = type_of(FitReport)
"""Type of ``fit``, an object with declared fields, from the published types of the report."""

COMPUTED: Final = {"gang": GANG_TYPE, "fit": FIT_TYPE}
"""Variables that only GangPolicies have, by name. A JobSet has a value of both or, without a plan, of neither."""


class Fit(Protocol):
    """Answers from the state of queues."""

    def __call__(self, raw: Mapping[str, Any], namespace: str, *, new: bool = True) -> FitReport:
        """Whether a JobSet (of this namespace, where it names none) can be admitted; ``new`` if it is being created."""


def unknown_fit(raw: Mapping[str, Any], namespace: str, why: Sequence[str]) -> FitReport:
    """The answer without the state of queues: verdict ``unknown``, which a rule that forbids does not admit."""
    jobset, _ = read_jobset(raw)
    message = f"It is not known whether this JobSet can be admitted: {'; '.join(why)}."
    report = report_of(jobset, namespace, "unknown", "Unknown", message)
    return {**report, "queue": jobset.queue, "unknown": [*why]}
