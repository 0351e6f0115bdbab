"""The status of a PathwaysJob from that of its JobSet: a table, and properties for any JobSet."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.status import (
    DEGRADED,
    JobCondition,
    JobSetFacts,
    Obstacle,
    PathwaysFacts,
    PathwaysJobStatus,
    PathwaysPhase,
    Replicas,
    missing_slices,
    next_status,
    notices,
    pathways_owner,
    read_jobset_facts,
    read_pathways_facts,
)
from gangctl.pathways.words import API_VERSION, DIGEST
from tests.rows import each

NOW, THEN, LATER = "2026-01-02T03:04:05Z", "2026-01-01T00:00:00Z", "2026-01-02T03:05:00Z"
FRESH = PathwaysFacts("t", "pw", "uid", 3, PathwaysJobStatus())
UP, HALF = Replicas(2, 2), Replicas(2, 1)
HEAD_UP = Replicas(1, 1)


def true(kind: str, reason: str = "Why", message: str = "words", since: str = THEN) -> JobCondition:
    return JobCondition(kind, "True", reason, message, since)


def false(kind: str) -> JobCondition:
    return JobCondition(kind, "False", "Why", "words", THEN)


def jobset(*conditions: JobCondition, **changes: Any) -> JobSetFacts:
    return replace(JobSetFacts("t", "pw", "j", "uid", conditions, workers=Replicas(2)), **changes)


def after(status: PathwaysJobStatus, generation: int = 3) -> PathwaysFacts:
    return replace(FRESH, status=status, generation=generation)


def reported(before: PathwaysJobStatus, found: JobSetFacts | Obstacle, now: str = NOW) -> list[Reason]:
    return [each.reason for each in said(before, found, now)]


def said(before: PathwaysJobStatus, found: JobSetFacts | Obstacle, now: str = NOW) -> tuple[Notice, ...]:
    return notices(before, next_status(after(before), found, now), found)


STARTUP_DONE = true("StartupPolicyCompleted")
TABLE = [
    (jobset(), PathwaysPhase.PENDING, "WaitingForHead"),
    (jobset(true("StartupPolicyInProgress")), PathwaysPhase.PENDING, "WaitingForHead"),
    (jobset(head=HEAD_UP), PathwaysPhase.PENDING, "WaitingForWorkers"),
    (jobset(head=HEAD_UP, workers=HALF), PathwaysPhase.PENDING, "WaitingForWorkers"),
    (jobset(head=HEAD_UP, workers=UP), PathwaysPhase.RUNNING, "HeadAndWorkersReady"),
    (jobset(STARTUP_DONE, head=HEAD_UP, workers=HALF), PathwaysPhase.RUNNING, "HeadAndWorkersReady"),
    (jobset(STARTUP_DONE, workers=UP), PathwaysPhase.PENDING, "WaitingForHead"),
    (jobset(head=HEAD_UP, workers=HALF, elastic=1), PathwaysPhase.RUNNING, "HeadAndWorkersReady"),
    # A restart: the condition of the startup comes last, and is False.
    (
        jobset(true("RestartingJobSet"), false("StartupPolicyCompleted"), restarts=1),
        PathwaysPhase.PENDING,
        "Restarting",
    ),
    (jobset(true("RestartingJobSet"), head=HEAD_UP, workers=UP), PathwaysPhase.PENDING, "Restarting"),
    (jobset(false("RestartingJobSet"), head=HEAD_UP, workers=UP), PathwaysPhase.RUNNING, "HeadAndWorkersReady"),
    # Resumed in a queue: the condition that is False is the first, and the last is true of an earlier life.
    (jobset(false("Suspended"), STARTUP_DONE, head=HEAD_UP), PathwaysPhase.RUNNING, "HeadAndWorkersReady"),
    (jobset(true("Suspended", "SuspendedJobs"), STARTUP_DONE, head=HEAD_UP), PathwaysPhase.SUSPENDED, "SuspendedJobs"),
    (jobset(true("Suspended"), true("Completed", "AllJobsCompleted")), PathwaysPhase.COMPLETED, "AllJobsCompleted"),
    (jobset(true("Failed", "FailedJobs"), true("Completed")), PathwaysPhase.FAILED, "FailedJobs"),
    (jobset(true("Failed", "not a reason")), PathwaysPhase.FAILED, "Failed"),
    (jobset(terminal_state="Completed"), PathwaysPhase.COMPLETED, "Completed"),
    (Obstacle("NameConflict", "another owner's"), PathwaysPhase.FAILED, "NameConflict"),
    (Obstacle("JobSetCreateFailed", "no right", PathwaysPhase.PENDING), PathwaysPhase.PENDING, "JobSetCreateFailed"),
    (Obstacle("JobSetGone", "deleted", final=True), PathwaysPhase.FAILED, "JobSetGone"),
]


@each(("found", "phase", "reason"), TABLE)
def test_the_first_true_condition_of_the_jobset_counts(
    found: JobSetFacts | Obstacle, phase: PathwaysPhase, reason: str
) -> None:
    status = next_status(FRESH, found, NOW)
    assert status.phase is phase
    held = status.condition(phase)
    assert held is not None
    assert (held.reason, held.generation) == (reason, 3)
    ended = isinstance(found, Obstacle) and found.final
    ended |= isinstance(found, JobSetFacts) and phase in {PathwaysPhase.COMPLETED, PathwaysPhase.FAILED}
    assert status.terminal_state == (phase.value if ended else "")


def test_an_end_has_the_time_of_the_jobset() -> None:
    status = next_status(FRESH, jobset(true("Completed", since=THEN)), NOW)
    held, other = status.condition("Completed"), status.condition("Running")
    assert held is not None
    assert other is not None
    assert (held.since, other.since) == (THEN, NOW)
    assert status.as_json()["terminalState"] == "Completed"


def test_times_stay_where_the_status_of_a_condition_does() -> None:
    first = next_status(FRESH, jobset(), NOW)
    second = next_status(after(first), jobset(head=HEAD_UP), LATER)
    assert {each.since for each in second.conditions} == {NOW}
    third = next_status(after(second), jobset(head=HEAD_UP, workers=UP), LATER)
    times = {each.type: each.since for each in third.conditions}
    assert times == {
        **dict.fromkeys(["Suspended", "Completed", "Failed"], NOW),
        **dict.fromkeys(["Pending", "Running"], LATER),
    }


def test_duplicate_conditions_of_upstream_are_merged_and_others_are_kept() -> None:
    stored = PathwaysJobStatus(
        (
            false("Pending"),
            JobCondition("Running", "False", "Old", "", "2025-01-01T00:00:00Z"),
            true("Example"),
            false("Suspended"),
            JobCondition("Running", "True", "New", "", THEN),
        )
    )
    status = next_status(after(stored), jobset(head=HEAD_UP, workers=UP, restarts=2), NOW)
    assert [each.type for each in status.conditions] == [*PathwaysPhase, "Example"]
    running = status.condition("Running")
    assert running is not None
    assert running.since == THEN
    assert status.restarts == 2
    assert reported(stored, jobset(head=HEAD_UP, workers=UP, restarts=2)) == [], "another controller has reported"


def test_a_failed_create_of_upstream_is_no_failure() -> None:
    stored = PathwaysJobStatus(terminal_state="Failed")
    status = next_status(after(stored), jobset(head=HEAD_UP, workers=UP), NOW)
    assert status.phase is PathwaysPhase.RUNNING
    assert status.as_json()["terminalState"] is None
    ended = PathwaysJobStatus((true("Failed"),), terminal_state="Failed")
    assert next_status(after(ended), jobset(head=HEAD_UP, workers=UP), NOW).phase is PathwaysPhase.FAILED


def test_an_obstacle_is_removed_with_its_cause() -> None:
    refused = next_status(FRESH, Obstacle("AdmissionDenied", "no"), NOW)
    assert (refused.phase, refused.terminal_state) == (PathwaysPhase.FAILED, "")
    status = next_status(after(refused), jobset(), LATER)
    assert status.phase is PathwaysPhase.PENDING


def test_missing_slices_of_an_elastic_job_are_reported() -> None:
    running = jobset(STARTUP_DONE, head=HEAD_UP, workers=Replicas(4, 4), elastic=2)
    first = next_status(FRESH, running, NOW)
    lacking = replace(running, workers=Replicas(4, 3))
    second = next_status(after(first), lacking, NOW)
    degraded = second.condition(DEGRADED)
    assert degraded is not None
    assert degraded.message == "1 of 4 slices are missing, 2 may be"
    assert (missing_slices(first), missing_slices(second)) == (0, 1)
    assert [str(each) for each in reported(first, lacking)] == ["SliceLost"]
    assert reported(second, lacking) == []
    assert reported(second, replace(running, workers=Replicas(4, 2))) == [Reason.SLICE_LOST]
    assert reported(second, running) == [Reason.SLICE_RECOVERED]
    ended = next_status(after(second), jobset(true("Completed"), elastic=2), NOW)
    assert not any(each.holds for each in ended.conditions if each.type == DEGRADED)
    assert next_status(FRESH, jobset(), NOW).condition(DEGRADED) is None


def test_each_transition_is_recorded_once() -> None:
    pending = next_status(FRESH, jobset(), NOW)
    suspended = jobset(true("Suspended", message="by a queue"))
    (notice,) = said(pending, suspended)
    assert notice == Notice(Reason.SUSPENDED, f"Suspended since {THEN}: by a queue")
    stored = next_status(after(pending), suspended, NOW)
    assert reported(stored, suspended) == []
    assert reported(stored, jobset(false("Suspended"))) == [Reason.RESUMED]
    assert reported(pending, jobset(head=HEAD_UP, workers=UP)) == []
    again = jobset(true("RestartingJobSet"), restarts=2, max_restarts=3)
    assert said(pending, again) == (Notice(Reason.RESTARTING, "Restart 2 of 3"),)
    assert reported(next_status(after(pending), again, NOW), again) == []
    assert reported(pending, jobset(true("Failed"), restarts=1)) == [Reason.RESTARTING, Reason.FAILED]
    assert said(pending, jobset(true("Completed", message=""))) == (Notice(Reason.COMPLETED, "Completed: Why"),)
    assert reported(stored, jobset(true("Completed"))) == [Reason.RESUMED, Reason.COMPLETED]


@each(
    ("reason", "event"),
    [
        ("NameConflict", Reason.NAME_CONFLICT),
        ("AdmissionDenied", Reason.ADMISSION_DENIED),
        ("JobSetCreateFailed", Reason.JOBSET_CREATE_FAILED),
        ("InvalidTopology", Reason.INVALID_SPEC),
    ],
)
def test_an_obstacle_is_recorded_again_only_with_another_message(reason: str, event: Reason) -> None:
    obstacle = Obstacle(reason, "these words")
    assert said(PathwaysJobStatus(), obstacle) == (Notice(event, "these words"),)
    stored = next_status(FRESH, obstacle, NOW)
    assert said(stored, obstacle) == ()
    assert reported(stored, Obstacle(reason, "other words")) == [event]


def test_the_status_is_read_from_a_jobset() -> None:
    head = {"initContainers": [{"name": "pathways-proxy", "args": ["--x=1", "--num_elastic_slices=2"]}]}
    raw = {
        "metadata": {
            "name": "pw",
            "namespace": "t",
            "uid": "j",
            "annotations": {DIGEST: "d"},
            "ownerReferences": [{"apiVersion": API_VERSION, "kind": "PathwaysJob", "uid": "uid", "controller": True}],
        },
        "spec": {
            "failurePolicy": {"maxRestarts": 4},
            "replicatedJobs": [
                {"name": "pathways-head", "template": {"spec": {"template": {"spec": head}}}},
                {"name": "worker", "replicas": 3},
            ],
        },
        "status": {
            "restarts": 1,
            "conditions": [{"type": "Suspended", "status": "True", "reason": "R", "lastTransitionTime": THEN}],
            "replicatedJobsStatus": [{"name": "worker", "ready": 1, "succeeded": 1, "failed": 0}],
        },
    }
    assert read_jobset_facts(raw) == JobSetFacts(
        *("t", "pw", "j", "uid", (JobCondition("Suspended", "True", "R", "", THEN),), Replicas(1), Replicas(3, 2), 2),
        restarts=1,
        max_restarts=4,
        digest="d",
    )
    (owner,) = raw["metadata"]["ownerReferences"]  # type: ignore[index]
    owner["kind"] = "Other"
    assert pathways_owner(raw) == ""


def test_a_written_status_is_read_back() -> None:
    status = next_status(FRESH, jobset(true("Failed"), restarts=2, elastic=1), NOW)
    raw = {"metadata": {"name": "pw", "namespace": "t", "uid": "uid", "generation": 3}, "status": status.as_json()}
    assert read_pathways_facts(raw) == after(status)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(ANY_JSON, ANY_JSON, ANY_JSON)
def test_any_jobset_is_read_without_an_error(metadata: Any, spec: Any, status: Any) -> None:
    raw = {"metadata": metadata, "spec": spec, "status": status}
    read_pathways_facts(raw)
    read_jobset_facts(raw)


TYPES = ("Suspended", "Completed", "Failed", "RestartingJobSet", "StartupPolicyCompleted", "StartupPolicyInProgress")
CONDITIONS = st.lists(
    st.builds(
        JobCondition,
        st.sampled_from(TYPES),
        st.sampled_from(["True", "False"]),
        st.sampled_from(["Why", "", "no reason"]),
        since=st.sampled_from([THEN, NOW]),
    ),
    max_size=5,
)
REPLICAS = st.builds(Replicas, st.integers(0, 4), st.integers(0, 4))
JOBSETS = st.builds(
    JobSetFacts,
    *(st.just("t"), st.just("pw"), st.just("j"), st.just("uid"), CONDITIONS.map(tuple), REPLICAS, REPLICAS),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["", "Completed", "Failed"]),
)
OBSTACLES = st.builds(
    Obstacle,
    st.sampled_from(["NameConflict", "", "not one"]),
    st.text(max_size=9),
    st.sampled_from([PathwaysPhase.PENDING, PathwaysPhase.FAILED]),
)
FOUND = JOBSETS | OBSTACLES
STORED = st.builds(
    PathwaysJobStatus,
    st.lists(
        st.builds(
            JobCondition,
            st.sampled_from([*map(str, PathwaysPhase), DEGRADED, "Example"]),
            st.sampled_from(["True", "False", "Unknown", ""]),
            st.sampled_from(["Why", ""]),
            st.sampled_from(["3 of 4", "words", ""]),
            st.sampled_from([THEN, ""]),
            st.integers(0, 2),
        ),
        max_size=6,
    ).map(tuple),
    st.none() | st.integers(0, 3),
    st.sampled_from(["", "Completed", "Failed"]),
)
CRD_REASON = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")


@settings(max_examples=100)
@given(STORED, FOUND)
def test_exactly_one_condition_is_true_and_the_status_is_idempotent(
    stored: PathwaysJobStatus, found: JobSetFacts | Obstacle
) -> None:
    status = next_status(after(stored), found, NOW)
    assert [item.type for item in status.conditions if item.holds and item.type in [*PathwaysPhase]] == [status.phase]
    types = [item.type for item in status.conditions]
    assert len(types) == len(set(types))
    assert {*PathwaysPhase} <= {*types}
    for item in status.conditions:
        if item.type != "Example":
            assert CRD_REASON.match(item.reason), item
            assert item.generation > 0
            assert item.since
    assert next_status(after(status), found, LATER) == status
    assert notices(status, status, found) == ()


@settings(max_examples=80)
@given(STORED, JOBSETS, FOUND)
def test_a_final_condition_stays(stored: PathwaysJobStatus, first: JobSetFacts, later: JobSetFacts | Obstacle) -> None:
    status = next_status(after(stored), first, NOW)
    if status.terminal_state:
        again = next_status(after(status, generation=9), later, LATER)
        assert (again.terminal_state, again.phase) == (status.terminal_state, status.phase)
        ended = [each for each in again.conditions if each.type in [*PathwaysPhase]]
        assert ended == [each for each in status.conditions if each.type in [*PathwaysPhase]]
        assert again.restarts == status.restarts
        assert not set(reported(status, later)) & {Reason.COMPLETED, Reason.FAILED}
