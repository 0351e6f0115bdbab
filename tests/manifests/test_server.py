"""The API servers of all minors take the manifests, and the rights in them are what they say.

Everything is moved to a namespace of the test's own by an overlay, as an operator would do it, and sent with
`--dry-run=server`: defaulting, validation, admission and the compilation of the CEL conditions all happen, and
nothing stays.
"""

import copy
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.api import ApiClient, ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.files import MANIFESTS, ROOT, one
from tests.manifests.kubectl import Kubectl
from tests.manifests.rbac import rbac_objects

pytestmark = pytest.mark.controlplane

BASE = MANIFESTS / "base"


@pytest.fixture
def kubectl(plane: ControlPlane, tmp_path: Path) -> Kubectl:
    return Kubectl(tmp_path, plane.kubeconfig)


def overlay(directory: Path, name: str, namespace: str, *, older: bool) -> Path:
    """A kustomization that moves one of ours to another namespace; kustomize wants the way there to be relative.

    Names get a suffix, because the plane is shared: a live test may have left objects under the names as shipped. It
    begins with a letter: a YAML reader may take digits for a number. An ``older`` API server has no policies.
    """
    directory.mkdir()
    base = os.path.relpath(MANIFESTS / name, directory.resolve())
    kustomization: Object = {"namespace": namespace, "nameSuffix": f"-n{namespace[-6:]}", "resources": [base]}
    if older and name == "base":
        kustomization |= older_patches()
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory


def older_patches() -> Object:
    """What docs/install.md says for Kubernetes 1.35."""
    (block,) = re.findall(r"(?ms)^```yaml\n# Kubernetes 1\.35\n(.*?)^```$", (ROOT / "docs" / "install.md").read_text())
    found: Object = yaml.safe_load(block)
    return found


async def build(kubectl: Kubectl, name: str, namespace: str, *, older: bool = False) -> list[Object]:
    built = await kubectl.run("kustomize", str(overlay(kubectl.home / "overlay", name, namespace, older=older)))
    return list(yaml.safe_load_all(built.text))


async def enforce_restricted(plane: ControlPlane, namespace: str) -> None:
    labels = one(BASE / "namespace.yaml")["metadata"]["labels"]
    await plane.api.patch(path_of("v1", "namespaces", name=namespace), {"metadata": {"labels": labels}})


@pytest.mark.parametrize("name", ["base", "out-of-cluster"])
async def test_the_server_accepts_the_manifests_without_a_warning(
    name: str, plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    objects = await build(kubectl, name, namespace, older=plane.minor.name == "1.35")
    await enforce_restricted(plane, namespace)
    applied = await kubectl.run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), given=yaml.safe_dump_all(objects)
    )
    lines = applied.text.splitlines()
    assert len(lines) == len(objects)
    assert all(line.endswith(" (server dry run)") for line in lines)
    assert applied.warnings == []


async def test_an_overlay_changes_every_reference_to_the_namespace(namespace: str, kubectl: Kubectl) -> None:
    for each in await build(kubectl, "base", namespace):
        if each["kind"] == "ValidatingAdmissionPolicy":
            # That the account is another is a patch by hand.
            del each["spec"]["matchConditions"]
        namespaced = [hook for hook in each.get("webhooks", []) if hook["rules"][0]["scope"] == "Namespaced"]
        selectors = [hook.pop("namespaceSelector") for hook in namespaced]
        if each["kind"] == "MutatingAdmissionPolicyBinding":
            selectors = [each["spec"]["matchResources"].pop("namespaceSelector")]
        assert "gangctl-system" not in yaml.safe_dump(each)
        # The one place that does not follow; base/kustomization.yaml describes what to do.
        assert all("gangctl-system" in str(selector) for selector in selectors)


@pytest.fixture
async def pod(plane: ControlPlane, namespace: str) -> Object:
    """A pod as the Deployment would make it; its namespace enforces the restricted level."""
    await enforce_restricted(plane, namespace)
    account = one(BASE / "serviceaccount.yaml")
    account["metadata"]["namespace"] = namespace
    await plane.api.create(path_of("v1", "serviceaccounts", namespace=namespace), account)
    template = one(BASE / "deployment.yaml")["spec"]["template"]
    metadata = {**template["metadata"], "name": "gangctl", "namespace": namespace}
    privileged = {"name": "c", "image": "i", "securityContext": {"privileged": True}}
    violating = {"metadata": {"name": "privileged", "namespace": namespace}, "spec": {"containers": [privileged]}}

    async def enforced() -> bool:
        """The plugin follows the labels of namespaces by a watch."""
        try:
            await plane.api.create(path_of("v1", "pods", namespace=namespace), violating, dryRun="All")
        except ApiFailure as failure:
            if 'violates PodSecurity "restricted:latest"' in failure.message:
                return True
            raise NotYet(failure.message) from failure
        return False

    await wait_for(enforced, "the restricted level to be enforced")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


async def test_pod_passes_the_restricted_level(plane: ControlPlane, namespace: str, pod: Object) -> None:
    pods = path_of("v1", "pods", namespace=namespace)
    made = await plane.api.create(pods, pod, dryRun="All", fieldValidation="Strict")
    assert made["spec"]["priority"] == 2_000_000_000
    mounted = {mount["mountPath"] for mount in made["spec"]["containers"][0]["volumeMounts"]}
    assert mounted == {"/tmp", "/var/run/secrets/kubernetes.io/serviceaccount"}


@pytest.mark.parametrize("field", ["runAsNonRoot", "allowPrivilegeEscalation", "capabilities", "seccompProfile"])
async def test_the_restricted_level_refuses_a_privileged_pod(
    field: str, plane: ControlPlane, namespace: str, pod: Object
) -> None:
    changed: dict[str, Any] = copy.deepcopy(pod)
    for context in (changed["spec"]["securityContext"], changed["spec"]["containers"][0]["securityContext"]):
        context.pop(field, None)
    with pytest.raises(ApiFailure, match=f'violates PodSecurity "restricted:latest".*{field}'):
        await plane.api.create(path_of("v1", "pods", namespace=namespace), changed, dryRun="All")


@pytest.fixture
async def user(plane: ControlPlane, namespace: str) -> AsyncIterator[ApiClient]:
    """A user with the shipped rights, at home in the test's namespace."""
    name = f"user-of-{namespace}"
    applied = []
    objects = [each for each in rbac_objects(name, namespace) if each["apiVersion"].startswith("rbac.")]
    for each in objects:
        plural, metadata = f"{each['kind'].lower()}s", each["metadata"]
        path = path_of(each["apiVersion"], plural, namespace=metadata.get("namespace"))
        await plane.api.create(path, each)
        applied.append(f"{path}/{metadata['name']}")

    async def in_force() -> bool:
        """The authorizer follows roles and bindings by watches, each by its own."""
        for role in objects:
            for rule in role.get("rules", ()):
                if not await may(plane, name, namespace, rule):
                    raise NotYet(f"{role['metadata']['name']}: {rule}")
        return True

    await wait_for(in_force, "the rights to be in force")
    client = plane.client(name)
    yield client
    await client.close()
    for path in applied:
        await plane.api.delete(path)


async def may(plane: ControlPlane, who: str, namespace: str, rule: Object) -> bool:
    """Whether the user has the first of a rule's rights in a namespace."""
    plural, _, subresource = rule["resources"][0].partition("/")
    attributes = {
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": plural,
        "subresource": subresource,
        "namespace": namespace,
        "name": rule.get("resourceNames", [""])[0],
    }
    body: Object = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": who, "groups": ["system:authenticated"], "resourceAttributes": attributes},
    }
    path = path_of("authorization.k8s.io/v1", "subjectaccessreviews")
    return bool((await plane.api.create(path, body))["status"]["allowed"])


def configurations(name: str = "") -> str:
    return path_of("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", name=name or None)


async def refused(client: ApiClient, method: str, path: str, **parameters: str) -> bool:
    """Whether RBAC refuses it; anything else that goes wrong (an empty body, a missing object) was allowed."""
    try:
        await client.request(method, path, body=None if method == "GET" else {}, parameters=parameters)
    except ApiFailure as failure:
        return failure.status == 403
    return False


async def test_user_reads_jobsets_everywhere_and_writes_gangs(plane: ControlPlane, user: ApiClient) -> None:
    jobsets = path_of("jobset.x-k8s.io/v1alpha2", "jobsets")
    assert isinstance(await user.list(jobsets), list)
    assert isinstance(await user.list(path_of("v1", "pods")), list)
    gangs = path_of(f"scheduling.k8s.io/{plane.minor.scheduling_version}", "workloads", namespace="default")
    assert not await refused(user, "POST", gangs, dryRun="All")
    assert await refused(user, "PUT", f"{gangs}/any")
    assert await refused(user, "PATCH", f"{gangs}/any/status")


@pytest.mark.parametrize(
    ("api_version", "plural"), [("batch/v1", "jobs"), ("v1", "pods"), ("jobset.x-k8s.io/v1alpha2", "jobsets")]
)
async def test_the_user_cannot_change_running_workloads(
    api_version: str, plural: str, namespace: str, user: ApiClient
) -> None:
    for place in ("default", namespace):
        path = path_of(api_version, plural, namespace=place, name="any")
        for method in ("PUT", "PATCH", "DELETE"):
            assert await refused(user, method, path), f"{method} {path}"
    assert await refused(user, "POST", path_of(api_version, plural, namespace="default"), dryRun="All")


async def test_user_sees_only_its_own_webhook_configurations(user: ApiClient) -> None:
    for watch in ({}, {"watch": "true", "timeoutSeconds": "1"}):
        assert not await refused(user, "GET", configurations(), fieldSelector="metadata.name=gangctl-gangs", **watch)
        assert await refused(user, "GET", configurations(), **watch)
    assert not await refused(user, "GET", configurations("gangctl-gangs"))
    assert await refused(user, "GET", configurations("jobset-mutating-webhook-configuration"))
    assert await refused(user, "DELETE", configurations("jobset-mutating-webhook-configuration"))


async def test_the_user_reads_one_secret_and_one_lease(namespace: str, user: ApiClient) -> None:
    secrets = path_of("v1", "secrets", namespace=namespace)
    assert not await refused(user, "GET", f"{secrets}/gangctl-webhook-certs")
    assert await refused(user, "GET", f"{secrets}/another")
    assert await refused(user, "GET", secrets)
    assert await refused(user, "GET", path_of("v1", "secrets", namespace="default", name="gangctl-webhook-certs"))
    leases = path_of("coordination.k8s.io/v1", "leases", namespace=namespace)
    assert not await refused(user, "GET", f"{leases}/gangctl")
    assert await refused(user, "PUT", f"{leases}/another")
    assert await refused(user, "DELETE", f"{leases}/gangctl")
