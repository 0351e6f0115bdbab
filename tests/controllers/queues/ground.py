"""Sources that are fed by hand, as informers would be: Kueue's objects in few words, and JobSets beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gangctl.api.jobset import JobSet
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS
from gangctl.client.transport import Transport
from gangctl.cluster import kinds
from gangctl.cluster.members import project_jobset
from gangctl.controllers.queues.sources import QueueSources
from gangctl.controllers.queues.view import Affected, QueueView
from gangctl.controllers.source import InformerSource
from gangctl.kueue.configuration import CONFIG_KEY
from gangctl.runtime.informer import Informer
from tests.credentials import StaticCredentials
from tests.jobsets import jobset, rj

Raw = dict[str, Any]
CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {frameworks: [jobset.x-k8s.io/jobset]}
"""


class Ground:
    """A cluster with Kueue of which everything is known: LocalQueue ``q`` leads to ClusterQueue ``cq`` with 4 CPUs."""

    def __init__(self, *, present: bool | None = True) -> None:
        client = Client(Transport(StaticCredentials("http://127.0.0.1:1", token="none")))
        self.sources = QueueSources(client)
        self.now = datetime(2026, 1, 1, 1, tzinfo=UTC)
        self.view = QueueView(self.sources, lambda: self.now)
        self.jobsets: Informer[JobSet] = Informer(client, JOBSETS, project_jobset)
        self.raws: dict[tuple[str, str], Raw] = {}
        self.affected: list[Affected] = []
        self.sources.presence.present = present
        self.sources.presence.podset_limit = 18
        for source in self.sources.all:
            source.informer.synced.set()
        self.put(self.sources.namespaces, "t", labels={"kubernetes.io/metadata.name": "t"})
        self.put(self.sources.configuration, kinds.CONFIG_NAME, "kueue-system", data={CONFIG_KEY: CONFIGURATION})
        self.flavor("f")
        self.queue("cq", 4)
        self.queue_key("q", "cq")
        self.view.subscribe(self.affected.append)

    @staticmethod
    def put(source: InformerSource[Any], name: str, namespace: str = "", *, labels: Any = None, **body: Any) -> None:
        """Deliver an object as a watch does."""
        metadata: Raw = {"name": name, "uid": f"uid-{name}", "labels": labels or {}}
        if namespace:
            metadata["namespace"] = namespace
        source.informer._upsert({"metadata": metadata, **body})

    @staticmethod
    def drop(source: InformerSource[Any], name: str, namespace: str = "") -> None:
        """Deliver the deletion of an object."""
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        source.informer._forget({"metadata": metadata})

    def flavor(self, name: str, **labels: str) -> None:
        self.put(self.sources.flavors, name, spec={"nodeLabels": labels})

    def queue(self, name: str, cpus: int, cohort: str = "", *, pending: int = 0, **spec: Any) -> None:
        quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}
        group = {"coveredResources": ["cpu"], "flavors": [quota]}
        spec = {"namespaceSelector": {}, "cohortName": cohort, "resourceGroups": [group], **spec}
        condition = {"type": "Active", "status": "True", "reason": "Ready"}
        status = {"conditions": [condition], "pendingWorkloads": pending}
        self.put(self.sources.cluster_queues, name, spec=spec, status=status)

    def queue_key(self, name: str, cluster_queue: str, namespace: str = "t", **spec: Any) -> None:
        self.put(self.sources.local_queues, name, namespace, spec={"clusterQueue": cluster_queue, **spec})

    def workload(self, jobset_name: str, *, reserved: bool, queue: str = "cq", active: bool = True) -> None:
        """Kueue's Workload of a JobSet of this test."""
        owner = {"controller": True, "kind": "JobSet", "name": jobset_name, "uid": f"uid-{jobset_name}"}
        owner["apiVersion"] = "jobset.x-k8s.io/v1alpha2"
        metadata: Raw = {"name": f"jobset-{jobset_name}", "namespace": "t", "uid": f"w-{jobset_name}"}
        metadata["ownerReferences"] = [owner]
        status: Raw = {"conditions": [{"type": "QuotaReserved", "status": "True" if reserved else "False"}]}
        if reserved:
            assignment = {"name": "w", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}, "count": 1}
            status["admission"] = {"clusterQueue": queue, "podSetAssignments": [assignment]}
        self.sources.workloads.informer._upsert(
            {"metadata": metadata, "spec": {"podSets": [{"name": "w", "count": 1}], "active": active}, "status": status}
        )

    def jobset(self, name: str, pods: int, queue: str = "q", *, mode: str | None = "Gang", **spec: Any) -> Raw:
        """A JobSet that waits by default."""
        raw = jobset(name, rj("w", 1, pods, pods, cpu="1", mode=mode), uid=f"uid-{name}", **{"suspend": True, **spec})
        raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        self.raws["t", name] = raw
        self.jobsets._upsert(raw)
        return raw

    def reader(self) -> Callable[[tuple[str, str]], Awaitable[Mapping[str, Any] | None]]:
        async def read(key: tuple[str, str]) -> Mapping[str, Any] | None:
            return self.raws.get(key)

        return read
