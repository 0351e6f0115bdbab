"""Pods as they were made of the templates of a JobSet: it is they that the scheduler places.

Between a template and a pod are JobSet, Kueue, the Job controller, and admission with its plugins and webhooks: they
add tolerations, containers and selectors (``ExtendedResourceToleration``, ``LimitRanger``, ``RuntimeClass``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.objects import Object, object_at, objects, objects_at
from gangctl.api.requests import Requests, read_list
from gangctl.gang.desired import listed

_PLACEMENT: Final = (
    *("affinity", "nodeSelector", "overhead", "resourceClaims", "resources", "tolerations"),
    # With hostNetwork the ports of containers are ports of the node, which the filter NodePorts reads.
    *("topologySpreadConstraints", "hostNetwork"),
)
"""Fields of a pod's spec that decide which nodes it may run on, besides its containers."""
_OF_THE_NODE: Final = "node.kubernetes.io/"
"""Prefix of taints that every pod tolerates for a while, or by its class (DefaultTolerationSeconds)."""
_SYSTEM: Final = frozenset({"kube-controller-manager", "kube-scheduler", "kubelet"})


def differ(one: Object, other: Object) -> bool:
    """Whether two specs of pods differ in what decides where they may run."""
    return _placement(one) != _placement(other)


def changes(jobset: Object, pods: Mapping[str, Object]) -> list[str]:
    """What decides where its pods may run and is not in their templates, each in a line; by whom, where that is known.

    ``pods`` are one of each replicated job, by its name. Managed fields tell who updated a pod; who changed it while it
    was created is nowhere.
    """
    templates = {str(entry.get("name")): entry for entry in objects_at(object_at(jobset, "spec"), "replicatedJobs")}
    lines = []
    for name, pod in sorted(pods.items()):
        job = object_at(object_at(templates.get(name, {}), "template"), "spec")
        template = object_at(object_at(job, "template"), "spec")
        differences = list(_differences(template, object_at(pod, "spec")))
        if differences:
            who = listed(sorted(_updaters(pod)))
            by = f"updated by {who}" if who else "when they were created (admission, JobSet, Kueue)"
            lines.append(f'pods of "{name}" differ from their template, {by}: {"; ".join(differences)}')
    return lines


def _placement(spec: Mapping[str, Any]) -> list[Any]:
    return [*(spec.get(field) for field in _PLACEMENT), *(_needs(spec, kind) for kind in _CONTAINERS)]


_CONTAINERS: Final = ("initContainers", "containers")


def _needs(spec: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Resources and ports of each container, by its name."""
    return {
        # By name, because webhooks insert containers at any position of the list.
        str(container.get("name")): (object_at(container, "resources"), container.get("ports"))
        for container in objects_at(spec, kind)
    }


def _differences(template: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    tolerated = [_taint(toleration) for toleration in objects_at(template, "tolerations")]
    added = {_taint(toleration) for toleration in objects_at(spec, "tolerations")} - {*tolerated}
    if added := {taint for taint in added if not taint.startswith(_OF_THE_NODE)}:
        yield f"tolerations of {listed(sorted(added))}"
    selected = object_at(template, "nodeSelector")
    if other := {key: value for key, value in object_at(spec, "nodeSelector").items() if selected.get(key) != value}:
        yield f"nodeSelector {listed(f'{key}={value}' for key, value in sorted(other.items()))}"
    for kind, noun in zip(_CONTAINERS, ("init container", "container"), strict=True):
        written, made = _needs(template, kind), _needs(spec, kind)
        if new := sorted(made.keys() - written.keys()):
            yield f"{noun} {listed(new)}"
        if other_needs := sorted(
            name for name in made.keys() & written.keys() if _requests(made[name][0]) != _requests(written[name][0])
        ):
            yield f"requests of {noun} {listed(other_needs)}"
    yield from (
        field
        for field in ("affinity", "overhead", "topologySpreadConstraints", "hostNetwork")
        if spec.get(field) and spec.get(field) != template.get(field)
    )


def _taint(toleration: Object) -> str:
    effect = toleration.get("effect")
    return f"{toleration.get('key') or 'any taint'}{f':{effect}' if effect else ''}"


def _requests(resources: Object) -> Requests:
    """With the default: what has a limit and no request requests its limit. The API server writes amounts anew."""
    limits, requests = (read_list(resources.get(key), FieldPath(), []) for key in ("limits", "requests"))
    return {**limits, **requests}


def _updaters(pod: Object) -> set[str]:
    """Managers that own fields of its spec and are no part of Kubernetes."""
    fields = objects(object_at(pod, "metadata").get("managedFields"))
    return {
        str(entry.get("manager"))
        for entry in fields
        if not entry.get("subresource") and "f:spec" in object_at(entry, "fieldsV1")
    } - _SYSTEM
