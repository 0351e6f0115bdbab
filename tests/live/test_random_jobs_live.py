"""What gangctl says of random JobSets and of their Jobs is what an API server says: the search beside the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from aiohttp import ServerDisconnectedError

from gangctl.api.objects import copy
from gangctl.apiserver.create import create
from tests.apiserver.randomjobs import job_spec, jobset_spec
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane

pytestmark = pytest.mark.controlplane

PLAYED = (*range(1500), 22_360)
FULL = range(100_000, 130_000)
OVERLOOKED = 0.02
"""Of what is refused, at most so much may be overlooked: `podtemplates.py` says which fields are left out."""
JOBS = path_of("batch/v1", "jobs", namespace="default")
JOBSETS = path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace="default")

Said = tuple[int, Sequence[object], str]
"""A seed, what gangctl refuses, and why the API server refuses, empty if it does not."""


def _object(version: str, kind: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "random", "namespace": "default"}, "spec": spec}


async def _refusal(plane: ControlPlane, path: str, raw: Object) -> str:
    try:
        await plane.api.create(path, raw, dryRun="All")
    except ApiFailure as failure:
        return failure.message
    except ServerDisconnectedError as failure:
        # Its validation of some Jobs ends in a nil pointer.
        return str(failure)
    return ""


async def _jobs(plane: ControlPlane, seeds: Iterable[int]) -> list[Said]:
    answers: list[Said] = []
    for seed in seeds:
        entry = {"name": "w", "template": {"spec": job_spec(seed)}}
        created = create(_object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [entry]}))
        # Of one that is refused there is no Job.
        if not created.refused:
            job = created.obj["spec"]["replicatedJobs"][0]["template"]["spec"]
            answers.append((seed, created.jobs, await _refusal(plane, JOBS, _object("batch/v1", "Job", job))))
    return answers


async def _jobsets(plane: ControlPlane, seeds: Iterable[int]) -> list[Said]:
    answers: list[Said] = []
    for seed in seeds:
        raw = _object("jobset.x-k8s.io/v1alpha2", "JobSet", jobset_spec(seed))
        answers.append((seed, create(copy(raw)).refused, await _refusal(plane, JOBSETS, raw)))
    return answers


def _compare(answers: Sequence[Said]) -> None:
    invented = [f"seed {seed}: {ours[0]}" for seed, ours, theirs in answers if ours and not theirs]
    overlooked = [f"seed {seed}: {theirs}" for seed, ours, theirs in answers if theirs and not ours]
    refused = sum(bool(theirs) for _, _, theirs in answers)
    assert not invented, "\n".join(invented)
    assert len(overlooked) <= OVERLOOKED * refused, "\n".join(overlooked)


async def test_random_jobs_are_refused_as_foreseen(plane: ControlPlane) -> None:
    _compare(await _jobs(plane, PLAYED))


async def test_random_jobsets_are_refused_as_foreseen(plane_1_37: ControlPlane) -> None:
    _compare(await _jobsets(plane_1_37, PLAYED))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_many_random_jobs_are_refused_as_foreseen(plane: ControlPlane) -> None:
    _compare(await _jobs(plane, FULL))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_many_random_jobsets_are_refused_as_foreseen(plane_1_37: ControlPlane) -> None:
    _compare(await _jobsets(plane_1_37, FULL))
