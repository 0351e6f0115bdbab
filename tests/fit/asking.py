"""A cluster with a few queues, and a JobSet that is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gangctl.fit.clusterstate import ClusterSnapshot, Held
from gangctl.fit.report import FitReport
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import ClusterQueue, LocalQueue, ResourceFlavor
from tests.cli.schema import fit_violations
from tests.fit.queues import group
from tests.jobsets import jobset

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, jobset.x-k8s.io/jobset]
"""
QUEUE = "q"
NAMESPACE = "t"
GROUP = "kueue.x-k8s.io/podset-group-name"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"


def pods(name: str, count: int, spec: Mapping[str, Any] | None = None, /, **requests: str) -> dict[str, Any]:
    """A replicated job with so many pods; a resource's name is written with ``_`` for each ``-``."""
    asked = {resource.replace("_", "-"): amount for resource, amount in requests.items()}
    container = {"name": "main", "image": "none", "resources": {"requests": asked}}
    pod = {"restartPolicy": "Never", "containers": [container], **(spec or {})}
    job = {"parallelism": count, "completions": count, "template": {"spec": pod}}
    return {"name": name, "replicas": 1, "template": {"spec": job}}


def grouped(entry: dict[str, Any], group: str) -> dict[str, Any]:
    """The same in a group of podsets."""
    template = entry["template"]["spec"]["template"]
    template["metadata"] = {"annotations": {GROUP: group, REQUIRED: "rack"}}
    return entry


def known(*held: Held, queue: str = "a", configuration: str | None = CONFIGURATION, **more: Any) -> ClusterSnapshot:
    """These objects, a LocalQueue to ClusterQueue ``queue``, and flavors that any pod may use."""
    flavors = {
        flavor.name: ResourceFlavor(flavor.name)
        for each in held
        if isinstance(each, ClusterQueue)
        for group in each.groups
        for flavor in group.flavors
    }
    door = LocalQueue(NAMESPACE, QUEUE, queue)
    more = {"runtime_classes": (), "queue_limit": 18, **more}
    return ClusterSnapshot([door, *flavors.values(), *held], configuration=configuration, **more)


def ask(
    snapshot: ClusterSnapshot, *entries: dict[str, Any], labels: Mapping[str, str] | None = None, **spec: Any
) -> FitReport:
    """The answer about a JobSet with these replicated jobs."""
    return fit(FitRequest(jobset("js", *entries, **spec), NAMESPACE, labels or {}, QUEUE), snapshot)


def queue(name: str = "a", cohort: str = "", **fields: Any) -> ClusterQueue:
    """Ten CPUs in flavor f1, for every namespace."""
    groups = fields.pop("groups", (group({"f1": {"cpu": 10_000}}),))
    return ClusterQueue(name, cohort, groups, **{"selector": (), **fields})


def cpu(count: int, name: str = "w", **more: str) -> dict[str, Any]:
    return pods(name, count, cpu="1", **more)


def gist(report: FitReport) -> tuple[str, str]:
    assert fit_violations(report) == []
    return report["verdict"], report["reason"]


def taken_flavors(report: FitReport, resource: str = "cpu") -> Sequence[str]:
    """The flavor that each podset would get."""
    return [podset["flavors"].get(resource, "") for podset in report["podSets"]]
