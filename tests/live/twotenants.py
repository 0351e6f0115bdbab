"""Two tenants that share queues and nodes, and what one of them must not know of the other, by marks in the latter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live import kueue
from tests.live.cluster import Cluster
from tests.live.gangctl import create_namespaces
from tests.live.kueue import PRIORITY, QUEUE_NAME, until, waits
from tests.live.policed import GROUP, REPORTS

OWN: Final = "research"
OTHER: Final = "zqspace"
POOL: Final = "example.org/pool"


class Fact(StrEnum):
    """What there is to know of another tenant: the rows of docs/tenants.md."""

    NAMES = "names of its JobSets, and of all that is made for them"
    CONTENTS = "their labels, annotations, images, commands and environment"
    OBJECTS = "its LocalQueues and ConfigMaps"
    EXCEPTIONS = "owner and reason of an exception from policies"
    NAMESPACE = "name of its namespace"
    LABELS = "labels of its namespace"
    QUOTA = "quota that it uses"
    PREEMPTING = "UIDs of a JobSet that preempted the user's"
    REPLACING = "name of a PodGroup that preempted the user's, which begins with that of its JobSet"


MARKS: Final = {
    Fact.NAMES: "zqname",
    Fact.CONTENTS: "zqcontent",
    Fact.OBJECTS: "zqobject",
    Fact.EXCEPTIONS: "zqreason",
    Fact.NAMESPACE: OTHER,
    Fact.LABELS: "zqlabel",
    Fact.QUOTA: "1733m",
    Fact.REPLACING: "zqreplacing",
}
"""Texts that stand in objects of the other tenant and nowhere else."""
_HELD: Final = MARKS[Fact.QUOTA]
_LIMITS: Final = "limits"


def gang(name: str, cpu: str, *, queue: str = "", priority: str = "", pool: str = "room", **labels: str) -> Object:
    """A gang of one pod, without marks."""
    pod = {"nodeSelector": {POOL: pool}, **({} if queue else {"priorityClassName": priority})}
    # A pod that is preempted counts as failed.
    made = jobset(name, rj("w", 1, 1, 1, cpu=cpu, pod=pod, job={"backoffLimit": 6}), mode="Gang")
    queued = {QUEUE_NAME: queue, PRIORITY: priority} if queue else {}
    made["metadata"]["labels"] = {**queued, **labels}
    return made


def marked(name: str, cpu: str, **where: str) -> Object:
    """A gang whose content has marks wherever a user can write one."""
    made = gang(name, cpu, **where)
    mark = MARKS[Fact.CONTENTS]
    made["metadata"]["labels"]["example.org/project"] = mark
    made["metadata"]["annotations"]["example.org/note"] = mark
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"example.org/project": mark}, "annotations": {"example.org/note": mark}}
    (container,) = template["spec"]["containers"]
    container |= {"image": f"example.org/{mark}:1", "command": [mark], "env": [{"name": "KEY", "value": mark}]}
    return made


REFUSED: Final = (
    gang("new", "100m", queue="strict", priority="low", must="fit"),
    gang("new", "2", queue="contested", priority="low", must="fit"),
    gang("new", "9", queue="contested", priority="low"),
    jobset("new", rj("w", 1, 1, 1, mode="All")),
)
"""What a tenant asks for: to wait behind others, for their quota, or for what there never is; and a mistake."""


@dataclass
class TwoTenants:
    """Both on one plane."""

    plane: ControlPlane

    def __post_init__(self) -> None:
        """Each has a namespace."""
        self.own, self.other = Cluster(self.plane, OWN), Cluster(self.plane, OTHER)

    async def settle(self) -> None:
        """Make everything, and wait until all that is written about it has been written."""
        await create_namespaces(self.plane, [OWN, OTHER])
        label = {"metadata": {"labels": {"example.org/project": MARKS[Fact.LABELS]}}}
        await self.plane.api.patch(path_of("v1", "namespaces", name=OTHER), label)
        await asyncio.gather(self._nodes(), self._queues(), self._policies())
        await asyncio.gather(self._wait_in_line(), self._lose_quota(), self._lose_node())
        await self._written()

    async def marks(self) -> dict[Fact, list[str]]:
        """The texts by which a fact is recognized."""
        workload = (await _workload_of(self.other, f"{MARKS[Fact.NAMES]}-urgent"))["metadata"]
        uids = [str(workload["uid"]), str(workload["ownerReferences"][0]["uid"])]
        # As Kubernetes and as gangctl write an amount.
        held = [_HELD, f"{int(_HELD.removesuffix('m')) / 1000} cpu"]
        return {fact: [mark] for fact, mark in MARKS.items()} | {Fact.QUOTA: held, Fact.PREEMPTING: uids}

    async def _nodes(self) -> None:
        api = self.plane.api
        await add_nodes(api, 2, cpu="8", labels={POOL: "room"})
        await add_nodes(api, 1, cpu="2", labels={POOL: "narrow"})
        for name, value in (("low", 1), ("high", 100)):
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            await api.create(path_of("scheduling.k8s.io/v1", "priorityclasses"), {**body, "value": value})
            await kueue.create(api, "workloadpriorityclasses", name, value=value)

    async def _queues(self) -> None:
        """Two ClusterQueues of one Cohort, which lend each other nothing: the order of events decides nothing."""
        api = self.plane.api
        await kueue.configure(self.plane)
        await kueue.create(api, "resourceflavors", "any", spec={})
        preemption = {"preemption": {"withinClusterQueue": "LowerPriority"}}
        settings: dict[str, tuple[int, Object]] = {
            "strict": (4, {"queueingStrategy": "StrictFIFO"}),
            "contested": (2, preemption),
        }
        for name, (cpus, settled) in settings.items():
            groups = kueue.cpu_groups({"any": cpus})
            groups[0]["flavors"][0]["resources"][0]["borrowingLimit"] = "0"
            spec = {"namespaceSelector": {}, "cohortName": "shared", "resourceGroups": groups, **settled}
            await kueue.create(api, "clusterqueues", name, spec=spec)
            await kueue.create(api, "localqueues", name, OWN, spec={"clusterQueue": name})
            await kueue.create(api, "localqueues", _queue(name), OTHER, spec={"clusterQueue": name})

    async def _policies(self) -> None:
        """One that all violate, one that reads parameters of the JobSet's namespace, one that refuses; an exception."""
        image = "object.spec.replicatedJobs[0].template.spec.template.spec.containers[0].image"
        team = {
            "name": "team",
            "expression": "'team' in object.metadata.?labels.orValue({})",
            "messageExpression": f"object.metadata.name + ' has no team and runs ' + {image}",
        }
        await self._create("GangPolicy", "labelled", {"validations": [team], "validationActions": ["Warn", "Audit"]})
        limit = {"expression": "gang.totalPods <= int(params.data.pods)"}
        reference = {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "paramRef": {"name": _LIMITS, "parameterNotFoundAction": "Allow"},
        }
        spec = {"validations": [limit], "validationActions": ["Audit"], "failurePolicy": "Ignore", **reference}
        await self._create("GangPolicy", "limited", spec)
        fits = {
            "expression": "!('must' in object.metadata.?labels.orValue({})) || fit.verdict == 'fits'",
            "messageExpression": "fit.message",
        }
        await self._create("GangPolicy", "fitting", {"validations": [fits]})
        mark, reason = MARKS[Fact.OBJECTS], MARKS[Fact.EXCEPTIONS]
        body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _LIMITS}, "data": {"pods": mark}}
        await self.plane.api.create(self.other.path("v1", "configmaps"), body)
        match = {"namespaces": [OTHER], "names": [f"{MARKS[Fact.NAMES]}-running"]}
        spec = {"policies": [{"name": "labelled"}], "match": match, "owner": reason, "reason": reason}
        await self._create("GangPolicyException", "moving", {**spec, "expiresAt": "2999-01-01T00:00:00Z"})

    async def _create(self, kind: str, name: str, spec: Object) -> None:
        plural = "gangpolicies" if kind == "GangPolicy" else "gangpolicyexceptions"
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.plane.api.create(path_of(GROUP, plural), body)

    async def _wait_in_line(self) -> None:
        """A JobSet waits behind the other tenant's, which is larger than the quota."""
        for name, cpu, priority in (("running", "3217m", "high"), ("head", "5", "high")):
            await self._submit_other(name, cpu, queue=_queue("strict"), priority=priority)
            if name == "running":
                await _admitted(self.other, f"{MARKS[Fact.NAMES]}-{name}")
        await waits(self.other, f"{MARKS[Fact.NAMES]}-head")
        await self.own.create_jobset(gang("behind", "500m", queue="strict", priority="low"))

    async def _lose_quota(self) -> None:
        """A JobSet is preempted by the other tenant's, and waits for the quota that this uses now."""
        await self.own.create_jobset(gang("evicted", "2", queue="contested", priority="low"))
        await _admitted(self.own, "evicted")
        await self._submit_other("urgent", _HELD, queue=_queue("contested"), priority="high")
        await _admitted(self.other, f"{MARKS[Fact.NAMES]}-urgent")
        await waits(self.own, "evicted")

    async def _lose_node(self) -> None:
        """A pod is preempted by one of the other tenant's."""
        await self.own.create_jobset(gang("ousted", "2", priority="low", pool="narrow"))
        await _bound(self.own, "ousted")
        name = MARKS[Fact.REPLACING]
        await self.other.create_jobset(marked(name, "2", priority="high", pool="narrow"))
        await _bound(self.other, name)

    async def _submit_other(self, name: str, cpu: str, **where: str) -> None:
        await self.other.create_jobset(marked(f"{MARKS[Fact.NAMES]}-{name}", cpu, **where))

    async def _written(self) -> None:
        """Statuses, reports and events are written a moment after what they are about."""
        policies = path_of(GROUP, "gangpolicies")
        exempt = {"pass": 0, "fail": 6, "error": 0, "exempt": 1}
        await self._until(f"{policies}/labelled", lambda live: live["status"]["results"] == exempt)
        await self._until(f"{policies}/limited", lambda live: live["status"]["results"]["error"] == 4)
        await self._until(
            path_of(GROUP, "gangpolicyexceptions", name="moving"), lambda live: bool(live["status"]["conditions"])
        )
        for cluster in (self.own, self.other):
            report = cluster.path(REPORTS, "policyreports", "gangctl")
            await self._until(report, lambda live: live["summary"]["warn"] >= 3)
        gangs = self.own.path(GROUP, "gangs")
        await self._until(f"{gangs}/evicted", lambda live: "WaitingForQuota" in str(live["status"]["causes"]))
        await self._until(f"{gangs}/behind", lambda live: "HeadBlocksQueue" in str(live["status"]["causes"]))
        events = self.own.path("events.k8s.io/v1", "events")
        await self._until(events, lambda live: any(event["reason"] == "HeadBlocksQueue" for event in live["items"]))
        for reporter in ("kueue-admission", "default-scheduler"):
            await self._until(events, partial(_preempted, reporter))

    async def _until(self, path: str, test: Callable[[Object], bool]) -> None:
        async def met() -> bool:
            live = await self.plane.api.get(path)
            try:
                passed = test(live)
            except (KeyError, TypeError) as error:
                raise NotYet(f"{error}: {live}") from error
            if not passed:
                raise NotYet(str(live)[:2000])
            return True

        await wait_for(met, what=path, tolerate=(ApiFailure,))


async def _workload_of(cluster: Cluster, jobset: str) -> Object:
    """Kueue's Workload of a JobSet, once it is there."""

    async def there() -> Object:
        for each in await cluster.api.list(kueue.path("workloads", namespace=cluster.namespace)):
            if each["metadata"]["ownerReferences"][0]["name"] == jobset:
                return each
        raise NotYet("there is none")

    return await wait_for(there, what=f"the Workload of {jobset}")


def _queue(name: str) -> str:
    return f"{MARKS[Fact.OBJECTS]}-{name}"


def _preempted(reporter: str, events: Object) -> bool:
    """Whether a preemption was recorded."""
    reporters = [str(each.get("reportingController")) for each in events["items"] if each["reason"] == "Preempted"]
    if reporter not in reporters:
        raise NotYet(str(reporters))
    return True


async def _admitted(cluster: Cluster, name: str) -> None:
    await until(cluster, name, "to be admitted", lambda life: life.workload.get("Admitted") == "True")


async def _bound(cluster: Cluster, name: str) -> None:
    await until(cluster, name, "to have a node", lambda life: life.pods)
