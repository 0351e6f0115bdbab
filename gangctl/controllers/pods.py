"""Questions about pods, asked of the API server when the answer decides something; they are rare.

What is made and deleted does not depend on the watch of pods, which readiness has and which may be switched off: their
Jobs say nearly as much.
"""

from __future__ import annotations

from typing import Any, Final

from gangctl.api.jobset import JobSet
from gangctl.api.meta import JOB_INDEX, JOBSET_NAME, REPLICATED_JOB_NAME
from gangctl.client.client import Client, Selection
from gangctl.client.resources import PODS

_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class PodReader:
    """Reads the pods of one JobSet at a time."""

    def __init__(self, client: Client) -> None:
        """Ask through ``client``."""
        self._client = client

    async def any_unfinished(self, jobset: JobSet) -> bool:
        """Whether any pod of the JobSet has not finished; one that terminates still counts."""
        selection = Selection(_label(jobset), _UNFINISHED)
        async for page in self._client.pages(PODS, jobset.namespace, selection=selection, limit=1):
            return bool(page.items)
        return False

    async def unscheduled(self, jobset: JobSet) -> set[tuple[str, int]]:
        """ReplicatedJob and index of the Jobs that have a pod without a node."""
        selection = Selection(_label(jobset), f"{_UNFINISHED},spec.nodeName=")
        page = await self._client.list(PODS, jobset.namespace, selection=selection)
        return {_job_of(pod) for pod in page.items}


def _label(jobset: JobSet) -> str:
    return f"{JOBSET_NAME}={jobset.name}"


def _job_of(pod: dict[str, Any]) -> tuple[str, int]:
    metadata = pod.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    labels = labels if isinstance(labels, dict) else {}
    index = str(labels.get(JOB_INDEX, ""))
    return str(labels.get(REPLICATED_JOB_NAME, "")), int(index) if index.isascii() and index.isdigit() else 0
