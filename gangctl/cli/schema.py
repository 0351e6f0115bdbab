"""The JSON Schemas of what commands print, written from the types of the reports: ``docs/NAME.schema.json``.

A schema is of one object: where ``-o json`` prints several, they are the items of a ``List``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.reportschema import Definitions, object_schema
from gangctl.cli.doctor.report import DoctorReport
from gangctl.cli.gangs.description import DescribedGang
from gangctl.cli.gangs.summary import KIND as TOP
from gangctl.cli.gangs.summary import Summary
from gangctl.cli.pathways.accelerators import KIND as ACCELERATOR
from gangctl.cli.pathways.accelerators import AcceleratorReport
from gangctl.cli.pathways.report import (
    EXPLANATION,
    STATUS,
    VALIDATION,
    PathwaysExplanation,
    PathwaysStatus,
    PathwaysValidation,
)
from gangctl.cli.queue.report import DESCRIPTION, SUMMARY, QueueDescription, QueueReport
from gangctl.fit.report import KIND as FIT
from gangctl.fit.report import FitReport
from gangctl.gang.report import KIND as PLAN
from gangctl.gang.report import PlanReport
from gangctl.readiness.report import KIND as GANG
from gangctl.readiness.report import Gang

OF_COMMANDS: Final[Mapping[str, str]] = {
    "describe": "describe",
    "doctor": "doctor",
    "explain": "gang",
    "fit": "fit",
    "get": "gang",
    "pathways accelerators": "pathways-accelerators",
    "pathways explain": "pathways-explain",
    "pathways status": "pathways-status",
    "pathways validate": "pathways-validate",
    "plan": "plan",
    "queue describe": "queue-describe",
    "queue list": "queue-list",
    "top": "top",
    "wait": "gang",
}
"""The name of the schema by the command whose ``-o json`` it describes."""


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


def doctor_schema() -> dict[str, Any]:
    """The schema of what the doctor found."""
    return _published("DoctorReport", DoctorReport)


def describe_schema() -> dict[str, Any]:
    """The schema of a Gang with the details that ``gangctl describe`` adds."""
    return _published(GANG, DescribedGang)


def top_schema() -> dict[str, Any]:
    """The schema of what ``gangctl top`` shows."""
    return _published(TOP, Summary)


def queue_list_schema() -> dict[str, Any]:
    """The schema of one queue in a list."""
    return _published(SUMMARY, QueueReport)


def queue_describe_schema() -> dict[str, Any]:
    """The schema of one queue with what is in it."""
    return _published(DESCRIPTION, QueueDescription)


def pathways_accelerators_schema() -> dict[str, Any]:
    """The schema of one machine type."""
    return _published(ACCELERATOR, AcceleratorReport)


def pathways_explain_schema() -> dict[str, Any]:
    """The schema of where the fields of one JobSet come from."""
    return _published(EXPLANATION, PathwaysExplanation)


def pathways_status_schema() -> dict[str, Any]:
    """The schema of how one PathwaysJob stands in a cluster."""
    return _published(STATUS, PathwaysStatus)


def pathways_validate_schema() -> dict[str, Any]:
    """The schema of what is wrong with one PathwaysJob."""
    return _published(VALIDATION, PathwaysValidation)


def _published(title: str, report: Any) -> dict[str, Any]:
    definitions = Definitions()
    root = object_schema(report, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **root,
        "$defs": definitions,
    }
