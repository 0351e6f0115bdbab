"""The podsets that Kueue creates for a JobSet: one for each replicated job, in order.

Source: Kueue ``pkg/controller/jobs/jobset`` and ``pkg/controller/jobframework/tas.go``. Kueue reserves the full count
of each podset or nothing; a podset may have no pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.objects import object_at
from gangctl.fit.topologyrequest import TopologyRequest, group_problems, read_request
from gangctl.gang.plan import pods_per_job

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of one JobSet. ``index`` is that of the replicated job, ``template`` its pod template, raw."""

    name: str
    index: int
    pods: int
    template: Mapping[str, Any] = field(repr=False)
    topology: TopologyRequest | None = None
    problems: tuple[str, ...] = ()
    """Why Kueue's webhook rejects the request for a topology."""

    @property
    def group(self) -> str:
        """Podsets of one group use the same flavors; empty without a group."""
        return self.topology.group if self.topology is not None else ""

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """``spec`` of the pod template."""
        return object_at(self.template, "spec")


def _count(raw: Mapping[str, Any], key: str) -> int | None:
    value = raw.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def podsets_of(jobset: Mapping[str, Any]) -> tuple[PodSet, ...]:
    """Podsets of a raw JobSet. Total: a value of the wrong type counts as absent."""
    entries = object_at(jobset, "spec").get("replicatedJobs")
    return tuple(
        _podset(entry if isinstance(entry, dict) else _NOTHING, index)
        for index, entry in enumerate(entries if isinstance(entries, list) else ())
    )


def _podset(entry: Mapping[str, Any], index: int) -> PodSet:
    job = object_at(object_at(entry, "template"), "spec")
    template = object_at(job, "template")
    replicas = _count(entry, "replicas")
    pods = pods_per_job(_count(job, "parallelism"), _count(job, "completions"))
    name = entry.get("name")
    written = object_at(object_at(template, "metadata"), "annotations")
    annotations = {key: value for key, value in written.items() if isinstance(value, str)}
    count = max(0, 1 if replicas is None else replicas) * max(0, pods)
    topology, problems = read_request(annotations, count)
    return PodSet(
        name=name.lower() if isinstance(name, str) else "",
        index=index,
        pods=count,
        template=template,
        topology=topology,
        problems=problems,
    )


def malformed_topology(podsets: Sequence[PodSet]) -> list[str]:
    """Requests for a topology that Kueue's webhook rejects when the JobSet is created."""
    found = [f'"{podset.name}": {problem}' for podset in podsets for problem in podset.problems]
    groups: dict[str, list[tuple[str, int, TopologyRequest]]] = {}
    for podset in podsets:
        if podset.topology is not None and podset.group:
            groups.setdefault(podset.group, []).append((podset.name, podset.pods, podset.topology))
    return found + [problem for members in groups.values() for problem in group_problems(members)]
