"""Pods that were taken away, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Context, Finding, listed, some
from gangctl.readiness.facts import PodFacts
from gangctl.readiness.membership import Group

_WORDS: Final = {
    "PreemptionByScheduler": "the scheduler needs their place for pods of higher priority",
    "PreemptionByKubeScheduler": "the scheduler needs their place for pods of higher priority",
    "DeletionByTaintManager": "a taint on their node that they do not tolerate",
    "DeletionByDeviceTaintManager": "a taint on a device of theirs",
    "EvictionByEvictionAPI": "they were evicted, as by a drain of a node",
    "DeletionByPodGC": "their node is gone",
    "TerminationByKubelet": "their node ran short of something, or was shut down",
}
_HELP: Final = {
    "PreemptionByScheduler": "a higher priorityClassName, or the gang option disruption: all, keeps a gang together",
    "DeletionByTaintManager": "see which taint the node got, and tolerate it if the pods can stay",
    "EvictionByEvictionAPI": "a PodDisruptionBudget makes drains wait",
    "TerminationByKubelet": "see the events of the node; requests and limits that match what pods use prevent it",
}


def preempted(context: Context) -> Iterator[Finding]:
    """Pods with the condition DisruptionTarget: they are on their way out, or ended because of it."""
    by_reason: dict[str, list[tuple[Group, PodFacts]]] = {}
    for group in context.groups:
        for pod in (*group.pods, *group.leaving, *group.over):
            if pod.disrupted:
                by_reason.setdefault(pod.disrupted, []).append((group, pod))
    for reason, found in by_reason.items():
        yield context.cause(
            Reason.PREEMPTED,
            f"{some(len(found), 'pod')} {'was' if len(found) == 1 else 'were'} taken away: "
            f"{_WORDS.get(reason, reason)}",
            evidence=[
                f"condition DisruptionTarget, reason {reason}: {listed(pod.name for _, pod in found)}",
                *([f"on {listed(nodes)}"] if (nodes := {pod.node for _, pod in found if pod.node}) else []),
            ],
            remedy=_HELP.get(reason, "their Job replaces them, or the JobSet restarts")
            + "; replacements need room again",
            command=context.kubectl(f"describe pod {min(pod.name for _, pod in found)}"),
            groups=[group for group, _ in found],
            pods=len(found),
        )
