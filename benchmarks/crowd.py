"""Ten thousand JobSets and a hundred thousand pods in a real API server, in a minute.

One of each is made through the API, as it is when it runs, waits or fails. The others are its copies under other names
and UIDs, and are written into the store as the API server would have left them, defaults and managed fields included.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Final

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.gang.admission import inject_patch
from gangctl.gang.config import read_config
from gangctl.gang.plan import GangPlan, build_objects, make_plan, stored_stamps
from tests.cases import object_name
from tests.controlplane import pod_status
from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import wait_for
from tests.gang.json_patch import apply
from tests.gang.pipeline import child_job, stored
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS

PODS: Final = 10
"""Of each JobSet, in one group."""
NAMESPACES: Final = 50
PODS_OF_NODE: Final = 100
TURNS: Final = 10
"""Of so many JobSets one waits for nodes and one for an image; the others are ready."""
_NAMESPACE, _NAME, _NODE = "first-of-all", "first-gang", "first-node"
_SCOPES: Final = ("workload", "rj/w")
_GENERATION: Final = Generation.V1BETA1
_SCHEDULING: Final = f"scheduling.k8s.io/{_GENERATION.value}"
_NO_ROOM: Final = "0/1000 nodes are available: 1000 Insufficient nvidia.com/gpu. no new claims to deallocate."
_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def _an_hour_before(found: re.Match[str]) -> str:
    """Of what is new gangctl says more."""
    return (datetime.fromisoformat(found[0]) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Key:
    """Which JobSet of the crowd."""

    number: int

    @property
    def name(self) -> str:
        """Of the JobSet."""
        return f"train-{self.number:05d}"

    @property
    def namespace(self) -> str:
        """Of everything that belongs to it."""
        return f"team-{self.number % NAMESPACES:02d}"

    @cached_property
    def uid(self) -> str:
        """Of the JobSet."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, self.name))

    def pod(self, index: int) -> str:
        """Name of a pod."""
        return f"{self.name}-w-0-{index}-{hashlib.sha256(self.uid.encode()).hexdigest()[index : index + 5]}"

    @property
    def ready(self) -> bool:
        """Whether it is of those that are ready at the beginning."""
        return self.number % TURNS > 1


@dataclass
class Originals:
    """One of each, as the API server wrote it."""

    jobset: Object = field(default_factory=dict)
    job: Object = field(default_factory=dict)
    workload: Object = field(default_factory=dict)
    group: Object = field(default_factory=dict)
    node: Object = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    """By state: running, waiting for a node, waiting for an image."""
    texts: dict[str, str] = field(default_factory=dict)

    def text(self, original: Object) -> str:
        """One of them as it is written."""
        uid = original["metadata"]["uid"]
        if uid not in self.texts:
            self.texts[uid] = _TIME.sub(_an_hour_before, json.dumps(original))
        return self.texts[uid]


async def fill(plane: ControlPlane, jobsets: int) -> int:
    """Put so many JobSets there, with everything that belongs to them; how many objects those are."""
    originals = await make(plane.api)
    for number in range(NAMESPACES):
        body = {"metadata": {"name": Key(number).namespace}}
        await plane.api.create(path_of("v1", "namespaces"), body)
    everything = chain(nodes(originals, jobsets), *(copies(originals, Key(number)) for number in range(jobsets)))
    stored_objects = await plane.store((copy.place, copy.body) for copy in everything)
    last = Key(jobsets - 1)
    pods = path_of("v1", "pods", namespace=last.namespace)

    async def seen() -> bool:
        # As old as its cache is: until that has seen everything, the API server keeps waiting whoever wants to list.
        name = f"metadata.name={last.pod(PODS - 1)}"
        return bool(await plane.api.list(pods, resourceVersion="0", fieldSelector=name))

    await wait_for(seen, interval=0.5, what="the API server to see what is in the store", hung=900)
    return stored_objects


async def make(api: ApiClient) -> Originals:
    """Make one of each, and take them away again."""
    made = Originals()
    await api.create(path_of("v1", "namespaces"), {"metadata": {"name": _NAMESPACE}})
    accounts = path_of("v1", "serviceaccounts", namespace=_NAMESPACE)
    await api.create(accounts, {"metadata": {"name": "default"}})
    made.node = await _created(api, path_of("v1", "nodes"), _node())
    raw = stored(jobset(_NAME, rj("w", 1, PODS, PODS, mode="Gang"), namespace=_NAMESPACE))
    made.jobset = await _created(api, path_of(JOBSETS, "jobsets", namespace=_NAMESPACE), raw, _jobset_status())
    plan = _plan(made.jobset)
    workload, group = build_objects(plan, _GENERATION)
    made.workload = await _created(api, path_of(_SCHEDULING, "workloads", namespace=_NAMESPACE), workload)
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": "scheduled"}
    status = {"conditions": [{**condition, "lastTransitionTime": pod_status.now()}]}
    made.group = await _created(api, path_of(_SCHEDULING, "podgroups", namespace=_NAMESPACE), group, status)
    (planned,) = plan.jobs()
    assert planned.reference is not None, "it has a gang"
    job = apply(child_job(made.jobset, 0, 0), inject_patch(planned.reference, ADAPTERS[_GENERATION]))
    counts = {"active": PODS, "ready": PODS, "startTime": pod_status.now()}
    made.job = await _created(api, path_of("batch/v1", "jobs", namespace=_NAMESPACE), job, counts)
    for index, (state, status) in enumerate(_pod_states(made.job["spec"]["template"]).items()):
        node = "" if state == "refused" else _NODE
        body = _pod(made.job, index, node)
        made.pods[state] = await _created(api, path_of("v1", "pods", namespace=_NAMESPACE), body, status)
    return made


async def _created(api: ApiClient, collection: str, body: Object, status: Object | None = None) -> Object:
    """Create, set the status, delete; what it was before it was deleted."""
    found = await api.create(collection, body)
    path = f"{collection}/{found['metadata']['name']}"
    if status is not None:
        found = await api.patch(f"{path}/status", {"status": status})
    await api.delete(path, propagation="Background", grace=0)
    del found["metadata"]["resourceVersion"]
    return found


def _node() -> Object:
    room: Object = {"cpu": "192", "memory": "2Ti", "pods": "256"}
    heard = pod_status.now()
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet posts ready status"}
    status: Object = {"capacity": room, "allocatable": room}
    status |= {"conditions": [{**condition, "lastHeartbeatTime": heard, "lastTransitionTime": heard}]}
    return {"metadata": {"name": _NODE, "labels": {"kubernetes.io/hostname": _NODE}}, "status": status}


def _jobset_status() -> Object:
    counts = {"ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
    return {"restarts": 0, "restartsCountTowardsMax": 0, "replicatedJobsStatus": [{"name": "w", **counts}]}


def _plan(raw: Object) -> GangPlan:
    read, _ = read_jobset(raw)
    stamps, _ = stored_stamps(read)
    plan = make_plan(read, stamps, read_config(read)[0])
    assert plan is not None, "it is stamped"
    return plan


def _pod_states(pod: Object) -> dict[str, Object]:
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": pod_status.now()}
    refused = {**placed, "status": "False", "reason": "Unschedulable", "message": _NO_ROOM}
    running = pod_status.running(pod)
    pulling = pod_status.waiting(pod, "ImagePullBackOff", 'Back-off pulling image "registry.example/trainer:v1"')
    for each in (running, pulling):
        each["conditions"].append(placed)
        for container in each["containerStatuses"]:
            container["state"] = {key: state for key, state in container["state"].items() if state is not None}
    return {"running": running, "refused": {"conditions": [refused]}, "pulling": pulling}


def _pod(job: Object, index: int, node: str) -> Object:
    template, name = job["spec"]["template"], job["metadata"]["name"]
    labels = {**job["metadata"]["labels"], **template["metadata"]["labels"]}
    labels["batch.kubernetes.io/job-completion-index"] = str(index)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"], "controller": True}
    metadata = {"name": f"{name}-{index}-aaaaa", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {**template["spec"], **({"nodeName": node} if node else {})}}


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of one object, as the API server would have stored it, by its key in the store."""

    place: str
    original: Object
    text: str
    """Of the original."""
    words: tuple[tuple[str, str], ...]
    """What the original has, and the copy instead, one after the other."""

    @property
    def body(self) -> bytes:
        """As JSON."""
        text = self.text
        for old, new in self.words:
            text = text.replace(old, new)
        return _renewed(text, self.original).encode()


def nodes(originals: Originals, jobsets: int) -> Iterator[Copy]:
    """The nodes of so many JobSets."""
    for number in range(jobsets * PODS // PODS_OF_NODE):
        words = ((_NODE, f"node-{number:04d}"),)
        place = f"/registry/minions/node-{number:04d}"
        yield Copy(place, originals.node, originals.text(originals.node), words)


def copies(originals: Originals, key: Key) -> Iterator[Copy]:
    """One JobSet, and what belongs to it."""
    first = originals.jobset["metadata"]["uid"]
    words = {object_name(_NAME, first, scope): object_name(key.name, key.uid, scope) for scope in _SCOPES}
    words |= {first: key.uid, _NAMESPACE: key.namespace, originals.job["metadata"]["uid"]: _uid(key, "job")}

    def copied(place: str, original: Object, **more: str) -> Copy:
        name = place.rpartition("/")[2]
        # Groups first: the Job's own name, which ends in -0, is how their names begin where the UID begins with a 0.
        changed = {**words, original["metadata"]["name"]: name, _NAME: key.name, **more}
        return Copy(f"/registry/{place}", original, originals.text(original), tuple(changed.items()))

    place = f"{key.namespace}/{key.name}"
    workload, group = (words[object_name(_NAME, first, scope)] for scope in _SCOPES)
    yield copied(f"jobset.x-k8s.io/jobsets/{place}", originals.jobset)
    yield copied(f"workloads/{key.namespace}/{workload}", originals.workload)
    yield copied(f"podgroups/{key.namespace}/{group}", originals.group)
    yield copied(f"jobs/{place}-w-0", originals.job)
    for index in range(PODS):
        original = originals.pods[_state(key, index)]
        node = f"node-{(key.number * PODS + index) // PODS_OF_NODE:04d}"
        labels = original["metadata"]["labels"]
        old = f'completion-index": "{labels["batch.kubernetes.io/job-completion-index"]}"'
        new = f'completion-index": "{index}"'
        yield copied(f"pods/{key.namespace}/{key.pod(index)}", original, **{_NODE: node, old: new})


def _state(key: Key, index: int) -> str:
    if key.number % TURNS == 0:
        return "refused"
    return "pulling" if key.number % TURNS == 1 and index == 0 else "running"


def _uid(key: Key, what: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{key.name}/{what}"))


def _renewed(text: str, original: Object) -> str:
    """With a UID of its own, where it still has the original's."""
    return text.replace(original["metadata"]["uid"], str(uuid.uuid4()))
