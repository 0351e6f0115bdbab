"""The JobSets behind a queue: which have finished, which have pods left, and for which Kueue has made nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import JOBSET_UID, QUEUE_NAME
from gangctl.cli.kueuesnapshot import Stock
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBSETS, PODS
from gangctl.errors import ForbiddenError, NotFoundError
from gangctl.fit import verdict
from gangctl.fit.snapshot import Snapshot
from gangctl.kueue.blocked import selects
from gangctl.kueue.moments import age
from gangctl.kueue.names import PRIORITY_CLASS
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.stuck import Owner, Stuck, without_workload

_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class JobSets:
    """JobSets with a queue by UID, raw, and how many pods those have left that Kueue has evicted."""

    raw: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)

    def owner(self, workload: QueuedWorkload) -> Owner:
        """What is known of the job of a Workload."""
        raw = self.raw.get(workload.owner_uid)
        finished = raw is not None and read_jobset(raw)[0].finished
        return Owner(finished, self.pods.get(workload.owner_uid))

    def never(self, workload: QueuedWorkload, stock: Stock) -> bool:
        """Whether a Workload that waits is of a JobSet that can never fit."""
        raw = self.raw.get(workload.owner_uid)
        if raw is None:
            return False
        labels = stock.namespaces.get(workload.namespace)
        ask = verdict.Ask(raw, workload.namespace, labels, workload.queue, new=False)
        return verdict.fit(ask, stock.snapshot())["verdict"] == "never"

    def forgotten(self, stock: Stock, snapshot: Snapshot, doors: Iterable[tuple[str, str]], now: datetime) -> list[str]:
        """JobSets of these LocalQueues without a Workload of Kueue, each in a sentence."""
        wanted = set(doors)
        known = {workload.owner_uid for workload in stock.workloads()}
        found = []
        for uid, raw in self.raw.items():
            jobset, _ = read_jobset(raw)
            if (jobset.namespace, jobset.queue) not in wanted or uid in known or not jobset.suspend or jobset.finished:
                continue
            stuck = unqueued(jobset, raw, stock, snapshot, now)
            if stuck is not None:
                found.append(f"JobSet {jobset.namespace}/{jobset.name}: {stuck.message}")
        return sorted(found)


def unqueued(jobset: JobSet, raw: Mapping[str, Any], stock: Stock, snapshot: Snapshot, now: datetime) -> Stuck | None:
    """Why Kueue has made no Workload for a suspended JobSet with a queue; None as long as that is nothing unusual."""
    waited = age(jobset.created, now)
    if waited is None:
        return None
    configuration, labels = snapshot.configuration, stock.namespaces.get(jobset.namespace)
    selector = configuration.managed_namespaces
    return without_workload(
        waited,
        podsets=len(jobset.replicated_jobs),
        podset_limit=stock.queue_limit,
        frameworks=configuration.frameworks if configuration.known else None,
        managed=None if selector is None or labels is None else selects(selector, labels),
        priority_class=str(((raw.get("metadata") or {}).get("labels") or {}).get(PRIORITY_CLASS) or ""),
        priority_classes=stock.priority_classes(),
    )


async def read_jobsets(client: Client, stock: Stock, namespace: str | None) -> JobSets:
    """What the cluster has; nothing of it is known where it may not be read."""
    found = JobSets()
    try:
        page = await client.list(JOBSETS, namespace, selection=Selection(label_selector=QUEUE_NAME))
        found.raw = {str(item["metadata"].get("uid")): item for item in page.items}
        for workload in stock.workloads():
            # Whether a Workload that was evicted holds its quota for nothing, only its pods can tell.
            if workload.owner_uid in found.raw and workload.holds("Evicted") and workload.holds("QuotaReserved"):
                found.pods[workload.owner_uid] = await _pods(client, workload)
    except (ForbiddenError, NotFoundError):
        return found
    return found


async def _pods(client: Client, workload: QueuedWorkload) -> int:
    selection = Selection(label_selector=f"{JOBSET_UID}={workload.owner_uid}")
    page = await client.list(PODS, workload.namespace, selection=selection)
    return sum((item.get("status") or {}).get("phase") not in _OVER for item in page.items)
