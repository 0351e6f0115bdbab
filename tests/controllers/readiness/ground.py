"""A controller of readiness over informers that are fed by hand, in virtual time; it counts what is evaluated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from gangctl.api.meta import JOB_INDEX, JOBSET_NAME, JOBSET_UID, QUEUE_NAME, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from gangctl.api.scheduling import NEWEST, ApiState
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.gangs import Assessments
from gangctl.controllers.readiness.controller import ReadinessController, ReadinessObserver
from gangctl.controllers.readiness.sources import QueueStatuses, ReadinessSources
from gangctl.gang.resolve import ClusterRules
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import Snapshot, is_followed
from gangctl.readiness.result import Readiness
from gangctl.runtime.informer import Informer
from tests.client.clock import VirtualClock, settle
from tests.credentials import StaticCredentials
from tests.jobsets import jobset, rj

Object = dict[str, Any]
NAMESPACE = "t"
_EVALUATE = partial(evaluate, kept=True)


class Quiet(ReadinessSources):
    """Sources of which everything is known, and to which only the test adds."""

    async def run(self) -> None:
        for source in self.all:
            source.informer.synced.set()
            source.settled.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.forget()


class Notes(ReadinessObserver):
    """Everything that was reported."""

    def __init__(self) -> None:
        self.reported: list[tuple[Readiness | None, Readiness | None]] = []
        self.lags: list[float | None] = []
        self.led = self.forgotten = 0

    def leads(self) -> None:
        self.led += 1

    def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
        self.reported.append((before, now))

    def evaluated(self, seconds: float, lag_seconds: float | None) -> None:
        assert seconds >= 0
        self.lags.append(lag_seconds)

    def forget(self) -> None:
        self.forgotten += 1

    def news(self) -> list[tuple[str, str]]:
        """Names and phases that were reported since, deleted ones without a phase."""
        reported, self.reported = self.reported, []
        return [
            (each.name, now.phase.value if now is not None else "")
            for before, now in reported
            if (each := now or before) is not None
        ]


class Ground:
    """JobSets, Jobs, pods and nodes in few words."""

    def __init__(
        self,
        how: Callable[[Snapshot, float, Readiness | None], Readiness] = _EVALUATE,
        *,
        queues: Callable[[Ground], QueueStatuses] | None = None,
        observers: tuple[ReadinessObserver, ...] = (),
    ) -> None:
        client = Client(Transport(StaticCredentials("http://127.0.0.1:1", token="none")))
        self.clock = VirtualClock()
        self.how = how
        self.looked: list[str] = []
        self.snapshots: dict[str, Snapshot] = {}
        self.notes = Notes()
        self.state = ApiState(NEWEST)
        self.caches = GangCaches(client, lambda key, _: self.controller.mark(key), self.clock.now)
        self.sources = Quiet(client)
        self.controller = ReadinessController(
            self.caches,
            Assessments(lambda: self.state, ClusterRules),
            self.sources,
            self._evaluate,
            (*observers, self.notes),
            follows=is_followed,
            queues=queues(self) if queues is not None else None,
            clock=self.clock,
        )

    def _evaluate(self, snapshot: Snapshot, now: float, before: Readiness | None, /, *, kept: bool) -> Readiness:
        assert kept, "what is told is written down, and read later"
        self.looked.append(snapshot.jobset.name)
        self.snapshots[snapshot.jobset.name] = snapshot
        return self.how(snapshot, now, before)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """This replica leads for as long as the block runs, and has looked at what there is."""

        async def known() -> None:
            return

        task = asyncio.create_task(self.controller.run(known))
        try:
            await self.clock.advance(1)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def later(self, seconds: float = 1.0) -> list[str]:
        """Names of JobSets that were evaluated since, once time has passed."""
        await settle()
        await self.clock.advance(seconds)
        found, self.looked = self.looked, []
        return sorted(found)

    def jobset(
        self, name: str, pods: int = 2, *, mode: str | None = "Gang", uid: str = "", queue: str = "", **spec: Any
    ) -> None:
        raw = jobset(name, rj("w", 1, pods, pods, mode=mode), uid=uid or f"uid-{name}", **spec)
        if queue:
            raw["metadata"]["labels"] = {QUEUE_NAME: queue}
        raw["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        self.put(self.caches.jobsets, raw)

    def job(self, name: str, **status: Any) -> None:
        """The Job of a JobSet."""
        metadata = self.metadata(f"{name}-w-0", name)
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": f"uid-{name}"}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
        self.put(self.caches.informers["jobs"], {"metadata": metadata, "status": status})

    def pod(self, name: str, index: int = 0, *, node: str = "", ready: bool = False) -> None:
        """A pod of a JobSet."""
        since = "2026-01-01T00:00:05Z"
        conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}]
        if node:
            conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": since})
        status = {"phase": "Running" if node else "Pending", "conditions": conditions}
        metadata = self.metadata(f"{name}-w-0-{index}", name)
        self.put(self.sources.pods.informer, {"metadata": metadata, "spec": {"nodeName": node}, "status": status})

    def failed(self, name: str, index: int = 0, *, said: str = "") -> None:
        """A pod of a JobSet that has failed."""
        ended = {"reason": "Error", "exitCode": 3, "finishedAt": "2026-01-01T00:00:30Z", "message": said}
        status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}
        metadata = {**self.metadata(f"{name}-w-0-{index}", name), "creationTimestamp": "2026-01-01T00:00:05Z"}
        self.put(self.sources.failed.informer, {"metadata": metadata, "spec": {}, "status": status})

    def node(self, name: str, *, ready: bool = True) -> None:
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown", "reason": "NodeStatusUnknown"}]
        metadata = {"name": name, "uid": f"uid-{name}"}
        self.put(self.sources.nodes.informer, {"metadata": metadata, "status": {"conditions": conditions}})

    def refusal(self, kind: str, name: str, note: str = "quota exceeded") -> None:
        """An event that something could not be made."""
        reason, source = (
            ("FailedCreate", self.sources.refusals[0])
            if kind == "Job"
            else ("JobCreationFailed", self.sources.refusals[1])
        )
        metadata = {"name": f"{name}.1", "namespace": NAMESPACE, "uid": f"event-{name}"}
        about = {"kind": kind, "namespace": NAMESPACE, "name": name}
        self.put(source.informer, {"metadata": metadata, "reason": reason, "regarding": about, "note": note})

    @staticmethod
    def put(informer: Informer[Any], raw: Object) -> None:
        """Deliver an object as a watch does."""
        informer._upsert(raw)

    @staticmethod
    def drop(informer: Informer[Any], name: str, namespace: str = NAMESPACE) -> None:
        """Deliver its deletion."""
        informer._forget({"metadata": {"name": name, "namespace": namespace}})

    @staticmethod
    def metadata(name: str, jobset: str) -> Object:
        labels = {
            JOBSET_NAME: jobset,
            JOBSET_UID: f"uid-{jobset}",
            REPLICATED_JOB_NAME: "w",
            JOB_INDEX: "0",
            RESTART_ATTEMPT: "0",
        }
        return {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": labels}
