"""Random clusters on one control plane, and what kube-scheduler does with the gang of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from gangctl.api.meta import JOB_KEY, JOBSET_NAME
from gangctl.api.scheduling import NEWEST
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.api.volumes import volume_claims
from gangctl.cli.fitting import FitSubject, answer_of
from gangctl.cluster.stock import Stock
from gangctl.fit.report import FitReport
from tests.controlplane.api import ApiClient, ApiFailure, Object, path_of
from tests.controlplane.nodes import NODES
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.gang.pipeline import assessed, child_job, stored
from tests.live.nodeworlds import HOST, LATER, NodeWorld

AT_ONCE: Final = 6
_PROBES: Final = "default"
"""Namespace of the pods that show which nodes the scheduler knows: no term of a pod of a world is about them."""
_ACCOUNT: Final = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}

W = TypeVar("W", bound=NodeWorld)


@dataclass(frozen=True)
class Outcome:
    """What was said of a world, and what happened."""

    world: NodeWorld
    report: FitReport
    placed: bool
    message: str
    later: bool | None
    """Whether the gang is placed once the other pods are gone, where it was said that it never is."""

    @property
    def kind(self) -> str:
        """The cell of the table."""
        what = "placed" if self.placed else "placed later" if self.later else "refused"
        return f"{self.report['verdict']}: {what}"

    @property
    def wrong(self) -> bool:
        """Whether the verdict is false."""
        expected = {"fits": (True,), "not-now": (False,), "never": (False,)}.get(self.report["verdict"])
        return bool(self.later) or (expected is not None and self.placed not in expected)

    def __str__(self) -> str:
        """The world, to replay it."""
        return f"# seed {self.world.seed}: {self.kind}: {self.report['message']}\n# {self.message}\n{self.world}"


def said(world: NodeWorld) -> FitReport:
    """What ``gangctl fit --fixed-nodes`` says of a world in a file."""
    stock = Stock()
    for raw in world.known:
        stock.take_raw(raw)
    stock.pods = stock.pods or []
    stock.classes_unread = False
    stock.take_runtime_classes([raw for raw in world.known if raw["kind"] == "RuntimeClass"])
    return answer_of(FitSubject(world.jobset, "js", world.name, ""), stock, fixed_nodes=True).report


async def prepare(plane: ControlPlane) -> None:
    """Make what all worlds share. Harmless where it is there."""
    accounts = path_of("v1", "serviceaccounts", namespace=_PROBES)
    for path, raw in ((accounts, _ACCOUNT), (path_of("storage.k8s.io/v1", "storageclasses"), LATER)):
        try:
            await plane.api.create(path, raw)
        except ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                raise


class Ground:
    """One world on a plane without a controller-manager."""

    def __init__(self, api: ApiClient, world: NodeWorld) -> None:
        self._api = api
        self._world = world
        self._attempt = 0
        self._jobset: Object = {}

    async def outcome(self) -> Outcome:
        report = said(self._world)
        try:
            await self._install()
            placed, message = await self._placed()
            later = None
            if report["verdict"] == "never" and not placed:
                await self._remove_pods()
                later, _ = await self._placed()
        finally:
            await self._remove()
        return Outcome(self._world, report, placed, message, later)

    def _path(self, plural: str, name: str | None = None) -> str:
        version = "scheduling.k8s.io/v1beta1" if plural == "podgroups" else "v1"
        return path_of(version, plural, namespace=self._world.name, name=name)

    async def _install(self) -> None:
        await self._api.create(path_of("v1", "namespaces"), next(self._world.known))
        await self._api.create(self._path("serviceaccounts"), _ACCOUNT)
        await self.fill()

    async def fill(self) -> None:
        """Create what is in the namespace and its nodes, and wait until the scheduler knows it."""
        api = self._api
        for raw in self._world.claims:
            await self._make_claim(raw)
        await asyncio.gather(*(api.create(NODES, raw) for raw in self._world.nodes))
        await asyncio.gather(*map(self._make_other, self._world.others))
        await self._nodes_known([node["metadata"]["name"] for node in self._world.nodes])

    async def _make_other(self, pod: Object) -> None:
        await self._api.create(self._path("pods"), pod)

    def _path_of_claim(self, raw: Object) -> str:
        if raw["kind"] == "PersistentVolume":
            return path_of("v1", "persistentvolumes")
        return self._path("persistentvolumeclaims")

    async def _make_claim(self, raw: Object) -> None:
        """Create a claim or a volume with its status: here is no controller that would bind them."""
        path = self._path_of_claim(raw)
        await self._api.create(path, raw)
        if "status" in raw:
            await self._api.patch(f"{path}/{raw['metadata']['name']}/status", {"status": raw["status"]})

    async def _nodes_known(self, nodes: Iterable[str]) -> None:
        """Wait until the scheduler knows these nodes as they are."""
        api, name = self._api, self._world.name
        probes, label = path_of("v1", "pods", namespace=_PROBES), f"probe={name}"
        await asyncio.gather(*(api.create(probes, self._probe(node)) for node in nodes))

        async def known() -> bool:
            pods = await api.list(probes, labelSelector=label)
            if missing := [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]:
                raise NotYet(f"no node for {missing}")
            return True

        await wait_for(known, "the scheduler to know all nodes", interval=0.1)
        await api.delete(probes, grace=0, labelSelector=label)

    def _probe(self, node: str) -> Object:
        """A pod that goes to one node: it has one once the scheduler knows the node."""
        spec: Object = {"nodeSelector": {HOST: node}, "tolerations": [{"operator": "Exists"}]}
        spec["containers"] = [{"name": "main", "image": "none"}]
        metadata = {"name": f"probe-{node}", "labels": {"probe": self._world.name}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    async def _remove_pods(self) -> None:
        await self._api.delete(self._path("pods"), grace=0)

    async def _placed(self) -> tuple[bool, str]:
        """Create the JobSet's pods, and whether the scheduler places all at once, with what it says."""
        self._attempt += 1
        return await self._starts(self._world.jobset, self._attempt)

    async def _starts(self, raw: Object, attempt: int) -> tuple[bool, str]:
        """Make groups and pods as gangctl, JobSet and the Job controller do, and whether all are placed at once."""
        uid = f"{attempt:08d}-0000-4000-8000-000000000000"
        self._jobset = stored({**raw, "metadata": {**raw["metadata"], "uid": uid}})
        plan = assessed(self._jobset).plan
        assert plan is not None
        await self._api.delete(self._path("pods"), grace=0, labelSelector=f"{JOBSET_NAME}=js")
        names = {(job.replicated_job, job.index): job.reference.group for job in plan.jobs() if job.reference}
        entries = self._jobset["spec"]["replicatedJobs"]
        pods = [
            pod
            for position, entry in enumerate(entries)
            for index in range(entry["replicas"])
            for pod in self._pods_of(child_job(self._jobset, position, index), names[entry["name"], index], attempt)
        ]
        await asyncio.gather(*map(self._make_pod, pods))
        for group in plan.groups:
            await self._api.create(self._path("podgroups"), ADAPTERS[NEWEST].pod_group(group))
        decided = [await self.decision(group.name) for group in plan.groups]
        return all(placed for placed, _ in decided), "; ".join(message for _, message in decided)

    async def _make_pod(self, pod: Object) -> None:
        await self._api.create(self._path("pods"), pod)

    def _pods_of(self, job: Object, group: str, attempt: int) -> Iterable[Object]:
        template = job["spec"]["template"]
        name = job["metadata"]["name"]
        labels = {**job["metadata"]["labels"], **template.get("metadata", {}).get("labels", {}), JOB_KEY: name}
        spec = self._world.as_admitted({**template["spec"], "schedulingGroup": {"podGroupName": group}})
        for index in range(job["spec"]["parallelism"]):
            metadata = {"name": f"{name}-{index}-{attempt}", "namespace": self._world.name, "labels": labels}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    async def decision(self, group: str) -> tuple[bool, str]:
        """Wait for what the scheduler decides about a group: whether it places it, and what it says."""
        path = self._path("podgroups", group)

        async def decided() -> tuple[bool, str]:
            stored = await self._api.get(path)
            conditions = stored.get("status", {}).get("conditions", ())
            found = {each["type"]: each for each in conditions}.get("PodGroupInitiallyScheduled")
            # So does 1.37 report pods that are refused before the filters of nodes, and also one that it had not heard
            # of, after which it looks again.
            hidden = found is not None and "PostFilter" in found["message"] and self._hides_a_refusal()
            refused = found is not None and (found["reason"] == "Unschedulable" or hidden)
            if found is None or (found["status"] == "False" and not refused):
                raise NotYet(f"the scheduler has not decided: {found}")
            if refused and not hidden:
                pods = await self._pods_in(group)
                if left := _not_tried(pods):
                    raise NotYet(f"the scheduler has not tried {left}")
                # 1.37 also says it of pods beyond the minimum, before it says that the others are placed.
                if _placed(pods) >= stored["spec"]["schedulingPolicy"]["gang"]["minCount"]:
                    return True, found["message"]
            return found["status"] == "True", found["message"]

        return await wait_for(decided, "the scheduler to look at the group", interval=0.1)

    async def _pods_in(self, group: str) -> list[Object]:
        pods = await self._api.list(self._path("pods"))
        return [pod for pod in pods if pod["spec"].get("schedulingGroup", {}).get("podGroupName") == group]

    def _hides_a_refusal(self) -> bool:
        """Whether pods may be refused before the filters of nodes."""
        there = {raw["metadata"]["name"] for raw in self._world.claims}
        entries = self._world.jobset["spec"]["replicatedJobs"]
        specs = (entry["template"]["spec"]["template"]["spec"] for entry in entries)
        return any(claim not in there for spec in specs for _, claim in volume_claims(spec))

    async def _remove(self) -> None:
        await self._remove_pods()
        await asyncio.gather(*(self._api.delete(f"{NODES}/{raw['metadata']['name']}") for raw in self._world.nodes))


def _placed(pods: Iterable[Object]) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods)


def _not_tried(pods: Iterable[Object]) -> list[str]:
    """Pods of a group that the scheduler has neither placed nor refused.

    1.37 may try a group while it moves the group's pods into its queue, and refuses it for want of the others.
    """
    return [
        pod["metadata"]["name"]
        for pod in pods
        if not pod["spec"].get("nodeName")
        and not any(one.get("reason") == "Unschedulable" for one in pod["status"].get("conditions", ()))
    ]


async def outcomes(
    plane: ControlPlane,
    worlds: Iterable[W],
    at_once: int = AT_ONCE,
    ground: Callable[[ApiClient, W], Ground] = Ground,
) -> list[Outcome]:
    """What happens in these worlds, a few at a time."""
    turn = asyncio.Semaphore(at_once)
    await prepare(plane)

    async def one(world: W) -> Outcome:
        async with turn:
            return await ground(plane.api, world).outcome()

    return list(await asyncio.gather(*map(one, worlds)))
