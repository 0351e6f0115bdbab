"""What to delete so that gangctl is gone, and nothing that runs is. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gangctl.cli.install.rendering import place
from gangctl.cli.install.shares import leases

Object = dict[str, Any]

_KEPT: Final = frozenset({"CustomResourceDefinition", "Namespace"})
_REGISTRATIONS: Final = (
    ("ValidatingWebhookConfiguration", "gangctl-policies"),
    ("ValidatingWebhookConfiguration", "gangctl-gangs"),
    ("MutatingWebhookConfiguration", "gangctl-gangs"),
    ("MutatingWebhookConfiguration", "gangctl-jobs"),
    ("MutatingWebhookConfiguration", "gangctl-defaults"),
)
_JOB_POLICY: Final = (
    ("MutatingAdmissionPolicyBinding", "gangctl-gangs-proof"),
    ("MutatingAdmissionPolicyBinding", "gangctl-gangs"),
    ("MutatingAdmissionPolicy", "gangctl-gangs"),
)


def removal(objects: Iterable[Object], namespace: str, *, everything: bool, job_policy: bool = True) -> list[Object]:
    """Identities in the order in which to delete them: webhooks first, so that none is left that nobody answers.

    Without ``job_policy`` the API server knows no MutatingAdmissionPolicies. What gangctl has made for itself goes when
    it has no right any more to make it again. With ``everything`` come, last, what may hold things of other people: the
    definitions, with every object of their kinds, and the namespace.
    """
    # Outside of a cluster gangctl registers itself.
    registered = (*_REGISTRATIONS, *(_JOB_POLICY if job_policy else ()))
    registrations = [_named("admissionregistration.k8s.io/v1", kind, name) for kind, name in registered]
    installed = sorted(objects, key=place, reverse=True)
    goes = [each for each in installed if each["kind"] not in {*_KEPT, *(kind for kind, _ in registered)}]
    made = [
        *(_named("coordination.k8s.io/v1", "Lease", name, namespace) for name in leases(installed)),
        _named("v1", "Secret", "gangctl-webhook-certs", namespace),
    ]
    last = [each for each in installed if each["kind"] in _KEPT] if everything else []
    return [*registrations, *map(_identity, goes), *made, *map(_identity, last)]


def _identity(each: Object) -> Object:
    metadata = each["metadata"]
    return _named(each["apiVersion"], each["kind"], metadata["name"], metadata.get("namespace"))


def _named(api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
