"""The JobSets that the doctor creates: as a dry run, and as a canary. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.meta import GANG_MODE, GANG_REF, JOBSET_API_VERSION, MANAGER
from gangctl.api.objects import objects

LABEL: Final = "gangctl.dev/canary"
IMAGE: Final = "registry.k8s.io/pause:3.10"
_REQUESTS: Final = {"cpu": "1m", "memory": "1Mi"}
_LIFE_SECONDS: Final = 600
"""Deadline of a canary if the doctor was killed: then it fails, and JobSet deletes it a minute later."""
FITS: Final = "fits"
NEVER: Final = "never"
"""ReplicatedJobs of the JobSet with one pod that fits and one that does not."""


def gang_of_two(name: str, *, torn: bool = False) -> dict[str, Any]:
    """A gang of two small pods; ``torn`` gives one of them a nodeSelector that no node has."""
    second = (NEVER, {LABEL: "no-node-has-this"}) if torn else ("too", {})
    return {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "labels": {LABEL: "true", "app.kubernetes.io/managed-by": MANAGER},
            "annotations": {GANG_MODE: "Gang"},
        },
        "spec": {
            "ttlSecondsAfterFinished": 60,
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [_replicated_job(FITS, {}), _replicated_job(*second)],
        },
    }


def _replicated_job(name: str, selector: Mapping[str, str]) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "pause",
                "image": IMAGE,
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": dict(_REQUESTS), "limits": dict(_REQUESTS)},
            }
        ],
        **({"nodeSelector": dict(selector)} if selector else {}),
    }
    job = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 0,
        "activeDeadlineSeconds": _LIFE_SECONDS,
        "template": {"metadata": {"labels": {LABEL: "true"}}, "spec": pod},
    }
    return {"name": name, "replicas": 1, "template": {"spec": job}}


def _templates(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = objects((stored.get("spec") or {}).get("replicatedJobs"))
    return [each["template"] for each in found if isinstance(each.get("template"), dict)]


def is_stamped(stored: Mapping[str, Any]) -> bool:
    """Whether every ReplicatedJob of a stored JobSet has gangctl's stamp."""
    templates = _templates(stored)
    notes = [(each.get("metadata") or {}).get("annotations") or {} for each in templates]
    return bool(notes) and all(GANG_REF in each for each in notes)


def is_defaulted(stored: Mapping[str, Any]) -> bool:
    """Whether JobSet's webhook set defaults that its schema does not have."""
    modes = [(each.get("spec") or {}).get("completionMode") for each in _templates(stored)]
    return bool(modes) and all(modes)
