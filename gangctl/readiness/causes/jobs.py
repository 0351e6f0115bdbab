"""Causes for missing Jobs and pods: denials, startup stages that have not begun, controllers that do nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gangctl.api.jobset import exclusive_topology
from gangctl.api.meta import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY
from gangctl.errors import plural
from gangctl.gang.desired import JobProgress, listed
from gangctl.gang.plan import PlannedJob, replicated_job_pods
from gangctl.gang.reasons import Reason
from gangctl.kueue.states import eviction_of
from gangctl.readiness.causes.context import SOON, Command, Context, Suggestion, oldest
from gangctl.readiness.causes.messages import Denial, read_denial
from gangctl.readiness.facts import CLAIM_CREATION_FAILED, SERVICE_CREATION_FAILED, Refused, unix
from gangctl.readiness.membership import Group, JobKey, pod_denials, stages_to_come
from gangctl.readiness.result import Cause

_REFUSED_JOB: Final = re.compile(r'job "(?P<name>[^"]{1,253})" creation failed')
"""JobSet's event JobCreationFailed."""
_BEFORE_JOBS: Final = {
    SERVICE_CREATION_FAILED: "its Service",
    CLAIM_CREATION_FAILED: "a PersistentVolumeClaim of volumeClaimPolicies",
}
"""What JobSet makes before its Jobs, by the reason of the event that it cannot."""


def _there(group: Group) -> Counter[JobKey]:
    """Pods by Job, including terminating ones: a replacement may wait until they are gone."""
    return Counter((pod.replicated_job, pod.job_index) for pod in (*group.pods, *group.leaving, *group.earlier))


def _denied_jobs(context: Context) -> list[Refused]:
    """Denials of Jobs, without those from before a restart: API servers keep events for an hour."""
    begun = unix(context.snapshot.jobset.restarting_at)
    return [refused for refused in context.snapshot.refused if refused.kind == "JobSet" and refused.at >= begun]


def _stages(context: Context) -> Mapping[str, Sequence[str]]:
    """Startup stages that have not begun; one has also begun if one of its Jobs was denied."""
    waits = stages_to_come(context.snapshot.jobset, context.snapshot.jobs)
    if not waits:
        return waits
    denied = _denied_jobs(context)
    refused = {_job_name(one) for one in denied}
    begun = {job.replicated_job for group in context.groups for job in group.planned if job.name in refused}
    begun |= _stopped_by_claims(context, waits, denied)
    sized = {rj.name for rj in context.snapshot.jobset.replicated_jobs if rj.replicas}
    return {name: first for name, first in waits.items() if name in sized - begun}


def _stopped_by_claims(context: Context, waits: Mapping[str, Sequence[str]], denied: Sequence[Refused]) -> set[str]:
    """Stages whose turn it is: JobSet makes its claims each time before it goes on, and was denied since."""
    jobset = context.snapshot.jobset
    at = max((one.at for one in denied if one.reason == CLAIM_CREATION_FAILED), default=0)
    if not at:
        return set()
    # Where one has to end first, that it is ready begins nothing.
    after_end = {rj.name for rj in jobset.replicated_jobs if rj.after_end}
    ready = Counter(
        pod.replicated_job
        for pod in context.snapshot.pods
        if pod.ready and pod.attempt >= jobset.restarts and pod.ready_at <= at
    )
    sizes = {rj.name: replicated_job_pods(rj) for rj in jobset.replicated_jobs}
    return {
        name
        for name, first in waits.items()
        if name not in after_end and all(ready[other] >= sizes[other] for other in first)
    }


def _job_name(refused: Refused) -> str:
    match = _REFUSED_JOB.search(refused.message)
    return match["name"] if match is not None else ""


def waiting_for_stage(context: Context) -> Iterator[Cause]:
    """ReplicatedJobs that start only after others: this is normal."""
    waits = _stages(context)
    if not waits:
        return
    held = [group for group in context.groups if any(name in waits for name in group.replicated_jobs)]
    needed = {name for names in waits.values() for name in names}
    jobset = context.snapshot.jobset
    why = "startupPolicy is InOrder" if jobset.in_order else "dependsOn"
    ready = Counter(pod.replicated_job for pod in context.snapshot.pods if pod.ready and pod.attempt >= jobset.restarts)
    evidence = [f"{name} waits for {listed(names)} ({why})" for name, names in sorted(waits.items())]
    for rj in sorted(jobset.replicated_jobs, key=lambda rj: rj.name):
        if rj.name in needed and context.snapshot.pods_known:
            evidence.append(f"{rj.name}: {ready[rj.name]} of {plural(replicated_job_pods(rj), 'pod')} ready")
    yield context.cause(
        Reason.WAITING_FOR_STAGE,
        f"{listed(waits)} {'starts' if len(waits) == 1 else 'start'} after {listed(needed)}",
        evidence=evidence,
        remedy="wait; the stage before decides when it goes on, and what holds that back is among the other causes",
        command=context.suggest(Command.PODS),
        groups=held,
        pods=sum(job.pods for group in held for job in group.planned if job.replicated_job in waits),
        since=context.free_since,
        blocking=False,
    )


def job_creation_refused(context: Context) -> Iterator[Cause]:
    """JobSet's creation of a Job, or of what it makes before, was denied; JobSet retries."""
    denied = _denied_jobs(context)
    if not denied:
        return
    waits = _stages(context)
    # JobSet makes no Job while one of its name is there.
    leaving = {job.name for group in context.groups for job in group.leaving_jobs}
    missing = [
        planned.name
        for group in context.groups
        for planned, job, pods in context.expected[group.name]
        if job is None and pods and planned.replicated_job not in waits and planned.name not in leaving
    ]
    # Its Service is there, then. Claims it creates each time, which a full quota denies even if they are there: then it
    # does not resume its Jobs either.
    begun = any(job.attempt >= context.snapshot.jobset.restarts for job in context.snapshot.jobs)
    idle = [
        planned.name
        for group in context.groups
        for planned, job, pods in context.expected[group.name]
        if job is not None and job.suspended and pods and planned.replicated_job not in waits
    ]
    for refused in denied:
        name, of_claims = _job_name(refused), refused.reason == CLAIM_CREATION_FAILED
        late = of_claims and idle and context.late(context.free_since, SOON)
        stopped, how = ([*missing, *idle], "missing or not resumed") if late else (missing, "missing")
        if not stopped or (name and name not in stopped) or (begun and refused.reason == SERVICE_CREATION_FAILED):
            continue
        denial = read_denial(refused.message, pods=False)
        what = _BEFORE_JOBS.get(refused.reason) or (f"Job {name}" if name else "its Jobs")
        held = [group for group in context.groups if any(job.name in stopped for job in group.planned)]
        yield context.cause(
            Reason.JOB_CREATION_REFUSED,
            f"JobSet cannot create {what}: {denial.what}",
            evidence=[refused.message, f"{plural(len(stopped), 'Job')} of it {how}: {listed(stopped)}"],
            remedy=f"{denial.remedy}; JobSet tries again by itself" if denial.ends else denial.remedy,
            command=_about(context, denial) or context.suggest(Command.DESCRIBE_JOBSET),
            groups=held,
            pods=sum(job.pods for group in held for job in group.planned if job.name in stopped),
            since=refused.at,
        )


def jobs_not_suspended(context: Context) -> Iterator[Cause]:
    """JobSet makes its claims, and Jobs that are missing, before it suspends others, and ends where one is denied."""
    jobset, workload = context.snapshot.jobset, context.snapshot.queued_workload
    held = [group for group in context.groups if any(job.active and not job.suspended for job in group.jobs)]
    if not jobset.suspend or jobset.deleting or jobset.finished or not held:
        return
    eviction = eviction_of(workload) if workload is not None else None
    stopped = unix(eviction.since) if eviction is not None else 0
    expected = (row for group in context.groups for row in context.expected[group.name])
    missing = {planned.name for planned, job, pods in expected if job is None and pods}
    for refused in _denied_jobs(context):
        # Claims that are there are denied, too, by a full quota.
        of_claims = refused.reason == CLAIM_CREATION_FAILED
        if refused.at < stopped or not (of_claims or _job_name(refused) in missing):
            continue
        denial = read_denial(refused.message, pods=False)
        yield context.cause(
            Reason.JOB_CREATION_REFUSED,
            f"JobSet does not suspend its Jobs before it has made its {'claims again' if of_claims else 'other Jobs'}: "
            f"{denial.what}",
            evidence=[refused.message, f"its pods run on: {listed(group.name for group in held)}"],
            remedy=f"{denial.remedy}; JobSet tries again by itself" if denial.ends else denial.remedy,
            command=_about(context, denial) or context.suggest(Command.DESCRIBE_JOBSET),
            groups=held,
            pods=sum(len(group.pods) for group in held),
            since=refused.at,
        )


def _about(context: Context, denial: Denial) -> Suggestion | None:
    return None if denial.command is None else context.suggest(denial.command, name=denial.name)


def pod_creation_refused(context: Context) -> Iterator[Cause]:
    """The Job controller's creation of a pod was denied; it retries with backoff."""
    by_denial: dict[Denial, list[tuple[Group, PlannedJob, int, Refused]]] = {}
    for group, planned, short, refused in _short_jobs(context):
        denial = read_denial(refused.message, pods=True)
        # A denial of followers is a proof of `exclusive_deadlock`.
        if not denial.follower:
            by_denial.setdefault(denial, []).append((group, planned, short, refused))
    for denial, jobs in by_denial.items():
        names = [planned.name for _, planned, _, _ in jobs]
        pods = sum(short for _, _, short, _ in jobs)
        yield context.cause(
            Reason.POD_CREATION_REFUSED,
            f"{plural(pods, 'pod')} cannot be created: {denial.what}",
            evidence=[*sorted({refused.message for *_, refused in jobs})[:2], f"pods of {listed(names)}"],
            remedy=f"{denial.remedy}; the Job controller tries again by itself" if denial.ends else denial.remedy,
            command=_about(context, denial) or context.suggest(Command.DESCRIBE_JOB, job=min(names)),
            groups=[group for group, *_ in jobs],
            pods=pods,
            since=oldest(refused.at for *_, refused in jobs),
        )


def _short_jobs(context: Context) -> Iterator[tuple[Group, PlannedJob, int, Refused]]:
    """Jobs that have fewer pods than they should, and a denial."""
    refused = pod_denials(context.snapshot, context.groups)
    if not refused:
        return
    for group in context.groups:
        there = _there(group)
        for planned, job, wanted in context.expected[group.name]:
            short = wanted - there[planned.replicated_job, planned.index]
            # The Job controller makes none of a suspended Job: its denial is from before.
            if job is not None and not job.suspended and short > 0 and planned.name in refused:
                yield group, planned, short, refused[planned.name]


def exclusive_deadlock(context: Context) -> Iterator[Cause]:
    """Exclusive placement by JobSet's webhook: followers wait for their leader, the leader waits for the whole gang."""
    keys = _exclusive(context)
    if not keys:
        return
    # Also one from before the leader was made anew: it proves how the Job is placed.
    proofs = {
        refused.name: refused
        for refused in context.snapshot.refused
        if refused.kind == "Job" and read_denial(refused.message, pods=True).follower
    }
    held: list[tuple[Group, int]] = []
    since = 0
    for group in context.groups:
        there = _there(group)
        short = [
            (planned.name, wanted - there[planned.replicated_job, planned.index])
            for planned, job, wanted in context.expected[group.name]
            if job is not None and planned.pods > 1 and planned.replicated_job in keys
        ]
        missing = sum(count for _, count in short if count > 0)
        born = oldest(pod.created for pod in group.pods if not pod.node)
        if group.scope is None or not missing or not born or len(group.bound) >= group.minimum:
            continue
        if not any(count > 0 and name in proofs for name, count in short) and not context.late(born, SOON):
            continue
        held.append((group, missing))
        since = oldest((since, born))
    if not held:
        return
    yield context.cause(
        Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK,
        "its pods wait for each other: JobSet makes the followers of a Job once its leader has a node, and the leader "
        "gets one only together with them",
        evidence=[
            *(refused.message for _, refused in sorted(proofs.items())[:1]),
            f"annotation {EXCLUSIVE_TOPOLOGY}: {listed(keys.values())}, without {NODE_SELECTOR_STRATEGY} beside it",
            *(
                f"group {g.name}: {len(g.bound)} of {plural(g.minimum, 'pod')} exist, "
                f"{plural(count, 'follower')} missing"
                for g, count in held
            ),
        ],
        remedy=f'create it again with the annotation {NODE_SELECTOR_STRATEGY}: "true" and labelled nodes, '
        "with pod affinity in its place (gangctl convert --replace-exclusive-topology), or without a gang",
        command=context.suggest(Command.JOBSET_ANNOTATIONS),
        groups=[group for group, _ in held],
        pods=sum(group.wanted for group, _ in held),
        since=since,
    )


def _exclusive(context: Context) -> Mapping[str, str]:
    """ReplicatedJobs that are placed exclusively by the webhook, with the topology."""
    jobset = context.snapshot.jobset
    placed = ((rj.name, exclusive_topology(jobset, rj)) for rj in jobset.replicated_jobs)
    return {name: topology[0] for name, topology in placed if topology is not None and topology[0]}


def pods_missing(context: Context) -> Iterator[Cause]:
    """Fewer pods exist than should, without an error: a controller is slow, or does not run."""
    waits = _stages(context)
    refused = {planned.name for _, planned, _, _ in _short_jobs(context)}
    # JobSet creates no other Jobs while one is denied.
    no_jobs = any(True for _ in job_creation_refused(context))
    # Nor does it before objects of the previous attempt are gone; that is reported after a while, if the JobSet
    # has the time of its restart.
    leaving = bool(context.snapshot.jobset.restarting_at) and any(g.earlier or g.leaving_jobs for g in context.groups)
    exclusive = _exclusive(context)
    jobs: list[str] = []
    short: list[tuple[PlannedJob, JobProgress, int, int]] = []
    held: list[Group] = []
    for group in context.groups:
        there = _there(group)
        before = len(jobs) + len(short)
        for planned, job, wanted in context.expected[group.name]:
            have = there[planned.replicated_job, planned.index]
            if wanted <= have or planned.replicated_job in waits or planned.name in refused:
                continue
            if job is None:
                if not (no_jobs or leaving):
                    jobs.append(planned.name)
            # JobSet refuses followers before their leader has a node: if that lasts, it is an `exclusive_deadlock`.
            elif planned.replicated_job not in exclusive or not have:
                short.append((planned, job, have, wanted))
        if len(jobs) + len(short) > before:
            held.append(group)
    if held:
        yield from _missing_cause(context, held, jobs, short)


_BACKOFF: Final = (
    "wait if pods failed, were evicted or lost their node: the Job controller makes them again after 10 s, doubled for "
    "each of them, 10 minutes at most. If not, "
)
"""``DefaultJobPodFailureBackOff`` and ``MaxJobPodFailureBackOff`` (kubernetes, ``pkg/controller/job``); failures that a
podFailurePolicy ignores count there, and are not in ``status.failed``."""


def _missing_cause(
    context: Context, held: list[Group], jobs: Sequence[str], short: Sequence[tuple[PlannedJob, JobProgress, int, int]]
) -> Iterator[Cause]:
    # From the last that happened: controllers that still make pods are not late.
    since = max(context.free_since, context.readiness.since, *(pod.created for group in held for pod in group.pods), 0)
    late = context.late(since, SOON)
    missing = [f"{planned.name}: {have} of {plural(wanted, 'pod')}" for planned, _, have, wanted in short]
    failed = sum(job.failed for _, job, _, _ in short)
    idle = sorted(planned.name for planned, job, _, _ in short if job.suspended)
    evidence = [f"{plural(len(jobs), 'Job')} missing: {listed(jobs)}"] if jobs else []
    evidence += [f"{plural(len(idle), 'Job')} suspended: {listed(idle)}"] if idle else []
    evidence += sorted(missing)[:5]
    if failed:
        evidence.append(f"{plural(failed, 'pod')} of these Jobs failed")
    who = "the Job controller has not made all pods"
    if jobs or idle:
        who = f"JobSet's controller has not {'made' if jobs else 'resumed'} all Jobs"
    pods = sum(max(0, group.wanted - len(group.pods)) for group in held)
    yield context.cause(
        Reason.PODS_MISSING,
        f"{plural(pods, 'pod does', 'pods do')} not exist: {who}" + ("" if late else " yet"),
        evidence=evidence,
        remedy="wait: controllers make them within seconds"
        if not late
        else ("" if jobs or idle else _BACKOFF)
        + "see whether JobSet's controller (namespace jobset-system) and kube-controller-manager run, and what the "
        "events of the JobSet and of its Jobs say",
        command=context.suggest(Command.DESCRIBE_JOBSET)
        if jobs
        else context.suggest(Command.DESCRIBE_JOB, job=idle[0] if idle else short[0][0].name),
        groups=held,
        pods=pods,
        since=since,
        blocking=late,
    )
