"""Causes that concern the all-or-nothing guarantee."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gangctl.api.scheduling import ApiState, Generation
from gangctl.gang.reasons import Reason
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import reasons, the
from tests.readiness.snapshots import CREATED, GATED, PENDING, RUNNING, Context, initially_scheduled

JS = jobset("js", rj("w", 2, 4, 4), mode="Gang")
OFF = ApiState(None, "the API server drops spec.schedulingGroup of pods: enable the feature gate GenericWorkload")


def test_a_missing_scheduling_api_is_reported_with_its_message() -> None:
    context = Context(JS)
    cause = the(Reason.API_UNAVAILABLE, context.snapshot(context.pods(PENDING), api=OFF))
    assert cause.evidence == (OFF.reason,)
    assert cause.blocking
    assert cause.pods == 8
    assert "GenericWorkload" in cause.remedy


def test_pods_that_have_their_nodes_do_not_wait_for_the_api() -> None:
    context = Context(JS)
    cause = the(Reason.API_UNAVAILABLE, context.snapshot(context.pods(RUNNING), api=OFF))
    assert not cause.blocking


def test_with_the_scheduling_api_it_is_no_cause() -> None:
    context = Context(JS)
    assert Reason.API_UNAVAILABLE not in reasons(context.snapshot(context.pods(PENDING)))


def test_a_jobset_that_bypassed_the_webhook_is_not_ganged() -> None:
    context = Context(JS, stamped=False)
    cause = the(Reason.NOT_GANGED, context.snapshot(context.pods(PENDING)))
    assert (cause.since, cause.pods, cause.blocking) == (CREATED, 8, True)
    assert "(label gangctl.dev/skip, --namespace-selector)" in cause.remedy
    assert "webhook" in cause.remedy


def test_a_jobset_that_requests_no_gang_is_not_reported_as_not_ganged() -> None:
    context = Context(jobset("js", rj("w", 2, 4, 4)), stamped=False)
    assert Reason.NOT_GANGED not in reasons(context.snapshot(context.pods(PENDING)))


def test_pods_without_a_group_are_reported_by_name() -> None:
    context = Context(JS)
    pods = context.pods(PENDING)
    cause = the(Reason.FIELD_DROPPED, context.snapshot([replace(pods[0], group=""), *pods[1:]]))
    assert cause.pods == 1
    assert cause.blocking
    assert pods[0].name in cause.evidence[0]
    assert "schedulingGroup" in cause.evidence[0]


@pytest.mark.parametrize("generation", list(Generation))
def test_jobs_whose_template_lost_the_reference_are_reported(generation: Generation) -> None:
    context = Context(JS, generation)
    jobs = [replace(job, group="" if job.index == 0 else job.group) for job in context.jobs()]
    cause = the(Reason.FIELD_DROPPED, context.snapshot(context.pods(PENDING, index=1), jobs=jobs))
    assert "js-w-0" in cause.evidence[0]
    assert not cause.blocking


def test_a_job_whose_pods_name_another_group_is_reported_with_that_group() -> None:
    context = Context(JS)
    jobs = [replace(job, group="theirs" if job.index == 0 else job.group) for job in context.jobs()]
    pods = [replace(pod, group="theirs" if pod.job_index == 0 else pod.group) for pod in context.pods(PENDING)]
    cause = the(Reason.FIELD_DROPPED, context.snapshot(pods, jobs=jobs))
    assert cause.evidence == ("Job js-w-0 names theirs",)
    assert cause.blocking
    assert "webhook or policy" in cause.remedy


def test_a_complete_gang_has_no_dropped_field() -> None:
    context = Context(JS)
    snapshot = context.snapshot(context.pods(GATED), groups=context.groups(initially_scheduled()))
    assert Reason.FIELD_DROPPED not in reasons(snapshot)


def test_an_impossible_gang_is_reported_with_the_reason() -> None:
    context = Context(jobset("js", rj("w", 1, 2, 2, mode="Gang"), mode="Gang"), stamped=False)
    cause = the(Reason.NOT_GANGED, context.snapshot(context.pods(PENDING)))
    assert any("replicatedJobs[0]" in line for line in cause.evidence)
    assert "in a new JobSet" in cause.remedy


def test_a_jobset_without_pods_is_reported_as_having_no_gang() -> None:
    context = Context(jobset("js", rj("w", 0, 2, 2), rj("v", 1, 0, 0), mode="Gang"))
    cause = the(Reason.NOT_GANGED, context.snapshot())
    assert cause.message == "it has no pods, and so no gang"
    assert "above 0" in cause.remedy
    assert not cause.blocking
