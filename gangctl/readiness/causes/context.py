"""Input of all functions that find causes, helpers for their texts, and the commands that they suggest.

Each suggestion of each cause is run by a test on a situation that produced it (``docs/causes.md``), so every one of
them works on the cluster that it is printed for: with the objects that exist there, with or without Kueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from shlex import join, quote
from typing import Final, NewType

from gangctl.api.scheduling import Capabilities
from gangctl.errors import one_line
from gangctl.gang.desired import JobProgress, Lifecycle, job_pods_left
from gangctl.gang.plan import PlannedJob
from gangctl.gang.reasons import Reason
from gangctl.kueue.amounts import TimeFormat, span
from gangctl.readiness.facts import EndedPod, PodFacts, Snapshot, unix
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause, GangPhase, Readiness

Suggestion = NewType("Suggestion", str)
"""A command, filled in: :meth:`gangctl.readiness.causes.context.Context.suggest` makes it."""

_MEMBERS: Final = "-l jobset.sigs.k8s.io/jobset-name={jobset}"


class Command(StrEnum):
    """Templates in the syntax of :meth:`str.format`; ``namespace`` and ``jobset`` are those of the JobSet."""

    DESCRIBE_JOBSET = "kubectl -n {namespace} describe jobset {jobset}"
    JOBSET_ANNOTATIONS = "kubectl -n {namespace} get jobset {jobset} -o jsonpath='{{.metadata.annotations}}'"
    JOBSET_STATUS = "kubectl -n {namespace} get jobset {jobset} -o jsonpath='{{.status}}'"
    PLAN = "kubectl -n {namespace} get jobset {jobset} -o json | gangctl plan -f -"
    RESUME = """kubectl -n {namespace} patch jobset {jobset} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""
    SUSPEND = """kubectl -n {namespace} patch jobset {jobset} --type=merge -p '{{"spec":{{"suspend":true}}}}'"""
    DEACTIVATE = (
        "kubectl -n {namespace} patch workloads.kueue.x-k8s.io {name} --type=merge "
        """-p '{{"spec":{{"active":false}}}}'"""
    )
    """Of a JobSet that Kueue would resume at once."""

    DESCRIBE_JOB = "kubectl -n {namespace} describe job {job}"
    JOBS = f"kubectl -n {{namespace}} get jobs {_MEMBERS} -o yaml"

    DESCRIBE_POD = "kubectl -n {namespace} describe pod {pod}"
    POD_LOGS = "kubectl -n {namespace} logs {pod} --all-containers --previous --ignore-errors"
    """A container that has not ended before is an error of its own."""
    ENDED_LOGS = "kubectl -n {namespace} logs {pod} --all-containers --ignore-errors"
    """Of containers that have ended and are not started again: they have no previous ones."""
    POD_GATES = "kubectl -n {namespace} get pod {pod} -o jsonpath='{{.spec.schedulingGates}}'"
    PODS = f"kubectl -n {{namespace}} get pods {_MEMBERS} -o wide"
    PRIORITIES = (
        f"kubectl -n {{namespace}} get pods {_MEMBERS} "
        "-o custom-columns=NAME:.metadata.name,PRIORITY:.spec.priority,CLASS:.spec.priorityClassName"
    )

    SHOW_GROUP = "kubectl -n {namespace} get {resource} {name} -o yaml"
    """With the API group in ``resource``, because Kueue has Workloads, too."""
    SHOW_WRITERS = "kubectl -n {namespace} get {resource} {name} -o yaml --show-managed-fields"
    LOWER_MIN_COUNT = (
        "kubectl -n {namespace} patch podgroups.scheduling.k8s.io {name} --type=merge "
        """-p '{{"spec":{{"schedulingPolicy":{{"gang":{{"minCount":{count}}}}}}}}}'"""
    )

    CLAIMS = "kubectl -n {namespace} get persistentvolumeclaims"

    FIT_NODES = "gangctl fit {jobset} --fixed-nodes -n {namespace}"
    """It works without Kueue, unlike :attr:`FIT`."""
    NODE_LABELS = "kubectl get nodes -L {label}"
    DESCRIBE_NODE = "kubectl describe node {node}"
    SCHEDULER = "kubectl -n kube-system get pods,leases"
    SCHEDULER_FLAGS = "kubectl -n kube-system get pods -l component=kube-scheduler -o yaml"
    API_VERSIONS = "kubectl get --raw /apis/scheduling.k8s.io"

    FIT = "gangctl fit {jobset} -n {namespace}"
    FIT_WORKERS = "gangctl fit {jobset} -n {namespace} {workers}"
    """``workers`` are flags: one ``--worker`` for each worker cluster of MultiKueue."""
    WHY_WORKER = "gangctl why {jobset} -n {namespace} --context {cluster}"
    QUEUE = "gangctl queue describe {queue} -n {namespace}"
    LOCAL_QUEUES = "kubectl -n {namespace} get localqueues.kueue.x-k8s.io"
    QUEUED_WORKLOAD = "kubectl -n {namespace} describe workloads.kueue.x-k8s.io {name}"
    ADMISSION_CHECK = "kubectl describe admissionchecks.kueue.x-k8s.io {name}"

    OWN_PODS = "kubectl get pods,endpointslices -A -l app.kubernetes.io/name=gangctl"
    """Of gangctl, in whatever namespace it runs."""
    WEBHOOKS = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
    ADMISSION_POLICY = "kubectl get validatingadmissionpolicy {name} -o yaml"
    RESOURCE_QUOTA = "kubectl -n {namespace} describe resourcequota {name}"
    LIMIT_RANGES = "kubectl -n {namespace} describe limitranges"
    NAMESPACE_LABELS = "kubectl label --list namespace {namespace}"
    SERVICE_ACCOUNTS = "kubectl -n {namespace} get serviceaccounts"
    PRIORITY_CLASSES = "kubectl get priorityclasses"


QUICK: Final = 15
"""Seconds within which a controller or the scheduler does what takes one sync."""
SOON: Final = 30
"""Seconds within which it does what takes several syncs, or a retry."""
LATE: Final = 60
"""Seconds after which a missing condition is no longer normal."""
LONG: Final = 300
"""Seconds after which starting containers, or terminating pods, are no longer normal."""

THEY_END: Final = (
    "wait: they end within their grace period; one that stays is on a node that is lost, or has a finalizer"
)
"""The remedy for pods that terminate."""

MESSAGE_CHARACTERS: Final = 400
LINE_CHARACTERS: Final = 600
MOST_EVIDENCE: Final = 8
MOST_GROUPS: Final = 256
_LAST: Final = datetime.fromisoformat("9999-12-31T23:59:59Z").timestamp()


Finder = Callable[["Context"], Iterator[Cause]]

Expected = tuple[PlannedJob, JobProgress | None, int]
"""A planned Job, the existing one, and the pods that it should have now."""


@dataclass(frozen=True)
class Context:
    """One JobSet that is not ready. ``groups`` are those that are not settled."""

    snapshot: Snapshot
    groups: Sequence[Group]
    readiness: Readiness
    now: float
    count: int
    """Groups of the JobSet, settled ones included."""
    kept: bool = False
    """Whether texts are stored: they contain times then (:class:`~gangctl.kueue.amounts.TimeFormat`)."""
    changes: list[float] = field(default_factory=list)
    """When (Unix seconds) time alone changes what was asked of :meth:`late`."""

    @property
    def capabilities(self) -> Capabilities | None:
        """Capabilities of the API that the cluster serves; None without one."""
        generation = self.snapshot.api.generation
        return None if generation is None else generation.capabilities

    @cached_property
    def runs(self) -> bool:
        """Whether its pods should exist now."""
        jobset = self.snapshot.jobset
        untouched = self.snapshot.assessment.lifecycle is Lifecycle.UNTOUCHED
        return not (jobset.suspend or jobset.deleting or jobset.finished or untouched)

    @cached_property
    def expected(self) -> Mapping[str, Sequence[Expected]]:
        """The planned Jobs of each group by its name."""
        by_name = {rj.name: rj for rj in self.snapshot.jobset.replicated_jobs}
        restarts = self.snapshot.jobset.restarts
        expected: dict[str, list[Expected]] = {}
        for group in self.groups:
            jobs = {job.key: job for job in group.jobs}
            rows = expected.setdefault(group.name, [])
            for planned in group.planned:
                job = jobs.get((planned.replicated_job, planned.index))
                rows.append((planned, job, job_pods_left(by_name[planned.replicated_job], job, restarts)))
        return expected

    @cached_property
    def failed(self) -> Sequence[tuple[Group, EndedPod]]:
        """Pods that failed in this attempt, of Jobs that get others and have fewer ready pods than they should.

        Not those of which a ready pod has the completion index, nor those from before a suspension. JobSet writes the
        end of that once it has resumed all Jobs: a moment late.
        """
        jobset = self.snapshot.jobset
        by_job: dict[tuple[str, int], list[EndedPod]] = {}
        for one in self.snapshot.ended:
            own = one.pod.attempt >= jobset.restarts and one.pod.created >= unix(jobset.created)
            # No container of a pod has ended that its kubelet did not admit.
            ended = one.at or one.pod.started_at
            if own and one.pod.phase == "Failed" and not 0 < ended < self.free_since - SOON:
                by_job.setdefault((one.pod.replicated_job, one.pod.job_index), []).append(one)
        failed: list[tuple[Group, EndedPod]] = []
        for group in self.groups if by_job else ():
            ready: dict[tuple[str, int], list[PodFacts]] = {}
            for pod in group.pods:
                if pod.ready:
                    ready.setdefault((pod.replicated_job, pod.job_index), []).append(pod)
            for planned, job, wanted in self.expected[group.name]:
                key = planned.replicated_job, planned.index
                if job is None or key not in by_job or len(there := ready.get(key, [])) >= wanted:
                    continue
                whole = {_completion_index(planned, pod) for pod in there} - {""}
                failed += ((group, one) for one in by_job[key] if _completion_index(planned, one.pod) not in whole)
        return failed

    @cached_property
    def begun(self) -> Mapping[str, int]:
        """Since when the scheduler should decide, by group: pods may have had gates, or been refused, until then."""
        return {one.name: one.since for one in self.readiness.groups if one.phase is GangPhase.SCHEDULING}

    @property
    def free_since(self) -> int:
        """When it was allowed to start: created, admitted by its queue, or resumed."""
        jobset = self.snapshot.jobset
        return max(self.readiness.admitted_at or unix(jobset.created), unix(jobset.resumed_at))

    @property
    def clock(self) -> datetime:
        """The present time, limited to valid dates."""
        return _dated(self.now)

    def late(self, since: float, patience: int) -> bool:
        """Whether something has lasted longer than is normal."""
        self.changes.append(since + patience)
        return self.now - since >= patience

    def ago(self, at: int) -> str:
        """When something happened."""
        return self._time_format.ago(_dated(at))

    def lasting(self, since: int) -> str:
        """How long it has been so."""
        return self._time_format.lasting(_dated(since))

    def old(self, made: int) -> str:
        """The age of an object, with a verb."""
        return f"was made {self.ago(made)}" if self.kept else f"is {span(self._time_format.now - _dated(made))} old"

    @property
    def _time_format(self) -> TimeFormat:
        return TimeFormat(self.clock, self.kept)

    def suggest(self, command: Command, **values: object) -> Suggestion:
        """A command about the JobSet, with these values quoted for a shell; a list becomes several words."""
        jobset = self.snapshot.jobset
        # Users paste the command into a shell, and names come from objects that other clients write.
        words = {"namespace": jobset.namespace, "jobset": jobset.name, **values}
        quoted = {name: join(value) if isinstance(value, list) else quote(str(value)) for name, value in words.items()}
        return Suggestion(command.format(**quoted))

    def cause(
        self,
        reason: Reason,
        message: str,
        *,
        remedy: str,
        command: Suggestion,
        evidence: Iterable[str] = (),
        groups: Sequence[Group] = (),
        pods: int = 0,
        since: int = 0,
        blocking: bool = True,
    ) -> Cause:
        """A cause whose texts are single bounded lines; ``groups`` are empty if they are all of the JobSet."""
        lines = dict.fromkeys(sentence(line, LINE_CHARACTERS) for line in evidence)
        names = sorted({group.name for group in groups})
        names = names if len(names) < self.count else []
        if reason in OF_PODS_TO_COME and groups:
            # A gang with a minCount of its own is ready without the others, of which a full cluster never has all.
            blocking = blocking and not all(group.spares_only for group in groups)
        return Cause(
            reason,
            sentence(message, MESSAGE_CHARACTERS),
            evidence=tuple(line for line in lines if line)[:MOST_EVIDENCE],
            remedy=sentence(remedy, LINE_CHARACTERS),
            command=one_line(command, LINE_CHARACTERS),
            groups=tuple(names[:MOST_GROUPS]),
            pods=pods,
            since=since,
            blocking=blocking,
        )


OF_PODS_TO_COME: Final = frozenset(
    {
        Reason.JOB_CREATION_REFUSED,
        Reason.POD_CREATION_REFUSED,
        Reason.PODS_MISSING,
        Reason.PODS_GATED,
        Reason.PRIORITY_MISMATCH,
        Reason.SCALE_UP_REFUSED,
        Reason.SCHEDULER_ERROR,
        Reason.SCHEDULER_SILENT,
        Reason.TOPOLOGY_TOO_SMALL,
        Reason.UNSCHEDULABLE,
        Reason.VOLUME_NOT_BOUND,
    }
)
"""Causes why pods are not made, or have no node."""


def _completion_index(planned: PlannedJob, pod: PodFacts) -> str:
    """The completion index in the name of a pod, ``JOB-INDEX-RANDOM``; empty in one without, and of a very long Job."""
    index, _, suffix = pod.name.removeprefix(f"{planned.name}-").partition("-")
    return index if suffix and index.isdigit() else ""


def _dated(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LAST), UTC)


def sentence(text: str, limit: int) -> str:
    """One line of bounded length without the full stop at its end."""
    return one_line(" ".join(text.split()), limit).rstrip(". ")


def oldest(times: Iterable[int]) -> int:
    """The earliest time, 0 if none is known."""
    return min((time for time in times if time > 0), default=0)


def unplaced(group: Group) -> list[PodFacts]:
    """Pods of a group that the scheduler has to find a node for."""
    return [pod for pod in group.pods if not pod.node]


def counted(group: Group) -> int:
    """Pods that the scheduler counts for the minimum: terminating ones, too, and of other attempts if they name it."""
    named = {pod.group for pod in group.bound}
    return len(group.bound) + len(group.leaving) + sum(pod.group in named for pod in group.earlier)


def volume_claims(context: Context, pods: Iterable[PodFacts]) -> set[str]:
    """PersistentVolumeClaims of pods."""
    entries = {pod.replicated_job for pod in pods}
    return {claim for rj in context.snapshot.jobset.replicated_jobs if rj.name in entries for claim in rj.volumes}


def gated(pod: PodFacts) -> bool:
    """Whether the scheduler ignores a pod because of its scheduling gates."""
    return not pod.node and bool(pod.gates)


def unschedulable(pods: Iterable[PodFacts]) -> bool:
    """Whether the scheduler has decided that it finds no nodes for pods of a group.

    Of such a group it says Unschedulable of one pod, and may say SchedulerError of others (seen on Kubernetes 1.37).
    """
    return any(pod.refused == "Unschedulable" for pod in pods)
