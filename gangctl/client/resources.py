"""Resources as values: the parts of a REST path, and the resources that every part of gangctl may name.

The resources of the scheduling API differ between generations, so the caller makes them from discovery.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from gangctl.errors import InputError


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of one API version; ``group`` is empty for the core group.

    ``plural`` is the path segment (``jobsets``), ``kind`` the name in an object (``JobSet``).
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``apiVersion`` as an object carries it: ``v1``, ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """``plural.group``, as RBAC messages and metrics name a resource; the core group adds nothing."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Build the URL path of a collection, an object or a subresource.

        Without ``namespace`` the collection spans all namespaces. An object of a
        namespaced resource needs its namespace, a cluster-scoped one has none.
        """
        if namespace and not self.namespaced:
            raise InputError(f"{self.qualified_name} is cluster-scoped, but namespace {namespace!r} was given")
        if name is not None and self.namespaced and not namespace:
            raise InputError(f"{self.qualified_name} {name!r}: a namespaced object needs its namespace")
        if subresource and name is None:
            raise InputError(f"{self.qualified_name}: subresource {subresource!r} needs an object's name")
        segments = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            segments += ["namespaces", _segment(namespace)]
        segments.append(self.plural)
        if name is not None:
            segments.append(_segment(name))
        if subresource:
            segments += subresource.split("/")
        return "/" + "/".join(segments)


def _segment(value: str) -> str:
    """Quote one path segment; names the API server itself refuses (they would climb or split the path) are errors."""
    if value in {"", ".", ".."} or "/" in value or "%" in value:
        raise InputError(f"{value!r} cannot be a name: it must not be empty, '.', '..' or contain '/' or '%'")
    return quote(value, safe="")


def _of_cluster(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=False)


_ADMISSION = "admissionregistration.k8s.io"
JOBSETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
MUTATING_WEBHOOK_CONFIGURATIONS = _of_cluster(
    _ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
VALIDATING_WEBHOOK_CONFIGURATIONS = _of_cluster(
    _ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
MUTATING_ADMISSION_POLICIES = _of_cluster(_ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy")
MUTATING_ADMISSION_POLICY_BINDINGS = _of_cluster(
    _ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"
)
TOKEN_REVIEWS = _of_cluster("authentication.k8s.io", "tokenreviews", "TokenReview")
SUBJECT_ACCESS_REVIEWS = _of_cluster("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview")
