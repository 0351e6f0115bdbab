"""The objects of an installation, equal to kustomize's for the same components, and those to delete. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from gangctl.api import jsonpatch
from gangctl.api.meta import SYSTEM_NAMESPACE
from gangctl.cli.install.components import COMPONENTS
from gangctl.runtime.shards import lease_names

Object = dict[str, Any]
_FLAG: Final = "--shards="
_CONTAINER: Final = "/spec/template/spec/containers/0"
_UPDATED_AT_A_TIME: Final = 1


def divided(each: Object, shards: int) -> Object:
    """An object of the manifests for a number of shards: with one more replica, so that a drain leaves each a leader.

    For one shard it stays as it is.
    """
    if shards == 1:
        return each
    match each["kind"]:
        case "Deployment":
            arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
            kept = [f"{_FLAG}{shards}" if text.startswith(_FLAG) else text for text in arguments]
            return _replaced(each, {"/spec/replicas": shards + 1, f"{_CONTAINER}/args": kept})
        case "PodDisruptionBudget":
            return _replaced(each, {"/spec/minAvailable": shards})
        case "Role":
            names = {
                f"/rules/{index}/resourceNames": list(lease_names(rule["resourceNames"][0], shards))
                for index, rule in enumerate(each["rules"])
                if _is_about_leases(rule)
            }
            return _replaced(each, names)
        case _:
            return each


def with_room(each: Object, replicas: int) -> Object:
    """An object of the manifests, a quota for a number of replicas and the additional one of an update."""
    if each["kind"] != "ResourceQuota":
        return each
    least = int(each["spec"]["hard"]["pods"])
    return _replaced(each, {"/spec/hard/pods": str(max(least, replicas + _UPDATED_AT_A_TIME))})


def leases(objects: Iterable[Object]) -> list[str]:
    """Names of the Leases that gangctl may hold by the rights among these objects, the first shard's first."""
    rules = [rule for item in objects if item["kind"] == "Role" for rule in item["rules"] if _is_about_leases(rule)]
    return [str(name) for rule in rules for name in rule["resourceNames"]]


def _is_about_leases(rule: Object) -> bool:
    return rule["resources"] == ["leases"] and "resourceNames" in rule


def _replaced(each: Object, values: dict[str, Any]) -> Object:
    return jsonpatch.apply(each, [{"op": "replace", "path": path, "value": value} for path, value in values.items()])


_OWN_NAMESPACE: Final = re.compile(rf"(?<![\w-]){SYSTEM_NAMESPACE}(?![\w-])")
# The order in which kustomize sorts kinds: referenced kinds come before others, webhooks come last.
_FIRST: Final = (
    *("Namespace", "ResourceQuota", "CustomResourceDefinition", "ServiceAccount"),
    *("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    *("ConfigMap", "Secret", "Service", "Deployment", "PodDisruptionBudget"),
)
_LAST: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass(frozen=True, slots=True)
class InstallationOptions:
    """Options of an installation: names of components in any order, and changes to the manifests (None: none).

    ``flags`` are arguments of ``gangctl controller``, each as ``--NAME=VALUE``: an existing one is replaced.
    Several ``shards`` use the component of this name, for that number. ``failure_policy`` is that of the webhooks for
    JobSets.
    """

    components: frozenset[str] = frozenset()
    out_of_cluster: bool = False
    namespace: str = SYSTEM_NAMESPACE
    image: str | None = None
    replicas: int | None = None
    flags: tuple[str, ...] = ()
    shards: int | None = None
    failure_policy: str | None = None


def render(choice: InstallationOptions) -> list[Object]:
    """Every object, in an order in which they can be applied."""
    shipped = json.loads(resources.files("gangctl.cli.install").joinpath("manifests.json").read_text(encoding="utf-8"))
    objects: list[Object] = list(shipped["out-of-cluster" if choice.out_of_cluster else "base"])
    several = choice.shards is not None and choice.shards > 1
    chosen = choice.components | ({"shards"} if several and not choice.out_of_cluster else set())
    for component in COMPONENTS:
        if component.name in chosen:
            part = shipped["components"][component.name]
            objects = _patched([*objects, *part["objects"]], part["patches"])
    if choice.shards is not None:
        objects = [divided(item, choice.shards) for item in objects]
    objects = [_deployed(item, choice) if item["kind"] == "Deployment" else item for item in objects]
    # After shards and flags, which decide the number of replicas.
    for replicas in [item["spec"]["replicas"] for item in objects if item["kind"] == "Deployment"]:
        objects = [with_room(item, replicas) for item in objects]
    if choice.failure_policy is not None:
        policy = {"/webhooks/0/failurePolicy": choice.failure_policy}
        objects = [_replaced(item, policy) if _is_for_jobsets(item) else item for item in objects]
    # After the patches, some of which name the namespace of the manifests.
    if choice.namespace != SYSTEM_NAMESPACE:
        objects = [_moved(item, choice.namespace) for item in objects]
    return sorted(objects, key=place)


def place(each: Object) -> tuple[int, str, str, str]:
    """Sort key of objects."""
    group, _, _ = str(each["apiVersion"]).rpartition("/")
    kind, name = str(each["kind"]), str(each["metadata"]["name"])
    if kind in _FIRST:
        return _FIRST.index(kind) - len(_FIRST), "", "", name
    if kind in _LAST:
        return _LAST.index(kind) + 1, "", "", name
    return 0, group, kind, name


def _is_for_jobsets(each: Object) -> bool:
    """Whether it has a webhook that is asked about JobSets with a gang, and no other."""
    return each["kind"] in _LAST and each["metadata"]["name"] == "gangctl-gangs"


def _patched(objects: Iterable[Object], patches: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Apply each patch to its targets, possibly none: kind and name are regular expressions, as for kustomize."""
    patched = list(objects)
    for patch in patches:
        kind, name, operations = re.compile(patch["kind"]), re.compile(patch["name"]), patch["operations"]
        for index, obj in enumerate(patched):
            if kind.fullmatch(obj["kind"]) and name.fullmatch(obj["metadata"]["name"]):
                patched[index] = jsonpatch.apply(obj, operations)
    return patched


def _deployed(deployment: Object, choice: InstallationOptions) -> Object:
    values: dict[str, Any] = {}
    if choice.image is not None:
        values[f"{_CONTAINER}/image"] = choice.image
    if choice.replicas is not None:
        values["/spec/replicas"] = choice.replicas
    names = {flag.partition("=")[0] for flag in choice.flags}
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    # A flag replaces the argument of the same name.
    values[f"{_CONTAINER}/args"] = [
        *(argument for argument in arguments if argument.partition("=")[0] not in names),
        *choice.flags,
    ]
    return _replaced(deployment, values)


def _moved(value: Any, namespace: str) -> Any:
    """The same in another namespace: in all references, selectors and expressions included."""
    if isinstance(value, dict):
        return {key: _moved(field, namespace) for key, field in value.items()}
    if isinstance(value, list):
        return [_moved(item, namespace) for item in value]
    return _OWN_NAMESPACE.sub(namespace, value) if isinstance(value, str) else value


_KEPT: Final = frozenset({"CustomResourceDefinition", "Namespace"})
_REGISTRATIONS: Final = (
    ("ValidatingWebhookConfiguration", "gangctl-policies"),
    ("ValidatingWebhookConfiguration", "gangctl-gangs"),
    ("MutatingWebhookConfiguration", "gangctl-gangs"),
    ("MutatingWebhookConfiguration", "gangctl-jobs"),
    ("MutatingWebhookConfiguration", "gangctl-defaults"),
    ("MutatingAdmissionPolicyBinding", "gangctl-gangs"),
    ("MutatingAdmissionPolicy", "gangctl-gangs"),
)
POLICY_KINDS: Final = frozenset({"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"})
"""Of the policy for Jobs, which Kubernetes 1.35 does not serve."""


def removal(objects: Iterable[Object], namespace: str, *, everything: bool) -> list[Object]:
    """Identities in the order of deletion: webhooks first, so that none remains without a server.

    Objects that gangctl created for itself are deleted after its rights to create them. With ``everything``, objects
    that may contain data of users come last: the definitions, with every object of their kinds, and the namespace.
    """
    # Outside of a cluster gangctl registers itself.
    registrations = [_named("admissionregistration.k8s.io/v1", kind, name) for kind, name in _REGISTRATIONS]
    installed = sorted(objects, key=place, reverse=True)
    goes = [item for item in installed if item["kind"] not in {*_KEPT, *(kind for kind, _ in _REGISTRATIONS)}]
    made = [
        *(_named("coordination.k8s.io/v1", "Lease", name, namespace) for name in leases(installed)),
        _named("v1", "Secret", "gangctl-webhook-certs", namespace),
    ]
    last = [item for item in installed if item["kind"] in _KEPT] if everything else []
    return [*registrations, *map(_identity, goes), *made, *map(_identity, last)]


def _identity(each: Object) -> Object:
    metadata = each["metadata"]
    return _named(each["apiVersion"], each["kind"], metadata["name"], metadata.get("namespace"))


def _named(api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
