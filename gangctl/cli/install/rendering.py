"""The objects of an installation, the same that kustomize makes of the same components. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from gangctl.cli.install.components import COMPONENTS
from gangctl.cli.install.shares import divided, with_room
from gangctl.sandbox.patches import json_patch

Object = dict[str, Any]

NAMESPACE: Final = "gangctl-system"
"""The namespace in the manifests."""

_OWN_NAMESPACE: Final = re.compile(rf"(?<![\w-]){NAMESPACE}(?![\w-])")

# The order in which kustomize sorts kinds: whatever is named by others comes before them, webhooks come last of all.
_FIRST: Final = (
    *("Namespace", "ResourceQuota", "CustomResourceDefinition", "ServiceAccount"),
    *("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    *("ConfigMap", "Secret", "Service", "Deployment", "PodDisruptionBudget"),
)
_LAST: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody wants: names of components in any order, and what is to differ from the manifests (None: nothing).

    ``flags`` are arguments of ``gangctl controller``, each as ``--NAME=VALUE``: one that is there already is replaced.
    Several ``shards`` are the component of this name, made for as many.
    """

    components: frozenset[str] = frozenset()
    out_of_cluster: bool = False
    namespace: str = NAMESPACE
    image: str | None = None
    replicas: int | None = None
    flags: tuple[str, ...] = ()
    shards: int | None = None


def render(choice: Choice) -> list[Object]:
    """Every object, in an order in which they can be applied."""
    shipped = _shipped()
    objects: list[Object] = list(shipped["out-of-cluster" if choice.out_of_cluster else "base"])
    several = choice.shards is not None and choice.shards > 1
    chosen = choice.components | ({"shards"} if several and not choice.out_of_cluster else set())
    for component in COMPONENTS:
        if component.name in chosen:
            part = shipped["components"][component.name]
            objects = _patched([*objects, *part["objects"]], part["patches"])
    if choice.shards is not None:
        objects = [divided(each, choice.shards) for each in objects]
    objects = [_deployed(each, choice) if each["kind"] == "Deployment" else each for each in objects]
    for replicas in [each["spec"]["replicas"] for each in objects if each["kind"] == "Deployment"]:
        objects = [with_room(each, replicas) for each in objects]
    if choice.namespace != NAMESPACE:
        objects = [_moved(each, choice.namespace) for each in objects]
    return sorted(objects, key=place)


def place(each: Object) -> tuple[int, str, str, str]:
    """What objects are sorted by."""
    group, _, _ = str(each["apiVersion"]).rpartition("/")
    kind, name = str(each["kind"]), str(each["metadata"]["name"])
    if kind in _FIRST:
        return _FIRST.index(kind) - len(_FIRST), "", "", name
    if kind in _LAST:
        return _LAST.index(kind) + 1, "", "", name
    return 0, group, kind, name


def _shipped() -> Mapping[str, Any]:
    text = resources.files("gangctl.cli.install").joinpath("manifests.json").read_text(encoding="utf-8")
    shipped: dict[str, Any] = json.loads(text)
    return shipped


def _patched(objects: Iterable[Object], patches: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Each patch made on what it is for; that may be nothing, as with kustomize. Without operations it deletes."""
    found = list(objects)
    for patch in patches:
        target, operations = (patch["kind"], patch["name"]), patch["operations"]
        changed = []
        for each in found:
            if (each["kind"], each["metadata"]["name"]) != target:
                changed.append(each)
            elif operations is not None:
                changed.append(json_patch(each, operations))
        found = changed
    return found


def _deployed(deployment: Object, choice: Choice) -> Object:
    operations: list[Object] = []
    container = "/spec/template/spec/containers/0"
    if choice.image is not None:
        operations.append({"op": "replace", "path": f"{container}/image", "value": choice.image})
    if choice.replicas is not None:
        operations.append({"op": "replace", "path": "/spec/replicas", "value": choice.replicas})
    if choice.flags:
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        operations.append({"op": "replace", "path": f"{container}/args", "value": with_flags(arguments, choice.flags)})
    return json_patch(deployment, operations)


def with_flags(arguments: Iterable[str], flags: Sequence[str]) -> list[str]:
    """Arguments, and behind them the flags, which take the place of those of the same name."""
    names = {flag.partition("=")[0] for flag in flags}
    return [*(each for each in arguments if each.partition("=")[0] not in names), *flags]


def _moved(each: Object, namespace: str) -> Object:
    """The same in another namespace: wherever the manifests name theirs, selectors and expressions included."""
    moved: Object = _each_string(each, lambda text: _OWN_NAMESPACE.sub(namespace, text))
    return moved


def _each_string(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _each_string(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_each_string(each, change) for each in value]
    return change(value) if isinstance(value, str) else value
