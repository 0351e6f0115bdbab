"""Traces that a search has found, each with the violation it led to: they are repeated, and must lead to none."""

from __future__ import annotations

from typing import Final, NamedTuple


class Trace(NamedTuple):
    """A world of the table, and actions (:func:`tests.search.explorer.replay`)."""

    finding: str
    world: str
    actions: tuple[str, ...]


_START: Final = ("user.create", "...")

TRACES: Final = (
    Trace(
        "C1: suspended and resumed after a pod has finished",
        "suspend-1.36",
        (*_START, "pod.succeeds", "user.suspend", "...", "user.resume"),
    ),
    Trace("C1", "suspend-1.37", (*_START, "pod.succeeds", "user.suspend", "...", "user.resume")),
    Trace("C1", "suspend-1.35", (*_START, "pod.succeeds", "user.suspend", "...", "user.resume")),
    Trace(
        "C1: the same, of a gang whose first ReplicatedJob has completed",
        "init-and-workers-1.36",
        (*_START, "pod.succeeds a-0", "...", "user.suspend", "...", "user.resume"),
    ),
    Trace("C1: evicted by Kueue", "in-a-queue-1.36", (*_START, "pod.succeeds", "user.suspend", "...", "user.resume")),
    Trace("C1: evicted by Kueue", "in-a-queue-1.35", (*_START, "pod.succeeds", "user.suspend", "...", "user.resume")),
    Trace("C4: the group of the last attempt uses up the quota", "quota-1.37", (*_START, "pod.fails", "...")),
    Trace("C4", "quota-for-spares", (*_START, "pod.fails", "...", "pod.fails", "...")),
    Trace(
        "C5: a work queue keeps its pods after a success",
        "work-queue-1.37",
        (*_START, "pod.succeeds", "pod.fails", "..."),
    ),
    Trace(
        "C6: a replacement in a JobSet that is held in deletion",
        "held-in-deletion-1.37",
        (*_START, "user.delete", "pod.succeeds", "pod.fails", "..."),
    ),
    Trace(
        "C7: orphans of the last JobSet of this name",
        "orphaned-1.37",
        (*_START, "user.delete-orphan", "...", "user.create", "..."),
    ),
    Trace("A: an index fails permanently", "failed-indexes-1.37", (*_START, "pod.index-fails", "pod.fails", "...")),
    Trace(
        "B: a group that is being deleted",
        "group-deleted-by-hand-1.37",
        (*_START, "user.delete-group", "pod.succeeds", "pod.fails", "..."),
    ),
    Trace(
        "unprepared: a patch shows that the gang has started, and no event does",
        "restart-1.37",
        (
            "user.create",
            "watch.jobset",
            "gangctl.reconcile",
            "gangctl.write create Workload",
            "gangctl.write create PodGroup",
            "scheduler.bind",
            "pod.succeeds",
            "watch.jobs",
            "gangctl.reconcile",
            "gangctl.write patch PodGroup",
        ),
    ),
    Trace(
        "taken name: a new leader meets a group of the last one with another minCount",
        "failover-1.37",
        (
            "user.create",
            "watch.jobset",
            "gangctl.reconcile",
            "gangctl.write create Workload",
            "watch.objects",
            "gangctl.write create PodGroup",
            "scheduler.bind",
            "pod.succeeds",
            "pod.fails",
            "watch.jobs",
            "fault.failover",
            "gangctl.reconcile",
            "gangctl.write",
        ),
    ),
)
