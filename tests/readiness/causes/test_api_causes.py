"""Causes that concern the promise itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gangctl.api.scheduling import Generation
from gangctl.gang.generation import ApiState
from gangctl.gang.reasons import Reason
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import reasons, the
from tests.readiness.snapshots import CREATED, GATED, PENDING, RUNNING, Scene, initially_scheduled

JS = jobset("js", rj("w", 2, 4, 4), mode="Gang")
OFF = ApiState(None, "the API server drops spec.schedulingGroup of pods: enable the feature gate GenericWorkload")


def test_a_cluster_without_the_api_is_told_in_its_own_words() -> None:
    scene = Scene(JS)
    cause = the(Reason.API_UNAVAILABLE, scene.snapshot(scene.pods(PENDING), api=OFF))
    assert cause.evidence == (OFF.reason,)
    assert cause.blocking
    assert cause.pods == 8
    assert "GenericWorkload" in cause.remedy


def test_pods_that_have_their_nodes_do_not_wait_for_the_api() -> None:
    scene = Scene(JS)
    cause = the(Reason.API_UNAVAILABLE, scene.snapshot(scene.pods(RUNNING), api=OFF))
    assert not cause.blocking


def test_a_cluster_with_the_api_is_not_blamed() -> None:
    scene = Scene(JS)
    assert Reason.API_UNAVAILABLE not in reasons(scene.snapshot(scene.pods(PENDING)))


def test_a_jobset_that_came_past_the_webhook_is_not_ganged() -> None:
    scene = Scene(JS, stamped=False)
    cause = the(Reason.NOT_GANGED, scene.snapshot(scene.pods(PENDING)))
    assert (cause.since, cause.pods, cause.blocking) == (CREATED, 8, True)
    assert "webhook" in cause.remedy


def test_a_jobset_without_a_wish_for_a_gang_is_not_said_to_miss_one() -> None:
    scene = Scene(jobset("js", rj("w", 2, 4, 4)), stamped=False)
    assert Reason.NOT_GANGED not in reasons(scene.snapshot(scene.pods(PENDING)))


def test_pods_that_name_no_group_are_told_by_name() -> None:
    scene = Scene(JS)
    pods = scene.pods(PENDING)
    cause = the(Reason.FIELD_DROPPED, scene.snapshot([replace(pods[0], group=""), *pods[1:]]))
    assert cause.pods == 1
    assert cause.blocking
    assert pods[0].name in cause.evidence[0]
    assert "schedulingGroup" in cause.evidence[0]


@pytest.mark.parametrize("generation", list(Generation))
def test_jobs_whose_template_lost_the_field_are_told(generation: Generation) -> None:
    scene = Scene(JS, generation)
    jobs = [replace(job, group="" if job.index == 0 else job.group) for job in scene.jobs()]
    cause = the(Reason.FIELD_DROPPED, scene.snapshot(scene.pods(PENDING, index=1), jobs=jobs))
    assert "js-w-0" in cause.evidence[0]
    assert not cause.blocking


def test_a_job_whose_pods_name_another_group_is_told_with_that_group() -> None:
    scene = Scene(JS)
    jobs = [replace(job, group="theirs" if job.index == 0 else job.group) for job in scene.jobs()]
    pods = [replace(pod, group="theirs" if pod.job_index == 0 else pod.group) for pod in scene.pods(PENDING)]
    cause = the(Reason.FIELD_DROPPED, scene.snapshot(pods, jobs=jobs))
    assert cause.evidence == ("Job js-w-0 names theirs",)
    assert cause.blocking
    assert "webhook or policy" in cause.remedy


def test_a_whole_gang_has_lost_nothing() -> None:
    scene = Scene(JS)
    snapshot = scene.snapshot(scene.pods(GATED), groups=scene.groups(initially_scheduled()))
    assert Reason.FIELD_DROPPED not in reasons(snapshot)


def test_kueue_that_waits_for_groups_waits_for_the_api() -> None:
    scene = Scene(JS, queue="main", suspend=True)
    gated = {**scene.jobset.annotations, "kueue.x-k8s.io/admission-gated-by": "gangctl.dev/gang"}
    scene.jobset = replace(scene.jobset, annotations=gated)
    assert the(Reason.API_UNAVAILABLE, scene.snapshot(groups={}, api=OFF)).blocking


def test_a_wish_that_cannot_be_met_is_told_with_why() -> None:
    scene = Scene(jobset("js", rj("w", 1, 2, 2, mode="Gang"), mode="Gang"), stamped=False)
    cause = the(Reason.NOT_GANGED, scene.snapshot(scene.pods(PENDING)))
    assert any("replicatedJobs[0]" in line for line in cause.evidence)
    assert "in a new JobSet" in cause.remedy


def test_a_jobset_without_pods_is_told_as_that() -> None:
    scene = Scene(jobset("js", rj("w", 0, 2, 2), rj("v", 1, 0, 0), mode="Gang"))
    cause = the(Reason.NOT_GANGED, scene.snapshot())
    assert cause.message == "it has no pods, and so no gang"
    assert "above 0" in cause.remedy
    assert not cause.blocking
