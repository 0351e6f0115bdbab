"""What people bound to view, edit and admin can and cannot do, asked of the API servers and tried."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.manifests.files import MANIFESTS, documents

pytestmark = pytest.mark.controlplane

RBAC = "rbac.authorization.k8s.io/v1"
REVIEWS = path_of("authorization.k8s.io/v1", "subjectaccessreviews")
JOBSET, GANGS, KUEUE, OURS = "jobset.x-k8s.io", "scheduling.k8s.io", "kueue.x-k8s.io", "gangctl.dev"

# Verb and resource, and whether view, edit and admin of a namespace, a viewer of queues and an approver may.
MATRIX = {
    ("list", JOBSET, "jobsets"): "vea",
    ("get", JOBSET, "jobsets/status"): "vea",
    ("create", JOBSET, "jobsets"): "ea",
    ("patch", JOBSET, "jobsets"): "ea",
    ("deletecollection", JOBSET, "jobsets"): "ea",
    ("patch", JOBSET, "jobsets/status"): "",
    ("watch", GANGS, "workloads"): "vea",
    ("get", GANGS, "podgroups"): "vea",
    ("patch", GANGS, "podgroups/status"): "",
    ("list", KUEUE, "workloads"): "vea",
    ("get", KUEUE, "localqueues"): "vea",
    ("delete", KUEUE, "workloads"): "a",
    ("create", KUEUE, "workloads"): "",
    ("patch", KUEUE, "workloads"): "",
    ("patch", KUEUE, "workloads/status"): "",
    ("create", KUEUE, "localqueues"): "",
    ("patch", KUEUE, "localqueues"): "",
    ("list", KUEUE, "clusterqueues"): "q",
    ("get", KUEUE, "resourceflavors"): "q",
    ("list", KUEUE, "cohorts"): "q",
    ("list", GANGS, "priorityclasses"): "q",
    ("update", KUEUE, "clusterqueues"): "",
    ("list", OURS, "gangs"): "vea",
    ("get", OURS, "gangs/status"): "vea",
    ("create", OURS, "gangs"): "",
    ("delete", OURS, "gangs"): "",
    ("patch", OURS, "gangs/status"): "",
    ("list", OURS, "gangpolicies"): "qp",
    ("create", OURS, "gangpolicies"): "",
    ("list", OURS, "gangpolicyexceptions"): "p",
    ("create", OURS, "gangpolicyexceptions"): "p",
    ("delete", OURS, "gangpolicyexceptions"): "p",
    ("patch", OURS, "gangpolicyexceptions/status"): "",
    ("list", "wgpolicyk8s.io", "policyreports"): "",
    ("patch", "", "namespaces"): "",
}
WHO = {"v": "view", "e": "edit", "a": "admin", "q": "gangctl-queues-view", "p": "gangctl-approver"}


def user(role: str, namespace: str) -> str:
    return f"{role}-of-{namespace}"


async def asked(plane: ControlPlane, who: str, namespace: str, right: tuple[str, str, str]) -> bool:
    """The answer of the API server's authorizer."""
    verb, group, resource = right
    plural, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource, "namespace": namespace}
    spec = {"user": who, "groups": ["system:authenticated"], "resourceAttributes": attributes}
    body: Object = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool((await plane.api.create(REVIEWS, body))["status"]["allowed"])


@pytest.fixture
async def people(plane: ControlPlane, namespace: str) -> AsyncIterator[str]:
    """The roles as shipped, each with a user of its own: in the namespace, or of the cluster."""
    made = []

    async def make(kind: str, name: str, **rest: object) -> None:
        path = path_of(RBAC, kind.lower() + "s", namespace=namespace if kind == "RoleBinding" else None)
        await plane.api.create(path, {"apiVersion": RBAC, "kind": kind, "metadata": {"name": name}, **rest})
        made.append(f"{path}/{name}")

    suffix = f":{namespace}"
    for role in documents(MANIFESTS / "tenants"):
        if role["kind"] != "ClusterRole":
            continue
        path = path_of(RBAC, "clusterroles")
        role["metadata"]["name"] += suffix
        await plane.api.create(path, role, fieldValidation="Strict")
        made.append(f"{path}/{role['metadata']['name']}")
    for letter, shipped in WHO.items():
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user(letter, namespace)}]
        name = shipped if letter in "vea" else shipped + suffix
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        kind = "RoleBinding" if letter in "vea" else "ClusterRoleBinding"
        await make(kind, f"{letter}{suffix}", roleRef=reference, subjects=subjects)

    async def taken_in() -> bool:
        """Kubernetes aggregates roles and sees bindings with a delay."""
        for letter, role in WHO.items():
            for right, allowed in MATRIX.items():
                if letter in allowed and not await asked(plane, user(letter, namespace), namespace, right):
                    raise NotYet(f"{role} may not {right}")
        return True

    await wait_for(taken_in, "the roles to be taken into view, edit and admin, and to be in force")
    yield namespace
    for path in made:
        await plane.api.delete(path)


async def test_each_user_has_exactly_the_rights_of_the_roles(plane: ControlPlane, people: str) -> None:
    wrong = [
        f"{WHO[letter]}: {right}"
        for right, allowed in MATRIX.items()
        for letter in WHO
        if await asked(plane, user(letter, people), people, right) is not (letter in allowed)
    ]
    assert wrong == []


async def test_users_have_no_rights_in_other_namespaces(plane: ControlPlane, people: str) -> None:
    for letter in "vea":
        for right in MATRIX:
            assert not await asked(plane, user(letter, people), "default", right)


async def test_edit_creates_jobsets_and_view_only_reads(plane: ControlPlane, people: str) -> None:
    viewer, editor = (plane.client(user(letter, people)) for letter in "ve")
    path = path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace=people)
    body = jobset("js", rj("w", 1, 1, 1), namespace=people)
    with pytest.raises(ApiFailure, match="403"):
        await viewer.create(path, body)
    await editor.create(path, body)
    assert [each["metadata"]["name"] for each in await viewer.list(path)] == ["js"]
    for each in (viewer, editor):
        with pytest.raises(ApiFailure, match="403"):
            await each.patch(f"{path}/js/status", {"status": {"restarts": 1}})
        with pytest.raises(ApiFailure, match="403"):
            await each.list(path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace="default"))
    await editor.delete(f"{path}/js")
    await viewer.close()
    await editor.close()
