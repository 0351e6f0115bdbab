"""Which entry of a policy's queue map matches a new JobSet: ``spec.defaults.queues`` of a GangPolicy.

The JobSet is matched as it was written: defaults of the same request do not change the match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.jobset import MAX_REPLICATED_JOBS, JobSet
from gangctl.api.objects import Object, Reader
from gangctl.gang.requests import pod_requests
from gangctl.kueue.names import PRIORITY_CLASS
from gangctl.policy.match import labels_of, selects_namespace, selects_object
from gangctl.policy.model import Accelerator, QueueChoice, QueueMatch
from gangctl.policy.review import Review

PLACE: Final = "spec.defaults.queues"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The matching entry, and its place in the policy."""

    choice: QueueChoice
    path: str


@dataclass(slots=True)
class Candidate:
    """A JobSet that is being created, as the queue maps of all policies see it."""

    jobset: JobSet
    raw: Object
    review: Review
    _requested: dict[str, frozenset[int]] = field(default_factory=dict)
    """Indexes of the pod templates that request a resource, by its name."""

    def choose(self, choices: Sequence[QueueChoice]) -> Chosen | None:
        """The first entry that matches."""
        for index, choice in enumerate(choices):
            if self._fits(choice.match):
                return Chosen(choice, f"{PLACE}[{index}]")
        return None

    def _fits(self, match: QueueMatch) -> bool:
        return (
            (match.namespace_selector is None or selects_namespace(match.namespace_selector, self.review))
            and (match.object_selector is None or selects_object(match.object_selector, self.review))
            and (not match.priority_classes or self.priority_class in match.priority_classes)
            and (match.accelerator is None or self._is_after(match.accelerator))
        )

    @property
    def priority_class(self) -> str:
        """The class that Kueue orders it by: its label, else the first of its pods' classes, empty without any."""
        own = labels_of(self.raw).get(PRIORITY_CLASS)
        if own is not None:
            return own
        return next((rj.priority_class for rj in self.jobset.replicated_jobs if rj.priority_class), "")

    def _is_after(self, accelerator: Accelerator) -> bool:
        """Whether the pods of one ReplicatedJob request all of it; whether it has any pods now does not matter."""
        wanted = accelerator.node_labels.items()
        requesting = self._requesting(accelerator.resource) if accelerator.resource else None
        return any(
            (requesting is None or index in requesting) and wanted <= pod.strings("nodeSelector").items()
            for index, pod in enumerate(self._pods())
        )

    def _requesting(self, resource: str) -> frozenset[int]:
        if resource not in self._requested:
            found = (index for index, pod in enumerate(self._pods()) if _requests(pod.value, resource))
            self._requested[resource] = frozenset(found)
        return self._requested[resource]

    def _pods(self) -> Iterator[Reader]:
        """Pod specs, in the order of ReplicatedJobs."""
        for entry in Reader(self.raw, "", []).child("spec").children("replicatedJobs", MAX_REPLICATED_JOBS):
            yield entry.child("template").child("spec").child("template").child("spec")


def _requests(pod_spec: Mapping[str, Any], resource: str) -> bool:
    return pod_requests(pod_spec)[0].get(resource, 0) > 0
