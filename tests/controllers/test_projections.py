"""What of a Job counts as a change: a JobSet is looked at again for that, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.cluster.members import project_job


def job(**status: Any) -> dict[str, Any]:
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "u", "controller": True}
    return {"metadata": {"name": "js-w-0", "namespace": "t", "ownerReferences": [owner]}, "status": status}


def test_the_replacement_of_a_failed_pod_is_a_change() -> None:
    """It is made seconds after the failure, and may be the one that waits for ever."""
    assert project_job(job(active=1, failed=1, succeeded=1)) != project_job(job(active=2, failed=1, succeeded=1))


def test_a_job_made_anew_under_its_name_is_a_change() -> None:
    raw = job(active=1)
    raw["metadata"]["uid"] = "another"
    assert project_job(raw) != project_job(job(active=1))


def test_the_resumption_of_a_job_is_a_change() -> None:
    held = project_job({**job(), "spec": {"suspend": True}})
    assert held is not None
    assert held.suspended
    assert project_job({**job(), "spec": {"suspend": False}}) == replace(held, suspended=False)


@pytest.mark.parametrize("status", [{"active": 2}, {"active": 1, "terminating": 1}, {"active": 3, "ready": 2}])
def test_growing_pod_counts_are_no_change(status: dict[str, int]) -> None:
    assert project_job(job(**status)) == project_job(job(active=1))
