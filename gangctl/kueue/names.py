"""Names that Kueue defines: labels and annotations.

Source: Kueue ``pkg/controller/constants`` and ``apis/kueue/v1beta2`` of v0.19. The two keys that the
projection of a JobSet keeps are in :mod:`gangctl.api.meta`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from gangctl.api.meta import QUEUE_NAME
from gangctl.api.objects import object_at

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"
API_VERSION: Final = f"{GROUP}/{VERSION}"

ELASTIC_JOB: Final = "kueue.x-k8s.io/elastic-job"
MULTIKUEUE_ORIGIN: Final = "kueue.x-k8s.io/multikueue-origin"
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
"""``spec.managedBy`` of a JobSet that runs on another cluster, and the controller of such an AdmissionCheck."""
PROVISIONING: Final = "kueue.x-k8s.io/provisioning-request"
"""The controller of an AdmissionCheck that adds nodes once there is quota."""
MAX_SECONDS: Final = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT: Final = "kueue.x-k8s.io/prebuilt-workload-name"
"""Label with the Workload of a job, which Kueue then does not make."""
PARENT: Final = "kueue.x-k8s.io/concurrent-admission-parent"
MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"

TOPOLOGY_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
TOPOLOGY_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
TOPOLOGY_UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
SLICE_CONSTRAINTS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
PODSET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"

PODSET: Final = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_NAME: Final = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_NAME: Final = "kueue.x-k8s.io/cluster-queue-name"
WORKLOAD: Final = "kueue.x-k8s.io/workload"
INJECTED_LABELS: Final = (PODSET, LOCAL_QUEUE_NAME, CLUSTER_QUEUE_NAME)
"""Kueue writes them into pod templates at the start, which fails permanently if one has another value."""
INJECTED_ANNOTATIONS: Final = (WORKLOAD,)

_READ_BY_KUEUE: Final = frozenset({QUEUE_NAME, *INJECTED_LABELS})


def unread_queues(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Labels and annotations of a JobSet that look like its queue's name and are not: path, and the right one.

    None where it names a queue.
    """
    if object_at(metadata, "labels").get(QUEUE_NAME):
        return
    if QUEUE_NAME in object_at(metadata, "annotations"):
        yield f"metadata.annotations[{QUEUE_NAME}]", f"label {QUEUE_NAME}"
    for field in ("labels", "annotations"):
        for key in object_at(metadata, field):
            domain, slash, name = str(key).lower().rpartition("/")
            like = "queue" in name or get_close_matches(name[:_MOST_COMPARED], ["queue-name"], n=1)
            if key not in _READ_BY_KUEUE and slash and like and get_close_matches(domain[:_MOST_COMPARED], [GROUP], 1):
                yield f"metadata.{field}[{key}]", f"label {QUEUE_NAME}"


# The time of difflib grows with the square of the length, and a key may have any.
_MOST_COMPARED: Final = 64

KUEUE_NAMESPACE: Final = "kueue-system"
"""Namespace and ConfigMap of Kueue's own manifests."""

DEFAULT_QUEUE: Final = "default"
"""LocalQueue that Kueue sets on a JobSet without a queue, if it exists in the namespace."""

DEFAULT_CLASS: Final = "default"
"""WorkloadPriorityClass that Kueue sets on a JobSet without one (feature gate WorkloadPriorityClassDefaulting)."""

CHECK_CONTROLLER: Final = "gangctl.dev/gang-ready"
"""``spec.controllerName`` of AdmissionChecks that are gangctl's."""
PARAMETERS_KIND: Final = "GangAdmissionParameters"
