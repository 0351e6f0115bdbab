"""Facts of a cluster as plain data, or why they could not be read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from gangctl.api.objects import Object
from gangctl.gang.generation import ServedVersion
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import AdmissionCheck
from gangctl.readiness.result import Cause

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Unseen:
    """A fact that could not be read: why, and the missing right, if any."""

    why: str
    right: str = ""


Fact: TypeAlias = T | Unseen


class UnseenError(Exception):
    """A check needs a fact that could not be read."""

    def __init__(self, unseen: Unseen) -> None:
        """Store the reason."""
        super().__init__(unseen.why)
        self.unseen = unseen


def seen(fact: T | Unseen) -> T:
    """The fact, or :class:`UnseenError`."""
    if isinstance(fact, Unseen):
        raise UnseenError(fact)
    return fact


def seen_or(fact: T | Unseen, default: D) -> T | D:
    """The fact, or ``default`` where it could not be read."""
    return default if isinstance(fact, Unseen) else fact


@dataclass(frozen=True, slots=True)
class PodField:
    """Whether pods keep ``spec.FIELD``; ``kept`` is None where a dry run was not allowed."""

    field: str
    kept: bool | None
    how: str
    right: str = ""
    """Missing for the dry run."""


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """Whether MutatingAdmissionPolicies are served as v1, and whether gangctl's ``writes`` the groups of Jobs."""

    served: bool
    writes: bool = False
    how: str = ""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Name, images and readiness of a Deployment."""

    namespace: str
    name: str
    images: tuple[str, ...]
    wanted: int
    ready: int
    shards: int = 1
    """Of a gangctl, by its arguments."""

    @property
    def title(self) -> str:
        """Its name, readiness and images in a line."""
        images = ", ".join(self.images)
        return f"Deployment {self.namespace}/{self.name}: {self.ready} of {self.wanted} replicas ready, image {images}"


@dataclass(frozen=True, slots=True)
class Lease:
    """The leader of a shard; times in Unix seconds."""

    holder: str
    renewed: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Gangs:
    """All gangs that could be read: of the cluster, or of ``where``."""

    where: str
    count: int
    troubles: tuple[Cause, ...] = ()
    """What ``gangctl why`` finds of each, with the name of the gang before the message."""
    groups_heard: int = 0
    """PodGroups with a condition of the scheduler."""
    jobs_with_reference: int = 0
    jobsets_with_status: int = 0
    jobsets_without_status: tuple[str, ...] = ()
    """JobSets without a status, after the controller had time to write one."""
    left_out: tuple[str, ...] = ()
    """Missing right of each collection that was not read."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A PodGroup that is being deleted, since when (Unix seconds), and what holds it."""

    name: str
    since: int
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of a ResourceQuota on one resource that gangs consist of, and how many objects its gangs still lack."""

    namespace: str
    name: str
    resource: str
    hard: int
    used: int
    lacking: int
    """Of the attempts that run."""
    lacking_next: int
    """Of their next attempts."""

    @property
    def title(self) -> str:
        """The limit, its use and what gangs lack in a line."""
        limit = f"ResourceQuota {self.namespace}/{self.name}: {self.used} of {self.hard} {self.resource} used"
        return f"{limit}; gangs lack {self.lacking} now, and {self.lacking_next} for a restart"


@dataclass(frozen=True, slots=True)
class DryRun:
    """Result of a JobSet that requests a gang, sent with dryRun=All."""

    stamped: bool = False
    defaulted: bool = False
    """Whether JobSet's webhook set its defaults."""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Right:
    """Whether the user has a right, and which commands need it."""

    verb: str
    resource: str
    namespace: str
    wanted_by: str
    allowed: bool

    @property
    def title(self) -> str:
        """The right as text."""
        return right(self.verb, self.resource, self.namespace)


def right(verb: str, resource: str, namespace: str | None = None) -> str:
    """A right in words.

    >>> right("list", "pods", "t"), right("list", "nodes")
    ('list pods in namespace t', 'list nodes cluster-wide')
    """
    return f"{verb} {resource} in namespace {namespace}" if namespace else f"{verb} {resource} cluster-wide"


PODS_OF_ONE: Final = 2
"""Pods of a JobSet of the canary."""


@dataclass(frozen=True, slots=True)
class CanaryPod:
    """One pod of a canary."""

    name: str
    reference: str
    node: str
    placed_at: str
    refused: str
    """The scheduler's message if it has no node."""


@dataclass(frozen=True, slots=True)
class CanaryJobSet:
    """One JobSet of the canary, as it was last seen."""

    name: str
    refusal: str = ""
    """Why it could not be created."""
    stamped: bool = False
    suspended: bool = False
    groups: tuple[str, ...] = ()
    """Names of the objects of its gang."""
    pods: tuple[CanaryPod, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Canary:
    """Both JobSets: all pods of ``whole`` fit, one of ``torn`` does not; and objects that remained after deletion."""

    whole: CanaryJobSet
    torn: CanaryJobSet
    held_seconds: float
    """How long the torn one was watched after the scheduler rejected one of its pods."""
    left_behind: tuple[str, ...] = ()


NOT_READ: Final = Unseen("it was not asked for")


@dataclass(frozen=True, slots=True)
class Facts:
    """Input of all checks. ``namespace`` is for dry runs, ``now`` in Unix seconds."""

    now: float = 0.0
    namespace: str = "default"
    gangctl_namespace: Fact[str] = NOT_READ
    version: Fact[str] = NOT_READ
    served: Fact[Mapping[str, ServedVersion]] = NOT_READ
    """By version of scheduling.k8s.io."""
    stored: Fact[Mapping[str, str]] = NOT_READ
    """Why objects cannot be listed, by resource; empty if they can."""
    pod_field: Fact[PodField] = NOT_READ
    job_policy: Fact[JobPolicy] = NOT_READ
    jobset_versions: Fact[tuple[str, ...]] = NOT_READ
    jobset_schedules: Fact[bool] = NOT_READ
    """Whether the CRD has ``spec.scheduling``."""
    configurations: Fact[tuple[Object, ...]] = NOT_READ
    """Every webhook configuration, with its kind."""
    endpoints: Fact[Mapping[tuple[str, str], int]] = NOT_READ
    """Ready endpoints by namespace and name of the Services that gangctl's and JobSet's webhooks name."""
    deployments: Fact[tuple[Deployment, ...]] = NOT_READ
    """Those in the namespaces of gangctl, JobSet and Kueue."""
    leases: Fact[Mapping[str, Lease]] = NOT_READ
    """Those of gangctl's shards that exist, by name; without shards it is one."""
    policies: Fact[Mapping[str, Object]] = NOT_READ
    """The condition Ready of each GangPolicy, by name."""
    skipped: Fact[tuple[str, ...]] = NOT_READ
    """Namespaces with the label gangctl.dev/skip."""
    dry_run: Fact[DryRun] = NOT_READ
    gangs: Fact[Gangs] = NOT_READ
    job_workloads: Fact[tuple[str, ...]] = NOT_READ
    """Workloads that are controlled by a Job of a JobSet."""
    leaving: Fact[tuple[Leaving, ...]] = NOT_READ
    quotas: Fact[tuple[Quota, ...]] = NOT_READ
    kueue_versions: Fact[tuple[str, ...]] = NOT_READ
    kueue_configuration: Fact[KueueConfiguration] = NOT_READ
    kueue_checks: Fact[tuple[AdmissionCheck, ...]] = NOT_READ
    rights: Fact[tuple[Right, ...]] = NOT_READ
    canary: Fact[Canary] = NOT_READ
