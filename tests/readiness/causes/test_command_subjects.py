"""The object that a suggested command names, where a cause is about several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gangctl.gang.reasons import Reason
from gangctl.kueue.objects import CheckState
from gangctl.kueue.queues import QueueFacts
from gangctl.readiness.facts import Snapshot
from tests.jobsets import jobset, rj
from tests.kueue.workloads import queued, yes
from tests.readiness.causes.finding import refused_job, the
from tests.readiness.snapshots import BORN, PENDING, PLACED_AT, RUNNING, Context, nodes
from tests.rows import each
from tests.suggestions import subject_of

TWO = jobset("js", rj("w", 2, 2, 2, mode="ReplicatedGang"))
FIRST = "js-w-0-0-0"


def silent() -> Snapshot:
    context = Context(TWO)
    return context.snapshot(reversed(context.pods(PENDING, scheduler="absent")))


def gated() -> Snapshot:
    context = Context(TWO)
    return context.snapshot(reversed(context.pods(PENDING, gates=("mine",))))


def preempted() -> Snapshot:
    context = Context(TWO)
    return context.snapshot(reversed(context.pods(RUNNING, disrupted="PreemptionByScheduler")))


def crashing() -> Snapshot:
    context = Context(TWO)
    return context.snapshot(reversed(context.pods(RUNNING, waiting="CrashLoopBackOff", restarts=2)))


def starting() -> Snapshot:
    context = Context(TWO)
    return context.snapshot(reversed(context.pods({"node": "n0", "placed_at": PLACED_AT})))


def nodes_lost() -> Snapshot:
    context = Context(TWO)
    pods = [replace(pod, node=f"n{number}") for number, pod in enumerate(context.pods(RUNNING))]
    return context.snapshot(pods, nodes={**nodes("n0"), **nodes("n2", "n1", ready=False), **nodes("n3")})


def pods_refused() -> Snapshot:
    context = Context(TWO)
    message = "Error creating: the moon is full"
    return context.snapshot(refused=[refused_job(f"js-w-{index}", message) for index in (1, 0)])


def pods_missing() -> Snapshot:
    return Context(TWO, created=BORN).snapshot()


def names_taken() -> Snapshot:
    context = Context(TWO)
    groups = context.groups(owner_uid="another", owner_jobset="")
    return context.snapshot(context.pods(PENDING), groups=dict(reversed(groups.items())))


def groups_going() -> Snapshot:
    context = Context(TWO)
    groups = context.groups(deleting=True)
    return context.snapshot(context.pods(PENDING), groups=dict(reversed(groups.items())))


def without_conditions() -> Snapshot:
    context = Context(TWO)
    return context.snapshot(context.pods(RUNNING))


def checked() -> Snapshot:
    context = Context(TWO, queue="main", suspend=True)
    checks = (CheckState("done", "Ready"), CheckState("capacity", "Pending"), CheckState("later", "Pending"))
    facts = QueueFacts("main", "cq", queued(QuotaReserved=yes(), checks=checks))
    return context.snapshot(groups={}, jobs=context.jobs(active=False), queue=facts)


GROUP = min(Context(TWO).groups())


@each(
    ("reason", "made", "subject"),
    [
        (Reason.SCHEDULER_SILENT, silent, FIRST),
        (Reason.PODS_GATED, gated, FIRST),
        (Reason.PREEMPTED, preempted, FIRST),
        (Reason.CRASH_LOOP, crashing, FIRST),
        (Reason.STARTING, starting, FIRST),
        (Reason.NODE_LOST, nodes_lost, "n1"),
        (Reason.POD_CREATION_REFUSED, pods_refused, "js-w-0"),
        (Reason.PODS_MISSING, pods_missing, "js-w-0"),
        (Reason.NAME_CONFLICT, names_taken, GROUP),
        (Reason.POD_GROUP_TERMINATING, groups_going, GROUP),
        (Reason.SCHEDULING_GATE_OFF, without_conditions, GROUP),
        (Reason.WAITING_FOR_CHECK, checked, "capacity"),
    ],
)
def test_the_object_of_a_command_is_the_first_that_the_cause_is_about(
    reason: Reason, made: Callable[[], Snapshot], subject: str
) -> None:
    assert subject_of(the(reason, made()).command) == subject
