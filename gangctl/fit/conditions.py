"""What must hold before quota decides: a queue, a namespace that Kueue manages, a class of priority that exists.

Source: Kueue 0.19 ``pkg/controller/jobframework``: ``WorkloadShouldBeSuspended``, ``ExtractPriority``,
``ValidateJobOnCreate`` and ``ValidateElasticJobAnnotation``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.meta import ADMISSION_GATED_BY, QUEUE_NAME
from gangctl.api.names import is_dns_subdomain
from gangctl.api.objects import within
from gangctl.errors import one_line
from gangctl.fit.clusterstate import ClusterSnapshot, FitRequest
from gangctl.fit.report import quoted
from gangctl.fit.tree import Pair
from gangctl.gang.reasons import Reason
from gangctl.kueue.blocked import JOBSET_FRAMEWORK, NAME_A_QUEUE, UNQUEUED, selected
from gangctl.kueue.configuration import FRAMEWORKS
from gangctl.kueue.consistency import queues_below
from gangctl.kueue.names import (
    CHECK_CONTROLLER,
    DEFAULT_CLASS,
    DEFAULT_QUEUE,
    ELASTIC_JOB,
    MAX_SECONDS,
    MULTIKUEUE,
    PREBUILT,
)
from gangctl.kueue.objects import ClusterQueue, PodPriorityClass, PriorityClass, QueuedWorkload
from gangctl.kueue.queues import MOST_PODSETS
from gangctl.kueue.states import FAILED_TO_START, eviction_of, failed_checks, is_backed_off, lacks_class

ENABLE: Final = f"add {JOBSET_FRAMEWORK} to integrations.frameworks of its configuration"
Class = tuple[type[PriorityClass | PodPriorityClass], str, int | None]
"""Kind, name and value of a class of priority; without a value it does not exist, or is not known."""

# A 64-bit number; a label has at most 63 characters.
_POSITIVE: Final = re.compile(r"0*[1-9][0-9]{0,17}")


class Conditions:
    """Of one JobSet; ``doubts`` are facts that are not known and that no quota makes good, each in a few words."""

    def __init__(self, request: FitRequest, jobset: JobSet, cluster: ClusterSnapshot) -> None:
        """``jobset`` is that of the request, as it was read."""
        self._request = request
        self._jobset = jobset
        self._cluster = cluster
        self._configuration = cluster.configuration
        self._notes = within(request.jobset, "metadata", "annotations")
        self.doubts: list[str] = []

    def refused(self, queue: str) -> str:
        """Why Kueue's webhook refuses it for its labels: when it is created, and when Kueue starts it; empty if not.

        ``queue`` is the one that it names, or gets by default.
        """
        if not self._cluster.queued or self._unmanaged or not (queue or self._request.new):
            return ""
        labels = within(self._request.jobset, "metadata", "labels")
        problems: list[str] = []
        valid = is_dns_subdomain(queue) if queue else labels.get(QUEUE_NAME) != ""
        if not valid:
            problems.append(f'label {QUEUE_NAME} "{one_line(queue)}" can be no LocalQueue: name one, or remove it')
        seconds = labels.get(MAX_SECONDS)
        if isinstance(seconds, str) and not _POSITIVE.fullmatch(seconds):
            problems.append(f'label {MAX_SECONDS} "{one_line(seconds)}" is no positive number')
        return f"Kueue refuses it: {', and '.join(problems)}" if problems else ""

    @property
    def _unmanaged(self) -> bool:
        """Whether Kueue is known not to manage JobSets at all."""
        return self._configuration.known and JOBSET_FRAMEWORK not in self._configuration.frameworks

    def outside(self, queue: str) -> str:
        """Why no queue delays the JobSet; empty if one does."""
        if not self._cluster.queued:
            return "there is no Kueue in this cluster: no quota holds it back"
        if not queue:
            if self._configuration.manages_owner(self._jobset):
                kind = one_line(self._jobset.owner.partition(" ")[0])
                if not self._configuration.known:
                    self.doubts.append(f"whether Kueue manages {kind}s (integrations.frameworks)")
                return f"Kueue queues the {kind} that controls it: no other quota holds it back"
            below = "" if self._unmanaged or self._configuration.unqueued else self._queued_below()
            if below:
                self.doubts.append(f"when Kueue starts its parts, each by label {below}; move it to metadata.labels")
                return "it names no queue itself"
            hint = f"; Kueue does not read annotation {QUEUE_NAME}: write it as a label"
            return f"it names no queue: no quota holds it back{hint if QUEUE_NAME in self._notes else ''}"
        if self._unmanaged:
            return "Kueue does not manage JobSets here (integrations.frameworks): its queue label does nothing"
        return ""

    def _queued_below(self) -> str:
        """The label by which Kueue queues Jobs or pods of a JobSet without a queue; empty if there is none."""
        known, frameworks = self._configuration.known, self._configuration.frameworks
        for path, what in queues_below(self._request.jobset):
            if not known or FRAMEWORKS[what] in frameworks:
                return path
        return ""

    def takes_default_queue(self) -> bool:
        """Whether Kueue gives the LocalQueue called default to it, if it names none and there is one."""
        mine = not self._unmanaged and not self._configuration.manages_owner(self._jobset)
        return self._request.new and mine and not self.abandoned()

    def abandoned(self) -> str:
        """Why it is never started: Kueue's webhook suspends it by its label, in any namespace."""
        # None is not known: only labels that are known not to match prove that it is never started.
        if self._configuration.manages(self._request.namespace_labels, self._request.namespace) is not False:
            return ""
        return "Kueue suspends JobSets with a queue, and does not manage this namespace (managedJobsNamespaceSelector)"

    def held_without_queue(self) -> str:
        """Why Kueue suspends a JobSet that names no queue; empty if it does not."""
        namespace, cluster = self._request.namespace, self._cluster
        labels, configuration = self._request.namespace_labels, self._configuration
        itself = cluster.queued and not configuration.manages_owner(self._jobset)
        held = itself and configuration.suspends_unqueued(labels, namespace)
        if held is None:
            self.doubts.append(self._takes("Kueue manages (managedJobsNamespaceSelector, manageJobsWithoutQueueName)"))
        elif held and self._jobset.owned:
            self.doubts.append("whether Kueue manages the object that controls it; if not, it never starts")
        elif held:
            names = ", ".join(map(one_line, cluster.local_queues(namespace)))
            return f"{UNQUEUED}; {NAME_A_QUEUE}" + (f": {names}" if names else ", which has none yet")
        return ""

    def held(self, queue: str) -> str:
        """Why Kueue suspends it, or its Jobs, and never starts it; empty if that is not so."""
        if not self._cluster.queued:
            return ""
        if self._unmanaged:
            return self._jobs_held()
        # Kueue suspends by the label in any namespace; without it, only where it manages JobSets without a queue.
        return self.abandoned() if queue else self.held_without_queue()

    def _jobs_held(self) -> str:
        """Why Kueue suspends the Jobs of a JobSet that it does not manage itself; empty if it does not."""
        namespace, cluster, configuration = self._request.namespace, self._cluster, self._configuration
        if configuration.manages_owner(self._jobset):
            return ""
        if below := self._queued_below():
            self.doubts.append(f"when Kueue starts its parts, each by label {below}; {ENABLE}")
            return ""
        held = configuration.suspends_jobs(self._request.namespace_labels, namespace)
        if held is None:
            self.doubts.append(self._takes("Kueue manages (managedJobsNamespaceSelector, manageJobsWithoutQueueName)"))
        elif held and cluster.local_queue(namespace, DEFAULT_QUEUE) is not None:
            self.doubts.append(f"when Kueue starts its Jobs, one by one, in LocalQueue {DEFAULT_QUEUE}; {ENABLE}")
        elif held:
            return (
                "its Jobs never start: Kueue suspends them (manageJobsWithoutQueueName), they name no queue, and it "
                f"does not manage JobSets; {ENABLE}"
            )
        return ""

    def elsewhere(self) -> Iterator[str]:
        """What only the clusters of MultiKueue know, if it runs there."""
        if self._jobset.managed_by == MULTIKUEUE:
            yield "what the clusters have on which MultiKueue runs it"

    def checked(self, queue: ClusterQueue) -> Iterator[str]:
        """What the AdmissionChecks of others decide once it has quota; MultiKueue's is named apart (`elsewhere`)."""
        workload = self._request.workload
        # Kueue resets the checks when it takes the quota back.
        had = workload.checks if workload is not None and workload.holds("QuotaReserved") else ()
        ready = {check.name for check in had if check.state == "Ready"}
        for use in queue.checks:
            check = self._cluster.check(use.name)
            if use.name in ready or (check is not None and check.controller in {"", MULTIKUEUE, CHECK_CONTROLLER}):
                continue
            # An open queue has all of its checks, and one that is not known here may be of any controller.
            by = f" ({one_line(check.controller)})" if check is not None else ""
            flavors = ", ".join(f'"{one_line(flavor)}"' for flavor in use.on_flavors)
            where = f" with flavor {flavors}" if flavors else ""
            yield f'whether AdmissionCheck "{use.name}"{by} lets it start{where}'

    def unread(self) -> Iterator[str]:
        """Kueue's configuration, if it is not known."""
        if not self._configuration.known:
            yield self._configuration.unreadable

    def partly_read(self, queue: ClusterQueue) -> Iterator[str]:
        """What exists of the flavors and the cohort of an open queue, and is not known."""
        flavors = dict.fromkeys(quota.name for group in queue.groups for quota in group.flavors)
        # Kinds that could not be read at all are named already.
        missing = [name for name in flavors if self._cluster.flavor(name) is None] if self._cluster.flavors() else []
        if missing:
            yield f"labels and taints of ResourceFlavor {quoted(missing)}"
        if not self._cluster.cohort_known(queue.name):
            yield f'quotas of Cohort "{queue.cohort}": ClusterQueues of it hold more than those of the files give'

    def unforeseen(self, queue: ClusterQueue) -> Iterator[str]:
        """What of the quota that Kueue would give it in an open queue is not known."""
        if not self._cluster.usage_known(queue.name):
            yield f"how much of its quota others use: {self._cluster.unseen}"
        if not any(len(group.flavors) > 1 for group in queue.groups):
            return
        if gate := self._configuration.unforeseen:
            yield f"which flavors Kueue gives it (feature gate {gate})"
        # Only then Kueue may preempt in one flavor rather than take what is free in another.
        early = queue.when_can_preempt != "TryNextFlavor" or queue.prefers_preemption
        if not self._cluster.workloads_known and queue.preempts and early:
            yield f"which flavors Kueue gives it (flavorFungibility): {self._cluster.unseen}"

    def unlisted(self, queue: ClusterQueue, pairs: Iterable[Pair]) -> Iterator[str]:
        """What the others of its cohort may hold of what it would take."""
        for flavor, names in self._cluster.unlisted(queue.name, pairs).items():
            queues = f"Workloads of ClusterQueues {quoted(names)}"
            yield f'how much of flavor "{flavor}" {queues} hold, which do not list it: {self._cluster.unseen}'

    def missing(self, queue: ClusterQueue) -> str:
        """What does not exist and Kueue needs for its Workload, in an open queue."""
        configuration = self._configuration
        managed = configuration.manages(self._request.namespace_labels, self._request.namespace)
        if managed is None and configuration.known:
            self.doubts.append(self._takes("managedJobsNamespaceSelector of Kueue's configuration takes"))
        if self._notes.get(ELASTIC_JOB) == "true" and configuration.gate("ElasticJobsViaWorkloadSlices", default=True):
            detail = f"annotation {ELASTIC_JOB} on a JobSet, as 0.18 and newer do; remove it"
            self.doubts.append(f"whether this Kueue refuses {detail}")
        if selected(queue.selector, self._request.namespace_labels, self._request.namespace) is None:
            self.doubts.append(self._takes(f'the namespaceSelector of ClusterQueue "{queue.name}" takes'))
        if prebuilt := self._prebuilt():
            return prebuilt
        kind, name, value = self._class()
        workload, label = self._request.workload, self._jobset.priority_class if self._jobset.suspend else ""
        # With a Workload, Kueue has found the class, unless the label was changed since.
        if value is not None or not name or (workload is not None and not lacks_class(workload, label)):
            return ""
        exists = False if kind is PriorityClass else self._cluster.has_pod_class(name)
        if exists:
            return ""
        without = "makes no Workload" if workload is None else "does not start it"
        title = f'{"WorkloadPriorityClass" if kind is PriorityClass else "PriorityClass"} "{one_line(name)}"'
        if kind in self._cluster.unread:
            self.doubts.append(f"whether {title} exists, without which Kueue {without}")
            return ""
        return f"{title} does not exist, and without it Kueue {without}; create it, or name another one"

    def _prebuilt(self) -> str:
        """Why Kueue makes no Workload: the JobSet names one that it cannot have; empty if it can, or may."""
        # PrebuiltWorkloadNameFor: on by default since Kueue 0.18.
        noted = self._configuration.gate("WorkloadIdentifierAnnotations", default=True) and self._notes.get(PREBUILT)
        name = noted or within(self._request.jobset, "metadata", "labels").get(PREBUILT)
        if not isinstance(name, str) or not name or self._request.workload is not None:
            return ""
        title = f'Workload "{one_line(name)}" of {"annotation" if noted else "label"} {PREBUILT}'
        exists = self._cluster.has_workload(self._request.namespace, name)
        if exists is None:
            self.doubts.append(f"whether {title} exists, without which Kueue does not start it")
        why = "does not exist, or belongs to another object, and Kueue makes none; name no Workload in a new JobSet"
        return f"{title} {why}" if exists is False else ""

    def held_back(self) -> tuple[Reason, str] | None:
        """Why Kueue does not try its Workload, whatever the queue has, with the name of the cause; None if it does."""
        workload, gates = self._request.workload, self._jobset.gates
        if workload is not None and (passed_over := _passed_over(workload)) is not None:
            return passed_over
        # Kueue has the gate since 0.17, and it is on by default since 0.19, the first version with so many podsets.
        new = self._cluster.queue_limit is None or self._cluster.queue_limit >= MOST_PODSETS
        if not gates or not self._configuration.gate("AdmissionGatedBy", default=new):
            return None
        names = ", ".join(one_line(name) for name in gates)
        return Reason.ADMISSION_GATED, f"Kueue does not queue it before {names} is removed from {ADMISSION_GATED_BY}"

    def priority(self) -> int | None:
        """Priority of the Workload that Kueue creates, or has created; None if unknown."""
        return self._class()[2] if self._request.workload is None else self._request.workload.priority

    def _class(self) -> Class:
        """The class that its priority comes from."""
        if name := self._jobset.priority_class:
            return PriorityClass, name, self._cluster.priority(name)
        # The first that names a class decides for all podsets (ExtractPriority).
        name = next((rj.priority_class for rj in self._jobset.replicated_jobs if rj.priority_class), "")
        value = self._cluster.pod_priority(name)
        default = self._cluster.priority(DEFAULT_CLASS) if self._request.new else None
        defaulting = self._configuration.gates.get("WorkloadPriorityClassDefaulting")
        # With equal values it does not matter whether Kueue sets its default class.
        if default is None or default == value or defaulting is False:
            return PodPriorityClass, name, value
        # Kueue has had the gate since 0.18, and it is on by default since 0.20.
        return PriorityClass, "", default if defaulting else None

    def _takes(self, selector: str) -> str:
        namespace = one_line(self._request.namespace)
        return (
            f"whether {selector} namespace {namespace}: its labels, which kubectl get namespace {namespace} -o yaml "
            "prints"
        )


def _passed_over(workload: QueuedWorkload) -> tuple[Reason, str] | None:
    """Why Kueue does not try a Workload; None if it does, and for one that has quota."""
    if not workload.active:
        detail = "its Workload is deactivated, and Kueue does not try it; set spec.active of it to true"
        return Reason.DEACTIVATED, detail
    if workload.holds("Finished") and workload.condition("Finished").reason == FAILED_TO_START:
        return (
            Reason.FAILED_TO_START,
            "Kueue could not start it, and does not try again; gangctl why says what is wrong",
        )
    if workload.holds("QuotaReserved"):
        return None
    if failed := failed_checks(workload):
        detail = f"Kueue passes it over because of checks that are not reset: {failed}"
        return Reason.FAILED_CHECK_WITHOUT_QUOTA, detail
    if is_backed_off(workload):
        eviction = eviction_of(workload)
        why = f"it was evicted {eviction.words}, and " if eviction is not None else ""
        until = one_line(workload.requeue_at) or "its backoff has ended"
        return Reason.QUEUE_BACKOFF, f"{why}Kueue does not try it again before {until}"
    return None
