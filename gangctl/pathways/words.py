"""Names of Pathways, GKE and JobSet, each defined once (google/pathways-job v0.1.4, JobSet 0.12).

Also the field paths of a PathwaysJob that several modules use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.meta import GANG_MODE, PATHWAYS_GROUP

GROUP: Final = PATHWAYS_GROUP
API_VERSION: Final = f"{GROUP}/v1"
KIND: Final = "PathwaysJob"
PLURAL: Final = "pathwaysjobs"


def is_pathways_job(value: Mapping[str, Any]) -> bool:
    """Whether an object is a PathwaysJob, in any version."""
    group, _, _ = str(value.get("apiVersion", "")).partition("/")
    return group == GROUP and value.get("kind") == KIND


UPSTREAM_LEASE: Final = "12183607.pathways.domain"
"""The leader of the upstream controller holds it."""

HEAD: Final = "pathways-head"
WORKER: Final = "worker"
"""Names of the two ReplicatedJobs."""

RESOURCE_MANAGER_CONTAINER: Final = "pathways-rm"
PROXY_CONTAINER: Final = "pathways-proxy"
WORKER_CONTAINER: Final = "pathways-worker"
SIDECAR_CONTAINER: Final = "colocated-python-sidecar"

PROXY_PORT: Final = 29000
RESOURCE_MANAGER_PORT: Final = 29001
HEAD_PORTS: Final = (29000, 29001, 29002)
WORKER_PORTS: Final = (29005, 29006, 8471, 8080)
SIDECAR_PORT: Final = 50051

DEFAULT_REGISTRY: Final = "us-docker.pkg.dev/cloud-tpu-v2-images/pathways"
SERVER_IMAGE: Final = "server"
PROXY_IMAGE: Final = "proxy_server"

COORDINATOR: Final = "jobset.sigs.k8s.io/coordinator"
REPLICATED_JOB_REPLICAS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"

GKE_ACCELERATOR: Final = "cloud.google.com/gke-tpu-accelerator"
GKE_TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
GKE_SLICE_TOPOLOGY: Final = "cloud.google.com/gke-tpu-slice-topology"
GKE_NODEPOOL: Final = "cloud.google.com/gke-nodepool"
TPU: Final = "google.com/tpu"

JOB_LABEL: Final = "gangctl.dev/pathways-job"
"""On the JobSet and on every pod: the name of the PathwaysJob."""

WORKER_MODE: Final = "gangctl.dev/pathways-worker-mode"
"""On a PathwaysJob: ``Off``, ``Gang`` or ``ReplicatedGang``, the gang mode of its workers."""
OPTIONS: Final = "gangctl.dev/pathways-options"
"""On a PathwaysJob: JSON object, :class:`~gangctl.pathways.options.PathwaysOptions`."""
DIGEST: Final = "gangctl.dev/pathways-digest"
"""On a JobSet that gangctl rendered from a PathwaysJob: digest of its source."""

NAME_CHARACTERS: Final = 22
"""Of a PathwaysJob: with more, the coordinator's address does not fit into a label (JobSet issue 1056)."""


def annotation(key: str) -> str:
    """The field path of an annotation."""
    return f"metadata.annotations[{key}]"


GANG_MODE_PATH: Final = annotation(GANG_MODE)
WORKER_MODE_PATH: Final = annotation(WORKER_MODE)
OPTIONS_PATH: Final = annotation(OPTIONS)


def option_path(name: str) -> str:
    """The field path of an option by its name in JSON: ``headResources.proxy``."""
    return f"{OPTIONS_PATH}.{name}"


TEMPLATE: Final = "spec.controller.template"
POD: Final = f"{TEMPLATE}.spec"
"""The user's."""
WORKERS: Final = "spec.workers[0]"
"""The one group there is."""
