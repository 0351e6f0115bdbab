"""The scheduling API of Kubernetes, independent of versions: generations, their capabilities, and neutral objects.

No Kubernetes minor serves two of the shapes and there is no conversion between them, so everything above works on these
neutral values and an adapter (:mod:`gangctl.api.scheduling_versions`) turns them into JSON. ``v1`` is expected to have
the shape of v1beta1, from Kubernetes 1.38 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_GROUP, MANAGED_BY, MANAGER
from gangctl.api.objects import controller_owner, is_jobset_owner, object_at, objects_at, text_at

if TYPE_CHECKING:
    from gangctl.api.scheduling_versions import SchedulingAdapter

GROUP: Final = "scheduling.k8s.io"
FIRST_OF_COMPOSITES: Final = "v1alpha3"
"""The version of CompositePodGroups (KEP-6012) on Kubernetes 1.37."""
MAX_TEMPLATES: Final = 8
"""``WorkloadMaxPodGroups``: templates in one Workload, in every generation."""


class Generation(StrEnum):
    """Served version of ``scheduling.k8s.io`` that has Workloads."""

    V1ALPHA1 = "v1alpha1"
    V1ALPHA2 = "v1alpha2"
    V1BETA1 = "v1beta1"
    V1 = "v1"

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{GROUP}/{self.value}"

    @property
    def kubernetes(self) -> str:
        """The Kubernetes minor that serves it."""
        return _MINORS[self]

    @property
    def capabilities(self) -> Capabilities:
        """What this generation can express."""
        return _CAPABILITIES[self]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Differences between the generations that decisions depend on."""

    pod_groups: bool
    """Groups are separate objects, and pods name them in ``schedulingGroup``."""
    min_count_mutable: bool
    constraints: bool
    """Topology constraints and disruption mode exist."""
    uniform_priority: bool
    """The scheduler refuses a group whose pods have another priority than the group."""
    composite: bool = False
    """Groups can have a CompositePodGroup as parent, where the cluster serves it."""
    group_count_mutable: bool = False
    """minGroupCount of a CompositePodGroup."""

    @property
    def one_gate(self) -> bool:
        """One feature gate has the objects and makes the scheduler place groups: a condition proves the latter."""
        return self.min_count_mutable

    @property
    def gates(self) -> str:
        """The feature gates of gangs, as words."""
        return "GenericWorkload" if self.one_gate else "GenericWorkload and GangScheduling"


GATES: Final = "GenericWorkload (on Kubernetes 1.35 and 1.36 GangScheduling, too)"
"""The feature gates of gangs where the generation is not known."""


class Feature(StrEnum):
    """What a cluster keeps only with a feature gate: a field of templates in the API."""

    TOPOLOGY = "schedulingConstraints"
    DISRUPTION = "disruptionMode"
    CLAIMS = "resourceClaims"
    COMPOSITE = "compositePodGroupTemplates"

    @property
    def gates(self) -> str:
        """The feature gates that it needs besides those of gangs, as words."""
        return _GATES[self]


_GATES: Final = {
    Feature.TOPOLOGY: "feature gate TopologyAwareWorkloadScheduling",
    Feature.DISRUPTION: "feature gate WorkloadAwarePreemption",
    Feature.CLAIMS: "feature gate DRAWorkloadResourceClaims",
    Feature.COMPOSITE: "feature gates CompositePodGroup and TopologyAwareWorkloadScheduling",
}

TESTED: Final = (Generation.V1ALPHA1, Generation.V1ALPHA2, Generation.V1BETA1)
"""Those that a released Kubernetes serves; another one is compared with its OpenAPI document before it is used."""
NEWEST: Final = TESTED[-1]
_MINORS: Final = {
    Generation.V1ALPHA1: "1.35",
    Generation.V1ALPHA2: "1.36",
    Generation.V1BETA1: "1.37",
    Generation.V1: "1.38",
}
_BETA: Final = Capabilities(
    pod_groups=True, min_count_mutable=True, constraints=True, uniform_priority=True, composite=True
)
_CAPABILITIES: Final = {
    Generation.V1ALPHA1: Capabilities(
        pod_groups=False, min_count_mutable=False, constraints=False, uniform_priority=False
    ),
    Generation.V1ALPHA2: Capabilities(
        pod_groups=True, min_count_mutable=False, constraints=True, uniform_priority=False
    ),
    Generation.V1BETA1: _BETA,
    Generation.V1: _BETA,
}


def generation_of_minor(minor: str) -> Generation | None:
    """The generation that Kubernetes ``minor`` (``1.37``) serves."""
    return next((generation for generation, served in _MINORS.items() if served == minor), None)


@dataclass(frozen=True, slots=True)
class Owner:
    """The JobSet that controls an object."""

    name: str
    uid: str


class Claim(NamedTuple):
    """A ResourceClaim of a group: by its name, or by that of a template."""

    name: str
    claim: str = ""
    template: str = ""

    def encode(self) -> dict[str, str]:
        """As JSON, the same in every generation that has claims."""
        key, value = ("resourceClaimName", self.claim) if self.claim else ("resourceClaimTemplateName", self.template)
        return {"name": self.name, key: value}


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of group: its name in the Workload and its policy."""

    name: str
    min_count: int
    priority_class: str = ""
    topology_key: str = ""
    disruption: str = ""
    """``single``, ``all`` or empty for the API's default."""
    claims: tuple[Claim, ...] = ()
    """ResourceClaims that the pods of a group share."""


@dataclass(frozen=True, slots=True)
class CompositeTemplate:
    """What the one CompositePodGroup of a JobSet is made from: a parent of all its groups (KEP-6012)."""

    name: str
    min_group_count: int
    """Groups that start together."""
    priority_class: str = ""
    disruption: str = ""
    """As that of a template, of all the groups: with ``all`` they are preempted together."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The one Workload of a JobSet."""

    namespace: str
    name: str
    owner: Owner
    templates: tuple[Template, ...]
    composite: CompositeTemplate | None = None
    """Parent of all templates."""


class PodGroup(NamedTuple):
    """One gang at run time: its options are a copy of the template's, its minCount is its own.

    A tuple, because that is made in a third of the time: a JobSet may have thousands, made again in each reconcile.
    """

    namespace: str
    name: str
    owner: Owner
    workload: str
    template: Template
    min_count: int
    """Pods that it needs now: at most the template's, fewer once some of its pods have finished."""
    parent: str = ""
    """Name of its CompositePodGroup."""


class CompositePodGroup(NamedTuple):
    """Groups that start together, each of them placed as a whole; ``min_group_count`` is how many it needs now."""

    namespace: str
    name: str
    owner: Owner
    workload: str
    template: CompositeTemplate
    min_group_count: int


class Reference(NamedTuple):
    """The field with which a pod joins a group; 1.35 has Workload, template and replica key."""

    workload: str
    template: str
    group: str
    replica_key: str | None

    def named(self, generation: Generation) -> str:
        """The group's name, as :func:`named_group` returns it for pods with this reference."""
        if generation.capabilities.pod_groups:
            return self.group
        return f"{self.workload}/{self.template}/{self.replica_key or ''}"


def named_group(pod_spec: Mapping[str, Any]) -> str:
    """The group that pods name: a PodGroup, on 1.35 ``WORKLOAD/TEMPLATE/REPLICA_KEY``; empty without one.

    Never raises, for any shape of the fields.
    """
    if name := text_at(object_at(pod_spec, "schedulingGroup"), "podGroupName"):
        return name
    reference = object_at(pod_spec, "workloadRef")
    workload, group, key = (text_at(reference, part) for part in ("name", "podGroup", "podGroupReplicaKey"))
    return f"{workload}/{group}/{key}" if workload or group else ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What gangctl keeps of a Workload, PodGroup or CompositePodGroup that it has observed.

    ``min_counts`` holds (template name, minCount) in list order. The one of a PodGroup, and the minGroupCount of a
    CompositePodGroup, is under the empty name.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    """UID of the controller, empty without one."""
    owner_jobset: str
    """Name of the controller if that is a JobSet."""
    deleting: bool
    claims_jobset: str
    """JobSet named in ``spec.controllerRef`` of a Workload."""
    min_counts: tuple[tuple[str, int], ...]
    created: str = ""
    """RFC 3339, as all times here."""
    priority: int | None = None
    priority_class: str = ""
    topology_key: str = ""
    composite: bool = False
    """The templates of a Workload have a composite one as parent."""
    parent: str = ""
    """Name of the CompositePodGroup that a PodGroup belongs to."""
    scheduled: Scheduled | None = None
    """The scheduler's condition on a PodGroup, None as long as there is none."""
    orphan_of: str = ""
    """Of an object that gangctl made and nothing controls any more: the JobSet of a Workload, the Workload of a group.
    """


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Condition ``PodGroupInitiallyScheduled``, on 1.36 ``PodGroupScheduled``; terminal once it is true."""

    status: bool
    reason: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class ApiState:
    """The generation to use, or None and the reason why this cluster supports no gangs."""

    generation: Generation | None
    reason: str = ""
    """With a generation: why a newer one, or another kind, that is served is not used."""
    policies: bool = False
    """MutatingAdmissionPolicies are served, as v1."""
    lacks: frozenset[Feature] = frozenset()
    """What the generation can express and gangctl cannot use in this cluster, mostly because of feature gates."""

    parents: str = FIRST_OF_COMPOSITES
    """The version that has CompositePodGroups, where they are served."""
    unserved: bool = False
    """The cluster serves no Workloads at all. Any other reason is that of a cluster which is to have gangs."""

    @property
    def composite(self) -> str:
        """The version in which CompositePodGroups are made; empty if they cannot be."""
        able = self.generation is not None and self.generation.capabilities.composite
        return self.parents if able and Feature.COMPOSITE not in self.lacks else ""

    @property
    def capabilities(self) -> Capabilities:
        """What the generation can express in this cluster; there is one."""
        if self.generation is None:
            raise ValueError(f"no gangs can be made: {self.reason}")
        # It has been mutable since CompositePodGroups have a version beside the first one (Kubernetes 1.38).
        mutable = self.composite not in {"", FIRST_OF_COMPOSITES}
        return replace(self.generation.capabilities, composite=bool(self.composite), group_count_mutable=mutable)

    @property
    def available(self) -> bool:
        """Whether gangs can be made."""
        return self.generation is not None


def metadata(namespace: str, name: str, owner: Owner) -> dict[str, Any]:
    """Metadata of an object controlled by a JobSet.

    ``blockOwnerDeletion`` is false: a foreground deletion of the JobSet must not wait for a PodGroup's finalizer where
    the protection controller is off.
    """
    reference = {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    labels = {MANAGED_BY: MANAGER}
    if not namespace:
        return {"name": name, "labels": labels, "ownerReferences": [reference]}
    return {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [reference]}


def controller_ref(owner: Owner) -> dict[str, str]:
    """``spec.controllerRef`` of a Workload: informational, but other controllers look for it."""
    return {"apiGroup": JOBSET_GROUP, "kind": "JobSet", "name": owner.name}


def gang_min_count(spec: dict[str, Any], policy: str = "schedulingPolicy", field: str = "minCount") -> int | None:
    """minCount of a gang policy; None for a basic policy or anything else."""
    count = object_at(object_at(spec, policy), "gang").get(field)
    return count if isinstance(count, int) else None


def list_min_counts(
    spec: dict[str, Any], templates: str, policy: str = "schedulingPolicy"
) -> tuple[tuple[str, int], ...]:
    """``(name, minCount)`` of each template in a list of templates."""
    counts = ((str(entry.get("name")), gang_min_count(entry, policy)) for entry in objects_at(spec, templates))
    return tuple((name, count) for name, count in counts if count is not None)


def observe(adapter: SchedulingAdapter, kind: str, raw: dict[str, Any]) -> Observed:
    """Project a raw Workload, PodGroup or CompositePodGroup."""
    meta = raw.get("metadata") or {}
    spec = raw.get("spec") or {}
    owner = controller_owner(meta) or {}
    claim = object_at(spec, "controllerRef")
    claims = claim.get("kind") == "JobSet" and claim.get("apiGroup") == JOBSET_GROUP
    return Observed(
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        resource_version=meta.get("resourceVersion", ""),
        owner_uid=owner.get("uid", ""),
        owner_jobset=owner.get("name", "") if is_jobset_owner(owner) else "",
        deleting=bool(meta.get("deletionTimestamp")),
        claims_jobset=str(claim.get("name") or "") if claims else "",
        min_counts=adapter.min_counts(kind, spec) if kind != "CompositePodGroup" else _min_group_count(spec),
        created=str(meta.get("creationTimestamp") or ""),
        priority=_integer(spec.get("priority")),
        priority_class=str(spec.get("priorityClassName") or ""),
        topology_key=_topology_key(object_at(spec, "schedulingConstraints")),
        composite=bool(spec.get("compositePodGroupTemplates")),
        parent=text_at(spec, "parentCompositePodGroupName"),
        scheduled=_scheduled(object_at(raw, "status")),
        orphan_of=_orphan_of(meta, spec) if not owner else "",
    )


def _orphan_of(meta: Mapping[str, Any], spec: dict[str, Any]) -> str:
    """A deletion with ``--cascade=orphan`` removes the owner reference, and leaves the label."""
    if object_at(meta, "labels").get(MANAGED_BY) != MANAGER:
        return ""
    # v1alpha2 has the first form, later versions the second; a Workload has neither.
    workload = object_at(object_at(spec, "podGroupTemplateRef"), "workload") or object_at(spec, "workloadRef")
    return text_at(workload, "workloadName") or text_at(object_at(spec, "controllerRef"), "name")


def _min_group_count(spec: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    count = gang_min_count(spec, field="minGroupCount")
    return () if count is None else (("", count),)


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _topology_key(constraints: dict[str, Any]) -> str:
    topology = constraints.get("topology")
    first = topology[0] if isinstance(topology, list) and topology else None
    return str(first.get("key") or "") if isinstance(first, dict) else ""


_SCHEDULED: Final = frozenset({"PodGroupInitiallyScheduled", "PodGroupScheduled"})


def _scheduled(status: dict[str, Any]) -> Scheduled | None:
    for condition in objects_at(status, "conditions"):
        if str(condition.get("type")) in _SCHEDULED:
            texts = (str(condition.get(key) or "") for key in ("reason", "message", "lastTransitionTime"))
            return Scheduled(condition.get("status") == "True", *texts)
    return None
