"""A plane with Kueue for the modes that order admission: queues, checks, rights of the components, what Kueue did."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import USER
from tests.manifests.files import MANIFESTS, documents

KUEUE = "kueue.x-k8s.io/v1beta2"
CHECKS = path_of(KUEUE, "admissionchecks")
PARAMETERS = path_of("gangctl.dev/v1alpha1", "gangadmissionparameters")
CONTROLLER = "gangctl.dev/gang-ready"
QUEUE = "main"
ACCOUNT = "system:serviceaccount:gangctl-system:gangctl"


def component(name: str, user: str) -> list[Object]:
    """What a component under manifests/ adds to a cluster, for a user in place of the ServiceAccount."""
    found: list[Object] = []
    for each in documents(MANIFESTS / name):
        if each["kind"] in {"Component", "Kustomization"}:
            continue
        if "subjects" in each:
            each["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
        for condition in each["spec"].get("matchConditions", []) if "spec" in each else []:
            condition["expression"] = condition["expression"].replace(ACCOUNT, user)
        found.append(each)
    return found


async def install(api: ApiClient, name: str, user: str = USER) -> None:
    """Apply a component; its roles may be there already."""
    plurals = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
    for each in component(name, user):
        plural = plurals.get(each["kind"], each["kind"].lower() + "s")
        path = path_of(each["apiVersion"], plural, name=each["metadata"]["name"])
        await api.patch(path, each, kind="apply", fieldManager="test", force=True)


class Queues:
    """A namespace with a LocalQueue of its own and a ClusterQueue behind it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.name = cluster.namespace

    async def open(self, checks: tuple[str, ...] = (), cpu: str = "64") -> None:
        """Make the queues; Active only if every check is."""
        flavor = {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": self.name}}
        await self.api.create(path_of(KUEUE, "resourceflavors"), flavor)
        quota = {"name": self.name, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        spec: Object = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        }
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": each} for each in checks]}
        metadata = {"name": self.name}
        body = {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": metadata, "spec": spec}
        await self.api.create(path_of(KUEUE, "clusterqueues"), body)
        local = {"name": QUEUE, "namespace": self.name}
        body = {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": self.name}}
        await self.api.create(self.cluster.path(KUEUE, "localqueues"), body)

    async def active(self) -> Object:
        """Wait until the ClusterQueue admits."""

        async def admits() -> Object:
            live = await self.api.get(path_of(KUEUE, "clusterqueues", name=self.name))
            conditions = live.get("status", {}).get("conditions", [])
            if not any(each["type"] == "Active" and each["status"] == "True" for each in conditions):
                raise NotYet(str(conditions))
            return live

        return await wait_for(admits, what=f"ClusterQueue {self.name} to be active")

    async def check(self, name: str, controller: str = CONTROLLER, parameters: str = "") -> str:
        """Create an AdmissionCheck of the test's own; its name in the cluster."""
        name = f"{name}-{self.name[-6:]}"
        spec: Object = {"controllerName": controller}
        if parameters:
            group = "gangctl.dev"
            spec["parameters"] = {"apiGroup": group, "kind": "GangAdmissionParameters", "name": parameters}
        metadata = {"name": name}
        body = {"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": metadata, "spec": spec}
        await self.api.create(CHECKS, body)
        return name

    async def parameters(self, name: str, **spec: Any) -> str:
        """Create or replace parameters; their name in the cluster."""
        name = f"{name}-{self.name[-6:]}"
        kind = "GangAdmissionParameters"
        body = {"apiVersion": "gangctl.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.api.patch(f"{PARAMETERS}/{name}", body, kind="apply", fieldManager="test", force=True)
        return name

    async def condition(self, check: str, status: str, reason: str) -> Object:
        """Wait until the condition Active of a check has the status, for its newest generation."""

        async def said() -> Object:
            live = await self.api.get(f"{CHECKS}/{check}")
            for each in live.get("status", {}).get("conditions", []):
                fresh = each.get("observedGeneration") == live["metadata"]["generation"]
                if (each["type"], each["status"], each["reason"]) == ("Active", status, reason) and fresh:
                    return dict(each)
            raise NotYet(str(live.get("status")))

        return await wait_for(said, what=f"{check} to be Active={status} {reason}")

    async def submit(self, name: str = "js", *, replicas: int = 2, annotations: dict[str, str] | None = None) -> Object:
        """Create a JobSet with a gang for each replica, in the queue."""
        raw = jobset(name, rj("w", replicas, 2, 2, mode="ReplicatedGang"), annotations=annotations)
        raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": QUEUE}
        return await self.cluster.create_jobset(raw)

    async def workloads(self) -> dict[str, Object]:
        """Kueue's Workloads by the name of their owner."""
        found = await self.api.list(self.cluster.path(KUEUE, "workloads"))
        return {each["metadata"]["ownerReferences"][0]["name"]: each for each in found}

    async def workload(self, owner: str) -> Object:
        """Kueue's Workload of one owner, once there is one."""

        async def exists() -> Object:
            found = await self.workloads()
            if owner not in found:
                raise NotYet(str(sorted(found)))
            return found[owner]

        return await wait_for(exists, what=f"the Workload of {owner}")

    async def until(self, owner: str, kind: str, *, status: bool = True) -> Object:
        """Wait until a condition of a Workload is what it should be; the Workload."""
        return await read_until(
            lambda: self.workload(owner),
            lambda workload: holds(workload, kind) is status,
            f"{owner} to be {kind}={status}",
        )

    async def entry(self, owner: str, check: str, state: str) -> Object:
        """Wait until a check's entry of a Workload has this state; the entry."""

        async def met() -> Object:
            workload = await self.workload(owner)
            for each in workload.get("status", {}).get("admissionChecks", []):
                if each["name"] == check and each["state"] == state:
                    return dict(each)
            raise NotYet(str(workload.get("status")))

        return await wait_for(met, what=f"{check} to be {state} for {owner}")

    async def started(self, name: str) -> bool:
        """Whether a JobSet was started and its Workload admitted; NotYet has what is missing."""
        workload = (await self.workloads()).get(name)
        live = await self.cluster.jobset(name)
        if workload is None or not holds(workload, "Admitted") or live["spec"].get("suspend"):
            raise NotYet(f"suspend {live['spec'].get('suspend')}, {workload and workload.get('status')}")
        return True


def holds(workload: Object, kind: str) -> bool:
    """Whether a condition is True."""
    conditions = workload.get("status", {}).get("conditions", [])
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def state_of(workload: Object, check: str) -> str:
    """State of a check's entry, empty without one."""
    entries = workload.get("status", {}).get("admissionChecks", [])
    return next((str(each["state"]) for each in entries if each["name"] == check), "")


class Chronicle:
    """Every version of the Workloads of a namespace, by owner, as a watch has them."""

    def __init__(self) -> None:
        self.versions: dict[str, list[Object]] = defaultdict(list)
        self.newest = 0
        """The resourceVersion up to which the watch has delivered everything, deletions too, in their order."""

    def admissions(self, owner: str) -> list[int]:
        """How often it became Admitted in each of its reservations of quota, one after the other."""
        found: list[int] = []
        reserved = admitted = False
        for each in self.versions[owner]:
            if (now := holds(each, "QuotaReserved")) and not reserved:
                found.append(0)
            reserved = now
            if (now := holds(each, "Admitted")) and not admitted:
                found[-1] += 1
            admitted = now
        return found

    def states(self, owner: str, check: str) -> list[str]:
        """The states of a check's entry, each once in a row."""
        found: list[str] = []
        for each in self.versions[owner]:
            state = state_of(each, check)
            if state and (not found or found[-1] != state):
                found.append(state)
        return found


@asynccontextmanager
async def chronicle(queues: Queues) -> AsyncIterator[Chronicle]:
    """Watch Kueue's Workloads of a namespace from now on, until the watch has delivered all that can be read."""
    made = Chronicle()
    path = queues.cluster.path(KUEUE, "workloads")
    version = (await queues.api.get(path))["metadata"]["resourceVersion"]
    made.newest = int(version)

    async def follow() -> None:
        async for event in queues.api.watch(path, resourceVersion=version):
            made.newest = int(event.object["metadata"]["resourceVersion"])
            if event.type in {"ADDED", "MODIFIED"}:
                made.versions[event.object["metadata"]["ownerReferences"][0]["name"]].append(event.object)

    task = asyncio.create_task(follow())

    async def all_delivered() -> bool:
        found = [int(each["metadata"]["resourceVersion"]) for each in await queues.api.list(path)]
        assert not task.done(), "the watch ended"
        if max(found, default=0) > made.newest:
            raise NotYet(f"versions {found}, told of {made.newest}")
        return True

    try:
        yield made
        await wait_for(all_delivered, what="the watch to tell of the last changes")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def writes(plane: ControlPlane, namespace: str, since: int, user: str = USER) -> list[Object]:
    """What a user wrote in a namespace with success, in order, without events."""
    entries = plane.writes_by(user, since).objects
    return [
        each
        for each in entries
        if each["objectRef"].get("namespace") == namespace and each["responseStatus"]["code"] < 300
    ]


async def wrote(plane: ControlPlane, namespace: str, since: int, expected: Sequence[str], but: str = "") -> None:
    """Wait until the audit log has as many writes in a namespace: these, in this order, nothing else ``but`` one."""

    async def logged() -> list[str]:
        # An entry may come into the log after that of a request which began when the first had been answered.
        found = sorted(writes(plane, namespace, since), key=lambda each: str(each["requestReceivedTimestamp"]))
        named = [f"{each['verb']} {each['objectRef']['resource']}" for each in found]
        done = [each for each in named if each != but]
        if len(done) < len(expected):
            raise NotYet(str(done))
        return done

    assert await wait_for(logged, what="gangctl's writes") == list(expected)
