"""The JSON Schemas of command output, generated from the types of the reports: ``docs/NAME.schema.json``.

A schema is for one object: if ``-o json`` prints several, they are the items of a ``List``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.cli.doctor.report import DoctorReport
from gangctl.cli.drain import KIND as DRAIN
from gangctl.cli.drain import DrainPlan
from gangctl.cli.gangs.description import DescribedGang
from gangctl.cli.gangs.summary import KIND as TOP
from gangctl.cli.gangs.summary import Summary
from gangctl.cli.pathways.accelerators import KIND as ACCELERATOR
from gangctl.cli.pathways.accelerators import AcceleratorReport
from gangctl.cli.pathways.report import (
    ORIGINS,
    STATUS,
    VALIDATION,
    PathwaysOrigins,
    PathwaysStatus,
    PathwaysValidation,
)
from gangctl.cli.queue.report import DESCRIPTION, SUMMARY, QueueDescription, QueueReport
from gangctl.fit.largest import KIND as LARGEST
from gangctl.fit.largest import LargestReport
from gangctl.fit.report import KIND as FIT
from gangctl.fit.report import DispatchedFit
from gangctl.gang.report import KIND as PLAN
from gangctl.gang.report import PlanReport
from gangctl.readiness.report import KIND as GANG
from gangctl.readiness.report import GangStanding
from tests.reportschema import Definitions, object_schema

OF_COMMANDS: Final[Mapping[str, str]] = {
    "describe": "describe",
    "doctor": "doctor",
    "drain": "drain",
    "fit": "fit",
    "get": "gang",
    "pathways accelerators": "pathways-accelerators",
    "pathways status": "pathways-status",
    "pathways validate": "pathways-validate",
    "pathways why": "pathways-why",
    "plan": "plan",
    "queue describe": "queue-describe",
    "queue list": "queue-list",
    "top": "top",
    "wait": "gang",
    "why": "gang",
}
"""The name of the schema by the command whose ``-o json`` it describes."""
OF_FLAGS: Final[Mapping[str, str]] = {"fit --largest": "fit-largest"}
"""The same by a flag with which a command prints something else."""


_REPORTS: Final[Mapping[str, tuple[str, Any]]] = {
    "describe": (GANG, DescribedGang),
    "doctor": ("DoctorReport", DoctorReport),
    "drain": (DRAIN, DrainPlan),
    "fit": (FIT, DispatchedFit),
    "fit-largest": (LARGEST, LargestReport),
    "gang": (GANG, GangStanding),
    "pathways-accelerators": (ACCELERATOR, AcceleratorReport),
    "pathways-status": (STATUS, PathwaysStatus),
    "pathways-validate": (VALIDATION, PathwaysValidation),
    "pathways-why": (ORIGINS, PathwaysOrigins),
    "plan": (PLAN, PlanReport),
    "queue-describe": (DESCRIPTION, QueueDescription),
    "queue-list": (SUMMARY, QueueReport),
    "top": (TOP, Summary),
}
"""Title and type of the report by the name of its schema."""


def schema_of(name: str) -> dict[str, Any]:
    """The schema of a name, for one object."""
    title, report = _REPORTS[name]
    definitions = Definitions()
    root = object_schema(report, definitions)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **root, "$defs": definitions}
    if name == "gang":  # in the cluster its metadata has more fields
        del schema["$defs"]["GangMetadata"]["additionalProperties"]
    return schema
