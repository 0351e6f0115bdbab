"""The AdmissionCheck state machine: when a state is written, which one, and when none may be."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.kueue.checks import (
    DEFAULTS,
    MESSAGE_DELAY_SECONDS,
    NOTHING,
    CheckProgress,
    Decision,
    GangAdmissionParametersSpec,
    Progress,
    State,
    decide,
    digest_of,
    message_digest,
    of_jobset,
    read_parameters,
    reserved,
    retry_delay,
    waiting_since,
)
from gangctl.kueue.objects import CheckState, PodSetAssignment, QueuedWorkload
from tests.kueue.workloads import NOW, ago, no, queued, yes
from tests.rows import each

DONE = CheckProgress(Progress.DONE, "Workload x with 2 groups is there.")
UNDER_WAY = CheckProgress(Progress.UNDER_WAY, "Not there yet: PodGroup y.")
DENIED = CheckProgress(Progress.DENIED, "GangPolicy 'p' denied request: too large")
NOTHING_TO_DO = CheckProgress(Progress.NOTHING_TO_DO, "The JobSet has no gang.")
GIVEN = (PodSetAssignment("w", {"cpu": "spot"}, {"cpu": 4000}, 4),)
PENDING = CheckState("c", "Pending")


def holding(**changes: Any) -> QueuedWorkload:
    """A Workload with quota and without an admission check that would have spoken yet."""
    fields: dict[str, Any] = {"cluster_queue": "cq", "assignments": GIVEN, "QuotaReserved": yes(), **changes}
    return queued("a", **{"owner_api_version": JOBSET_API_VERSION, "owner_uid": "u", **fields})


def decided(
    workload: QueuedWorkload,
    status: CheckProgress = DONE,
    entry: CheckState = PENDING,
    *,
    waited: float = 0.0,
    jitter: float = 0.0,
    **parameters: Any,
) -> Decision:
    return decide(
        workload,
        entry,
        status,
        GangAdmissionParametersSpec(**parameters),
        since=NOW - timedelta(seconds=waited),
        now=NOW,
        jitter=lambda: jitter,
    )


SKIPPED = {
    "evicted": holding(Evicted=yes("Preempted")),
    "finished": holding(Finished=yes("Succeeded")),
    "about to be deactivated": holding(DeactivationTarget=yes("AdmissionCheck")),
    "inactive": holding(active=False),
    "being deleted": holding(deleting=True),
    "without quota": holding(QuotaReserved=no("Pending")),
    "without any condition": queued("a", cluster_queue="cq"),
    "without an admission": holding(cluster_queue=""),
}


@each("workload", SKIPPED.values(), ids=SKIPPED.keys())
@each("status", [DONE, UNDER_WAY, DENIED, NOTHING_TO_DO], ids=lambda s: s.progress)
@each("state", ["Pending", "Ready", "Retry", "Rejected"])
def test_a_workload_without_quota_gets_no_state(workload: QueuedWorkload, status: CheckProgress, state: str) -> None:
    assert not reserved(workload)
    assert decided(workload, status, CheckState("c", state), waited=9999) == NOTHING


@pytest.mark.parametrize("status", [DONE, NOTHING_TO_DO], ids=lambda s: s.progress)
def test_the_check_is_ready_once_all_objects_exist(status: CheckProgress) -> None:
    decision = decided(holding(), status)
    assert decision.state is State.READY
    assert decision.message.startswith(status.message)
    assert decision.retry_seconds is None


def test_a_ready_state_is_valid_for_one_admission() -> None:
    first, second = holding(), holding(assignments=(replace(GIVEN[0], flavors={"cpu": "reserved"}),))
    said = CheckState("c", "Ready", decided(first).message)
    assert decided(first, entry=said) == NOTHING
    doubt = decided(second, entry=said)
    assert doubt.state is State.PENDING
    again = decided(second, entry=CheckState("c", "Pending", doubt.message))
    assert again.state is State.READY
    assert message_digest(again.message) == digest_of(second) != digest_of(first)


def test_a_ready_state_of_another_writer_does_not_count() -> None:
    assert decided(holding(), entry=CheckState("c", "Ready", "fine by me")).state is State.PENDING


CHANGED = {
    "queue": holding(cluster_queue="other"),
    "flavor": holding(assignments=(replace(GIVEN[0], flavors={"cpu": "reserved"}),)),
    "count": holding(assignments=(replace(GIVEN[0], count=3),)),
    "podset": holding(assignments=(*GIVEN, replace(GIVEN[0], name="v"))),
}


@each("workload", CHANGED.values(), ids=CHANGED.keys())
def test_another_admission_has_another_digest(workload: QueuedWorkload) -> None:
    assert digest_of(workload) != digest_of(holding())


def test_usage_and_order_do_not_change_the_digest_of_an_admission() -> None:
    used = replace(GIVEN[0], usage={"cpu": 1})
    assert digest_of(holding(assignments=(used,), version="9", Admitted=yes())) == digest_of(holding())


@each("entry", [PENDING, CheckState("c", "Ready", "stale")], ids=["pending", "stale"])
@each("status", [UNDER_WAY, DENIED], ids=lambda s: s.progress)
def test_a_running_workload_is_never_stopped(entry: CheckState, status: CheckProgress) -> None:
    assert decided(holding(Admitted=yes()), status, entry, waited=9999, on_failure="Reject") == NOTHING


def test_a_check_added_after_the_start_is_answered() -> None:
    assert decided(holding(Admitted=yes())).state is State.READY


@each("state", ["Retry", "Rejected"])
@each("status", [DONE, DENIED], ids=lambda s: s.progress)
def test_after_retry_or_rejected_no_state_is_written(state: str, status: CheckProgress) -> None:
    assert decided(holding(), status, CheckState("c", state)) == NOTHING


def test_a_short_wait_is_not_written() -> None:
    decision = decided(holding(), UNDER_WAY, waited=1)
    assert (decision.state, decision.requeue_seconds) == (None, MESSAGE_DELAY_SECONDS - 1)


def test_a_long_wait_is_written_once() -> None:
    reported = decided(holding(), UNDER_WAY, waited=10)
    assert (reported.state, reported.requeue_seconds) == (State.PENDING, 50)
    assert reported.message.startswith(UNDER_WAY.message)
    quiet = decided(holding(), UNDER_WAY, CheckState("c", "Pending", reported.message), waited=20)
    assert quiet == Decision(requeue_seconds=40)


def test_quota_is_released_after_the_timeout() -> None:
    decision = decided(holding(), UNDER_WAY, waited=60)
    assert (decision.state, decision.retry_seconds) == (State.RETRY, 60)
    assert decision.message.startswith("Not ready within 60 s: Not there yet: PodGroup y.")


def test_the_delay_of_the_message_is_bounded_by_the_timeout() -> None:
    assert decided(holding(), UNDER_WAY, waited=0, timeout_seconds=2).requeue_seconds == 2


def test_a_denied_jobset_is_rejected_without_a_wait() -> None:
    decision = decided(holding(), DENIED)
    assert decision.state is State.RETRY
    assert decision.retry_seconds
    assert DENIED.message in decision.message


@pytest.mark.parametrize(("status", "waited"), [(DENIED, 0), (UNDER_WAY, 99)], ids=["denied", "late"])
def test_a_failure_is_rejected_if_the_parameters_require_it(status: CheckProgress, waited: float) -> None:
    decision = decided(holding(), status, waited=waited, on_failure="Reject")
    assert (decision.state, decision.retry_seconds) == (State.REJECTED, None)


@pytest.mark.parametrize(("retries", "state"), [(0, State.RETRY), (2, State.RETRY), (3, State.REJECTED)])
def test_the_number_of_retries_is_bounded(retries: int, state: State) -> None:
    entry = CheckState("c", "Pending", retry_count=retries)
    decision = decided(holding(), DENIED, entry, max_retries=3)
    assert decision.state is state
    assert ("given up after 3 retries" in decision.message) == (state is State.REJECTED)


@each(("retries", "seconds"), [(0, 60), (1, 120), (2, 240), (4, 960), (5, 1800), (6, 1800), (2**31, 1800)])
def test_delays_double_up_to_a_bound(retries: int, seconds: int) -> None:
    assert retry_delay(retries, DEFAULTS, 0.0) == seconds


@given(
    st.integers(min_value=-5, max_value=2**40),
    st.integers(min_value=1, max_value=86_400),
    st.integers(min_value=1, max_value=86_400),
    st.floats(min_value=0, max_value=1),
)
def test_a_retry_is_never_without_a_delay_nor_beyond_the_bound(
    retries: int, base: int, longest: int, jitter: float
) -> None:
    parameters = GangAdmissionParametersSpec(retry_base_seconds=base, retry_max_seconds=longest)
    assert 1 <= retry_delay(retries, parameters, jitter) <= longest


def test_retries_are_spread() -> None:
    assert len({retry_delay(retries, DEFAULTS, step / 10) for step in range(10) for retries in (0,)}) > 5
    assert len({retry_delay(retries, DEFAULTS, step / 10) for step in range(10) for retries in (9,)}) > 5


def test_the_wait_counts_from_the_last_of_reservation_check_and_start() -> None:
    workload = holding(QuotaReserved=yes(since=ago(minutes=9)))
    entry = CheckState("c", "Pending", since=ago(minutes=5))
    assert waiting_since(workload, entry, NOW - timedelta(hours=1)) == NOW - timedelta(minutes=5)
    assert waiting_since(workload, PENDING, NOW - timedelta(hours=1)) == NOW - timedelta(minutes=9)
    assert waiting_since(workload, entry, NOW) == NOW
    assert waiting_since(holding(QuotaReserved=yes(since="soon")), PENDING, NOW) == NOW


def test_only_workloads_of_jobsets_are_checked() -> None:
    assert of_jobset(holding())
    assert of_jobset(holding(owner_api_version="jobset.x-k8s.io/v9"))
    assert not of_jobset(holding(owner_kind="Job", owner_api_version="batch/v1"))
    assert not of_jobset(holding(owner_api_version="example.com/v1"))
    assert not of_jobset(holding(owner_uid=""))


def test_messages_are_bounded_and_keep_their_digest() -> None:
    decision = decided(holding(), CheckProgress(Progress.DONE, "x\n" * 40_000))
    assert len(decision.message) < 2000
    assert message_digest(decision.message) == digest_of(holding())


def test_parameters_are_read_with_their_defaults() -> None:
    assert read_parameters({"metadata": {"name": "p"}, "spec": {}}) == DEFAULTS
    found = read_parameters({"spec": {"timeoutSeconds": 5, "onFailure": "Reject"}})
    assert isinstance(found, GangAdmissionParametersSpec)
    assert (found.timeout_seconds, found.on_failure) == (5, "Reject")


@each(
    ("spec", "path"),
    [
        ({"timeoutSeconds": 0}, "spec.timeoutSeconds"),
        ({"timeoutSeconds": "60"}, "spec.timeoutSeconds"),
        ({"onFailure": "Panic"}, "spec.onFailure"),
        ({"retries": 1}, "spec.retries"),
        (None, "spec"),
    ],
)
def test_invalid_parameters_are_errors_with_their_place(spec: object, path: str) -> None:
    errors = read_parameters({"metadata": {"name": "p"}, "spec": spec})
    assert isinstance(errors, tuple)
    assert [error.path for error in errors] == [path]
