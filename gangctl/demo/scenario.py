"""The scenario: four JobSets of five pods each on eight CPUs, as training jobs that wait for their peers.

First all JobSets are created and none may finish, until nothing changes any more: eight
CPUs filled pod by pod hold pods of JobSets that cannot start. Then complete ones may finish.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.meta import GANG_MODE, JOBSET_API_VERSION

JOBSETS: Final = 4
PODS: Final = 5
"""Pods of each JobSet: a driver, and the workers."""
CPUS: Final = 8
"""Number of pods that fit."""

NAMES: Final = tuple(f"train-{i}" for i in range(JOBSETS))
IMAGE: Final = "registry.k8s.io/pause:3.10"


@dataclass(frozen=True, slots=True)
class Placement:
    """Requests and node selection of each pod."""

    cpu: str = "1"
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, str], ...] = ()
    hostnames: tuple[str, ...] = ()


def jobset(name: str, placement: Placement, *, gangs: bool) -> dict[str, Any]:
    """One JobSet; ``gangs`` is the one annotation that makes the difference."""
    metadata: dict[str, Any] = {"name": name}
    if gangs:
        metadata["annotations"] = {GANG_MODE: "Gang"}
    return {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": [_job("driver", 1, placement), _job("workers", PODS - 1, placement)]},
    }


def _job(name: str, pods: int, placement: Placement) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": placement.cpu}}}],
        **({"nodeSelector": placement.node_selector} if placement.node_selector else {}),
        **({"tolerations": list(placement.tolerations)} if placement.tolerations else {}),
    }
    if placement.hostnames:
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(placement.hostnames)}
        required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spec = {"backoffLimit": 0, "parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {"name": name, "replicas": 1, "template": {"spec": spec}}
