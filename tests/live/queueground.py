"""Random clusters with queues on one control plane, and what Kueue and kube-scheduler do with the gang of each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from gangctl.api.meta import REPLICATED_JOB_NAME
from gangctl.cli.fitting import FitSubject, answer_of
from gangctl.client.resources import NODES, PODS
from gangctl.cluster import kinds
from gangctl.cluster.stock import Stock
from gangctl.fit.report import FitReport
from gangctl.fit.tree import quotas_of
from gangctl.kueue.queues import MOST_PODSETS
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.fit.trees import QUEUE, kueue
from tests.jobsets import jobset, rj
from tests.live.accounts import Account, Accounts
from tests.live.cluster import JOBSETS
from tests.live.gangctl import Gangctl, create_namespaces
from tests.live.nodeground import Ground
from tests.live.nodeworlds import LATER
from tests.live.queueworlds import CLASS, SETTINGS, QueueWorld, held, world
from tests.live.quotatrees import all_of, path

ROUNDS: Final = 12
"""More than the tries after which Kueue repeats itself, with two podsets and three flavors."""
_KUEUES: Final = (kinds.TOPOLOGIES, kinds.RESOURCE_FLAVORS, kinds.COHORTS, kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES)
"""In the order in which they are created."""
_READ: Final = (*_KUEUES, kinds.QUEUED_WORKLOADS, kinds.PRIORITY_CLASSES, NODES, PODS, kinds.VOLUMES, kinds.CLAIMS)
OTHERS: Final = "app,!jobset.sigs.k8s.io/jobset-name"
_MEMBERS: Final = "jobset.sigs.k8s.io/jobset-name=js"


@dataclass(frozen=True)
class Happened:
    """Where a JobSet is, once the controllers have settled."""

    placed: bool
    message: str


@dataclass(frozen=True)
class Outcome:
    """What was said of a world, and what happened."""

    world: QueueWorld
    known: Sequence[Object]
    report: FitReport
    tenant: FitReport
    """What is said to a user who may not read the Workloads that hold quota."""
    now: Happened
    later: Happened | None
    """Once nothing else runs or holds quota, where it was said that it never fits."""

    @property
    def kind(self) -> str:
        """The cell of the table."""
        later = self.later is not None and self.later.placed
        what = "placed" if self.now.placed else "placed later" if later else "waits"
        return f"{self.report['verdict']}: {what}"

    @property
    def wrong(self) -> bool:
        """Whether a verdict is false."""
        later = self.later is not None and self.later.placed
        if self.report["verdict"] != "unknown" and (later or self.now.placed is not (self.report["verdict"] == "fits")):
            return True
        match self.tenant["verdict"]:
            case "fits":
                return not self.now.placed
            case "never":
                return later or self.now.placed
            case "not-now":
                # What it waits for may be preempted, which is said.
                return self.now.placed and not self.tenant["unknown"]
        return False

    def __str__(self) -> str:
        """The world, to replay it."""
        said = f"{self.kind}: {self.report['reason']}: {self.report['message']}"
        other = f"to a tenant {self.tenant['verdict']}: {self.tenant['reason']}: {self.tenant['message']}"
        return f"# seed {self.world.seed}: {said}\n# {other}\n# {self.now}\n# {self.later}\n{self.world}"


@asynccontextmanager
async def beside_gangctl(worlds: Iterable[QueueWorld]) -> AsyncIterator[QueueGround]:
    """These worlds on a plane of their own with Kueue, beside gangctl."""
    components = ("jobset", "kueue")
    planes = ControlPlane.start("1.37", components, kueue_metrics=True, kueue_configuration=SETTINGS, audit=False)
    async with planes as plane, Gangctl(plane):
        ground = QueueGround(plane, await Accounts.of(plane), list(worlds))
        await ground.install()
        yield ground


async def outcomes(seeds: Iterable[int]) -> list[Outcome]:
    """What happens in the worlds of these seeds."""
    async with beside_gangctl(map(world, seeds)) as ground:
        return await ground.outcomes()


def _said(made: QueueWorld, stock: Stock) -> FitReport:
    """What ``gangctl fit --fixed-nodes`` says."""
    queue = made.jobset["metadata"]["labels"].get(QUEUE, "")
    return answer_of(FitSubject(made.jobset, "js", made.name, queue), stock, fixed_nodes=True).report


def _used(stock: Stock) -> dict[tuple[str, str, str], int]:
    """What is in use, by ClusterQueue, flavor and resource."""
    return {
        (name, *pair): stock.snapshot.quotas.used(name, *pair)
        for name, queue in stock.cluster_queues_by_name().items()
        for pair in quotas_of(queue.groups)
    }


class Bound(Ground):
    """Nodes and pods of a world, beside a controller that binds claims."""

    async def _make_claim(self, raw: Object) -> None:
        path, name = self._path_of_claim(raw), raw["metadata"]["name"]
        metadata = {key: value for key, value in raw["metadata"].items() if key != "annotations"}
        await self._api.create(path, {**raw, "metadata": metadata})
        if raw["kind"] == "PersistentVolumeClaim" and "status" in raw:
            await read_until(
                lambda: self._api.get(f"{path}/{name}"),
                lambda live: live["status"].get("phase") == "Bound",
                f"claim {name} to be bound",
            )


@dataclass
class QueueGround:
    """Worlds on a plane, all at once: each has nodes and quotas of its own."""

    plane: ControlPlane
    accounts: Accounts
    worlds: Sequence[QueueWorld]
    probes: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """Why a JobSet is not even created, by world."""

    async def install(self) -> None:
        """Everything but the JobSets, and wait until all know it."""
        api = self.plane.api
        await api.create(path_of("storage.k8s.io/v1", "storageclasses"), LATER)
        await api.create(path("workloadpriorityclasses"), CLASS)
        await create_namespaces(self.plane, [made.name for made in self.worlds])
        for made in self.worlds:
            labels = next(made.known)["metadata"]["labels"]
            await api.patch(path_of("v1", "namespaces", name=made.name), {"metadata": {"labels": labels}})
        await all_of(Bound(api, made).fill() for made in self.worlds)
        for resource in _KUEUES:
            await all_of(
                api.create(path(resource.plural, namespace=raw["metadata"].get("namespace")), raw)
                for made in self.worlds
                for raw in made.queues
                if raw["kind"] == resource.kind
            )
        await self._run()
        await api.create(path("resourceflavors"), kueue("ResourceFlavor", "probe", {}))
        quota = [{"name": "cpu", "nominalQuota": "100"}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "probe", "resources": quota}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        await api.create(path("clusterqueues"), kueue("ClusterQueue", "probe", spec))
        await api.create(
            path("localqueues", namespace="default"), kueue("LocalQueue", "probe", {"clusterQueue": "probe"})
        )
        await self.current()
        await self._settled()

    async def current(self) -> None:
        """Wait until Kueue has seen all queues as they are."""

        async def current() -> bool:
            for resource in (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES):
                for raw in await self.plane.api.list(path(resource.plural)):
                    conditions = raw.get("status", {}).get("conditions", [])
                    if raw["metadata"]["generation"] not in [one.get("observedGeneration") for one in conditions]:
                        raise NotYet(f"{resource.kind} {raw['metadata']['name']}: {conditions}")
            return True

        await wait_for(current, "Kueue to know all queues", interval=0.5)

    async def _run(self) -> None:
        """The workloads that hold quota."""
        api = self.plane.api
        every = [(made, workload) for made in self.worlds for workload in made.running]
        await all_of(api.create(path("workloads", namespace=made.name), one.raw) for made, one in every)
        await all_of(
            api.patch(f"{path('workloads', one.name, made.name)}/status", {"status": held(one)}) for made, one in every
        )
        # Kueue finds the ClusterQueue whose status it has to write by what a Workload was before a change: these have
        # no LocalQueue, so that their admission alone leads to none (NotifyWorkloadUpdate).
        again = {"metadata": {"annotations": {"changed": "again"}}}
        await all_of(api.patch(path("workloads", one.name, made.name), again) for made, one in every)

        async def known() -> bool:
            now = await self.accounts.ask()
            if now.reserving != len(every) or not now.idle:
                raise NotYet(f"{now.reserving:.0f} of {len(every)} have quota")
            # It is written later, and a user who may not read Workloads has nothing else.
            queues = await api.list(path("clusterqueues"))
            counted = sum(raw.get("status", {}).get("reservingWorkloads", 0) for raw in queues)
            if counted != len(every):
                raise NotYet(f"the status of ClusterQueues has {counted} of {len(every)}")
            return True

        await wait_for(known, "Kueue to count the running workloads", interval=0.5)

    async def outcomes(self) -> list[Outcome]:
        """Ask, create the JobSets, and see what becomes of them; the same once nothing else is there."""
        known = {made.name: await self.known(made) for made in self.worlds}
        reports, for_tenants = {}, {}
        for made in self.worlds:
            seen, unseen = self._stock(known[made.name]), self._stock(known[made.name], workloads=False)
            assert _used(unseen) == _used(seen), made
            reports[made.name], for_tenants[made.name] = _said(made, seen), _said(made, unseen)
        now = await self.happen(self.worlds)
        said = [made for made in self.worlds if reports[made.name]["verdict"] == "never"]
        never = [made for made in said if not now[made.name].placed]
        await self._empty(never)
        later = await self.happen(never)
        return [
            Outcome(
                made, known[made.name], reports[made.name], for_tenants[made.name], now[made.name], later.get(made.name)
            )
            for made in self.worlds
        ]

    async def known(self, made: QueueWorld) -> list[Object]:
        """What the API server has of a world."""
        namespace = await self.plane.api.get(path_of("v1", "namespaces", name=made.name))
        found = [{**namespace, "apiVersion": "v1", "kind": "Namespace"}]
        for resource in _READ:
            space = made.name if resource.namespaced else None
            for raw in await self.plane.api.list(path_of(resource.api_version, resource.plural, namespace=space)):
                name = raw["metadata"]["name"]
                if space or resource == kinds.PRIORITY_CLASSES or name == made.name or name.startswith(f"{made.name}-"):
                    found.append({**raw, "apiVersion": resource.api_version, "kind": resource.kind})
        return found

    def _stock(self, known: Iterable[Object], *, workloads: bool = True) -> Stock:
        """What a user has read, who may read ``workloads`` or not."""
        stock = Stock()
        for raw in known:
            if workloads or raw["kind"] != kinds.QUEUED_WORKLOADS.kind:
                stock.take_raw(raw)
        stock.pods = stock.pods or []
        stock.take_runtime_classes([])
        stock.note_presence(True, MOST_PODSETS)
        stock.nodes_known = stock.topologies_known = True
        stock.snapshot.take_configuration((self.plane.directory / "kueue.yaml").read_text())
        if not workloads:
            stock.take_reservations()
        return stock

    def _jobset(self, made: QueueWorld, name: str | None = None) -> str:
        return path_of(JOBSETS, "jobsets", namespace=made.name, name=name)

    async def happen(
        self, worlds: Sequence[QueueWorld], jobsets: Mapping[str, Object] | None = None
    ) -> Mapping[str, Happened]:
        """Create the JobSets of worlds, and see what becomes of them."""
        await all_of(self._create(made, (jobsets or {}).get(made.name, made.jobset)) for made in worlds)
        await self._settled()
        found = await asyncio.gather(*map(self._happened, worlds))
        return {made.name: one for made, one in zip(worlds, found, strict=True)}

    async def _create(self, made: QueueWorld, raw: Object) -> None:
        try:
            await self.plane.api.create(self._jobset(made), raw)
        except ApiFailure as failure:
            self.refused[made.name] = failure.message

    async def _settled(self) -> None:
        """Wait until Kueue has seen all that is there up to now, and can decide nothing otherwise.

        It decides on a JobSet that is created now; its controllers have nothing to do; and what it evaluates again and
        again it has evaluated with each flavor.
        """
        self.probes += 1
        name = f"probe-{self.probes}"
        raw = jobset(name, rj("w", 1, 1, 1, cpu="1", pod={"nodeSelector": {"room": "none"}}), namespace="default")
        raw["metadata"]["labels"] = {QUEUE: "probe"}
        await self.plane.api.create(path_of(JOBSETS, "jobsets", namespace="default"), raw)

        async def resumed() -> Account:
            live = await self.plane.api.get(path_of(JOBSETS, "jobsets", namespace="default", name=name))
            now = await self.accounts.ask()
            if live["spec"].get("suspend") or not now.idle:
                raise NotYet("Kueue has not started a JobSet")
            return now

        before = await wait_for(resumed, "Kueue to start a JobSet", interval=0.3)

        async def settled() -> bool:
            now = await self.accounts.ask()
            if not now.idle or (now.waiting and now.cycles < before.cycles + ROUNDS):
                raise NotYet(f"{now.waiting:.0f} are to be evaluated")
            return True

        await wait_for(settled, "Kueue to have decided", interval=0.3)

    async def _happened(self, made: QueueWorld) -> Happened:
        """Whether Kueue starts a JobSet, and all of its pods have a node, once the scheduler has decided."""
        if made.name in self.refused:
            return Happened(placed=False, message=self.refused[made.name])
        waits = await self._waits(made)
        if waits:
            return Happened(placed=False, message=waits)
        total = sum(
            entry["replicas"] * entry["template"]["spec"]["parallelism"]
            for entry in made.jobset["spec"]["replicatedJobs"]
        )
        ground = Bound(self.plane.api, made)

        async def there() -> list[Object]:
            pods = await self.plane.api.list(path_of("v1", "pods", namespace=made.name), labelSelector=_MEMBERS)
            gated = [pod for pod in pods if pod["spec"].get("schedulingGates")]
            stays = len(pods) == total and any([await self._is_stuck(pod) for pod in gated])
            if len(pods) != total or (gated and not stays):
                raise NotYet(f"{len(pods)} of {total} pods are there, and {len(gated)} have gates")
            return gated or pods

        pods = await wait_for(there, f"all pods of {made.name}", interval=0.3)
        if pods[0]["spec"].get("schedulingGates"):
            return Happened(placed=False, message="Kueue cannot lift the gate of pods that select another domain")
        groups = {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods}
        decided = [await ground.decision(group) for group in sorted(groups)]
        return Happened(all(placed for placed, _ in decided), "; ".join(message for _, message in decided))

    async def _is_stuck(self, pod: Object) -> bool:
        """Whether a gated pod selects another domain than Kueue has assigned, with a label that cannot be changed."""
        selected = pod["spec"].get("nodeSelector", {})
        for raw in await self.plane.api.list(path("workloads", namespace=pod["metadata"]["namespace"])):
            for podset in raw.get("status", {}).get("admission", {}).get("podSetAssignments", ()):
                assigned = podset.get("topologyAssignment", {})
                if podset["name"] == pod["metadata"]["labels"][REPLICATED_JOB_NAME]:
                    values = json.dumps(assigned)
                    return any(
                        level in selected and json.dumps(selected[level]) not in values
                        for level in assigned.get("levels", ())
                    )
        return False

    async def _waits(self, made: QueueWorld) -> str:
        """Why Kueue does not start a JobSet; empty if it has."""

        async def known() -> tuple[str]:
            live = await self.plane.api.get(self._jobset(made, "js"))
            workloads = await self.plane.api.list(path("workloads", namespace=made.name))
            own = [raw for raw in workloads if raw["metadata"].get("ownerReferences")]
            conditions = [one for raw in own for one in raw.get("status", {}).get("conditions", ())]
            has = {one["type"] for one in conditions if one["status"] == "True"}
            if not live["spec"].get("suspend"):
                return ("",)
            if "Admitted" in has and "Finished" not in has:
                raise NotYet(f"{made.name} is admitted and not started")
            return ("; ".join(one["message"] for one in conditions) or "Kueue makes no Workload",)

        (why,) = await wait_for(known, f"Kueue to start {made.name}", interval=0.3)
        return why

    async def _empty(self, worlds: Sequence[QueueWorld]) -> None:
        """Delete the JobSets and what else is there."""
        for made in worlds:
            for workload in made.running:
                await self.plane.api.delete(path("workloads", workload.name, made.name))
            await self.plane.api.delete(path_of("v1", "pods", namespace=made.name), grace=0, labelSelector=OTHERS)
        await self.remove(worlds)

    async def remove(self, worlds: Sequence[QueueWorld]) -> None:
        """Delete JobSets that have not started, and wait until nothing of them is left."""
        api = self.plane.api
        for made in worlds:
            if self.refused.pop(made.name, None) is None:
                await api.delete(self._jobset(made, "js"), propagation="Foreground")

        async def gone() -> bool:
            for made in worlds:
                left = await api.list(self._jobset(made))
                left += await api.list(path_of("v1", "pods", namespace=made.name), labelSelector=_MEMBERS)
                workloads = await api.list(path("workloads", namespace=made.name))
                left += [raw for raw in workloads if raw["metadata"].get("ownerReferences")]
                if left:
                    raise NotYet(f"{made.name}: {[raw['metadata']['name'] for raw in left]}")
            return True

        await wait_for(gone, "JobSets to be gone", interval=0.5)
