"""ClusterQueues and Cohorts in few words: quotas are written ``nominal``, ``(nominal, borrowing, lending)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangctl.fit.quotas import Quotas
from gangctl.kueue.objects import (
    ClusterQueue,
    Cohort,
    Condition,
    FlavorQuotas,
    PodSetAssignment,
    QueuedWorkload,
    Quota,
    ResourceGroup,
)

Written = int | tuple[int, int | None, int | None]


def quota(written: Written) -> Quota:
    return Quota(written) if isinstance(written, int) else Quota(*written)


def group(flavors: Mapping[str, Mapping[str, Written]]) -> ResourceGroup:
    """One resource group: quotas by flavor and resource, in the order in which flavors are tried."""
    names = tuple(dict.fromkeys(resource for resources in flavors.values() for resource in resources))
    return ResourceGroup(
        names,
        tuple(
            FlavorQuotas(flavor, {resource: quota(each) for resource, each in resources.items()})
            for flavor, resources in flavors.items()
        ),
    )


def cpu(written: Written, flavor: str = "f1") -> tuple[ResourceGroup, ...]:
    """A single group with a single resource; amounts are plain numbers here, of whatever unit."""
    return (group({flavor: {"cpu": written}}),)


def queue(name: str, written: Written, cohort: str = "", **fields: Any) -> ClusterQueue:
    return ClusterQueue(name, cohort, cpu(written), **fields)


def quotas(*members: ClusterQueue | Cohort) -> Quotas:
    index = Quotas()
    for member in members:
        if isinstance(member, Cohort):
            index.set_cohort(member)
        else:
            index.set_queue(member)
    return index


def holder(uid: str, cluster_queue: str, held: Mapping[tuple[str, str], int], **fields: Any) -> QueuedWorkload:
    """A workload with a reservation, one podset for each pair of flavor and resource that it holds."""
    assignments = tuple(
        PodSetAssignment(f"p{index}", {resource: flavor}, {resource: amount}, 1)
        for index, ((flavor, resource), amount) in enumerate(held.items())
    )
    return QueuedWorkload(
        **{
            "namespace": "team",
            "name": f"w-{uid}",
            "uid": uid,
            "cluster_queue": cluster_queue,
            "assignments": assignments,
            "conditions": {"QuotaReserved": Condition(status=True)},
            **fields,
        }
    )
