"""A namespace with queues of its own on a plane with Kueue, and what gangctl reads of it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.kueue.blocked import Blocked, blocked
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.reading import read_cluster_queue, read_local_queue, read_workload
from gangctl.kueue.states import QueueStatus, status_of
from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.components.addon import create_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS

KUEUE: Final = "kueue.x-k8s.io/v1beta2"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
_PLURALS: Final = {
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "AdmissionCheck": "admissionchecks",
    "Topology": "topologies",
}


async def known_to_kueue(api: ApiClient, path: str) -> None:
    """Wait until Kueue uses the current ClusterQueue or LocalQueue, by its condition."""

    async def known() -> bool:
        live = await api.get(path)
        conditions = live.get("status", {}).get("conditions", [])
        if live["metadata"]["generation"] not in [each.get("observedGeneration") for each in conditions]:
            raise NotYet(str(conditions))
        return True

    await wait_for(known, f"Kueue to know {path}")


@dataclass
class Queued:
    """Objects of the whole cluster are named after the namespace, so that tests do not meet."""

    plane: ControlPlane
    namespace: str
    uids: dict[str, str] = field(default_factory=dict)

    @classmethod
    async def make(cls, plane: ControlPlane, slug: str) -> Queued:
        """A namespace, and a flavor without labels."""
        made = cls(plane, f"{slug[:40].strip('-')}-{secrets.token_hex(3)}")
        await create_namespace(plane.api, made.namespace)
        await made.apply("ResourceFlavor", made.namespace, {})
        return made

    def path(self, kind: str, name: str | None = None, namespace: str | None = None) -> str:
        """Path of an object of Kueue's."""
        return path_of(KUEUE, _PLURALS.get(kind, f"{kind.lower()}s"), namespace=namespace, name=name)

    async def apply(self, kind: str, name: str, spec: Object, *, namespace: str | None = None, **rest: Any) -> None:
        """Create it, or give it these fields."""
        body = {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, **rest}
        if spec or kind != "WorkloadPriorityClass":
            body["spec"] = spec
        path = (
            path_of(KUEUE, "workloadpriorityclasses", name=name)
            if kind == "WorkloadPriorityClass"
            else self.path(kind, name, namespace)
        )
        await self.plane.api.patch(path, body, kind="apply", fieldManager="test", force=True)

    async def queue(self, cpu: str = "4", *, flavor: str | None = None, door: str = "main", **spec: Any) -> None:
        """The namespace's ClusterQueue with so many CPUs, and a LocalQueue into it; both once Kueue has them."""
        resources = [{"name": "cpu", "nominalQuota": cpu}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor or self.namespace, "resources": resources}]}
        whole = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        await self.apply("ClusterQueue", self.namespace, {k: v for k, v in whole.items() if v is not None})
        await known_to_kueue(self.plane.api, self.path("ClusterQueue", self.namespace))
        await self.door(door)

    async def door(self, name: str = "main", **spec: Any) -> None:
        """A LocalQueue into the namespace's ClusterQueue, once Kueue has it."""
        await self.apply("LocalQueue", name, {"clusterQueue": self.namespace, **spec}, namespace=self.namespace)
        await known_to_kueue(self.plane.api, self.path("LocalQueue", name, self.namespace))

    async def submit(
        self,
        name: str,
        cpu: str = "1",
        *,
        queue: str = "main",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        body: Object | None = None,
    ) -> None:
        """A JobSet of one pod that asks for so many CPUs, or another one, in a queue."""
        body = body or jobset(name, rj("w", 1, 1, 1, cpu=cpu), namespace=self.namespace, annotations=annotations)
        body["metadata"]["labels"] = {QUEUE: queue, **(labels or {})}
        made = await self.plane.api.create(path_of(JOBSETS, "jobsets", namespace=body["metadata"]["namespace"]), body)
        self.uids[name] = made["metadata"]["uid"]

    async def delete(self, name: str) -> None:
        """Delete a JobSet."""
        await self.plane.api.delete(path_of(JOBSETS, "jobsets", namespace=self.namespace, name=name))

    async def unused(self) -> None:
        """Wait until nothing holds quota of the ClusterQueue, as Kueue counts."""

        async def free() -> bool:
            live = await self.plane.api.get(self.path("ClusterQueue", self.namespace))
            if reserving := live["status"].get("reservingWorkloads"):
                raise NotYet(f"{reserving} Workloads hold quota")
            return True

        await wait_for(free, "the quota to be free")

    async def workloads(self) -> list[QueuedWorkload]:
        """All of the namespace."""
        return [read_workload(raw) for raw in await self.plane.api.list(self.path("Workload", None, self.namespace))]

    async def workload(self, name: str) -> QueuedWorkload:
        """The Workload of a JobSet; NotYet while there is none."""
        for found in await self.workloads():
            if found.owner_uid == self.uids[name]:
                return found
        raise NotYet(f"{name} has no Workload")

    async def cluster_queue(self) -> ClusterQueue | None:
        """The namespace's."""
        raw = await self.plane.api.found(self.path("ClusterQueue", self.namespace))
        return None if raw is None else read_cluster_queue(raw)

    async def blocked(self, queue: str = "main") -> Blocked | None:
        """What keeps everything out of a queue, from the objects as they are."""
        raw = await self.plane.api.found(self.path("LocalQueue", queue, self.namespace))
        labels = (await self.plane.api.get(path_of("v1", "namespaces", name=self.namespace)))["metadata"]["labels"]
        return blocked(queue, read_local_queue(raw) if raw else None, await self.cluster_queue(), labels)

    async def status(self, name: str, *, queue_open: bool | None = None) -> QueueStatus:
        """Where a JobSet's Workload stands."""
        return status_of(await self.workload(name), datetime.now(UTC), queue_open=queue_open)

    async def until(self, name: str, phase: str, reason: str = "") -> QueueStatus:
        """Wait until it stands there, for this reason of Kueue's if one is given."""
        return await read_until(
            lambda: self.status(name),
            lambda status: status.phase == phase and (not reason or status.reason == reason),
            f"{name} to be {phase} {reason}",
        )
