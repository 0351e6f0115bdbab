"""All objects of gangs, by kind and name: from a cluster, once or watched, or from files; their state in queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, TypedDict

from gangctl.api.jobset import JobSet, reported_jobs
from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Key, Object, object_at
from gangctl.api.reportfields import rfc3339
from gangctl.api.scheduling import ApiState, Observed
from gangctl.api.store import Store
from gangctl.cli.options import ClusterFlags, Worker
from gangctl.client.client import Client, Selection
from gangctl.client.resources import EVENTS, PODS
from gangctl.cluster import members
from gangctl.cluster.stock import Stock
from gangctl.errors import one_line
from gangctl.gang.desired import Assessment, JobProgress, assess, while_suspended, with_own_restarts
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.queues import Never, current
from gangctl.readiness.autoscaling import ScaleUp, latest
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import (
    REFUSING_KINDS,
    Collections,
    EndedPod,
    NodeFacts,
    PodFacts,
    Refused,
    Snapshot,
    assemble,
    event_seen_at,
    is_followed,
    read_ended,
)
from gangctl.readiness.memory import remembered
from gangctl.readiness.onnodes import OnNodes
from gangctl.readiness.result import Cause, Readiness

NOTHING_SERVED: Final = ApiState(None, "the generation of the scheduling API is not known")


@dataclass(frozen=True, slots=True)
class StoredJobSet:
    """A JobSet as it is stored, and its projection."""

    jobset: JobSet
    raw: dict[str, Any] = field(repr=False)


class EventDetail(TypedDict):
    """An event of the JobSet, or of one of its groups."""

    object: Annotated[str, "Kind and name of what it is about: JobSet/train."]
    type: Annotated[str, "Normal or Warning."]
    reason: str
    message: str
    count: Annotated[int, "How often it was seen."]
    lastTime: Annotated[str, "When it was seen last: RFC 3339, empty where that is not known."]


Event = tuple[str, str, EventDetail]
"""With the namespace and UID of what it is about, empty where these are not known."""


class _Named(Mapping[str, NodeFacts]):
    """Nodes by name, without a copy for every JobSet."""

    def __init__(self, nodes: Store[NodeFacts]) -> None:
        self._nodes = nodes

    def __getitem__(self, name: str) -> NodeFacts:
        node = self._nodes.get("", name)
        if node is None:
            raise KeyError(name)
        return node

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self._nodes.keys())  # noqa: SIM118 -- a store is no mapping

    def __len__(self) -> int:
        return len(self._nodes)


@dataclass(slots=True)
class GangState:
    """All known objects. Stores of forbidden collections stay empty, and are listed separately."""

    api: ApiState = NOTHING_SERVED
    worker: Worker | None = None
    """This worker cluster of MultiKueue; None for the cluster that was asked."""
    flags: ClusterFlags = field(default_factory=ClusterFlags)
    """Those that select this cluster: commands that are suggested have them, too."""
    jobsets: Store[StoredJobSet] = field(default_factory=Store)
    jobs: Store[JobProgress] = field(default_factory=members.job_store)
    pods: Store[PodFacts] = field(default_factory=members.pod_store)
    failed: Store[EndedPod] = field(default_factory=members.ended_store)
    """Pods that have failed."""
    succeeded: list[EndedPod] = field(default_factory=list)
    """Pods that have succeeded, as far as they were read: what they cost is known, and nothing else needs them."""
    workloads: Store[Observed] = field(default_factory=members.scheduling_store)
    groups: Store[Observed] = field(default_factory=members.scheduling_store)
    composites: Store[Observed] | None = None
    """CompositePodGroups, None if they were not read."""
    refusals: dict[str, Store[Refused]] = field(
        default_factory=lambda: {reason: members.refusal_store() for reason in REFUSING_KINDS}
    )
    """By reason of the event."""
    nodes: Store[NodeFacts] = field(default_factory=Store)
    events: list[Event] = field(default_factory=list)
    kueue: bool | None = None
    """Whether the cluster has Kueue; None if unknown."""
    queues: Stock = field(default_factory=Stock)
    """Kueue's objects, and the time; there are none without Kueue, and where no gang needs them."""
    groups_known: bool = True
    pods_known: bool = True
    nodes_known: bool = False
    on_nodes: dict[Key, OnNodes] = field(default_factory=dict)
    """By JobSet of which the scheduler refused pods."""
    scale_ups: list[tuple[str, ScaleUp]] = field(default_factory=list)
    """What autoscalers said of pods, with their namespace."""
    nevers: dict[Key, Never | None] = field(default_factory=dict)
    """By JobSet: why its queue can never admit it, until it changes, or an object of Kueue other than a Workload."""

    memory: dict[Key, Readiness] = field(default_factory=dict)
    """By JobSet: what the controller knew of it, where it writes Gang objects."""

    def now(self) -> float:
        """The time, in Unix seconds: of the API server, whose objects it is compared with, or of the files."""
        return self.queues.now().timestamp()

    def followed(self) -> list[Key]:
        """The JobSets that are gangs, in the order of their names."""
        jobsets = (jobset.jobset for jobset in self.jobsets.values())
        return sorted(jobset.key for jobset in jobsets if is_followed(jobset))

    def refused(self, keys: Iterable[Key]) -> list[Key]:
        """Those of which the scheduler has rejected pods."""
        return [key for key in keys if any(pod.refused for pod in self.pods.by_index("jobset", key))]

    def snapshot(self, key: Key, now: float) -> Snapshot | None:
        """The snapshot of one JobSet; None if it does not exist."""
        stored = self.jobsets.get(*key)
        return self._snapshot(stored, now) if stored is not None else None

    def _snapshot(self, stored: StoredJobSet, now: float) -> Snapshot:
        key = stored.jobset.key
        jobset = with_own_restarts(stored.jobset, self.jobs.by_index("jobset", key))
        if not self.pods_known:
            jobset = replace(jobset, reported=reported_jobs(object_at(stored.raw, "status")))
        own = self.pods.by_index("jobset", key)
        moment = datetime.fromtimestamp(now, UTC)
        queue = self.queues.facts_of(jobset, len(own) if self.pods_known else None, moment, never=self._never)
        return assemble(
            jobset,
            self.assessment(jobset),
            self.api,
            self._collections(),
            queue=queue,
            kueue=self.kueue,
            on_nodes=self._on_nodes(key, own),
            ended=self.ended_of(key),
        )

    def _on_nodes(self, key: Key, pods: Sequence[PodFacts]) -> OnNodes | None:
        known = self.on_nodes.get(key)
        waiting = {pod.name for pod in pods if not pod.node}
        said = latest(one for namespace, one in self.scale_ups if namespace == key[0] and one.pod in waiting)
        return replace(known or OnNodes(), scale_ups=said) if said else known

    def readiness(self, key: Key, now: float, before: Readiness | None = None) -> Readiness | None:
        """The readiness of one JobSet; None if it does not exist."""
        stored = self.jobsets.get(*key)
        return self.readiness_of(stored, now, before) if stored is not None else None

    def readiness_of(self, stored: StoredJobSet, now: float, before: Readiness | None = None) -> Readiness:
        """The readiness of a JobSet as it is, or was, stored."""
        readiness = evaluate(self._snapshot(stored, now), now, before or self.memory.get(stored.jobset.key))
        if self.flags.given:
            readiness = _on(self.flags, readiness)
        return readiness if self.worker is None else replace(readiness, cluster=self.worker.name)

    def remember(self, raw: Object) -> None:
        """Take a Gang object; one that is not of its JobSet is left out."""
        known = remembered(dict(raw))
        if known is not None:
            self.memory[known.key] = known

    def cluster_of(self, key: Key) -> str:
        """The worker cluster on which MultiKueue runs a JobSet; empty for none."""
        stored = self.jobsets.get(*key)
        workload = current(self.queues.workloads_of(stored.jobset.uid)) if stored is not None else None
        return workload.cluster if workload is not None else ""

    def _never(self, namespace: str, name: str) -> Never | None:
        """Why the queue of a JobSet can never admit it; None if that is not known."""
        key = namespace, name
        stored = self.jobsets.get(*key)
        if stored is None or not self.queues.queues_known:
            return None
        if key not in self.nevers:
            self.nevers[key] = self.queues.never(stored.raw, namespace)
        return self.nevers[key]

    def assessment(self, jobset: JobSet) -> Assessment:
        """The assessment of a JobSet here."""
        rules = ClusterRules(self.api.generation or ClusterRules().generation, lacks=self.api.lacks)
        return assess(jobset, rules, while_suspended(jobset, queues=self.kueue))

    def _collections(self) -> Collections:
        return Collections(
            jobs=lambda key: self.jobs.by_index("jobset", key),
            pods=lambda key: self.pods.by_index("jobset", key),
            groups=self._groups,
            workload=self.workloads.get,
            claimed=partial(members.claimed, self.workloads),
            refused=partial(members.last_refusal, self.refusals.values()),
            nodes=lambda: _Named(self.nodes) if self.nodes_known else None,
            groups_known=self.groups_known,
            composite=self.composites.get if self.composites is not None else None,
            pods_known=self.pods_known,
        )

    def _groups(self, namespace: str, uid: str, names: Sequence[str]) -> Mapping[str, Observed]:
        named = (self.groups.get(namespace, name) for name in names)
        groups = [group for group in (*named, *self.groups.by_index("owner", uid)) if group is not None]
        return {group.name: group for group in groups}

    def ended_of(self, key: Key) -> list[EndedPod]:
        """The pods of one JobSet that have finished, as far as they were read."""
        succeeded = [one for one in self.succeeded if (one.pod.namespace, one.pod.jobset) == key]
        return [*self.failed.by_index("jobset", key), *succeeded]

    def outcome(self, key: Key) -> str:
        """The JobSet's message about its end; empty while it has not finished."""
        stored = self.jobsets.get(*key)
        if stored is None or not stored.jobset.finished:
            return ""
        jobset = stored.jobset
        return ": ".join(filter(None, (jobset.outcome_reason, jobset.outcome_message)))


def _on(flags: ClusterFlags, gang: Readiness) -> Readiness:
    """A gang whose causes suggest commands for the cluster of these flags."""

    def of_it(cause: Cause) -> Cause:
        return replace(cause, command=flags.on(cause.command))

    lost = of_it(gang.lost) if gang.lost is not None else None
    return replace(gang, causes=tuple(map(of_it, gang.causes)), lost=lost)


MOST: Final = 10
_MOST_GROUPS: Final = 8
"""Maximum of groups whose events are read; a JobSet may have hundreds."""


async def read_succeeded(client: Client, key: Key) -> list[EndedPod]:
    """The pods of a JobSet that have succeeded; ForbiddenError if pods may not be read."""
    namespace, jobset = key
    ended: list[EndedPod | None] = []
    selection = Selection(f"{JOBSET_NAME}={jobset}", "status.phase=Succeeded")
    async with aclosing(client.pages(PODS, namespace, selection=selection)) as pages:
        async for page in pages:
            ended += map(read_ended, page.items)
    return [one for one in ended if one is not None]


async def read_events(client: Client, key: Key, groups: Sequence[str]) -> list[Event]:
    """Events of a JobSet and of its groups; ForbiddenError if they may not be read."""
    namespace, jobset = key
    events: list[Event] = []
    for kind, name in [("JobSet", jobset), *(("PodGroup", group) for group in groups[:_MOST_GROUPS])]:
        selection = Selection(field_selector=f"regarding.kind={kind},regarding.name={name}")
        page = await client.list(EVENTS, namespace, selection=selection)
        events += map(read_event, page.items)
    return events


def read_event(raw: Object) -> Event:
    """One event of ``events.k8s.io/v1``; total."""
    about, metadata, series = (object_at(raw, key) for key in ("regarding", "metadata", "series"))
    # series comes from recorders of events.k8s.io, deprecatedCount from those of the core API.
    count = series.get("count") or raw.get("deprecatedCount")
    namespace = str(about.get("namespace") or metadata.get("namespace") or "")
    detail: EventDetail = {
        "object": f"{about.get('kind') or ''}/{about.get('name') or ''}",
        "type": str(raw.get("type") or ""),
        "reason": str(raw.get("reason") or ""),
        "message": one_line(str(raw.get("note") or "")),
        "count": count if isinstance(count, int) else 1,
        "lastTime": rfc3339(event_seen_at(raw)),
    }
    return namespace, str(about.get("uid") or ""), detail


def modern(raw: Object) -> dict[str, Any]:
    """An event of ``v1``, which ``kubectl get events`` prints, with the fields of ``events.k8s.io/v1``."""
    if "involvedObject" not in raw:
        return dict(raw)
    renamed = {
        "regarding": raw.get("involvedObject"),
        "note": raw.get("message"),
        "deprecatedLastTimestamp": raw.get("lastTimestamp"),
        "deprecatedCount": raw.get("count"),
    }
    return {**raw, **renamed}


def of_jobset(events: Iterable[Event], jobset: JobSet) -> tuple[list[EventDetail], int]:
    """Those of a JobSet itself, and how many there are of earlier ones of its name."""
    about = jobset.namespace, f"JobSet/{jobset.name}"
    named = [(uid, event) for namespace, uid, event in events if (namespace, event["object"]) == about]
    own = [event for uid, event in named if uid in {"", jobset.uid}]
    return own, len(named) - len(own)


def of_groups(events: Iterable[Event], namespace: str, groups: Sequence[str]) -> list[EventDetail]:
    """Those of some groups, whose names have digits of the UID of their JobSet."""
    about = {f"PodGroup/{group}" for group in groups}
    return [event for place, _, event in events if place == namespace and event["object"] in about]


def latest_first(events: Iterable[EventDetail]) -> list[EventDetail]:
    """The latest, at most :data:`MOST`."""
    return sorted(events, key=lambda event: event["lastTime"], reverse=True)[:MOST]
