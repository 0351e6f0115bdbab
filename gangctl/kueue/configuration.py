"""Kueue's ``Configuration``, as far as a fit depends on it: requests, namespaces and frameworks.

Source: ``config.kueue.x-k8s.io/v1beta2``, ConfigMap ``kueue-manager-config``, key ``controller_manager_config.yaml``.
It is Kueue's file: unreadable parts are no error here, but a rejection must not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, Final, Literal

from gangctl.api.documents import Document, parse_documents
from gangctl.api.jobset import JobSet
from gangctl.api.labelselector import NAMESPACE_NAME
from gangctl.api.objects import object_at
from gangctl.cel.times import SECOND, parse_duration
from gangctl.errors import InputError, one_line, shown
from gangctl.kueue.amounts import read_quantity
from gangctl.kueue.blocked import JOBSET_FRAMEWORK, selected
from gangctl.kueue.names import KUEUE_NAMESPACE
from gangctl.kueue.objects import ClusterQueue, SelectorTerm
from gangctl.kueue.reading import read_selector

CONFIG_KEY: Final = "controller_manager_config.yaml"
"""Key of the ConfigMap, and the file name in messages."""

CONFIGURATION_GROUP: Final = "config.kueue.x-k8s.io"
# DefaultWaitForPodsReadyTimeout of v1beta2 in Kueue 0.19.
_READY_TIMEOUT: Final = 1800
# defaultPodsReadyTimeout of v1beta1, in all versions: defaults are set before the conversion to v1beta2.
_OLDER_READY_TIMEOUT: Final = 300


@dataclass(frozen=True, slots=True)
class Transformation:
    """Transformation of a pod's resource before it is counted; ``outputs`` are per unit, and may be negative."""

    input: str
    keep: bool = True
    """Strategy Retain: the input is counted in addition to the outputs."""
    outputs: Mapping[str, Fraction] = field(default_factory=dict)
    multiply_by: str = ""
    """Another resource of the pod, whose amount multiplies the outputs if the pod requests it."""


@dataclass(frozen=True, slots=True)
class PodsReady:
    """``waitForPodsReady``. ``on`` is None if unset in v1beta2: then it is on since Kueue 0.19, and off before."""

    on: bool | None = None
    timeout: int = _READY_TIMEOUT
    """Seconds until all pods are ready after an admission."""
    recovery: int | None = None
    """``recoveryTimeout``: seconds until they are ready again. None is as many, 0 is no limit."""
    blocks: bool = False
    """``blockAdmission``: Kueue admits nothing while a Workload that has quota is not ready."""
    by_creation: bool = False
    """``requeuingStrategy.timestamp`` is Creation: an eviction for this reason keeps the place in the queue."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """What of the configuration decides which Workload is before another, and which is newer."""

    by_creation: bool = False
    """As of :class:`PodsReady`."""
    by_priority: bool = True
    """Gate PrioritySortingWithinCohort: the priority decides between Workloads of several queues, too."""
    buffered: bool = False
    """Gate SchedulerTimestampPreemptionBuffer: one is not newer than another of about the same time."""


DEFAULT_ORDERING: Final = Ordering()
FRAMEWORKS: Final[Mapping[str, str]] = {"Job": "batch/job", "pod": "pod"}
"""By what JobSets are made of."""
_OWNERS: Final = (("trainer.kubeflow.org", "trainjob"), ("workload.codeflare.dev", "appwrapper"))
"""Group and kind of what controls JobSets and waits in queues."""


def _all_but(*namespaces: str) -> tuple[SelectorTerm, ...]:
    return (SelectorTerm(NAMESPACE_NAME, "NotIn", namespaces),)


@dataclass(frozen=True, slots=True)
class KueueConfiguration:
    """The defaults are those of Kueue for an empty configuration."""

    known: bool = True
    unreadable: str = ""
    """Why it is unknown, in a few words."""
    exclude_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    quota_check: Literal["", "IgnoreUndeclared"] = ""
    managed_namespaces: tuple[SelectorTerm, ...] | None = _all_but("kube-system", KUEUE_NAMESPACE)
    """None if unknown."""
    unqueued: bool = False
    """``manageJobsWithoutQueueName``: Kueue suspends what names no queue, too."""
    wait_for_pods_ready: PodsReady = PodsReady()
    frameworks: tuple[str, ...] = ("batch/job",)
    dra: bool = False
    """Whether devices of claims are counted (``deviceClassMappings``)."""
    fair_sharing: tuple[str, ...] | None = None
    """``fairSharing.preemptionStrategies``; None without fair sharing."""
    usage_counts: bool = False
    """``admissionFairSharing``: the usage of LocalQueues orders what waits in ClusterQueues that ask for it."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """``featureGates`` in the file; flags of the process may set others."""

    def manages(self, labels: Mapping[str, str] | None, namespace: str) -> bool | None:
        """Whether Kueue manages JobSets in a namespace with these labels; None if that is not known."""
        selector = self.managed_namespaces
        return None if selector is None else selected(selector, labels, namespace)

    def manages_owner(self, jobset: JobSet) -> bool:
        """Whether it manages objects of the kind that controls a JobSet; frameworks have its group and kind as name."""
        kind = jobset.owner_group, jobset.owner.partition(" ")[0].lower()
        # Where that is not known: a JobSet whose owner Kueue does not manage has a Workload of its own.
        return "/".join(kind) in self.frameworks if self.known else kind in _OWNERS

    def suspends_unqueued(self, labels: Mapping[str, str] | None, namespace: str) -> bool | None:
        """Whether it suspends JobSets without a queue there; None if that is not known."""
        if not self.known or not self.unqueued or JOBSET_FRAMEWORK not in self.frameworks:
            return False
        return self.manages(labels, namespace)

    def suspends_jobs(self, labels: Mapping[str, str] | None, namespace: str) -> bool | None:
        """Whether it suspends there what JobSets are made of and it does not manage themselves; None if not known."""
        if not self.known or not self.unqueued or JOBSET_FRAMEWORK in self.frameworks:
            return False
        return self.manages(labels, namespace) if not {*FRAMEWORKS.values()}.isdisjoint(self.frameworks) else False

    def unordered(self, queue: ClusterQueue) -> str:
        """The setting by which Kueue orders what waits in a ClusterQueue in a way that is not known here; or empty."""
        if self.usage_counts and queue.by_usage:
            return "admissionScope"
        # The boosts are annotations of Workloads, which are not read.
        return "feature gate PriorityBoost" if self.gate("PriorityBoost", default=False) else ""

    @property
    def unforeseen(self) -> str:
        """The feature gate by which Kueue chooses among flavors in a way that is not known here; or empty."""
        if not self.gate("FlavorFungibility", default=True):
            return "FlavorFungibility"
        # It tries several flavors at once, each as a Workload of its own.
        return "ConcurrentAdmission" if self.gate("ConcurrentAdmission", default=False) else ""

    @property
    def ordering(self) -> Ordering:
        """What decides which Workload is before another."""
        return Ordering(
            self.wait_for_pods_ready.by_creation,
            by_priority=self.gate("PrioritySortingWithinCohort", default=True),
            buffered=self.gate("SchedulerTimestampPreemptionBuffer", default=False),
        )

    @property
    def ignores_undeclared(self) -> bool:
        """Whether resources that a ClusterQueue does not have need no quota there."""
        return self.quota_check == "IgnoreUndeclared" and self.gate("QuotaCheckStrategy", default=True)

    def gate(self, name: str, *, default: bool) -> bool:
        """Whether the file enables a feature."""
        return self.gates.get(name, default)


def _unknown(why: str) -> KueueConfiguration:
    """A configuration that could not be read."""
    return KueueConfiguration(known=False, unreadable=one_line(why), managed_namespaces=None)


def read_configuration(text: str | None) -> KueueConfiguration:
    """Read the file; None if it was not found. Never raises: an unreadable file makes it unknown."""
    if text is None:
        return _unknown("Kueue's configuration was not found")
    try:
        return _read(parse_documents(text, CONFIG_KEY))
    except InputError as problem:
        return _unknown(str(problem))


def _read(documents: Sequence[Document]) -> KueueConfiguration:
    if len(documents) != 1:
        raise InputError(f"{CONFIG_KEY}: one Configuration is wanted, there are {len(documents)}")
    raw = documents[0].value
    written = raw.get("apiVersion")
    group, _, version = written.partition("/") if isinstance(written, str) else ("", "", "")
    if group != CONFIGURATION_GROUP or not version or raw.get("kind") != "Configuration":
        raise InputError(f"{CONFIG_KEY}: this is no Configuration of {CONFIGURATION_GROUP}")
    resources = _section(raw, "resources")
    gates = _gates(raw)
    selector = read_selector(raw.get("managedJobsNamespaceSelector"))
    if selector is None and raw.get("managedJobsNamespaceSelector") is not None:
        raise InputError(f"{CONFIG_KEY}: managedJobsNamespaceSelector is no selector of labels")
    if selector is None:
        # As SetDefaults_Configuration.
        own = raw.get("namespace")
        selector = _all_but("kube-system", own if isinstance(own, str) and own else KUEUE_NAMESPACE)
    strategy = resources.get("quotaCheckStrategy")
    # An unknown one may admit what is `never` by the known ones.
    if strategy not in (None, "BlockUndeclared", "IgnoreUndeclared"):
        raise InputError(
            f"{CONFIG_KEY}: resources.quotaCheckStrategy is {shown(strategy)}, which gangctl does not know"
        )
    return KueueConfiguration(
        exclude_prefixes=_texts(resources, "excludeResourcePrefixes", "resources."),
        transformations=tuple(_transformation(entry) for entry in _entries(resources, "transformations")),
        quota_check="IgnoreUndeclared" if strategy == "IgnoreUndeclared" else "",
        managed_namespaces=selector,
        unqueued=raw.get("manageJobsWithoutQueueName") is True,
        wait_for_pods_ready=_pods_ready(raw, gates),
        frameworks=_texts(_section(raw, "integrations"), "frameworks", "integrations.") or ("batch/job",),
        dra=bool(_entries(resources, "deviceClassMappings")),
        fair_sharing=_fair_sharing(raw),
        usage_counts=raw.get("admissionFairSharing") is not None and gates.get("AdmissionFairSharing", True),
        gates=gates,
    )


STRATEGIES: Final = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
"""Strategies of fair sharing, which are the default together."""


def _fair_sharing(raw: Mapping[str, Any]) -> tuple[str, ...] | None:
    section = _section(raw, "fairSharing")
    # Only v1beta1 has a switch, which is off by default.
    on = (
        section.get("enable") is True
        if raw["apiVersion"] == f"{CONFIGURATION_GROUP}/v1beta1"
        else raw.get("fairSharing") is not None
    )
    if not on:
        return None
    return _texts(section, "preemptionStrategies", "fairSharing.") or STRATEGIES


def _section(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    if not isinstance(value, dict | None):
        raise InputError(f"{CONFIG_KEY}: {key} is no object")
    return value or {}


def _texts(raw: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = raw.get(key)
    if not isinstance(value, list | None) or not all(isinstance(item, str) for item in value or ()):
        raise InputError(f"{CONFIG_KEY}: {where}{key} is no list of texts")
    return tuple(value or ())


def _entries(resources: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = resources.get(key)
    if not isinstance(value, list | None) or not all(isinstance(item, dict) for item in value or ()):
        raise InputError(f"{CONFIG_KEY}: resources.{key} is no list of objects")
    return value or []


def _gates(raw: Mapping[str, Any]) -> dict[str, bool]:
    gates = _section(raw, "featureGates")
    if not all(isinstance(on, bool) for on in gates.values()):
        raise InputError(f"{CONFIG_KEY}: featureGates are true or false")
    return dict(gates)


def _transformation(raw: Mapping[str, Any]) -> Transformation:
    name, strategy, multiply_by = raw.get("input"), raw.get("strategy"), raw.get("multiplyBy") or ""
    where = f"{CONFIG_KEY}: resources.transformations"
    if not isinstance(name, str) or not name or not isinstance(multiply_by, str):
        raise InputError(f"{where}: each needs the name of a resource as input, and may have one in multiplyBy")
    if strategy not in (None, "Retain", "Replace"):
        raise InputError(f"{where}: the strategy of {shown(name)} is {shown(strategy)}, which gangctl does not know")
    written = raw.get("outputs")
    if not isinstance(written, dict | None):
        raise InputError(f"{where}: the outputs of {shown(name)} are no quantities by resource")
    outputs = {}
    for output, value in (written or {}).items():
        quantity = read_quantity(value)
        if quantity is None:
            raise InputError(f"{where}: output {shown(output)} of {shown(name)} is no quantity: {shown(value)}")
        outputs[output] = quantity
    return Transformation(name, strategy != "Replace", outputs, multiply_by)


def _pods_ready(raw: Mapping[str, Any], gates: Mapping[str, bool]) -> PodsReady:
    section, older = _section(raw, "waitForPodsReady"), raw["apiVersion"] == f"{CONFIGURATION_GROUP}/v1beta1"
    # Zero is the default.
    timeout = _seconds(section, "timeout") or (_OLDER_READY_TIMEOUT if older else _READY_TIMEOUT)
    recovery = _seconds(section, "recoveryTimeout")
    # Only v1beta1 has a switch, off by default. All of a section that is off is dropped.
    if older and section.get("enable") is not True:
        return PodsReady(on=False)
    on: bool | None = None if raw.get("waitForPodsReady") is None else True
    if gates.get("DisableWaitForPodsReady"):
        on = False
    block = section.get("blockAdmission")
    return PodsReady(
        on,
        timeout,
        recovery,
        # With the switch it blocks by default.
        blocks=on is True and (block is True or (older and block is None)),
        by_creation=object_at(section, "requeuingStrategy").get("timestamp") == "Creation",
    )


def _seconds(section: Mapping[str, Any], key: str) -> int | None:
    """A duration of Go, rounded up to seconds; None if it is absent."""
    value = section.get(key)
    if value is None:
        return None
    try:
        nanoseconds = parse_duration(value if isinstance(value, str) else "").nanoseconds
    except (ValueError, OverflowError):
        nanoseconds = -1
    if nanoseconds < 0:
        raise InputError(f"{CONFIG_KEY}: waitForPodsReady.{key} is no duration such as 5m: {shown(value)}")
    return ceil(Fraction(nanoseconds, SECOND))
