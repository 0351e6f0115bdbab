"""The pods of a JobSet as Kueue starts them: with the node labels and the tolerations of their flavors.

Source: Kueue ``pkg/podset`` of v0.19: ``FromAssignment`` and ``Merge``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gangctl.api.objects import object_at, objects_at
from gangctl.fit.clusterstate import ClusterSnapshot
from gangctl.fit.report import FitReport, PodSetReport
from gangctl.fit.requests import PodSet
from gangctl.kueue.objects import QueuedWorkload, ResourceFlavor


@dataclass(frozen=True, slots=True)
class Addition:
    """What Kueue adds to the pods of one podset; ``flavors`` are where it comes from."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """For ``nodeSelector``."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    flavors: tuple[str, ...] = ()
    level: str = ""
    """The node label by which Kueue chooses the nodes as well: the lowest level of a topology; empty if it does not."""

    def to(self, podset: PodSet) -> PodSet:
        """The podset with it."""
        spec = podset.pod_spec
        more: dict[str, Any] = {
            "nodeSelector": {**object_at(spec, "nodeSelector"), **self.labels},
            "tolerations": [*objects_at(spec, "tolerations"), *self.tolerations],
        }
        return replace(podset, template={**podset.template, "spec": {**spec, **more}})


Additions = Mapping[str, Addition]
"""By name of podset."""


def chosen(report: FitReport, cluster: ClusterSnapshot) -> Additions:
    """By the flavors that a report expects."""
    return {
        podset["name"]: _of(dict.fromkeys(podset["flavors"].values()), cluster)
        for podset in report["podSets"]
        if podset["flavors"]
    }


def possible(report: FitReport, podsets: Iterable[str], cluster: ClusterSnapshot) -> Additions:
    """By any flavors that the podsets may ever have: what all have in common, and all that lets pods onto a node."""
    known = {podset["name"]: podset for podset in report["podSets"]}
    return {name: _common(known.get(name), report["clusterQueue"], cluster) for name in podsets}


def labels_of(workload: QueuedWorkload | None, cluster: ClusterSnapshot) -> tuple[str, ...]:
    """Node labels (``key=value``) of the flavors that a Workload has: Kueue adds them to what its pods select."""
    assignments = workload.assignments if workload is not None else ()
    names = {flavor for assignment in assignments for flavor in assignment.flavors.values()}
    return tuple(f"{key}={value}" for key, value in sorted(_of(sorted(names), cluster).labels.items()))


def _of(names: Iterable[str], cluster: ClusterSnapshot) -> Addition:
    flavors = [flavor for name in names if (flavor := cluster.flavor(name)) is not None]
    labels = {key: value for flavor in flavors for key, value in flavor.node_labels.items()}
    placing = cluster.configuration.gate("TopologyAwareScheduling", default=True)
    topologies = [flavor for flavor in flavors if flavor.topology and placing]
    levels = [(cluster.levels(flavor.name) or (flavor.topology,))[-1] for flavor in topologies]
    return Addition(labels, _tolerations(flavors), tuple(flavor.name for flavor in flavors), "".join(levels[:1]))


def _tolerations(flavors: Iterable[ResourceFlavor]) -> tuple[Mapping[str, Any], ...]:
    return tuple(toleration for flavor in flavors for toleration in flavor.tolerations)


def _common(podset: PodSetReport | None, queue_name: str, cluster: ClusterSnapshot) -> Addition:
    queue = cluster.quotas.queue(queue_name)
    if queue is None or podset is None:
        names = None if queue is None else {quota.name for group in queue.groups for quota in group.flavors}
        flavors = [flavor for flavor in cluster.flavors() if names is None or flavor.name in names]
        return Addition(tolerations=_tolerations(flavors))
    labels: dict[str, str] = {}
    usable: list[ResourceFlavor] = []
    for group in queue.groups:
        if podset["requests"].keys().isdisjoint(group.resources):
            continue
        known = [cluster.flavor(quota.name) for quota in group.flavors if quota.name not in podset["refused"]]
        among = [flavor for flavor in known if flavor is not None]
        usable += among
        if among:
            labels |= dict(set.intersection(*(set(flavor.node_labels.items()) for flavor in among)))
    return Addition(labels, _tolerations(usable), tuple(flavor.name for flavor in usable))
