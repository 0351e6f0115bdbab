"""The cause of a JobSet that is being deleted and still there: its finalizers, and what removes each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.errors import plural
from gangctl.gang.desired import listed
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import LONG, THEY_END, Command, Context
from gangctl.readiness.facts import unix
from gangctl.readiness.result import Cause

FOREGROUND: Final = "foregroundDeletion"
"""Of a deletion with propagation policy Foreground, as Argo CD's: metav1.FinalizerDeleteDependents."""
ORPHAN: Final = "orphan"
"""Of one with propagation policy Orphan (``kubectl delete --cascade=orphan``): metav1.FinalizerOrphanDependents."""


def waits_for(jobset: JobSet) -> str:
    """The finalizers that are left, as the end of a sentence; empty without any."""
    names = jobset.finalizers
    return f", and waits for {plural(len(names), 'finalizer')}: {listed(names)}" if names else ""


def removers(jobset: JobSet, jobs: Sequence[str], workload: str) -> Iterator[str]:
    """What removes each finalizer. A deletion in the foreground waits for its Jobs, and for its Workload of Kueue."""
    owned = [*(f"Job {name}" for name in jobs), *([f"Workload {workload} of Kueue"] if workload else [])]
    for name in jobset.finalizers:
        if name == FOREGROUND:
            left = listed(owned) if owned else "none of its Jobs is left, so look for other objects that it owns"
            yield f"{name}: the garbage collector removes it once what it owns is gone: {left}"
        elif name == ORPHAN:
            yield f"{name}: the garbage collector removes it once nothing names the JobSet as its owner"
        else:
            yield f"{name}: the controller that set it removes it"


def jobset_deleted(context: Context) -> Iterator[Cause]:
    """The JobSet is being deleted, and waits for its pods, or for finalizers."""
    jobset = context.snapshot.jobset
    if not jobset.deleting:
        return
    since = unix(jobset.deleted_at)
    pods = [(group, pod) for group in context.groups for pod in group.leaving]
    jobs, workload = context.snapshot.jobs, context.snapshot.queued_workload
    foreign = [name for name in jobset.finalizers if name not in {FOREGROUND, ORPHAN}]
    # Those of an earlier JobSet of this name are older.
    ended = [one.pod for one in context.snapshot.ended if one.pod.created >= unix(jobset.created)]
    kept = listed(pod.name for pod in ended if pod.deleting)
    remedy, command = THEY_END, context.suggest(Command.PODS)
    if jobset.finalizers and not pods and context.snapshot.pods_known:
        remedy = "see the finalizers of what is left, and whether the controllers that set these run"
        command = context.suggest(Command.JOBS if jobs and not foreign else Command.DESCRIBE_JOBSET)
    if foreign and not pods:
        remedy = (
            f"see whether the controller that set {listed(foreign)} runs; if it is gone for good, remove the finalizer "
            "from the JobSet: what it stands for is not cleaned up then"
        )
    going = listed(pod.name for _, pod in pods)
    yield context.cause(
        Reason.PODS_TERMINATING,
        f"the JobSet is being deleted{waits_for(jobset)}",
        evidence=[
            f"terminating: {going}"
            if going
            else f"ended, and held by a finalizer: {kept}"
            if kept
            else "none of its pods is seen to be on its way out"
            if context.snapshot.pods_known
            else "its pods may not be read",
            *([f"the deletion was asked for {context.ago(since)}"] if since else []),
            *removers(jobset, [job.name for job in jobs], workload.name if workload is not None else ""),
        ],
        remedy=remedy,
        command=command,
        groups=[group for group, _ in pods],
        pods=len(pods),
        since=since,
        blocking=bool(since) and context.late(since, LONG),
    )
