"""Modes and options of gangs, and what would make one wait for itself."""

from __future__ import annotations

from typing import Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.refused.case import (
    COLOCATED,
    EXCLUSIVE,
    GANG_MODE,
    PATHWAYS_OPTIONS,
    POD,
    WORKER_MODE,
    Refused,
    options,
    user,
)
from tests.pathways.samples import annotated, pathways_job, template

_ELASTIC: Final = {"elasticSlices": 1}

GANGS: Final = (
    Refused(
        "unknown gang mode",
        pathways_job(metadata=annotated(gang_mode="gang")),
        Why.INVALID_GANG_MODE,
        GANG_MODE,
        "allowed (case-sensitive): Off, Gang",
    ),
    Refused(
        "a gang for each slice of a JobSet",
        pathways_job(metadata=annotated(gang_mode="ReplicatedGang")),
        Why.INVALID_GANG_MODE,
        GANG_MODE,
        "gangctl.dev/pathways-worker-mode",
    ),
    Refused(
        "unknown worker mode",
        pathways_job(metadata=annotated(pathways_worker_mode="On")),
        Why.INVALID_GANG_MODE,
        WORKER_MODE,
        "Off, Gang, ReplicatedGang",
    ),
    Refused(
        "both levels",
        pathways_job(metadata=annotated(gang_mode="Gang", pathways_worker_mode="Gang")),
        Why.INVALID_GANG_MODE,
        WORKER_MODE,
        "write one of them",
    ),
    Refused(
        "unknown gang option",
        pathways_job(metadata=annotated(gang_options='{"topology": "x"}')),
        Why.INVALID_OPTIONS,
        "metadata.annotations[gangctl.dev/gang-options].topology",
        "topologyKey",
    ),
    *(
        Refused(
            f"a gang and {order}",
            pathways_job(metadata=annotated(gang_mode="Gang", pathways_options=f'{{"startup": "{order}"}}')),
            Why.GANG_DEADLOCK,
            f"{PATHWAYS_OPTIONS}.startup",
            "AnyOrder",
        )
        for order in ("InOrder", "DependsOn")
    ),
    *(
        Refused(
            f"a colocated head and {order}",
            options(f'{{"startup": "{order}"}}', controller={"deploymentMode": COLOCATED}),
            Why.GANG_DEADLOCK,
            f"{PATHWAYS_OPTIONS}.startup",
            "AnyOrder",
        )
        for order in ("InOrder", "DependsOn")
    ),
    Refused(
        "an elastic gang of all",
        pathways_job(metadata=annotated(gang_mode="Gang"), controller=_ELASTIC),
        Why.ELASTIC_GANG,
        GANG_MODE,
        "ReplicatedGang",
    ),
    Refused(
        "an elastic gang of all workers",
        pathways_job(metadata=annotated(pathways_worker_mode="Gang"), controller=_ELASTIC),
        Why.ELASTIC_GANG,
        WORKER_MODE,
        "ReplicatedGang",
    ),
    Refused(
        "exclusive placement and a gang",
        pathways_job(metadata={"annotations": {EXCLUSIVE: "cloud.google.com/gke-nodepool"}}),
        Why.GANG_DEADLOCK,
        f"metadata.annotations[{EXCLUSIVE}]",
        "to Off",
    ),
    Refused(
        "exclusive placement of a colocated head",
        pathways_job(
            metadata={"annotations": {EXCLUSIVE: "kubernetes.io/hostname", "gangctl.dev/gang-mode": "Off"}},
            controller={"deploymentMode": COLOCATED},
        ),
        Why.GANG_DEADLOCK,
        f"metadata.annotations[{EXCLUSIVE}]",
        "leave it out",
    ),
    Refused(
        "all slices in one pool",
        pathways_job(
            metadata=annotated(
                pathways_worker_mode="Gang", gang_options='{"topologyKey": "cloud.google.com/gke-nodepool"}'
            )
        ),
        Why.GANG_DEADLOCK,
        "metadata.annotations[gangctl.dev/gang-options].topologyKey",
        "leave topologyKey out",
    ),
    Refused(
        "two priorities in a gang",
        pathways_job(
            controller={"deploymentMode": COLOCATED, "template": template(priorityClassName="high")},
            workers={"priorityClassName": "low"},
        ),
        Why.INVALID_GANG_MODE,
        f"{POD}.priorityClassName",
        "spec.workers[0].priorityClassName",
    ),
    Refused(
        "two schedulers in a gang",
        user(mode=COLOCATED, schedulerName="mine"),
        Why.INVALID_GANG_MODE,
        f"{POD}.schedulerName",
        "one scheduler",
    ),
    *(
        Refused(
            f"{field} of a head in a gang",
            user(mode=COLOCATED, **{field: {"name": "mine"}}),
            Why.INVALID_GANG_MODE,
            f"{POD}.{field}",
            "in one gang with the workers",
        )
        for field in ("schedulingGroup", "workloadRef")
    ),
)
