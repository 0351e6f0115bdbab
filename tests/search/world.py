"""A world as data: one JobSet, the Kubernetes minor, what may happen, and which controllers act at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gangctl.api.scheduling import Generation, generation_of_minor
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import RenderingInputs
from tests.jobsets import MODE, OPTIONS, jobset, rj
from tests.pathways.samples import pathways_job

NAMESPACE: Final = "t"
NAME: Final = "js"

ACTORS: Final = ("jobset", "job", "kubelet", "gc", "scheduler", "watch", "gangctl")
"""Those that can be eager: they act before anything else happens. All others act whenever, or never, until the end."""

STEPS: Final = {
    "pod.fails": "a pod fails, and the Job replaces it or fails",
    "pod.index-fails": "a pod fails for the last time that backoffLimitPerIndex allows",
    "pod.succeeds": "a pod succeeds",
    "pod.evicted": "a pod is deleted, and fails once it has ended",
    "user.suspend": "the JobSet is suspended, and may be resumed as often",
    "user.resize": "one pod more in each Job of the first ReplicatedJob",
    "user.delete": "the JobSet is deleted in the background",
    "user.delete-foreground": "the JobSet is deleted in the foreground",
    "user.delete-orphan": "the JobSet is deleted without its dependents, and its Jobs by hand",
    "user.create": "the JobSet is created, again under the same name once it has gone",
    "user.delete-group": "a PodGroup is deleted by hand",
    "user.delete-workload": "the Workload is deleted by hand",
    "user.edit-group": "the minCount of a PodGroup is raised by hand",
    "foreign.create": "a PodGroup of another owner has the name of the first group",
    "foreign.delete": "that PodGroup is deleted",
    "fault.crash": "gangctl starts again, with fresh caches",
    "fault.failover": "another replica takes over: its caches lag as much, and it does not know what was written last",
    "fault.lose-trigger": "a watch event of a Job or an object does not lead to a reconcile",
    "fault.refuse": "the API server fails one write",
    "fault.late": "a write times out, and arrives later",
    "gangctl.resync": "a reconcile without a trigger",
}
"""What a world allows a number of times; everything else happens as often as it can."""

DEPENDS: Final = "user.create"
STRAY: Final = "other"
_CLAIMS: Final = [{"name": "device", "resourceClaimTemplateName": "device"}]


class ReplicatedJob(NamedTuple):
    """One ReplicatedJob; ``completions`` None is a work queue."""

    name: str
    replicas: int = 1
    parallelism: int = 1
    completions: int | None = 1
    backoff: int = 6
    """``backoffLimit``: a failed pod is replaced so often, then the Job fails."""
    per_index: bool = False
    """``backoffLimitPerIndex`` is set."""
    leader_decides: bool = False
    """``successPolicy``: the first success ends the Job."""
    depends_on: str = ""
    mode: str = ""
    """``gangctl.dev/gang-mode`` of its template."""


@dataclass(frozen=True)
class World:
    """What is explored; the JobSet does not exist yet in the first state."""

    name: str
    jobs: tuple[ReplicatedJob, ...]
    minor: str = "1.37"
    mode: str = "Gang"
    gangs: str = ""
    """``gangctl.dev/gangs``."""
    composite: bool = False
    pathways: bool = False
    """Its gangs are those that gangctl chooses for a PathwaysJob, which needs all of its slices: the Jobs."""
    max_restarts: int = 0
    restart_job: bool = False
    """The failure policy restarts a failed Job alone."""
    held: bool = False
    """Another controller's finalizer holds the JobSet in deletion, permanently."""
    queue: bool = False
    """It waits in a LocalQueue of Kueue: its objects are kept while it is suspended."""
    suspended: bool = False
    """It is created suspended, and may be resumed as often."""
    minimum: int = 0
    """Pods of a gang that are enough to start it (``minCount`` in ``gangs``), 0 for all."""
    any_succeeds: bool = False
    """``successPolicy`` of the JobSet: it has completed with its first Job."""
    quota: int | None = None
    """ResourceQuota on PodGroups."""
    devices: int = 0
    """Each gang claims one of so many devices for as long as its group exists; 0 if none claims any."""
    stray: str = ""
    """A ReplicatedJob whose Jobs name the group :data:`STRAY`, because another webhook has written it."""
    steps: Mapping[str, int] = field(default_factory=dict)
    eager: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = [*(set(self.steps) - set(STEPS)), *(self.eager - set(ACTORS))]
        if unknown:
            raise ValueError(f"{self.name}: unknown steps or actors {unknown}, known are {[*STEPS, *ACTORS]}")

    @property
    def generation(self) -> Generation:
        """The version of the scheduling API that it serves."""
        generation = generation_of_minor(self.minor)
        if generation is None:
            raise ValueError(f"{self.name}: no generation for Kubernetes {self.minor}")
        return generation

    @property
    def budget(self) -> tuple[int, ...]:
        """How often each of :data:`STEPS` may still happen; the JobSet is created once more than is said."""
        return tuple(self.steps.get(step, 0) + (step == DEPENDS) for step in STEPS)

    @property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """Position of the ReplicatedJob, and index, of each Job."""
        return tuple((i, index) for i, job in enumerate(self.jobs) for index in range(job.replicas))

    def manifest(self, uid: str) -> dict[str, Any]:
        """The JobSet as the user writes it."""
        policy: dict[str, Any] = {"maxRestarts": self.max_restarts}
        if self.restart_job:
            policy["rules"] = [{"name": "alone", "action": "RestartJob"}]
        raw = jobset(
            NAME,
            *(_replicated_job(job, claims=_CLAIMS if self.devices else []) for job in self.jobs),
            mode=self.mode or None,
            options='{"composite": true}' if self.composite else None,
            annotations=self._annotations(),
            namespace=NAMESPACE,
            uid=uid,
            **({"failurePolicy": policy} if self.max_restarts else {}),
            **({"successPolicy": {"operator": "Any"}} if self.any_succeeds else {}),
        )
        if self.pathways:
            self._choose_gangs(raw)
        if self.queue:
            raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
        return raw

    def _annotations(self) -> dict[str, str] | None:
        if not self.gangs:
            return None
        claims = {"resourceClaims": _CLAIMS} if self.devices else {}
        return {"gangctl.dev/gangs": json.dumps([gang | claims for gang in json.loads(self.gangs)])}

    def _choose_gangs(self, raw: dict[str, Any]) -> None:
        job = read_pathways_job(pathways_job(), cluster_checked=True).job
        assert job is not None
        rendered = render(job, RenderingInputs(composite=self.composite)).jobset
        raw["metadata"]["annotations"] = _about_gangs(rendered["metadata"])
        workers = {entry["name"]: entry["template"]["metadata"] for entry in rendered["spec"]["replicatedJobs"]}
        for entry in raw["spec"]["replicatedJobs"]:
            entry["template"]["metadata"] = {"annotations": _about_gangs(workers[entry["name"]])}


def _about_gangs(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {key: metadata["annotations"][key] for key in (MODE, OPTIONS) if key in metadata.get("annotations", {})}


def _replicated_job(job: ReplicatedJob, claims: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    extra: dict[str, Any] = {"backoffLimit": job.backoff}
    if job.per_index:
        extra["backoffLimitPerIndex"] = 1
    if job.leader_decides:
        extra["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    return rj(
        job.name,
        job.replicas,
        job.parallelism,
        job.completions,
        mode=job.mode or None,
        non_indexed=job.completions is None,
        depends_on=job.depends_on or None,
        job=extra,
        pod={"resourceClaims": claims} if claims else None,
    )


NUMBER: Final = {step: number for number, step in enumerate(STEPS)}
"""Positions in a budget."""

__all__ = ["ACTORS", "NAME", "NAMESPACE", "NUMBER", "OPTIONS", "STEPS", "ReplicatedJob", "World"]
