"""What of a Job or a JobSet counts as a change: a JobSet is looked at again for that, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.cluster.members import project_job, project_jobset
from tests.jobsets import jobset, rj


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


def with_pod_metadata(part: str, written: dict[str, str], *, suspend: bool = True) -> dict[str, Any]:
    raw = jobset("js", rj("w"), mode="Gang", uid="u", suspend=suspend)
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {part: written}
    return raw


OF_KUEUE = {"kueue.x-k8s.io/podset": "x"}


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_what_kueue_meets_in_the_pod_templates_of_a_suspended_jobset_is_a_change(part: str) -> None:
    """No webhook is called for it, and it may keep the JobSet from starting."""
    before = project_jobset(with_pod_metadata(part, {}))
    assert project_jobset(with_pod_metadata(part, OF_KUEUE)) != before
    assert project_jobset(with_pod_metadata(part, {"app": "x"})) == before


@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("field", [{"nodeSelector": {"pool": "a"}}, {"tolerations": [{"operator": "Exists"}]}])
def test_which_nodes_the_pods_of_a_suspended_jobset_may_use_is_a_change(field: dict[str, Any], suspend: bool) -> None:
    """JobSet lets them change until it starts, and whether a flavor can ever take it depends on them."""
    before, after = (jobset("js", rj("w", pod=pod), mode="Gang", uid="u", suspend=suspend) for pod in ({}, field))
    assert (project_jobset(after) != project_jobset(before)) is suspend


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_what_kueue_writes_into_the_pod_templates_of_a_running_jobset_is_none(part: str) -> None:
    running = project_jobset(with_pod_metadata(part, {}, suspend=False))
    assert project_jobset(with_pod_metadata(part, OF_KUEUE, suspend=False)) == running
