"""What is wrong with the cluster of the simulation: the invariants, of what its API server has stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from gangctl.api.objects import controller_owner
from gangctl.api.pods import is_finished
from gangctl.api.scheduling import generation_of_minor
from gangctl.sandbox.deletion import FOREGROUND
from gangctl.sandbox.objects import now_micro
from gangctl.sandbox.simulated.binder import GroupKey, group_of, policy_in_group, policy_in_workload
from gangctl.sandbox.simulated.controller import is_deleted, parse_indexes
from gangctl.sandbox.store import StoredChange
from tests.faults.world import ADMIN, NAMESPACE, USER, World
from tests.jobsets import MODE
from tests.search import invariants, known
from tests.search.invariants import Gang
from tests.search.operation import STRAY

Object = dict[str, Any]

RESYNC: Final = 650.0
"""Longer than gangctl's resync, in seconds."""
FOREIGN: Final = "user-wl"
JOBSETS: Final = "jobsets.jobset.x-k8s.io"
JOBS: Final = "jobs.batch"
EVENTS: Final = "events.events.k8s.io"
_GANGS: Final = "gangctl.dev/gangs"
_KEPT: Final = timedelta(hours=1)
"""How long an API server keeps events."""
_REFUSED: Final = 400
_PASSING: Final = frozenset({EVENTS, "leases.coordination.k8s.io"})
"""gangctl records an event again while its cause lasts."""


class Inspection:
    """Reads a world, and remembers what its state does not show."""

    def __init__(self, world: World, manifests: Mapping[str, Object], room: int) -> None:
        """``room`` is the number of pods that find room, 0 if that is every pod."""
        self.world = world
        self.api = world.api
        self.manifests = manifests
        self._room = room
        self._replaced: set[GroupKey] = set()
        """Groups that have lost a bound pod: its replacement may meet a node that is full."""
        self._finished: dict[GroupKey, int] = {}
        """The revision at which a group has last had a pod that ended."""
        self._made: dict[str, int] = {}
        self.names: dict[str, list[str]] = defaultdict(list)
        """PodGroups that each JobSet has had."""
        self.edited: set[str] = set()
        """Groups with a minCount by hand."""
        self.resized: set[str] = set()
        self._strayed: set[str] = set()
        """JobSets with pods that name another owner's group, which is known only when they exist."""
        self.ungoverned: set[str] = set()
        """JobSets that were created while gangctl was not registered: they run without a gang."""
        self.foreign: dict[tuple[str, str], Object] = {}
        """What belongs to another owner, by kind and name, as it was made."""
        self.api.store.listen(self._saw)

    # at any time

    async def torn(self) -> str:
        """Which gang has started in part. Empty if none has."""
        for pod in await self.live():
            if self._asks(pod) and group_of(pod) is None:
                return f"{pod['metadata']['name']} belongs to a gang and names no group"
        for gang, key in await self.gangs():
            excused = key in self._replaced or gang.name in self.edited or gang.parent in self.resized
            if gang.bound and gang.waiting and not excused:
                return f"{gang.name} has started in part: {gang.bound} bound, {gang.waiting} wait"
        return ""

    def broken(self) -> str:
        """What is wrong with the cluster itself. Empty if nothing is."""
        simulated = self.world.simulated
        if simulated._task is not None and simulated._task.done():
            return f"the simulated controllers have ended: {simulated._task.exception()!r}"
        failing = [f"{one.name} fails at {key}" for one in simulated._chosen for key in one._failing]
        return failing[0] if failing else ""

    async def held_up(self) -> str:
        """A JobSet whose deletion in the foreground does not end while gangctl is down. Empty if there is none."""
        for jobset in (await self.api.list(self.api.kind(JOBSETS), NAMESPACE)).items:
            if is_deleted(jobset) and jobset["metadata"].get("finalizers") == [FOREGROUND]:
                return f"the deletion of {jobset['metadata']['name']} in the foreground does not end"
        return ""

    async def crowded_out(self) -> str:
        """A gang without a group, because one of its own that no pod names uses up a quota. Empty if there is none.

        A quota that is smaller than what exists has no room for a group after the delete of one.
        """
        groups = [one for one in await self.groups() if one["kind"] == "PodGroup"]
        quotas = (await self.api.list(self.api.kind("resourcequotas"), NAMESPACE)).items
        if any(int(limit) < len(groups) for quota in quotas for limit in quota["spec"]["hard"].values()):
            return ""
        pods = (await self.api.list(self.api.kind("pods"), NAMESPACE)).items
        named = {key[1] for pod in pods if not is_finished(pod) and (key := group_of(pod)) is not None}
        for gang, _ in await self.gangs():
            for one in groups if gang.min_count is None else ():
                owner = controller_owner(one["metadata"]) or {}
                if owner.get("name") == gang.parent and one["metadata"]["name"] not in named:
                    return f"{gang.name} has no group under a quota that {one['metadata']['name']} uses up"
        return ""

    async def expire(self) -> None:
        """Delete events as old as an API server keeps them."""
        kind, now = self.api.kind(EVENTS), datetime.fromisoformat(now_micro())
        for event in (await self.api.list(kind, NAMESPACE)).items:
            if now - datetime.fromisoformat(event["eventTime"]) >= _KEPT:
                await self.api.delete(kind, NAMESPACE, event["metadata"]["name"], ADMIN)

    # when nothing moves any more

    async def at_rest(self) -> str:
        """What is wrong when everything has happened that is going to. Empty if nothing is."""
        return await self.torn() or await self._waiting() or await self._missing() or await self._touched()

    async def resync(self) -> str:
        """What gangctl writes although nothing happens. Empty if it writes nothing."""
        before = self.world.sandbox.audit.total
        await self.world.rest(RESYNC)
        records = self.world.sandbox.audit.since(before)
        written = [
            r for r in records if r.user == USER and r.is_write and r.resource not in _PASSING and r.code < _REFUSED
        ]
        return f"a resync writes: {written[0].verb} {written[0].resource} {written[0].name}" if written else ""

    async def left(self) -> str:
        """What is left when all JobSets are deleted. Empty if nothing is."""
        left = await self.world.empty()
        return f"{left[0]} is left" if left else ""

    async def _waiting(self) -> str:
        generation = generation_of_minor(self.world.minor)
        assert generation is not None
        immutable = not generation.capabilities.min_count_mutable
        live = await self.live()
        free = self._room - sum(bool(pod["spec"].get("nodeName")) for pod in live) if self._room else len(live)
        events = await self._events()
        for gang, _ in await self.gangs():
            about = [event for event in events if event["regarding"]["name"] == gang.parent]
            reported = any(event["type"] == "Warning" for event in about)
            if self._is_taken(gang.name):
                if gang.waiting and not reported:
                    return f"{gang.name} belongs to another owner, its gang waits, and no event says so"
            elif gang.waiting > free:
                if not gang.bound and not about:
                    return f"{gang.name} waits for room, and no event of the last hour says why"
            elif wrong := invariants.waits([gang], immutable=immutable, reported=reported):
                return wrong
        return ""

    def _is_taken(self, name: str) -> bool:
        return any(name == taken for _, taken in self.foreign)

    async def _missing(self) -> str:
        """A Job that should exist and does not."""
        for jobset in (await self.api.list(self.api.kind(JOBSETS), NAMESPACE)).items:
            name, status = jobset["metadata"]["name"], jobset.get("status") or {}
            if status.get("terminalState") or jobset["spec"].get("suspend") or is_deleted(jobset):
                continue
            entries = jobset["spec"]["replicatedJobs"]
            present = [job for job in await self.of_jobset(JOBS, name) if not is_deleted(job)]
            refused = _refused(jobset) | self._kept_out(name)
            wanted = sum(entry.get("replicas", 1) for entry in entries if entry["name"] not in refused)
            if len(present) < wanted:
                return f"{name} has {len(present)} of {wanted} Jobs"
            for job in present:
                if wrong := await self._unfilled(job):
                    return wrong
        return ""

    def _kept_out(self, name: str) -> frozenset[str]:
        """ReplicatedJobs whose Jobs the webhook refuses, because a group of theirs belongs to another owner."""
        taken = any(self._is_taken(group) for group in self.names[name])
        entries = self.manifests[name]["spec"]["replicatedJobs"]
        return frozenset(entry["name"] for entry in entries) if taken else frozenset()

    async def _unfilled(self, job: Object) -> str:
        spec, status, name = job["spec"], job.get("status") or {}, job["metadata"]["name"]
        if any(condition["type"] in {"Complete", "Failed"} for condition in status.get("conditions") or ()):
            return ""
        succeeded, completions = status.get("succeeded", 0), spec.get("completions")
        if completions is None:
            wanted = 0 if succeeded else spec["parallelism"]
        else:
            lost = len(parse_indexes(status.get("failedIndexes") or ""))
            wanted = min(spec["parallelism"], completions - succeeded - lost)
        pods = [pod for pod in await self.live() if pod["metadata"]["labels"].get("job-name") == name]
        return f"{name} has {len(pods)} of {wanted} pods" if len(pods) < wanted else ""

    async def _touched(self) -> str:
        for (kind, name), made in self.foreign.items():
            stored = await self.api.get(self.scheduling(kind), NAMESPACE, name)
            if (stored["metadata"]["uid"], stored["spec"]) != (made["metadata"]["uid"], made["spec"]):
                return f"{name} belongs to another owner, and was changed"
        return ""

    # facts

    async def gangs(self) -> list[tuple[Gang, GroupKey]]:
        """Every group of a gang that pods name, in the order of names."""
        members: dict[GroupKey, list[Object]] = defaultdict(list)
        for pod in await self.live():
            key = group_of(pod)
            if key is not None and key[1] == STRAY:
                self._strayed.add(_jobset_of(pod))
            elif key is not None:
                members[key].append(pod)
        objects = {one["metadata"]["name"]: one for one in await self.groups()}
        return [(self._gang(key, pods, objects), key) for key, pods in sorted(members.items())]

    def _gang(self, key: GroupKey, pods: Sequence[Object], objects: Mapping[str, Object]) -> Gang:
        one = objects.get(key[1])
        if self.world.has_groups:
            policy = policy_in_group(one, holds_priority=False)
        else:
            policy = policy_in_workload(one, key[2])
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
        return Gang(
            key[1],
            min_count=None if policy is None else policy.min_count,
            can_exist=len(pods),
            needed=len(pods),
            members=len(pods),
            waiting=len(pods) - bound,
            bound=bound,
            ready=True,
            timely=self._made.get(key[1], 0) < self._finished.get(key, 0)
            or _jobset_of(pods[0]) in self._strayed
            or self._shares_number(_jobset_of(pods[0])),
            parent=_jobset_of(pods[0]),
        )

    def _shares_number(self, name: str) -> bool:
        spec = self.manifests[name]["spec"]
        policy = spec.get("failurePolicy") or {}
        replicated = [job for job in spec["replicatedJobs"] if _mode(job) == "ReplicatedGang"]
        return known.shares_number(
            has_groups=self.world.has_groups,
            restarts_left=policy.get("maxRestarts", 0),
            replicas=max((job["replicas"] for job in replicated), default=1),
        )

    async def live(self) -> list[Object]:
        """Pods that have not ended."""
        pods = (await self.api.list(self.api.kind("pods"), NAMESPACE)).items
        return [pod for pod in pods if not is_finished(pod) and not is_deleted(pod)]

    async def groups(self) -> list[Object]:
        """PodGroups and Workloads."""
        kinds = ("PodGroup", "Workload") if self.world.has_groups else ("Workload",)
        return [one for kind in kinds for one in (await self.api.list(self.scheduling(kind), NAMESPACE)).items]

    async def of_jobset(self, resource: str, jobset: str) -> list[Object]:
        """Objects of a JobSet, by name."""
        labels = f"jobset.sigs.k8s.io/jobset-name={jobset}"
        items = (await self.api.list(self.api.kind(resource), NAMESPACE, labels=labels)).items
        return sorted(items, key=lambda one: str(one["metadata"]["name"]))

    async def _events(self) -> list[Object]:
        events = (await self.api.list(self.api.kind(EVENTS), NAMESPACE)).items
        return [event for event in events if event.get("reportingController") == "gangctl.dev/gangctl"]

    def scheduling(self, kind: str) -> Any:
        """The resource of a kind."""
        return self.api.kind(f"{kind.lower()}s.scheduling.k8s.io")

    def _asks(self, pod: Object) -> bool:
        """Whether the user has asked for a gang of this pod, and gangctl was there."""
        manifest = self.manifests.get(_jobset_of(pod))
        if manifest is None or _jobset_of(pod) in self.ungoverned:
            return False
        if {MODE, _GANGS} & set(manifest["metadata"].get("annotations") or {}):
            return True
        name = pod["metadata"]["labels"].get("jobset.sigs.k8s.io/replicatedjob-name")
        return any(entry["name"] == name for entry in _ganged(manifest))

    def _saw(self, storage: str, change: StoredChange) -> None:
        """Remember when groups are made, and when their pods end."""
        if storage.endswith(".scheduling.k8s.io") and change.old is None:
            self._made[change.key[1]] = change.revision
            owner = controller_owner(change.new.obj["metadata"])
            if storage.startswith("podgroups") and owner is not None:
                self.names[owner["name"]].append(change.key[1])
        if storage != "pods" or (key := group_of(change.new.obj)) is None:
            return
        if is_finished(change.new.obj) or is_deleted(change.new.obj) or change.gone:
            self._replaced.add(key)
            self._finished[key] = change.revision


def _ganged(manifest: Object) -> Iterator[Object]:
    for entry in manifest["spec"]["replicatedJobs"]:
        if MODE in (entry["template"].get("metadata", {}).get("annotations") or {}):
            yield entry


def _refused(jobset: Object) -> frozenset[str]:
    """ReplicatedJobs whose Jobs the API server refuses."""
    entries = jobset["spec"]["replicatedJobs"]
    specs = {entry["name"]: entry["template"]["spec"] for entry in entries}
    return frozenset(
        name for name, spec in specs.items() if spec.get("completionMode") == "Indexed" and "completions" not in spec
    )


def _jobset_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("jobset.sigs.k8s.io/jobset-name", ""))


def _mode(replicated_job: Object) -> str:
    metadata = replicated_job["template"].get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(MODE, ""))
