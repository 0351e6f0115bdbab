"""What keeps a JobSet in its queue, and a suspension that no queue ends."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.controllers.readiness.events import RECORDED_ELSEWHERE
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.reasons import Reason
from gangctl.kueue.blocked import Blockage, Blocked, Stuck
from gangctl.kueue.objects import CheckState, QueuedWorkload
from gangctl.kueue.queues import Never, QueueFacts
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import Snapshot
from tests.jobsets import jobset, rj
from tests.kueue.workloads import STUCK, WITHOUT_WORKLOAD, ago, no, queued, yes
from tests.readiness.causes.finding import reasons, the
from tests.readiness.snapshots import CREATED, NOW, RUNNING, Context, condition, rfc3339
from tests.rows import each

JS = jobset("js", rj("w", 1, 4, 4), mode="Gang")
CLOSED = Blocked(
    Blockage.CLUSTER_QUEUE_STOPPED, 'ClusterQueue "cq" is stopped (stopPolicy Hold); it admits again with None'
)


def waiting(workload: QueuedWorkload | None, *, suspend: bool = True, created: int = CREATED, **given: Any) -> Snapshot:
    """A JobSet in LocalQueue ``main``, before any pod."""
    context = Context(JS, queue="main", suspend=suspend, created=created)
    return context.snapshot(
        groups={}, jobs=context.jobs(active=False), queue=QueueFacts("main", "cq", workload, **given)
    )


def test_waiting_for_quota_is_normal_and_has_the_message_of_kueue() -> None:
    snapshot = waiting(queued(QuotaReserved=no("Pending", "couldn't assign flavors: insufficient quota for cpu")))
    cause = the(Reason.WAITING_FOR_QUOTA, snapshot)
    assert not cause.blocking
    assert cause.pods == 4
    assert any("insufficient quota for cpu" in line for line in cause.evidence)
    assert cause.command == "gangctl fit js -n t"
    assert reasons(snapshot) == [Reason.WAITING_FOR_QUOTA]


def test_a_jobset_that_can_never_be_admitted_is_reported_with_the_figures() -> None:
    snapshot = waiting(
        queued(QuotaReserved=no("Pending")), never=Never("NeverExceedsQuota", "40 cpu are asked for, and cq can have 8")
    )
    cause = the(Reason.NEVER_FITS, snapshot)
    assert cause.evidence[0] == "40 cpu are asked for, and cq can have 8"
    assert reasons(snapshot) == [Reason.NEVER_FITS]


QUOTA_OF_OTHERS = "insufficient unused quota for cpu in flavor f, 3 more needed"
NO_QUOTA = (
    "insufficient quota for cpu in flavor e, previously considered podsets requests (0) + current podset request (15) "
    "> maximum capacity (0)"
)
SOME_NODES = 'topology "t" allows to fit only 3 out of 4 pod(s). Total nodes: 8; excluded: '
NO_NODES = 'topology "t" doesn\'t allow to fit any of 4 pod(s). Total nodes: 2; excluded: '


@pytest.mark.parametrize(
    ("parts", "reason", "remedy"),
    [
        ((f"{NO_QUOTA}, {QUOTA_OF_OTHERS}",), Reason.WAITING_FOR_QUOTA, "wait: quota comes back"),
        ((QUOTA_OF_OTHERS, NO_QUOTA), Reason.NEVER_FITS, "make it smaller"),
        (("untolerated taint {dedicated a NoSchedule <nil>} in flavor f",), Reason.NEVER_FITS, "tolerate the taints"),
        (("flavor f doesn't match node affinity",), Reason.NEVER_FITS, "tolerate the taints and select"),
        (("resource example.com/gpu unavailable in ClusterQueue",), Reason.NEVER_FITS, "ask only for resources"),
        (('Flavor "f" does not contain the requested level',), Reason.NEVER_FITS, "ask for a level"),
        (('Flavor "f" supports only TopologyAwareScheduling',), Reason.NEVER_FITS, "ask for a level"),
        (('topology "t" allows to fit only 2 out of 6 pod(s)',), Reason.WAITING_FOR_QUOTA, "wait for others to finish"),
        ((f"{SOME_NODES}nodeSelector: 4",), Reason.WAITING_FOR_QUOTA, "wait for others to finish"),
        ((f'{SOME_NODES}taint "a=b:NoSchedule": 1',), Reason.WAITING_FOR_QUOTA, "wait for others to finish"),
        (
            (f'{NO_NODES}resource "example.com/gpu": 2',),
            Reason.WAITING_FOR_QUOTA,
            "wait for others to finish, add nodes",
        ),
        (
            (f'{NO_NODES}taint "example.com/gpu=present:NoSchedule": 1',),
            Reason.NEVER_FITS,
            "tolerate the taint, or take it off the nodes",
        ),
        (
            (f"{NO_NODES}nodeSelector: 1",),
            Reason.NEVER_FITS,
            "compare nodeSelector and affinity",
        ),
        (("no topology domains at level: example.com/zone",), Reason.NEVER_FITS, "give the nodes the labels"),
        (("something new",), Reason.WAITING_FOR_QUOTA, "wait: quota comes back"),
    ],
)
def test_what_kueue_has_against_each_pod_set_is_what_the_advice_is_about(
    parts: tuple[str, ...], reason: Reason, remedy: str
) -> None:
    """One flavor is enough for a pod set, and all of them are needed."""
    message = "; ".join(f"couldn't assign flavors to pod set {index}: {part}" for index, part in enumerate(parts))
    cause = the(reason, waiting(queued(QuotaReserved=no("Pending", message))))
    assert cause.remedy.startswith(remedy)
    assert cause.blocking is (reason is not Reason.WAITING_FOR_QUOTA)


def test_a_jobset_without_a_workload_is_not_advised_to_get_quota() -> None:
    stuck = Stuck(Reason.TOO_MANY_PODSETS, "it has 19 replicatedJobs", "split the JobSet")
    never = Never("NeverMisconfigured", "19 replicatedJobs are more than the 18 podsets of a Workload")
    snapshot = waiting(None, stuck=stuck, never=never)
    assert reasons(snapshot) == [Reason.TOO_MANY_PODSETS]


CONFLICT = FieldError(
    "a.labels[kueue.x-k8s.io/podset]", ErrorKind.FORBIDDEN, 'is "x", but Kueue writes this key: remove it'
)


@pytest.mark.parametrize("workload", [None, queued(QuotaReserved=no("Pending"))])
def test_a_conflict_with_its_queue_is_named_before_the_quota_that_it_waits_for(workload: QueuedWorkload | None) -> None:
    snapshot = waiting(workload, conflicts=(CONFLICT, CONFLICT))
    cause = the(Reason.QUEUE_CONFLICT, snapshot)
    assert cause.blocking
    assert cause.message.endswith("a.labels[kueue.x-k8s.io/podset], and 1 other field")
    assert cause.evidence == (str(CONFLICT),)
    assert "while it is suspended" in cause.remedy
    assert (cause.pods, cause.command) == (4, "kubectl -n t describe jobset js")
    assert reasons(snapshot) == [Reason.QUEUE_CONFLICT, Reason.WAITING_FOR_QUOTA]
    assert Reason.QUEUE_CONFLICT not in RECORDED_ELSEWHERE


@pytest.mark.parametrize("workload", [None, queued(QuotaReserved=no("Inadmissible"))])
def test_a_stopped_queue_is_named(workload: QueuedWorkload | None) -> None:
    stuck = Stuck(Reason.QUEUE_BLOCKED, CLOSED.message, "nothing in this queue is admitted until then")
    cause = the(Reason.QUEUE_BLOCKED, waiting(workload, blocked=CLOSED, stuck=stuck))
    assert cause.message == 'its queue admits nothing now: ClusterQueue "cq" is stopped (stopPolicy Hold)'
    assert cause.evidence[0] == CLOSED.message
    assert cause.command == "gangctl queue describe main -n t"


def test_a_stopped_queue_does_not_block_an_admitted_jobset() -> None:
    admitted = queued(QuotaReserved=yes(), Admitted=yes())
    snapshot = waiting(admitted, suspend=False, blocked=CLOSED)
    assert Reason.QUEUE_BLOCKED not in reasons(snapshot)


@each("reason", sorted(STUCK - {Reason.FINISHED_HOLDS_QUOTA}))
def test_every_problem_of_kueue_has_a_reason(reason: Reason) -> None:
    stuck = Stuck(reason, "this was seen", "do that")
    workload = None if reason in WITHOUT_WORKLOAD else queued(QuotaReserved=no("Pending"))
    cause = the(reason, waiting(workload, stuck=stuck))
    assert (cause.message, cause.remedy, cause.blocking) == ("this was seen", "do that", True)


@each(
    "reason",
    [
        Reason.WORKLOAD_MISSING,
        Reason.FRAMEWORK_NOT_ENABLED,
        Reason.FAILED_CHECK_WITHOUT_QUOTA,
        Reason.EVICTED_HOLDS_QUOTA,
    ],
    ids=str,
)
def test_rare_problems_of_kueue_rank_first(reason: Reason) -> None:
    workload = None if reason in WITHOUT_WORKLOAD else queued(QuotaReserved=no("Pending"))
    assert reasons(waiting(workload, stuck=Stuck(reason, "this was seen", "do that")))[0] is reason


def test_a_finished_jobset_that_holds_quota_has_no_cause() -> None:
    stuck = Stuck(Reason.FINISHED_HOLDS_QUOTA, "this was seen", "do that")
    context = Context(JS, queue="main", end=condition("Completed", NOW - 600))
    facts = QueueFacts("main", "cq", queued(QuotaReserved=yes(), Admitted=yes()), stuck=stuck)
    assert reasons(context.snapshot(groups={}, queue=facts)) == []


def test_gates_of_other_controllers_block_at_once_and_are_named() -> None:
    theirs = queued(QuotaReserved=no("AdmissionGated"), gates=("example.com/budget", "example.com/order"))
    cause = the(Reason.ADMISSION_GATED, waiting(theirs))
    assert cause.blocking
    assert "gate example.com/budget, example.com/order is" in cause.message
    unnamed = queued(QuotaReserved=no("AdmissionGated", since=ago(seconds=10)))
    readiness = evaluate(waiting(unnamed), NOW)
    assert [(cause.reason, cause.blocking) for cause in readiness.causes] == [(Reason.ADMISSION_GATED, False)]
    assert readiness.look_again == NOW + 20


@pytest.mark.parametrize(("state", "blocking"), [("Pending", False), ("Retry", True), ("Rejected", True)])
def test_admission_checks_are_named_with_their_messages(state: str, blocking: bool) -> None:
    checks = (CheckState("provision", state, "no capacity"), CheckState("other", "Ready"))
    cause = the(Reason.WAITING_FOR_CHECK, waiting(queued(QuotaReserved=yes(), checks=checks)))
    assert cause.evidence[0] == f"check provision is {state}: no capacity"
    assert cause.blocking is blocking
    assert cause.command == "kubectl describe admissionchecks.kueue.x-k8s.io provision"
    dispatched = queued(QuotaReserved=yes(), checks=checks, nominated=("west", "east"))
    cause = the(Reason.WAITING_FOR_CHECK, waiting(dispatched))
    assert cause.command == "gangctl fit js -n t --worker west --worker east"
    assert "worker clusters west, east" in cause.evidence[1]


def test_an_evicted_jobset_in_backoff_is_reported() -> None:
    evicted = queued(
        QuotaReserved=no("Pending"),
        Evicted=yes("PodsReadyTimeout", "too late"),
        Requeued=no("PodsReadyTimeout"),
        requeue_at=ago(minutes=-1),
    )
    assert reasons(waiting(evicted))[0] is Reason.QUEUE_BACKOFF
    cause = the(Reason.QUEUE_BACKOFF, waiting(evicted))
    assert not cause.blocking
    assert any("is tried again in 1m" in line for line in cause.evidence)


@pytest.mark.parametrize(
    ("evicted", "reason"), [("Preempted", Reason.PREEMPTED), ("PodsReadyTimeout", Reason.QUEUE_BACKOFF)]
)
def test_an_ongoing_eviction_is_reported(evicted: str, reason: Reason) -> None:
    cause = the(reason, waiting(queued(QuotaReserved=yes(), Evicted=yes(evicted, "for another one"))))
    assert not cause.blocking
    assert cause.evidence[0] == "for another one"


def test_a_deactivated_workload_is_reported() -> None:
    assert the(Reason.SUSPENDED, waiting(queued(active=False))).blocking


def test_a_workload_that_may_not_be_read_is_not_missing() -> None:
    cause = the(Reason.WAITING_FOR_QUOTA, waiting(None, workloads_known=False))
    assert (cause.message, cause.blocking) == ('it waits in LocalQueue "main", for what is not known', False)
    assert cause.command == "gangctl queue describe main -n t"
    closed = the(Reason.QUEUE_BLOCKED, waiting(None, workloads_known=False, blocked=CLOSED))
    for evidence in (cause.evidence, closed.evidence):
        assert "Workloads of Kueue may not be read" in evidence[-1]


def test_a_missing_workload_is_reported_after_a_delay() -> None:
    readiness = evaluate(waiting(None, created=NOW - 10), NOW)
    assert [(each.reason, each.blocking) for each in readiness.causes] == [(Reason.WAITING_FOR_QUOTA, False)]
    assert readiness.look_again == NOW + 20


@pytest.mark.parametrize(("seconds", "blocking"), [(5, False), (60, True)])
def test_an_admitted_jobset_that_stays_suspended_is_reported(seconds: int, blocking: bool) -> None:
    admitted = queued(QuotaReserved=yes(), Admitted=yes(since=ago(seconds=seconds)))
    cause = the(Reason.SUSPENDED, waiting(admitted))
    assert (cause.since, cause.blocking) == (NOW - seconds, blocking)


def test_a_jobset_that_kueue_cannot_resume_is_not_like_one_that_its_user_suspended() -> None:
    """No alert and no event is about ``Suspended``, and this one holds quota."""
    cause = the(Reason.FAILED_TO_START, waiting(queued(QuotaReserved=yes(), Admitted=yes(since=ago(seconds=300)))))
    assert cause.blocking
    assert cause.reason not in RECORDED_ELSEWHERE


def test_a_started_jobset_has_no_queue_cause() -> None:
    started = waiting(queued(QuotaReserved=yes(), Admitted=yes()), suspend=False)
    assert not {Reason.WAITING_FOR_QUOTA, Reason.SUSPENDED} & set(reasons(started))


def test_the_remedy_for_a_suspension_without_a_queue_is_to_resume() -> None:
    context = Context(JS, suspend=True)
    cause = the(Reason.SUSPENDED, context.snapshot(groups={}))
    assert cause.blocking
    assert cause.command == """kubectl -n t patch jobset js --type=merge -p '{"spec":{"suspend":false}}'"""


def test_a_jobset_that_another_object_suspends_is_not_to_be_resumed_by_hand() -> None:
    """A TrainJob may wait in a queue of Kueue: it has the queue's label, its JobSet has none."""
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "js", "controller": True}
    raw = {**JS, "metadata": {**JS["metadata"], "ownerReferences": [owner]}}
    cause = the(Reason.SUSPENDED, Context(raw, suspend=True).snapshot(groups={}))
    assert "TrainJob js" in cause.message
    assert "TrainJob js" in cause.remedy
    assert cause.command == "kubectl -n t describe jobset js"
    queued_there = Context(raw, suspend=True, queue="main").snapshot(groups={}, kueue=True)
    assert the(Reason.SUSPENDED, queued_there).evidence == cause.evidence


def test_a_queue_without_kueue_is_named() -> None:
    context = Context(JS, suspend=True, queue="main")
    cause = the(Reason.SUSPENDED, context.snapshot(groups={}, kueue=False))
    assert any("main" in line for line in cause.evidence)
    assert (cause.blocking, cause.remedy) == (True, "set spec.suspend to false once it should run")


def test_where_nothing_is_known_of_kueue_the_advice_is_not_to_resume() -> None:
    """A dump by the documented command has no objects of Kueue."""
    context = Context(JS, suspend=True, queue="main")
    cause = the(Reason.SUSPENDED, context.snapshot(groups={}))
    assert (cause.blocking, "main" in cause.message) == (False, True)
    assert "patch" not in cause.command


def test_the_time_of_a_queue_cause_is_that_of_kueue() -> None:
    at = NOW - 77
    snapshot = waiting(queued(QuotaReserved=no("Pending", since=rfc3339(at))))
    assert the(Reason.WAITING_FOR_QUOTA, snapshot).since == at


def test_what_kueue_said_of_a_queue_that_is_open_again_is_not_about_it() -> None:
    stale = queued(QuotaReserved=no("Inadmissible", "ClusterQueue cq is inactive"))
    assert reasons(waiting(stale, opened=True)) == [Reason.WAITING_FOR_QUOTA]
    assert reasons(waiting(stale)) == [Reason.QUEUE_BLOCKED]


@each(("minutes", "words", "blocks"), [(0, "about to start", False), (2, "no place", False), (10, "no place", True)])
def test_a_gang_that_kueue_cannot_place_after_its_checks_is_named(minutes: int, words: str, blocks: bool) -> None:
    ready = CheckState("p", "Ready", since=ago(minutes=minutes))
    cause = the(Reason.WAITING_FOR_CHECK, waiting(queued(QuotaReserved=yes(), checks=(ready,))))
    assert words in cause.message
    assert cause.blocking is blocks
    assert ("SecondPassFailed" in cause.remedy) is (words == "no place")
    assert words != "no place" or cause.since == NOW - 60 * minutes, "not since it has held quota"


@each(("seconds", "late"), [(10, False), (900, True)])
def test_an_eviction_that_jobset_does_not_carry_out_blocks(seconds: int, late: bool) -> None:
    context = Context(JS, queue="main", suspend=True)
    workload = queued(QuotaReserved=yes(), Evicted=yes("PodsReadyTimeout", "no", since=rfc3339(NOW - seconds)))
    facts = QueueFacts("main", "cq", workload)
    snapshot = context.snapshot(context.pods(RUNNING), jobs=context.jobs(active=True), queue=facts)
    cause = the(Reason.QUEUE_BACKOFF, snapshot)
    assert cause.blocking is late
    assert ("JobSet has not suspended js-w-0" in cause.message) is late
