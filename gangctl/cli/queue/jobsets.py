"""The JobSets behind a queue: which have finished, and which have pods left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import JOBSET_UID, QUEUE_NAME
from gangctl.cli.kueuesnapshot import Stock
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBSETS, PODS
from gangctl.errors import ForbiddenError, NotFoundError
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.stuck import Owner

_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class JobSets:
    """JobSets with a queue by UID, raw, and the number of remaining pods of evicted ones."""

    raw: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)

    def owner(self, workload: QueuedWorkload) -> Owner:
        """Known facts of the job of a Workload."""
        raw = self.raw.get(workload.owner_uid)
        finished = raw is not None and read_jobset(raw)[0].finished
        return Owner(finished, self.pods.get(workload.owner_uid))


async def read_jobsets(client: Client, stock: Stock, namespace: str | None) -> JobSets:
    """The JobSets of the cluster; unknown if they may not be read."""
    found = JobSets()
    try:
        page = await client.list(JOBSETS, namespace, selection=Selection(label_selector=QUEUE_NAME))
        found.raw = {str(item["metadata"].get("uid")): item for item in page.items}
        for workload in stock.workloads():
            # Only the pods of an evicted Workload show whether it holds its quota unnecessarily.
            if workload.owner_uid in found.raw and workload.holds("Evicted") and workload.holds("QuotaReserved"):
                found.pods[workload.owner_uid] = await _pods(client, workload)
    except (ForbiddenError, NotFoundError):
        return found
    return found


async def _pods(client: Client, workload: QueuedWorkload) -> int:
    selection = Selection(label_selector=f"{JOBSET_UID}={workload.owner_uid}")
    page = await client.list(PODS, workload.namespace, selection=selection)
    return sum((item.get("status") or {}).get("phase") not in _OVER for item in page.items)
