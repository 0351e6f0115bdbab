"""JobSets to measure policies on, where none are given."""

from __future__ import annotations

from typing import Any, Final

from gangctl.api.meta import GANG_MODE, JOBSET_API_VERSION, QUEUE_NAME

SIZES: Final = (3, 50)
"""ReplicatedJobs: an ordinary JobSet, and a large one."""
_VARIABLES: Final = 12


def sample(replicated_jobs: int) -> dict[str, Any]:
    """A training job as people write it, with so many ReplicatedJobs of two containers each."""
    return {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": {
            "name": f"sample-{replicated_jobs}",
            "namespace": "default",
            "labels": {QUEUE_NAME: "research", "team": "research", "app.kubernetes.io/name": "training"},
            "annotations": {GANG_MODE: "Gang"},
        },
        "spec": {
            "ttlSecondsAfterFinished": 3600,
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [_replicated_job(index) for index in range(replicated_jobs)],
        },
    }


def _replicated_job(index: int) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "priorityClassName": "training",
        "nodeSelector": {"pool": "accelerated"},
        "tolerations": [{"key": "accelerator", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [_container("main", index), _container("metrics", index)],
    }
    job = {"parallelism": 4, "completions": 4, "backoffLimit": 0, "template": {"spec": pod}}
    return {"name": f"workers-{index}", "replicas": 1, "template": {"spec": job}}


def _container(name: str, index: int) -> dict[str, Any]:
    amounts = {"cpu": "500m", "memory": "2Gi"}
    return {
        "name": name,
        "image": f"registry.example/team/{name}:1.4.{index}",
        "command": ["python", "-m", "training", "--epochs=10"],
        "env": [{"name": f"SETTING_{number}", "value": "a value of ordinary length"} for number in range(_VARIABLES)],
        "resources": {"requests": amounts, "limits": amounts},
    }
