"""JobSets and PodGroups as they are written for other schedulers."""

from __future__ import annotations

import copy
from typing import Any

from gangctl.migration.draft import System
from gangctl.migration.migrate import Migration, migrate

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO_MIN = "scheduling.volcano.sh/group-min-member"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
KAI_MIN = "kai.scheduler/batch-min-member"
KAI_QUEUE = "kai.scheduler/queue"
KAI_TOPOLOGY = "kai.scheduler/topology"
KAI_REQUIRED = "kai.scheduler/topology-required-placement"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
SCHEDULERS = {
    System.VOLCANO: "volcano",
    System.KAI: "kai-scheduler",
    System.COSCHEDULING: "scheduler-plugins-scheduler",
}
GROUPS = {
    System.VOLCANO: ("scheduling.volcano.sh/v1beta1", "annotations", VOLCANO_GROUP),
    System.COSCHEDULING: ("scheduling.x-k8s.io/v1alpha1", "labels", COSCHEDULING_GROUP),
}


def scheduled_by(
    system: System, entry: dict[str, Any], group: str | None = None, *, scheduler: str | None = None, **metadata: Any
) -> dict[str, Any]:
    """A ReplicatedJob whose pods are the system's: of a PodGroup, with more labels and annotations."""
    entry = copy.deepcopy(entry)
    pod = entry["template"]["spec"]["template"]
    name = SCHEDULERS[system] if scheduler is None else scheduler
    if name:
        pod["spec"]["schedulerName"] = name
    for field, values in metadata.items():
        pod.setdefault("metadata", {}).setdefault(field, {}).update(values)
    if group is not None:
        _, where, key = GROUPS[system]
        pod.setdefault("metadata", {}).setdefault(where, {})[key] = group
    return entry


def marked(raw: dict[str, Any], level: str, field: str, marks: dict[str, str]) -> dict[str, Any]:
    """The same JobSet, with more labels or annotations on one level."""
    raw = copy.deepcopy(raw)
    template = raw["spec"]["replicatedJobs"][0]["template"]
    holder = {"JobSet": raw, "Job": template, "pod": template["spec"]["template"]}[level]
    holder.setdefault("metadata", {}).setdefault(field, {}).update(marks)
    return raw


def pod_group(
    system: System, name: str, minimum: int | None, namespace: str | None = "t", **spec: Any
) -> dict[str, Any]:
    """A PodGroup as people write it."""
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    if minimum is not None:
        spec["minMember"] = minimum
    return {"apiVersion": GROUPS[system][0], "kind": "PodGroup", "metadata": metadata, "spec": spec}


def migrated(system: System, *objects: dict[str, Any], queue: str = "") -> Migration:
    """The migration of an input, which is left as it was."""
    before = copy.deepcopy(objects)
    migration = migrate(objects, system, queue=queue)
    assert objects == before
    return migration


def converted(system: System, *objects: dict[str, Any], queue: str = "") -> list[Any]:
    """What is left of an input that can be converted."""
    migration = migrated(system, *objects, queue=queue)
    assert migration.problems == ()
    return [value for value in migration.values if value is not None]


def problems(system: System, *objects: dict[str, Any], queue: str = "") -> list[tuple[int, str]]:
    """Why an input cannot be converted: object and message."""
    migration = migrated(system, *objects, queue=queue)
    assert migration.problems
    return [(each.position, str(each.error)) for each in migration.problems]


def notes(system: System, *objects: dict[str, Any], queue: str = "") -> list[tuple[int, str, str]]:
    """The notes on an input that can be converted: object, field and text."""
    migration = migrated(system, *objects, queue=queue)
    assert migration.problems == ()
    return [(each.position, each.path, each.text) for each in migration.notes]
