"""Why one gang is not running: its causes, pods that a ready gang waits for, and what a failed one failed of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gangctl.api.jobset import restarts_used
from gangctl.api.objects import Key, object_at
from gangctl.cli.gangs.state import GangState
from gangctl.cli.gangs.views import ago, explanation
from gangctl.cli.messages import plural
from gangctl.cli.output import Section
from gangctl.gang.desired import JobProgress
from gangctl.kueue.queues import current
from gangctl.readiness.causes.deletion import removers, waits_for
from gangctl.readiness.facts import EndedPod, unix
from gangctl.readiness.result import GangPhase, Readiness

_FIRST: Final = re.compile(r"first failed job: ([a-z0-9.-]+)")
"""In the message of JobSet's condition Failed (messageWithFirstFailedJob in pkg/controllers/failure_policy.go)."""
_ALL_USED: Final = "ReachedMaxRestarts"
"""Reason of that condition."""
_MOST: Final = 3
"""Messages of the scheduler that are shown."""
_PLURAL: Final = {
    "is not there": "are not there",
    "has no node": "have no node",
    "has a node and is not ready": "have nodes and are not ready",
}


def has_failed(state: GangState, key: Key) -> bool:
    """Whether a JobSet has failed."""
    stored = state.jobsets.get(*key)
    return stored is not None and stored.jobset.outcome == "Failed"


def explained(gang: Readiness, state: GangState, now: float) -> list[Section]:
    """Why a gang is not running, and what to do about one that has failed here."""
    further = []
    # The objects of one on a worker cluster are there.
    if not gang.cluster or state.worker is not None:
        if has_failed(state, gang.key):
            further.append(failure_section(state, gang.key))
        elif gang.phase is GangPhase.READY and gang.counts.ready < gang.counts.wanted:
            further.append(waiting_section(state, gang))
    if gang.deleting and gang.phase.over:
        further.append(deletion_section(state, gang, now))
    return explanation(gang, state.outcome(gang.key), now, *further)


def deletion_section(state: GangState, gang: Readiness, now: float) -> Section:
    """What a JobSet that has finished waits for while it is being deleted: of others that is a cause."""
    stored = state.jobsets.get(*gang.key)
    assert stored is not None  # noqa: S101 -- who asks has found it
    jobs = [job.name for job in state.jobs.by_index("jobset", gang.key) if job.jobset_uid == gang.uid]
    workload = current(state.queues.workloads_of(gang.uid))
    lines = removers(stored.jobset, jobs, workload.name if workload is not None else "")
    since = ago(unix(stored.jobset.deleted_at), now)
    first = f"Its deletion was asked for {since} ago{waits_for(stored.jobset)}."
    return Section("Why it is still there", (first, *(f"- {line}" for line in lines)))


def waiting_section(state: GangState, gang: Readiness) -> Section:
    """The pods that are not ready in a gang that needs no more (its minCount)."""
    counts = gang.counts
    states = {
        "is not there": counts.wanted - counts.created,
        "has no node": counts.created - counts.placed,
        "has a node and is not ready": counts.placed - counts.ready,
    }
    parts = [f"{count} {what if count == 1 else _PLURAL[what]}" for what, count in states.items() if count > 0]
    lines = [
        f"It needs {counts.minimum} of its {plural(counts.wanted, 'pod')} (minCount), and {counts.ready} are ready.",
        f"Of the others {', '.join(parts)}.",
    ]
    refusals = Counter(pod.refusal for pod in state.pods.by_index("jobset", gang.key) if not pod.node and pod.refusal)
    lines += [f"- kube-scheduler of {plural(count, 'pod')}: {text}" for text, count in refusals.most_common(_MOST)]
    if states["has no node"]:
        lines.append("The scheduler places them once nodes have room. The gang does not wait for them.")
    lines.append(f"$ {state.flags.on(f'gangctl describe {gang.name} -n {gang.namespace}')}")
    return Section("Pods that wait", tuple(lines))


def failure_section(state: GangState, key: Key) -> Section:
    """The Job and the pod that failed, how to read its logs, and how to run the JobSet again."""
    return Section("What to do", tuple(_lines(state, key)))


def _lines(state: GangState, key: Key) -> Iterator[str]:
    namespace, name = key
    stored = state.jobsets.get(*key)
    assert stored is not None  # noqa: S101 -- who asks has found it
    named = _FIRST.search(stored.jobset.outcome_message)
    job = named[1] if named else ""
    if job:
        yield f"Job {job} failed first."
    pods = _failed(state.ended_of(key), state.jobs.by_index("jobset", key), job)
    if pods:
        first = pods[0].pod
        ending = pods[0].why or "for a reason that its status does not have"
        others = f"; {plural(len(pods) - 1, 'other pod')} failed, too" if pods[1:] else ""
        where = f" on {first.node}" if first.node else ""
        yield f"Pod {first.name}{where} failed{' first' if others else ''}: {ending}{others}."
        logs = f"kubectl logs {first.name} -n {namespace} --all-containers --ignore-errors"
        described = f"kubectl describe pod {first.name} -n {namespace}"
        yield f"$ {state.flags.on(described if pods[0].rejected else logs)}"
    else:
        yield "No pod that failed is left: look for its logs where your cluster keeps them."
        selector = f"jobset.sigs.k8s.io/jobset-name={name}"
        yield f"$ {state.flags.on(f'kubectl get jobs,pods -n {namespace} -l {selector}')}"
    most = object_at(object_at(stored.raw, "spec"), "failurePolicy").get("maxRestarts")
    # The status does not count restarts in place.
    all_used = stored.jobset.outcome_reason == _ALL_USED
    yield _restarts(most, restarts_used(object_at(stored.raw, "status")), all_used=all_used)
    yield "A JobSet that has failed does not start again: repair the cause, delete it, and apply its file again."
    yield f"$ {state.flags.on(f'kubectl delete jobset {name} -n {namespace}')}"


def _restarts(most: object, used: int, *, all_used: bool) -> str:
    if not isinstance(most, int) or most <= 0:
        return "Its failurePolicy allows no restart: with maxRestarts, JobSet restarts it where a Job fails."
    if all_used or used >= most:
        return f"It has used all {plural(most, 'restart')} of failurePolicy.maxRestarts: a larger number allows more."
    return f"It has used {used} of {plural(most, 'restart')} of failurePolicy.maxRestarts."


def _failed(ended: Sequence[EndedPod], jobs: Sequence[JobProgress], job: str) -> list[EndedPod]:
    """The pods that failed, the first in the last attempt first; those of one Job if that is known and has some."""
    failed = [one for one in ended if one.pod.phase == "Failed"]
    place = next((progress.key for progress in jobs if progress.name == job), None)
    of_job = [one for one in failed if (one.pod.replicated_job, one.pod.job_index) == place]
    return sorted(of_job or failed, key=lambda one: (-one.pod.attempt, _ended(one), one.pod.name))


def _ended(one: EndedPod) -> int:
    """When a pod failed, about; no container of one has ended that its kubelet did not admit."""
    return one.at or one.pod.ready_at or one.pod.started_at
