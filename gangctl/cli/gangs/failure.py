"""What a JobSet that has failed failed of, as far as its objects have it, and what the user can do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Final

from gangctl.api.objects import Key, object_at
from gangctl.cli.gangs.state import EndedPod, GangState
from gangctl.cli.gangs.views import explanation
from gangctl.cli.messages import plural
from gangctl.cli.output import Section
from gangctl.gang.desired import JobProgress
from gangctl.readiness.result import Readiness

_FIRST: Final = re.compile(r"first failed job: ([a-z0-9.-]+)")
"""In the message of JobSet's condition Failed (messageWithFirstFailedJob in pkg/controllers/failure_policy.go)."""


def has_failed(state: GangState, key: Key) -> bool:
    """Whether a JobSet has failed."""
    stored = state.jobsets.get(*key)
    return stored is not None and stored.jobset.outcome == "Failed"


def explained(gang: Readiness, state: GangState, now: float) -> list[Section]:
    """Why a gang is not running, and what to do about one that has failed here."""
    here = has_failed(state, gang.key) and (not gang.cluster or state.worker is not None)
    further = [failure_section(state, gang.key)] if here else []
    return explanation(gang, state.outcome(gang.key), now, *further)


def failure_section(state: GangState, key: Key) -> Section:
    """The Job and the pod that failed, how to read its logs, and how to run the JobSet again."""
    return Section("What to do", tuple(_lines(state, key)))


def _lines(state: GangState, key: Key) -> Iterator[str]:
    namespace, name = key
    stored = state.jobsets.get(*key)
    assert stored is not None  # noqa: S101 -- who asks has found it
    context = f"--context {quote(state.worker.context)} " if state.worker is not None else ""
    named = _FIRST.search(stored.jobset.outcome_message)
    job = named[1] if named else ""
    if job:
        yield f"Job {job} failed first."
    pods = _failed(state.ended_of(key), state.jobs.by_index("jobset", key), job)
    if pods:
        first = pods[0].pod
        ending = first.waiting_message or first.waiting or "for a reason that its status does not have"
        others = f"; {plural(len(pods) - 1, 'other pod')} failed, too" if pods[1:] else ""
        where = f" on {first.node}" if first.node else ""
        yield f"Pod {first.name}{where} failed{' first' if others else ''}: {ending}{others}."
        yield f"$ kubectl {context}logs {first.name} -n {namespace} --all-containers"
    else:
        yield "No pod that failed is left: look for its logs where your cluster keeps them."
        selector = f"jobset.sigs.k8s.io/jobset-name={name}"
        yield f"$ kubectl {context}get jobs,pods -n {namespace} -l {selector}"
    yield _restarts(
        object_at(object_at(stored.raw, "spec"), "failurePolicy").get("maxRestarts"), stored.jobset.restarts
    )
    yield "A JobSet that has failed does not start again: repair the cause, delete it, and apply its file again."
    yield f"$ kubectl {context}delete jobset {name} -n {namespace}"


def _restarts(most: object, used: int) -> str:
    if not isinstance(most, int) or most <= 0:
        return "Its failurePolicy allows no restart: with maxRestarts, JobSet restarts it where a Job fails."
    if used >= most:
        return f"It has used all {plural(most, 'restart')} of failurePolicy.maxRestarts: a larger number allows more."
    return f"It has used {used} of {plural(most, 'restart')} of failurePolicy.maxRestarts."


def _failed(ended: Sequence[EndedPod], jobs: Sequence[JobProgress], job: str) -> list[EndedPod]:
    """The pods that failed, the first in the last attempt first; those of one Job if that is known and has some."""
    failed = [one for one in ended if one.pod.phase == "Failed"]
    place = next((progress.key for progress in jobs if progress.name == job), None)
    of_job = [one for one in failed if (one.pod.replicated_job, one.pod.job_index) == place]
    return sorted(of_job or failed, key=lambda one: (-one.pod.attempt, one.at or one.pod.ready_at, one.pod.name))
