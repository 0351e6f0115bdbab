"""Sets up what the gangs of :mod:`tests.live.tenants` need, makes them, and does to them what keeps them there.

Queues, quotas, priorities, nodes and policies first; the gangs; then nodes go, pods are lost, names are taken.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.cases import object_name
from tests.controlplane.api import UNREACHABLE, ApiFailure, Object, path_of
from tests.controlplane.nodes import NODES, add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live import kueue, tenants
from tests.live.cluster import JOBSETS, Cluster
from tests.live.definitions import serve
from tests.live.gangctl import create_namespaces
from tests.live.observe import foreign_workload, jobs_refused, pods_refused
from tests.live.policed import GROUP
from tests.live.tenants import Gang
from tests.manifests.definitions.policies import definitions

SLOW: Final = "team-slow"
"""Where a policy applies that runs away."""
_HEAVY: Final = "object.spec.replicatedJobs[0].template.spec.template.spec.containers[0].args"
_RULES: Final = 10
_WORDS, _LETTERS = 60, 3000


@dataclass
class Tenancy:
    """The gangs on one plane."""

    plane: ControlPlane
    made: list[Gang] = field(default_factory=list)

    def cluster(self, namespace: str) -> Cluster:
        """Reads and writes of one namespace."""
        return Cluster(self.plane, namespace)

    async def prepare(self) -> None:
        """Everything that has to be there before the first gang."""
        await create_namespaces(self.plane, [*tenants.NAMESPACES, SLOW])
        await asyncio.gather(self._nodes(), self._quotas(), self._priorities(), self._queues())
        await serve(self.plane.api, definitions().values())
        await kueue.configure(self.plane)

    async def _nodes(self) -> None:
        for pool, (count, cpu) in tenants.NODES.items():
            await add_nodes(self.plane.api, count, cpu=cpu, labels={tenants.POOL: pool}, prefix=pool)

    async def _quotas(self) -> None:
        podless, jobless = self.cluster(tenants.PODLESS), self.cluster(tenants.JOBLESS)
        for cluster, what in ((podless, "pods"), (jobless, "count/jobs.batch")):
            body: Object = {"metadata": {"name": "none"}, "spec": {"hard": {what: "0"}}}
            await self.plane.api.create(cluster.path("v1", "resourcequotas"), body)
        await pods_refused(podless, "exceeded quota")
        await jobs_refused(jobless, "exceeded quota")

    async def _priorities(self) -> None:
        for name, value in (("low", 1), ("high", 100)):
            body: Object = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            path = path_of("scheduling.k8s.io/v1", "priorityclasses")
            await self.plane.api.create(path, {**body, "value": value})
            await kueue.create(self.plane.api, "workloadpriorityclasses", name, value=value)

    async def _queues(self) -> None:
        await kueue.create(self.plane.api, "resourceflavors", "any", spec={})
        shared = {"cohortName": "shared"}
        await self._queue("main", 100)
        await self._queue("alone", 2)
        await self._queue("held", 100, stopPolicy="Hold")
        await self._queue("contested", 2, preemption={"withinClusterQueue": "LowerPriority"})
        await self._queue("greedy", 0, **shared)
        await self._queue("starved", 2, **shared)

    async def _queue(self, name: str, cpus: int, **spec: Any) -> None:
        groups = kueue.cpu_groups({"any": cpus})
        await kueue.create(
            self.plane.api, "clusterqueues", name, spec={"namespaceSelector": {}, "resourceGroups": groups, **spec}
        )
        await kueue.create(self.plane.api, "localqueues", name, tenants.QUEUED, spec={"clusterQueue": name})

    async def make(self, gangs: Iterable[Gang]) -> None:
        """Create them, as many at once as connections allow."""

        async def one(gang: Gang) -> None:
            await self.cluster(gang.namespace).create_jobset(gang.body)
            self.made.append(gang)

        await asyncio.gather(*(one(gang) for gang in gangs))

    async def mistaken_policy(self) -> None:
        """One that gangctl's webhook would refuse: it is there before gangctl is."""
        await self._policy("mistaken", {"team": "none"}, "objet.spec.replicatedJobs.size() > 0")

    async def policies(self) -> None:
        """One that denies, one that warns, and one that runs away."""
        team = "'team' in object.metadata.?labels.orValue({})"
        here = {"kubernetes.io/metadata.name": tenants.TEAM}
        await self._policy("no-risk", here, "!('risk' in object.metadata.?labels.orValue({}))")
        await self._policy("team", here, team, validationActions=["Warn", "Audit"])
        # Texts that are joined are charged, and end with their steps; those that format makes of lists are not.
        loops = [f"{_HEAVY}.all(a, {_HEAVY}.all(b, '%s'.format([{_HEAVY}]) != '{n}'))" for n in range(_RULES)]
        await self._policy("runaway", {"kubernetes.io/metadata.name": SLOW}, *loops)

    async def _policy(self, name: str, labels: Object, *expressions: str, **spec: Any) -> None:
        rules = [{"expression": each, "message": name} for each in expressions]
        constraints = {"namespaceSelector": {"matchLabels": labels}}
        body = {"apiVersion": GROUP, "kind": "GangPolicy", "metadata": {"name": name}}
        spec = {"validations": rules, "matchConstraints": constraints, **spec}
        await self.plane.api.create(path_of(GROUP, "gangpolicies"), {**body, "spec": spec})

    async def risk(self) -> None:
        """Have a request denied."""
        raw = jobset("risk", rj("w", 1, 1, 1), namespace=tenants.TEAM, mode="Gang")
        raw["metadata"]["labels"] = {"risk": "yes", "team": "a"}

        async def denied() -> bool:
            try:
                await self.cluster(tenants.TEAM).create_jobset(raw, dry_run=True)
            except ApiFailure as failure:
                return "no-risk" in failure.message
            return False

        await wait_for(denied, what="a policy to be in force")

    async def overload(self) -> None:
        """Have the policy that runs away evaluate, again and again, more than it can; until cancelled."""
        words = [f"{'x' * _LETTERS}{number}" for number in range(_WORDS)]
        container = {"name": "main", "image": "none", "args": words}
        raw = jobset("heavy", rj("w", 1, 1, 1, pod={"containers": [container]}), mode="Gang")
        await asyncio.gather(*(self._request(SLOW, raw) for _ in range(6)))

    async def knock(self) -> None:
        """Ask for gangs, again and again, whatever the answer; until cancelled."""
        await self._request(tenants.TEAM, jobset("knock", rj("w", 1, 1, 1), mode="Gang"))

    async def _request(self, namespace: str, raw: Object) -> None:
        body = {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}
        path = self.cluster(namespace).path(JOBSETS, "jobsets")
        headers = {"Content-Type": "application/json"}
        while True:
            try:
                await self.plane.api.exchange(
                    "POST", path, data=json.dumps(body), parameters={"dryRun": "All"}, headers=headers
                )
            except UNREACHABLE:
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.05)

    async def disturb(self) -> None:
        """What happens to gangs once they run."""
        await asyncio.gather(
            self._conflict(),
            *map(self._half, (*tenants.HALVES, tenants.HALF_ALONE)),
            self._degrade(),
            self._lose(),
            self._deactivate(),
            self._take(),
        )

    async def _conflict(self) -> None:
        cluster, gang = self.cluster(tenants.CONFLICT.namespace), tenants.CONFLICT
        name = object_name(gang.name, (await cluster.jobset(gang.name))["metadata"]["uid"], "workload")
        await self.plane.api.create(cluster.scheduling("workloads"), foreign_workload(cluster, name, "somebody-else"))
        await cluster.patch_jobset(gang.name, {"spec": {"suspend": False}})

    async def _half(self, gang: Gang) -> None:
        pod, *_ = await self._pods(gang, 2, lambda pod: bool(pod["spec"].get("nodeName")))
        await self.plane.api.patch(f"{NODES}/{pod['spec']['nodeName']}", {"spec": {"unschedulable": True}})
        await self._end(pod)

    async def _degrade(self) -> None:
        pod, *_ = await self._pods(tenants.DEGRADED, 2, _ready)
        await self._unready(pod)

    @asynccontextmanager
    async def degraded(self) -> AsyncIterator[None]:
        """In the block a pod of the recovering gang is not ready; after it, it is again."""
        pod, *_ = await self._pods(tenants.RECOVERING, 4, _ready)
        await self._unready(pod)
        yield
        await self._unready(pod, ready=True)

    async def _unready(self, pod: Object, *, ready: bool = False) -> None:
        conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
        statuses = [{"name": "main", "ready": ready}]
        status = {"status": {"conditions": conditions, "containerStatuses": statuses}}
        await self.plane.api.patch(f"{_path(pod)}/status", status, kind="strategic")

    async def _lose(self) -> None:
        pod, *_ = await self._pods(tenants.LOST, 2, _ready)
        await self.plane.api.delete(f"{NODES}/{pod['spec']['nodeName']}")
        # As the node lifecycle controller would have done before, which no plane runs.
        await self._unready(pod)

    async def _deactivate(self) -> None:
        async def made() -> Object:
            for each in await self.plane.api.list(kueue.path("workloads", namespace=tenants.QUEUED)):
                if each["metadata"]["ownerReferences"][0]["name"] == "inactive":
                    return each
            raise NotYet("no Workload")

        name = (await wait_for(made, what="the Workload of a gang"))["metadata"]["name"]
        path = kueue.path("workloads", name, tenants.QUEUED)
        await self.plane.api.patch(path, {"spec": {"active": False}})

    async def _take(self) -> None:
        """A user deletes a Workload, which is recreated."""
        cluster = self.cluster(tenants.TEAM)
        name = object_name("ready-1", (await cluster.jobset("ready-1"))["metadata"]["uid"], "workload")
        await self.plane.api.delete(cluster.scheduling("workloads", name))

    async def running(self, *names: str) -> None:
        """Wait until all pods of these gangs, two each, are ready."""
        for gang in tenants.GANGS:
            if gang.name in names:
                await self._pods(gang, 2, _ready)

    async def _pods(self, gang: Gang, count: int, test: Any) -> list[Object]:
        async def there() -> list[Object]:
            label = f"jobset.sigs.k8s.io/jobset-name={gang.name}"
            path = self.cluster(gang.namespace).path("v1", "pods")
            found = [pod for pod in await self.plane.api.list(path, labelSelector=label) if test(pod)]
            if len(found) < count:
                raise NotYet(f"{len(found)} pods")
            return found

        return await wait_for(there, f"{count} pods of {gang.name}")

    async def _end(self, pod: Object) -> None:
        await self.plane.api.delete(_path(pod), grace=0)

    async def end(self) -> None:
        """Delete every gang that was made, and let go what holds pods back."""

        async def one(gang: Gang) -> None:
            path = self.cluster(gang.namespace).path(JOBSETS, "jobsets", gang.name)
            await self.plane.api.delete(path, propagation="Background")

        await asyncio.gather(*map(one, self.made))
        self.made.clear()


def _ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _path(pod: Object) -> str:
    return path_of("v1", "pods", namespace=pod["metadata"]["namespace"], name=pod["metadata"]["name"])
