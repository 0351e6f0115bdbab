"""What gangctl says of the Jobs of random JobSets is what an API server says: the search beside the tables."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from aiohttp import ServerDisconnectedError

from gangctl.apiserver.create import create
from tests.apiserver.randomjobs import job_spec
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane

pytestmark = pytest.mark.controlplane

PLAYED = (*range(1500), 22_360)
FULL = range(10_000, 40_000)
OVERLOOKED = 0.02
"""Of what is refused, at most so much may be overlooked: `podtemplates.py` says which fields are left out."""


async def _refusal(plane: ControlPlane, spec: Object) -> str:
    """Why the API server refuses a Job; empty if it takes it."""
    raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "random"}, "spec": spec}
    try:
        await plane.api.create(path_of("batch/v1", "jobs", namespace="default"), raw, dryRun="All")
    except ApiFailure as failure:
        return failure.message
    except ServerDisconnectedError as failure:
        # Its validation of some Jobs ends in a nil pointer.
        return str(failure)
    return ""


async def _judge(plane: ControlPlane, seeds: Iterable[int]) -> None:
    invented, overlooked, refused = [], [], 0
    for seed in seeds:
        entry = {"name": "w", "template": {"spec": job_spec(seed)}}
        spec = {"replicatedJobs": [entry]}
        metadata = {"name": "js", "namespace": "default"}
        created = create(
            {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}
        )
        # Of these there is no Job.
        if created.refused:
            continue
        why = await _refusal(plane, created.obj["spec"]["replicatedJobs"][0]["template"]["spec"])
        refused += bool(why)
        if created.jobs and not why:
            invented.append(f"seed {seed}: {created.jobs[0]}")
        if why and not created.jobs:
            overlooked.append(f"seed {seed}: {why}")
    assert not invented
    assert len(overlooked) <= OVERLOOKED * refused, "\n".join(overlooked)


async def test_random_jobs_are_refused_as_gangctl_says(plane: ControlPlane) -> None:
    await _judge(plane, PLAYED)


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_many_random_jobs_are_refused_as_gangctl_says(plane: ControlPlane) -> None:
    await _judge(plane, FULL)
