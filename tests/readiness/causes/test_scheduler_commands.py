"""The pod in the command of a cause, when the scheduler has refused several."""

from __future__ import annotations

from dataclasses import replace

from gangctl.gang.reasons import Reason
from gangctl.readiness.facts import PodFacts, Snapshot
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import the
from tests.readiness.snapshots import PENDING, PLACED_AT, Context

OF_NODES = "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector."
OF_THE_GROUP = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"


def snapshot(*messages: str, reason: str = "Unschedulable") -> Snapshot:
    """A gang of pods of which the scheduler said this, by completion index; nothing of those with an empty text."""
    context = Context(jobset("js", rj("w", 1, len(messages), len(messages)), mode="Gang"))
    return context.snapshot(
        [_told(pod, text, reason) for pod, text in zip(context.pods(PENDING), messages, strict=True)]
    )


def _told(pod: PodFacts, text: str, reason: str) -> PodFacts:
    return replace(pod, refused=reason, refusal=text, refused_at=PLACED_AT) if text else pod


def described(reported: Snapshot, reason: Reason = Reason.UNSCHEDULABLE) -> str:
    *_, verb, kind, name = the(reason, reported).command.split()
    assert (verb, kind) == ("describe", "pod")
    return name


def test_the_pod_to_describe_is_the_first_of_which_the_scheduler_names_nodes() -> None:
    reported = snapshot("", OF_THE_GROUP, OF_NODES, OF_NODES)
    names = sorted(pod.name for pod in reported.pods)
    assert described(reported) == names[2]


def test_without_a_pod_message_the_pod_to_describe_is_the_first() -> None:
    reported = snapshot(OF_THE_GROUP, OF_THE_GROUP)
    assert described(reported) == min(pod.name for pod in reported.pods)


def test_the_pod_to_describe_after_an_error_is_one_that_has_it() -> None:
    reported = snapshot("", "profile not found", reason="SchedulerError")
    assert described(reported, Reason.SCHEDULER_ERROR) == max(pod.name for pod in reported.pods)
