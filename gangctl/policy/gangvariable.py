"""The variable ``gang``: the gang that a JobSet becomes, as policies see it, and its CEL type.

It equals ``gangctl plan -o json`` of that JobSet, because the same functions make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gangctl.api.jobset import read_jobset
from gangctl.gang.plan import make_plan
from gangctl.gang.report import Planned, PlanReport, plan_report
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.gang.validate import MAX_JOBS
from gangctl.policy.reporttypes import type_of

GENERATED: Final = "xxxxx"
"""Placeholder for the suffix that the API server will append to ``generateName``."""


def gang_of(raw: Mapping[str, Any], rules: ClusterRules) -> PlanReport | None:
    """The plan of a JobSet, or None for one that cannot be planned: malformed, refused, or without bounds.

    The webhook that refuses it reports the reason; a policy sees null.
    """
    jobset, malformed = read_jobset(raw)
    if malformed or sum(rj.replicas for rj in jobset.replicated_jobs) > MAX_JOBS:
        return None
    if not jobset.name and jobset.generate_name:
        jobset = replace(jobset, name=f"{jobset.generate_name}{GENERATED}")
    resolution = resolve(jobset, rules)
    if resolution.errors:
        return None
    plan = make_plan(jobset, resolution.stamps, resolution.config)
    report, errors = plan_report(raw, Planned(jobset, plan, resolution.notices, rules.generation))
    return None if errors else report


GANG_TYPE: Final = type_of(PlanReport)
"""Type of ``gang``, an object with declared fields, from the published types of the report."""
