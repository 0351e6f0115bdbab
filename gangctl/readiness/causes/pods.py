"""Pods that are held back, or that are on their way out while others wait for their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gangctl.gang.progress import JobProgress
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import LONG, SOON, Context, Finding, Until, gated, listed, oldest, some
from gangctl.readiness.facts import PodFacts
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.reading import unix

_KUEUE_GATES: Final = {
    "kueue.x-k8s.io/topology": "Kueue takes it off once it has chosen a node for the pod (topology-aware scheduling)",
    "kueue.x-k8s.io/admission": "Kueue takes it off once it admits the pod",
    "kueue.x-k8s.io/elastic-job": "Kueue takes it off once it admits what the job has grown by",
}
"""Scheduling gates whose owner is known, and when it takes them off."""


def pods_gated(context: Context) -> Iterator[Finding]:
    """Pods with scheduling gates: the scheduler does not look at them, and their gang waits for them."""
    if not context.runs:
        return
    found = [(group, pod) for group in context.groups for pod in group.pods if gated(pod)]
    if not found:
        return
    gates = sorted({gate for _, pod in found for gate in pod.gates})
    since = max(pod.created for _, pod in found)
    known = [gate for gate in gates if gate in _KUEUE_GATES]
    late = len(known) < len(gates) or context.now - since >= SOON
    if not late:
        yield Until(since + SOON)
    owners = [f"{gate}: {_KUEUE_GATES[gate]}" for gate in known]
    names = listed(gates)
    yield context.cause(
        Reason.PODS_GATED,
        f"{some(len(found), 'pod')} {'has' if len(found) == 1 else 'have'} scheduling gates"
        + (f": {names}" if names else ""),
        evidence=[f"gated: {listed(pod.name for _, pod in found)}", f"the newest {context.old(since)}", *owners],
        remedy="see what Kueue logs about these pods, and whether the Topology of their flavor has room"
        if known and len(known) == len(gates)
        else "the controller that set the gates removes them; if that is gone, remove them from spec.schedulingGates",
        command=context.kubectl(f"get pod {min(pod.name for _, pod in found)} -o jsonpath='{{.spec.schedulingGates}}'"),
        groups=[group for group, _ in found],
        pods=len(found),
        since=oldest(pod.created for _, pod in found),
        blocking=late,
    )


def restarting(context: Context) -> Iterator[Finding]:
    """The JobSet starts anew."""
    jobset = context.snapshot.jobset
    earlier = [pod for group in context.groups for pod in group.earlier]
    leaving = [job for group in context.groups for job in group.leaving_jobs]
    if not context.runs or not jobset.restarts:
        return
    if not (earlier or leaving or context.readiness.phase is GangPhase.RESTARTING):
        return
    since = unix(jobset.restarting_at)
    # Without the condition of newer JobSets it is not known since when, and pods end in time.
    late = bool(since) and context.now - since >= LONG and bool(earlier or leaving)
    if since and not late:
        yield Until(since + LONG)
    evidence = [f"restart {jobset.restarts} of the JobSet"]
    if earlier:
        evidence.append(f"{some(len(earlier), 'pod')} of the attempt before still there: {_names(earlier)}")
    if leaving:
        evidence.append(f"{some(len(leaving), 'Job')} of the attempt before still there: {_names(leaving)}")
    yield context.cause(
        Reason.RESTARTING,
        "the JobSet starts anew" + (", and pods of the attempt before are still there" if earlier else ""),
        evidence=evidence,
        remedy="see why the pods of the attempt before do not end: a lost node, a finalizer, a long grace period"
        if late
        else "wait; the events of the JobSet say why it restarts",
        command=context.events(jobset.name),
        pods=len(earlier),
        since=since,
        blocking=late,
    )


def _names(things: Iterable[PodFacts | JobProgress]) -> str:
    return listed(thing.name for thing in things)


def pods_terminating(context: Context) -> Iterator[Finding]:
    """Pods on their way out: who comes after them has to wait, and a JobSet that is deleted goes with them."""
    jobset = context.snapshot.jobset
    found = [(group, pod) for group in context.groups for pod in group.leaving]
    if not jobset.deleting and (not found or not context.runs):
        return
    names = listed(pod.name for _, pod in found)
    yield context.cause(
        Reason.PODS_TERMINATING,
        "the JobSet is being deleted"
        if jobset.deleting
        else f"{some(len(found), 'pod')} {'is' if len(found) == 1 else 'are'} on the way out",
        evidence=[f"terminating: {names}"] if names else ["none of its pods is seen to be on its way out"],
        remedy="wait: they end within their grace period; one that stays is on a node that is lost, or has a finalizer",
        command=context.kubectl(f"get pods -l jobset.sigs.k8s.io/jobset-name={jobset.name} -o wide"),
        groups=[group for group, _ in found],
        pods=len(found),
        blocking=False,
    )
