"""The JSON Schemas of what commands print, written from the types of the reports.

``docs/plan.schema.json`` is of ``gangctl plan -o json``, ``docs/fit.schema.json`` of ``gangctl fit -o json``, and
``docs/gang.schema.json`` of a Gang, from ``gangctl get -o json`` or from the cluster.
"""

from __future__ import annotations

from typing import Any

from gangctl.api.reportschema import Definitions, object_schema
from gangctl.fit.report import KIND as FIT
from gangctl.fit.report import FitReport
from gangctl.gang.report import KIND as PLAN
from gangctl.gang.report import PlanReport
from gangctl.readiness.report import KIND as GANG
from gangctl.readiness.report import Gang


def plan_schema() -> dict[str, Any]:
    """The schema of one plan."""
    return _published(PLAN, PlanReport)


def fit_schema() -> dict[str, Any]:
    """The schema of one answer of ``gangctl fit``."""
    return _published(FIT, FitReport)


def gang_schema() -> dict[str, Any]:
    """The schema of one Gang; in the cluster its metadata has more in it, as every object's."""
    schema = _published(GANG, Gang)
    del schema["$defs"]["GangMetadata"]["additionalProperties"]
    return schema


def _published(title: str, report: Any) -> dict[str, Any]:
    definitions: Definitions = {}
    root = object_schema(report, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **root,
        "$defs": definitions,
    }
