"""Kueue's objects as gangctl stores them: small, frozen, total.

Amounts are integers: ``cpu`` in milli-CPU, everything else in whole units (bytes, devices,
pods), rounded up as Kueue does. Absent fields have the API's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gangctl.api.labelselector import Operator

Amounts = Mapping[str, int]
"""Amounts by name of the resource."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one resource in one flavor; None is no limit. Limits hold only in a cohort."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class FlavorQuotas:
    """A ResourceFlavor's quotas, by name of the resource."""

    name: str
    resources: Mapping[str, Quota]


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that come from one flavor together; Kueue tries flavors in this order."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True)
class SelectorTerm:
    """A term of a label selector, ``matchLabels`` included."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
Strategy = Literal["BestEffortFIFO", "StrictFIFO"]


@dataclass(frozen=True, slots=True)
class CheckUse:
    """An AdmissionCheck of a ClusterQueue; without flavors, for all flavors."""

    name: str
    on_flavors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """One of ``status.conditions``; ``since`` is lastTransitionTime, RFC 3339."""

    status: bool
    reason: str = ""
    message: str = ""
    since: str = ""


ABSENT: Final = Condition(status=False)


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """``selector`` is None if namespaceSelector is absent, which selects no namespace; () selects all."""

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    selector: tuple[SelectorTerm, ...] | None = None
    strategy: Strategy = "BestEffortFIFO"
    stop_policy: StopPolicy = "None"
    checks: tuple[CheckUse, ...] = ()
    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    within_queue: str = "Never"
    """``preemption.withinClusterQueue``"""
    reclaim: str = "Never"
    """``preemption.reclaimWithinCohort``"""
    while_borrowing: bool = False
    """Whether ``preemption.borrowWithinCohort`` allows preemption for a workload that borrows."""
    while_borrowing_up_to: int | None = None
    """``maxPriorityThreshold`` of that: the highest priority that is preempted so; None is no limit."""
    prefers_preemption: bool = False
    """``flavorFungibility.preference`` is PreemptionOverBorrowing."""
    weight: float = 1.0
    """``fairSharing.weight``"""
    by_usage: bool = False
    """Whether ``admissionScope`` orders what waits by the usage of LocalQueues, if Kueue's configuration does."""
    active: Condition | None = None
    pending: int = 0
    deleting: bool = False
    orchestrator: str = ""
    """What computes the quotas of ``groups`` (Dynamic Quota Orchestration), empty where they are those of ``spec``."""

    @property
    def preempts(self) -> bool:
        """Whether Kueue may preempt others for a workload of it."""
        return self.within_queue != "Never" or self.reclaim != "Never"


@dataclass(frozen=True, slots=True)
class Cohort:
    """A cohort need not exist as an object: then it is a root without quotas."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0
    """``fairSharing.weight``"""
    orchestrator: str = ""
    """As of a ClusterQueue."""


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A LocalQueue: a namespace's reference to a ClusterQueue."""

    namespace: str
    name: str
    cluster_queue: str
    stop_policy: StopPolicy = "None"
    active: Condition | None = None
    pending: int = 0


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """Taints and tolerations are as the core API writes them."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()
    topology: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """Node labels of the levels of a hierarchy of nodes, the widest first."""

    name: str
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Pods of one podset in domains of a topology, as Kueue assigned them.

    ``domains`` are counts by the values of ``levels``, which are only the lowest one if that is the host name.
    ``requests`` are of one pod, by ``template``, its pod template, alone.
    """

    flavors: frozenset[str]
    levels: tuple[str, ...]
    domains: Mapping[tuple[str, ...], int]
    requests: Amounts
    template: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class PodSetAssignment:
    """Assignment of a podset: flavors by resource, and the amounts of all of its pods."""

    name: str
    flavors: Mapping[str, str]
    usage: Amounts
    count: int


@dataclass(frozen=True, slots=True)
class CheckState:
    """One of ``status.admissionChecks``; ``state`` is Pending, Ready, Retry or Rejected."""

    name: str
    state: str
    message: str = ""
    since: str = ""
    retry_count: int = 0


@dataclass(frozen=True, slots=True)
class RunTime:
    """What a Workload declares about how long it runs, in seconds; None is nothing."""

    maximum: int | None = None
    """``spec.maximumExecutionTimeSeconds``"""
    spent: int = 0
    """``status.accumulatedPastExecutionTimeSeconds``: the part of ``maximum`` before the last eviction."""
    expected: float | None = None
    """Annotation ``gangctl.dev/expected-duration``, which Kueue does not copy from a JobSet by itself."""
    grace: int = 30
    """The longest ``terminationGracePeriodSeconds`` of its pods."""


ELSEWHERE: Final = "another namespace's workload"
"""In place of a name that not every reader of a text may know."""


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A Workload of Kueue (``workloads.kueue.x-k8s.io``), not one of ``scheduling.k8s.io``.

    ``pods`` are counts by name of the podset. ``version`` is the resourceVersion.
    """

    namespace: str
    name: str
    uid: str
    version: str = ""
    owner_kind: str = ""
    owner_api_version: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    queue: str = ""
    priority: int = 0
    priority_class: str = ""
    pod_priority: bool = False
    """Whether ``priority_class`` is one of pods, and no WorkloadPriorityClass."""
    active: bool = True
    created: str = ""
    deleting: bool = False
    pods: Mapping[str, int] = field(default_factory=dict)
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    """``status.reclaimablePods``: how many of ``pods`` have ended, and need no quota any more."""
    has_variants: bool = False
    """Whether Kueue queues other Workloads in its place, one for each flavor (gate ConcurrentAdmission).

    Once one of them is admitted, it has a copy of the admission.
    """
    divisible: bool = False
    """Whether Kueue may admit it with fewer pods (``minCount`` of a podset)."""
    requests: Mapping[str, Amounts] = field(default_factory=dict)
    """Amounts of all pods of a podset that need quota, while it waits.

    ``status.resourceRequests``, or from its pod templates.
    """
    cluster_queue: str = ""
    """``status.admission.clusterQueue``: empty without a reservation."""
    assignments: tuple[PodSetAssignment, ...] = ()
    placements: tuple[Placement, ...] = ()
    """Only if read by :func:`~gangctl.kueue.topology.with_placements`."""
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    checks: tuple[CheckState, ...] = ()
    requeue_at: str = ""
    requeue_count: int = 0
    gates: tuple[str, ...] = ()
    """Names of ``admission-gated-by``, which a Kueue with gates copies from the job."""
    cluster: str = ""
    """``status.clusterName``: the worker cluster on which MultiKueue runs it."""
    nominated: tuple[str, ...] = ()
    """``status.nominatedClusterNames``: the worker clusters in whose queues it waits."""
    run_time: RunTime = RunTime()

    @property
    def title(self) -> str:
        """Namespace and name of its owner, which users know, or its own without one."""
        return f"{self.namespace}/{self.owner_name or self.name}"

    def is_hidden_from(self, reader: str | None) -> bool:
        """Whether a text for all who can read the namespace ``reader`` must not name it.

        None is for texts that were made with the rights of their reader.
        """
        return reader not in {None, self.namespace}

    def title_for(self, reader: str | None) -> str:
        """:attr:`title`, or :data:`ELSEWHERE` in place of a hidden one."""
        return ELSEWHERE if self.is_hidden_from(reader) else self.title

    @property
    def unready_checks(self) -> list[CheckState]:
        """Admission checks that are not ready: it starts once all are."""
        return [check for check in self.checks if check.state != "Ready"]

    def condition(self, name: str) -> Condition:
        """A condition; one that is absent is not True, and has no reason."""
        return self.conditions.get(name, ABSENT)

    def holds(self, condition: str) -> bool:
        """Whether a condition is True."""
        return self.condition(condition).status


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """``parameters`` is ``apiGroup/Kind/name`` in three parts, or None."""

    name: str
    controller: str
    parameters: tuple[str, str, str] | None = None
    generation: int = 0
    uid: str = ""
    active: Condition | None = None


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A WorkloadPriorityClass: Kueue's own, not the priority of pods."""

    name: str
    value: int


PREEMPTS: Final = "PreemptLowerPriority"
"""``preemptionPolicy`` without one."""


@dataclass(frozen=True, slots=True)
class PodPriorityClass:
    """A PriorityClass of ``scheduling.k8s.io``: the priority of pods, and of a Workload without a class of Kueue's."""

    name: str
    value: int
    default: bool = False
    """``globalDefault``"""
    preemption: str = PREEMPTS
    """``preemptionPolicy``"""


PODS: Final = "pods"
"""A resource that every pod requests once, if a group of the ClusterQueue covers it."""
