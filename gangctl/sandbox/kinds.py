"""What is served: resources as values, on each Kubernetes minor.

A minor differs in the version of ``scheduling.k8s.io`` that carries Workloads and
PodGroups, and that version is served only where it was switched on (``--runtime-config``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gangctl.apiserver.minors import MINORS, SCHEDULING_GROUP, Minor

ALL_VERBS: Final = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})
CREATE_ONLY: Final = frozenset({"create"})
JOBSET_GROUP: Final = "jobset.x-k8s.io"


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One resource in one version.

    ``storage`` is the key it is stored under: versions of one resource share it.
    ``generation`` says whether the server counts ``metadata.generation``,
    ``unconditional_update`` whether a PUT may leave out the resourceVersion,
    ``custom`` whether a CustomResourceDefinition defines it on a real cluster.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: frozenset[str] = ALL_VERBS
    storage: str = ""
    generation: bool = False
    unconditional_update: bool = True
    # AllowCreateOnUpdate of the kind's strategy: a PUT creates what does not exist.
    create_on_update: bool = False
    custom: bool = False
    field_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())
        if not self.storage:
            object.__setattr__(self, "storage", self.qualified_name)

    @property
    def api_version(self) -> str:
        """``apiVersion`` as an object carries it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """``plural.group``, or the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """Whether ``status`` is written through a subresource only."""
        return "status" in self.subresources


GATES: Final = MappingProxyType({"GenericWorkload": True, "ElasticJobSet": True})
"""The gates of API server and JobSet manager that are on here, as gangs need them; all others are as released."""

_STATUS: Final = frozenset({"status"})
_POD_FIELDS: Final = (
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
    "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
)  # fmt: skip
_EVENT_FIELDS: Final = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
    "reportingComponent", "source", "type",
)  # fmt: skip
_NEW_EVENT_FIELDS: Final = (
    *(label.replace("involvedObject", "regarding") for label in _EVENT_FIELDS if label.startswith("involved")),
    "reason",
    "reportingController",
    "type",
)

CORE: Final = (
    ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",),
                 subresources=frozenset({"status", "finalize"}),
                 field_labels=("status.phase",)),
    ResourceKind("", "v1", "pods", "Pod", short_names=("po",), categories=("all",), generation=True,
                 subresources=frozenset({"status", "eviction"}), field_labels=_POD_FIELDS),
    ResourceKind("", "v1", "nodes", "Node", namespaced=False, short_names=("no",), subresources=_STATUS,
                 field_labels=("spec.unschedulable",)),
    ResourceKind("", "v1", "events", "Event", short_names=("ev",), storage="events", field_labels=_EVENT_FIELDS,
                 create_on_update=True),
    ResourceKind("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    ResourceKind("", "v1", "secrets", "Secret", field_labels=("type",)),
    ResourceKind("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    ResourceKind("", "v1", "services", "Service", short_names=("svc",), categories=("all",), subresources=_STATUS,
                 create_on_update=True,
                 field_labels=("spec.clusterIP", "spec.type")),
    ResourceKind("", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",), subresources=_STATUS),
    ResourceKind("batch", "v1", "jobs", "Job", categories=("all",), subresources=_STATUS, generation=True,
                 field_labels=("status.successful",)),
    ResourceKind("events.k8s.io", "v1", "events", "Event", short_names=("ev",), storage="events",
                 field_labels=_NEW_EVENT_FIELDS, create_on_update=True),
    ResourceKind("coordination.k8s.io", "v1", "leases", "Lease", unconditional_update=False, create_on_update=True),
    ResourceKind("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
                 namespaced=False, categories=("api-extensions",), generation=True, unconditional_update=False),
    ResourceKind("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
                 "ValidatingWebhookConfiguration", namespaced=False, categories=("api-extensions",), generation=True,
                 unconditional_update=False),
    ResourceKind(SCHEDULING_GROUP, "v1", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",),
                 generation=True),
    ResourceKind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False,
                 create_on_update=True),
    ResourceKind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False,
                 create_on_update=True),
    ResourceKind("rbac.authorization.k8s.io", "v1", "roles", "Role", create_on_update=True),
    ResourceKind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", create_on_update=True),
    ResourceKind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
                 namespaced=False, short_names=("crd", "crds"), categories=("api-extensions",), subresources=_STATUS,
                 generation=True, unconditional_update=False),
    ResourceKind(JOBSET_GROUP, "v1alpha2", "jobsets", "JobSet", subresources=_STATUS, generation=True, custom=True,
                 unconditional_update=False),
    # Questions that are answered and not stored.
    ResourceKind("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview",
                 namespaced=False, verbs=CREATE_ONLY),
    ResourceKind("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False,
                 verbs=CREATE_ONLY),
    ResourceKind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False, verbs=CREATE_ONLY),
    ResourceKind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False,
                 verbs=CREATE_ONLY),
)  # fmt: skip


_POLICIES: Final = tuple(
    ResourceKind("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False, categories=("api-extensions",),
                 generation=True, unconditional_update=False)
    for plural, kind in (
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    )
)  # fmt: skip
"""Since 1.36: in 1.35 they are beta, and off."""


def _gang_kinds(minor: Minor, version: str) -> tuple[ResourceKind, ...]:
    workloads = ResourceKind(SCHEDULING_GROUP, version, "workloads", "Workload", unconditional_update=False)
    podgroups = ResourceKind(
        SCHEDULING_GROUP, version, "podgroups", "PodGroup", subresources=_STATUS, unconditional_update=False
    )
    return tuple(kind for kind in (workloads, podgroups) if kind.plural in minor.resources)


def kinds_of(minor: str, runtime_config: Mapping[str, bool]) -> tuple[ResourceKind, ...]:
    """Everything a server of ``minor`` serves at start.

    ``runtime_config`` switches an API version off, for one ``scheduling.k8s.io/v1beta1``
    (``False``); what the minor serves for gangs is on unless it says so. On 1.38 it switches v1beta1 on.
    ValueError for an unknown minor.
    """
    if minor not in MINORS:
        raise ValueError(f"unknown minor {minor!r}: have {', '.join(MINORS)}")
    known = MINORS[minor]
    kinds = [*CORE, *_gang_kinds(known, known.scheduling_version)]
    if known.rules != "1.35":
        kinds += _POLICIES
    older = f"{SCHEDULING_GROUP}/{known.older_version}"
    if runtime_config.get(older, False):
        kinds += _gang_kinds(known, known.older_version)
    return tuple(kind for kind in kinds if runtime_config.get(kind.api_version, True))
