"""What a cluster was found to be, as plain data; of what could not be learned it is said why. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from gangctl.api.objects import Object
from gangctl.gang.reasons import Reason
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import AdmissionCheck

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that was not learned: why, and the right that would have been needed if that is it."""

    why: str
    right: str = ""


Fact: TypeAlias = T | Unseen


class UnseenError(Exception):
    """A check needs what was not learned."""

    def __init__(self, unseen: Unseen) -> None:
        """Keep why."""
        super().__init__(unseen.why)
        self.unseen = unseen


def seen(fact: T | Unseen) -> T:
    """The fact, or :class:`UnseenError`."""
    if isinstance(fact, Unseen):
        raise UnseenError(fact)
    return fact


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
    """As much of one as tells who runs, and how many of it are ready."""

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
    """Who leads a shard; times in Unix seconds."""

    holder: str
    renewed: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """A cause that keeps a gang from being one, as ``gangctl why`` finds it."""

    gang: str
    reason: Reason
    message: str
    evidence: tuple[str, ...]
    remedy: str
    command: str


@dataclass(frozen=True, slots=True)
class Gangs:
    """All gangs that could be read: of the cluster, or of ``where``."""

    where: str
    count: int
    troubles: tuple[Trouble, ...] = ()
    groups_heard: int = 0
    """PodGroups of which the scheduler has said something."""
    jobs_with_reference: int = 0
    jobsets_with_status: int = 0
    jobsets_without_status: tuple[str, ...] = ()
    """JobSets that their controller has said nothing of, though it had time to."""
    left_out: tuple[str, ...] = ()
    """Right that is missing, for each collection that was not read."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A PodGroup that is being deleted, since when (Unix seconds), and what holds it."""

    name: str
    since: int
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DryRun:
    """What became of a JobSet that asks for a gang, sent with dryRun=All."""

    stamped: bool = False
    defaulted: bool = False
    """JobSet's webhook has filled in its defaults."""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Gated:
    """A JobSet that Kueue leaves alone for the sake of gangctl's gate, since when (Unix seconds)."""

    name: str
    since: int


@dataclass(frozen=True, slots=True)
class Right:
    """Whether the asking person may do something, and which command does it."""

    verb: str
    resource: str
    namespace: str
    wanted_by: str
    allowed: bool

    @property
    def title(self) -> str:
        """As people speak of it."""
        return right(self.verb, self.resource, self.namespace)


def right(verb: str, resource: str, namespace: str | None = None) -> str:
    """A right in words.

    >>> right("list", "pods", "t"), right("list", "nodes")
    ('list pods in namespace t', 'list nodes cluster-wide')
    """
    return f"{verb} {resource} in namespace {namespace}" if namespace else f"{verb} {resource} cluster-wide"


@dataclass(frozen=True, slots=True)
class CanaryPod:
    """One pod of a canary; ``fits`` unless no node can take it."""

    name: str
    fits: bool
    reference: str
    node: str
    placed_at: str = ""
    refused: str = ""
    """What the scheduler says of why it has no node."""


@dataclass(frozen=True, slots=True)
class CanaryJobSet:
    """One JobSet of the canary, as it was last seen."""

    name: str
    refusal: str = ""
    """Why it could not be created."""
    stamped: bool = False
    suspended: bool = False
    groups: tuple[str, ...] = ()
    """Names of the objects that stand for its gang."""
    pods: tuple[CanaryPod, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Canary:
    """Both JobSets: all pods of ``whole`` fit, one of ``torn`` does not; and what deleting them left behind."""

    whole: CanaryJobSet
    torn: CanaryJobSet
    held_seconds: float
    """How long the torn one was watched after the scheduler had refused a pod of it."""
    left_behind: tuple[str, ...] = ()


NOT_READ: Final = Unseen("it was not asked for")


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything there is to evaluate. ``namespace`` is where dry runs are made, ``now`` in Unix seconds."""

    now: float = 0.0
    namespace: str = "default"
    gangctl_namespace: Fact[str] = NOT_READ
    version: Fact[str] = NOT_READ
    served: Fact[Mapping[str, frozenset[str]]] = NOT_READ
    """Plural resource names by version of scheduling.k8s.io."""
    stored: Fact[Mapping[str, str]] = NOT_READ
    """Why objects cannot be listed by resource; empty where they can."""
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
    skipped: Fact[tuple[str, ...]] = NOT_READ
    """Namespaces with the label gangctl.dev/skip."""
    dry_run: Fact[DryRun] = NOT_READ
    gangs: Fact[Gangs] = NOT_READ
    job_workloads: Fact[tuple[str, ...]] = NOT_READ
    """Workloads that a Job controls which is a JobSet's."""
    leaving: Fact[tuple[Leaving, ...]] = NOT_READ
    kueue_versions: Fact[tuple[str, ...]] = NOT_READ
    kueue_configuration: Fact[KueueConfiguration] = NOT_READ
    kueue_checks: Fact[tuple[AdmissionCheck, ...]] = NOT_READ
    gated: Fact[tuple[Gated, ...]] = NOT_READ
    rights: Fact[tuple[Right, ...]] = NOT_READ
    canary: Fact[Canary] = NOT_READ
