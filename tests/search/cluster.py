"""The cluster of the simulation: what may happen to it, by name, and what is wrong with it when nothing moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final

from gangctl.api.scheduling import generation_of_minor
from gangctl.sandbox.caller import DeleteOptions
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.simulated.binder import GroupKey, group_of, policy_in_group, policy_in_workload
from gangctl.sandbox.simulated.job_pods import is_deleted, is_ended
from gangctl.sandbox.store import Change
from tests.faults.matrix import Point
from tests.faults.world import ADMIN, NAMESPACE, USER, World
from tests.jobsets import MODE
from tests.live.observe import foreign_workload
from tests.search import invariants, known
from tests.search.invariants import Gang

Object = dict[str, Any]
Act = Callable[..., Coroutine[Any, Any, None]]

RESYNC: Final = 650.0
"""Longer than gangctl's resync, in seconds."""
BINDING: Final = "gangctl-gangs"
FOREIGN: Final = "user-wl"
_FAILED: Final = 500
_QUOTA: Final = "groups"
_JOBSETS: Final = "jobsets.jobset.x-k8s.io"
_JOBS: Final = "jobs.batch"
_PASSING: Final = frozenset({"events.events.k8s.io", "leases.coordination.k8s.io"})
"""gangctl records an event again while its cause lasts."""


class Cluster:
    """A world of :mod:`tests.faults.world`, and the names of what may happen in it."""

    def __init__(self, world: World, manifests: Mapping[str, Object], room: int) -> None:
        """``room`` is the number of pods that find room, 0 if that is every pod."""
        self.world = world
        self._api = world.api
        self._manifests = manifests
        self._room = room
        self._replaced: set[GroupKey] = set()
        """Groups that have lost a bound pod: its replacement may meet a node that is full."""
        self._finished: dict[GroupKey, int] = {}
        """The revision at which a group has last had a pod that ended."""
        self._made: dict[str, int] = {}
        self._edited: set[str] = set()
        self._foreign: Object = {}
        self._runs = False
        self.acts: Final[Mapping[str, Act]] = {
            "create": self._create,
            "suspend": self._suspend,
            "resume": self._resume,
            "label": self._label,
            "delete": self._delete,
            "orphan": self._orphan,
            "succeed": self._succeed,
            "fail": self._fail,
            "evict": self._evict,
            "delete-object": self._delete_object,
            "edit-group": self._edit_group,
            "quota": self._quota,
            "unbind": self._unbind,
            "fault": self._fault,
            "restart": self._restart,
            "stop": self._stop,
            "start": self._start,
            "wait": self._wait,
        }
        self._api.store.listen(self._saw)

    async def open(self) -> None:
        """gangctl runs, and another owner has a Workload."""
        await self.world.create_scheduling("workloads", foreign_workload(self.world, FOREIGN, "other"))
        self._foreign = await self._get("workloads.scheduling.k8s.io", FOREIGN)
        await self._start()

    async def perform(self, action: str) -> str:
        """Do one thing, if it is possible, and return what is wrong then."""
        name, *words = action.split()
        try:
            await self.acts[name](*words)
        except StatusError as error:
            # The user's request is refused. What the sandbox itself cannot do is no refusal.
            if error.code >= _FAILED and "webhook" not in error.message:
                raise
        return await self.torn()

    # gangctl

    async def _start(self) -> None:
        if not self._runs:
            await self.world.start_gangctl()
            self._runs = True

    async def _stop(self) -> None:
        if self._runs:
            await self.world.stop_gangctl()
            self._runs = False

    async def _restart(self) -> None:
        if self._runs:
            await self.world.restart_gangctl()

    async def _fault(self, verb: str, resource: str, kind: str) -> None:
        point = Point(verb, resource, dry_run=False, nth=1)
        self.world.sandbox.faults.add(point.match, point.kinds[kind])

    async def _wait(self, seconds: str) -> None:
        await self.world.rest(float(seconds))

    # the user

    async def _create(self, name: str) -> None:
        await self.world.create(self._manifests[name])

    async def _suspend(self, name: str) -> None:
        await self.world.patch(name, {"spec": {"suspend": True}})

    async def _resume(self, name: str) -> None:
        await self.world.patch(name, {"spec": {"suspend": False}})

    async def _label(self, name: str) -> None:
        await self.world.patch(name, {"metadata": {"labels": {"team": "a"}}})

    async def _delete(self, name: str) -> None:
        await self.world.delete(name)

    async def _orphan(self, name: str) -> None:
        """Delete the JobSet without its dependents, and its Jobs by hand."""
        kind = self._api.kind(_JOBSETS)
        await self._api.delete(kind, NAMESPACE, name, ADMIN, DeleteOptions(propagation="Orphan"))
        await self.world.rest(1)
        for job in await self._list(_JOBS, name):
            options = DeleteOptions(propagation="Background")
            await self._api.delete(self._api.kind(_JOBS), NAMESPACE, job["metadata"]["name"], ADMIN, options)

    async def _delete_object(self, number: str) -> None:
        objects = [one for one in await self._groups() if one["metadata"]["name"] != FOREIGN]
        if objects:
            one = objects[int(number) % len(objects)]
            await self._api.delete(self._scheduling(one["kind"]), NAMESPACE, one["metadata"]["name"], ADMIN)

    async def _edit_group(self, number: str) -> None:
        groups = [one for one in await self._groups() if one["kind"] == "PodGroup"]
        if groups:
            name = groups[int(number) % len(groups)]["metadata"]["name"]
            self._edited.add(name)
            patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 7}}}}
            await self._api.patch(self._scheduling("PodGroup"), NAMESPACE, name, patch, "merge", ADMIN)

    # pods

    async def _succeed(self, name: str, number: str) -> None:
        if (pod := await self._running(name, number)) is not None:
            await self.world.simulated.kubelet.finish(pod)

    async def _fail(self, name: str, number: str) -> None:
        if (pod := await self._running(name, number)) is not None:
            await self.world.simulated.kubelet.fail(pod)

    async def _evict(self, name: str, number: str) -> None:
        if (pod := await self._running(name, number)) is not None:
            await self._api.delete(self._api.kind("pods"), NAMESPACE, pod["metadata"]["name"], ADMIN)

    async def _running(self, name: str, number: str) -> Object | None:
        pods = [pod for pod in await self._list("pods", name) if pod["status"].get("phase") == "Running"]
        return pods[int(number) % len(pods)] if pods else None

    # the administrator

    async def _quota(self, groups: str) -> None:
        """So many PodGroups in the namespace; the quota goes when faults end."""
        if self.world.has_groups:
            spec = {"hard": {"count/podgroups.scheduling.k8s.io": groups}}
            raw = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": _QUOTA}, "spec": spec}
            await self._api.create(self._api.kind("resourcequotas"), NAMESPACE, raw, ADMIN)

    async def _unbind(self) -> None:
        """Delete the binding of the policy that names the groups of Jobs."""
        if self.world.has_groups:
            await self._api.delete(
                self._api.kind("mutatingadmissionpolicybindings.admissionregistration.k8s.io"), "", BINDING, ADMIN
            )

    async def settle(self) -> None:
        """Faults end, and everything happens that is going to."""
        self.world.sandbox.faults.clear()
        kind = self._api.kind("resourcequotas")
        for quota in (await self._api.list(kind, NAMESPACE)).items:
            await self._api.delete(kind, NAMESPACE, quota["metadata"]["name"], ADMIN)
        await self._start()
        await self.world.rest(RESYNC)

    # what is wrong

    async def torn(self) -> str:
        """Which gang has started in part. Empty if none has."""
        for pod in await self._live():
            if self._asks(pod) and group_of(pod) is None:
                return f"{pod['metadata']['name']} belongs to a gang and names no group"
        for gang, key in await self._gangs():
            excused = key in self._replaced or gang.name in self._edited
            if gang.bound and gang.waiting and not excused:
                return f"{gang.name} has started in part: {gang.bound} bound, {gang.waiting} wait"
        return ""

    async def at_rest(self) -> str:
        """What is wrong after :meth:`settle`. Empty if nothing is."""
        return await self.torn() or await self._waiting() or await self._missing() or await self._touched()

    async def resync(self) -> str:
        """What gangctl writes although nothing happens. Empty if it writes nothing."""
        before = self.world.sandbox.audit.total
        await self.world.rest(RESYNC)
        records = self.world.sandbox.audit.since(before)
        written = [r for r in records if r.user == USER and r.is_write and r.resource not in _PASSING]
        return f"a resync writes: {written[0].verb} {written[0].resource} {written[0].name}" if written else ""

    async def left(self) -> str:
        """What is left when all JobSets are deleted. Empty if nothing is."""
        left = await self.world.empty()
        return f"{left[0]} is left" if left else ""

    async def _waiting(self) -> str:
        generation = generation_of_minor(self.world.minor)
        assert generation is not None
        immutable = not generation.capabilities.min_count_mutable
        gangs = [gang for gang, _ in await self._gangs()]
        live = await self._live()
        free = self._room - sum(bool(pod["spec"].get("nodeName")) for pod in live) if self._room else len(live)
        events = (await self._api.list(self._api.kind("events.events.k8s.io"), NAMESPACE)).items
        ours = [event for event in events if event.get("reportingController") == "gangctl.dev/gangctl"]
        for gang in gangs:
            if gang.waiting > free:
                continue
            reported = any(gang.parent == event["regarding"]["name"] for event in ours if event["type"] == "Warning")
            if wrong := invariants.waits([gang], immutable=immutable, reported=reported):
                return wrong
        return ""

    async def _missing(self) -> str:
        """A Job that should exist and does not."""
        for jobset in (await self._api.list(self._api.kind(_JOBSETS), NAMESPACE)).items:
            name, status = jobset["metadata"]["name"], jobset.get("status") or {}
            if status.get("terminalState") or jobset["spec"].get("suspend"):
                continue
            wanted = sum(entry.get("replicas", 1) for entry in jobset["spec"]["replicatedJobs"])
            present = [job for job in await self._list(_JOBS, name) if not is_deleted(job)]
            if len(present) != wanted:
                return f"{name} has {len(present)} of {wanted} Jobs"
            for job in present:
                if wrong := await self._unfilled(job):
                    return wrong
        return ""

    async def _unfilled(self, job: Object) -> str:
        spec, status, name = job["spec"], job.get("status") or {}, job["metadata"]["name"]
        if any(condition["type"] in {"Complete", "Failed"} for condition in status.get("conditions") or ()):
            return ""
        succeeded, completions = status.get("succeeded", 0), spec.get("completions")
        if completions is None:
            wanted = 0 if succeeded else spec["parallelism"]
        else:
            lost = len([index for index in (status.get("failedIndexes") or "").split(",") if index])
            wanted = min(spec["parallelism"], completions - succeeded - lost)
        pods = [pod for pod in await self._live() if pod["metadata"]["labels"].get("job-name") == name]
        return f"{name} has {len(pods)} of {wanted} pods" if len(pods) < wanted else ""

    async def _touched(self) -> str:
        foreign = await self._get("workloads.scheduling.k8s.io", FOREIGN)
        return "" if foreign == self._foreign else f"{FOREIGN} belongs to another owner, and was changed"

    # facts

    async def _gangs(self) -> list[tuple[Gang, GroupKey]]:
        """Every group that pods name, in the order of names."""
        members: dict[GroupKey, list[Object]] = defaultdict(list)
        for pod in await self._live():
            if (key := group_of(pod)) is not None:
                members[key].append(pod)
        objects = {one["metadata"]["name"]: one for one in await self._groups()}
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
            timely=self._made.get(key[1], 0) < self._finished.get(key, 0) or self._shares_number(_jobset_of(pods[0])),
            parent=_jobset_of(pods[0]),
        )

    def _shares_number(self, name: str) -> bool:
        policy = self._manifests[name]["spec"].get("failurePolicy") or {}
        return known.shares_number(has_groups=self.world.has_groups, max_restarts=policy.get("maxRestarts", 0))

    async def _live(self) -> list[Object]:
        pods = (await self._api.list(self._api.kind("pods"), NAMESPACE)).items
        return [pod for pod in pods if not is_ended(pod) and not is_deleted(pod)]

    async def _groups(self) -> list[Object]:
        kinds = ("PodGroup", "Workload") if self.world.has_groups else ("Workload",)
        return [one for kind in kinds for one in (await self._api.list(self._scheduling(kind), NAMESPACE)).items]

    async def _list(self, resource: str, jobset: str) -> list[Object]:
        labels = f"jobset.sigs.k8s.io/jobset-name={jobset}"
        found = (await self._api.list(self._api.kind(resource), NAMESPACE, labels=labels)).items
        return sorted(found, key=lambda one: str(one["metadata"]["name"]))

    async def _get(self, resource: str, name: str) -> Object:
        return await self._api.get(self._api.kind(resource), NAMESPACE, name)

    def _scheduling(self, kind: str) -> Any:
        return self._api.kind(f"{kind.lower()}s.scheduling.k8s.io")

    def _asks(self, pod: Object) -> bool:
        """Whether the user has asked for a gang of this pod."""
        manifest = self._manifests.get(_jobset_of(pod))
        if manifest is None:
            return False
        if MODE in (manifest["metadata"].get("annotations") or {}):
            return True
        name = pod["metadata"]["labels"].get("jobset.sigs.k8s.io/replicatedjob-name")
        return any(entry["name"] == name for entry in _ganged(manifest))

    def _saw(self, storage: str, change: Change) -> None:
        """Remember when groups are made, and when their pods end."""
        if storage.endswith(".scheduling.k8s.io") and change.old is None:
            self._made[change.key[1]] = change.revision
        if storage != "pods" or (key := group_of(change.new.obj)) is None:
            return
        if is_ended(change.new.obj) or is_deleted(change.new.obj) or change.gone:
            self._replaced.add(key)
            self._finished[key] = change.revision


def _ganged(manifest: Object) -> Iterator[Object]:
    for entry in manifest["spec"]["replicatedJobs"]:
        if MODE in (entry["template"].get("metadata", {}).get("annotations") or {}):
            yield entry


def _jobset_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("jobset.sigs.k8s.io/jobset-name", ""))
