"""Requests of one pod: the scheduler's sum over its containers.

The rules are those of ``k8s.io/component-helpers`` ``resource.PodRequests`` and of the API
server's defaulting: a missing request is the limit, init containers run one after
another and need what the largest of them needs, sidecars (init containers that
restart) stay beside everything that follows, pod-level requests replace the sum, and
the overhead of the runtime class comes on top.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.objects import Object, condition_of, object_at, objects_at, text_at
from gangctl.api.quantity import MAX, milli, parse_quantity, whole
from gangctl.errors import ErrorKind, FieldError, shown

Requests = dict[str, Fraction]

_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


def read_list(value: object, path: FieldPath, errors: list[FieldError]) -> Requests:
    """A ResourceList: quantities by resource name; an invalid quantity is left out, with an error at ``path``."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        errors.append(FieldError(str(path), ErrorKind.TYPE_INVALID, "must be an object of quantities by resource name"))
        return {}
    requests = {}
    for name, quantity in value.items():
        where = str(path.child(name))
        # The CRD of JobSets takes integers and strings (x-kubernetes-int-or-string), and no number with a fraction.
        if isinstance(quantity, bool | float) or not isinstance(quantity, int | str):
            detail = f"must be a quantity in quotes or an integer, got {shown(quantity)}"
            errors.append(FieldError(where, ErrorKind.TYPE_INVALID, detail))
            continue
        try:
            amount = parse_quantity(str(quantity)) if isinstance(quantity, str) else Fraction(min(quantity, MAX))
        except ValueError as problem:
            errors.append(FieldError(where, ErrorKind.INVALID, str(problem)))
            continue
        if amount < 0:
            errors.append(FieldError(where, ErrorKind.INVALID, f"must not be negative, got {quantity}"))
        else:
            requests[name] = amount
    return requests


def _limits_and_requests(value: object, path: FieldPath, errors: list[FieldError]) -> tuple[Requests, Requests]:
    resources = value if isinstance(value, dict) else {}
    limits = read_list(resources.get("limits"), path.child("limits"), errors)
    return limits, read_list(resources.get("requests"), path.child("requests"), errors)


def _containers(pod_spec: Mapping[str, Any], field: str, errors: list[FieldError]) -> list[tuple[Requests, bool]]:
    """Requests of each container with whether it is a sidecar; the API server rejects invalid entries."""
    entries = pod_spec.get(field)
    containers = []
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict):
            path = FieldPath().child(field).index(index).child("resources")
            limits, requests = _limits_and_requests(entry.get("resources"), path, errors)
            containers.append((limits | requests, entry.get("restartPolicy") == "Always"))
    return containers


def _add(total: Requests, more: Requests) -> Requests:
    return total | {name: total.get(name, Fraction()) + amount for name, amount in more.items()}


def _most(one: Requests, other: Requests) -> Requests:
    return one | {name: max(one.get(name, Fraction()), amount) for name, amount in other.items()}


def _sum_of_containers(pod_spec: Mapping[str, Any], errors: list[FieldError]) -> Requests:
    running: Requests = {}
    for requests, _ in _containers(pod_spec, "containers", errors):
        running = _add(running, requests)
    sidecars: Requests = {}
    starting: Requests = {}
    for requests, is_sidecar in _containers(pod_spec, "initContainers", errors):
        if is_sidecar:
            running = _add(running, requests)
            sidecars = _add(sidecars, requests)
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, _add(sidecars, requests))
    return _most(running, starting)


def pod_requests(pod_spec: Mapping[str, Any]) -> tuple[Requests, tuple[FieldError, ...]]:
    """Effective requests of a pod by resource name; paths of errors are relative to the pod spec."""
    errors: list[FieldError] = []
    total = _sum_of_containers(pod_spec, errors)
    limits, requests = _limits_and_requests(pod_spec.get("resources"), FieldPath().child("resources"), errors)
    for name in {**limits, **requests}:
        if name not in _POD_LEVEL and not name.startswith(_HUGE_PAGES):
            continue
        if name in requests:
            total[name] = requests[name]
        # A pod-level limit is the request only of what no container requests, and of huge pages, which are not
        # overcommitted (API server's defaulting, KEP-2837).
        elif name not in total or name.startswith(_HUGE_PAGES):
            total[name] = limits[name]
    overhead = read_list(pod_spec.get("overhead"), FieldPath().child("overhead"), errors)
    return _add(total, overhead), tuple(errors)


def pod_limits(pod_spec: Mapping[str, Any], *, overhead: bool = False) -> Requests:
    """The limits of a pod (PodLimits), with the ``overhead`` of what has one if it is asked for."""
    kinds = {kind: [_limited(one) for one in objects_at(pod_spec, kind)] for kind in ("containers", "initContainers")}
    limits = pod_requests({**kinds, **_limited(pod_spec)})[0]
    added = pod_requests({"overhead": pod_spec.get("overhead")})[0] if overhead else {}
    return _add(limits, {name: amount for name, amount in added.items() if limits.get(name)})


def of_whole_pod(pod_spec: Mapping[str, Any]) -> tuple[Requests, Requests]:
    """CPU and memory that a pod as a whole requests and is limited to, as the API server of 1.37 completes them.

    Empty where the pod has no resources as a whole; containers have their defaults (DefaultPodLevelResources).
    """
    level = object_at(pod_spec, "resources")
    if not (level.get("requests") or level.get("limits")):
        return {}, {}
    kinds = {kind: objects_at(pod_spec, kind) for kind in ("containers", "initContainers")}
    requests = {
        name: value for name, value in pod_requests({**kinds, "resources": level})[0].items() if name in _POD_LEVEL
    }
    limits, own = pod_limits(kinds), read_list(level.get("limits"), FieldPath(), [])
    limited = [object_at(object_at(one, "resources"), "limits") for one in itertools.chain(*kinds.values())]
    # Where all containers have one (defaultPodLevelLimits).
    summed = {
        name: max(limits[name], requests[name])
        for name in requests
        if name in limits and all(name in one for one in limited)
    }
    return requests, summed | own


def _limited(holder: Mapping[str, Any]) -> dict[str, Any]:
    """A container, or a pod, that requests what it is limited to."""
    limits = object_at(object_at(holder, "resources"), "limits")
    kept = {key: holder[key] for key in ("name", "restartPolicy") if key in holder}
    return {**kept, "resources": {"requests": limits}}


def resized_requests(pod: Object) -> Requests | None:
    """Requests of a pod on a node that is being resized, None for any other.

    They are the most of what its spec asks for, what the node has allocated to it, and what its containers have
    (PodRequests with UseStatusResources); without its spec if the node can never give that.
    """
    status, spec = object_at(pod, "status"), object_at(pod, "spec")
    pending = condition_of(pod, "PodResizePending")
    if "True" not in {pending.get("status"), condition_of(pod, "PodResizeInProgress").get("status")}:
        return None
    reported = [*objects_at(status, "containerStatuses"), *objects_at(status, "initContainerStatuses")]
    by_name = {text_at(entry, "name"): entry for entry in reported}
    refused = pending.get("reason") == "Infeasible"

    def reached(*, running: bool) -> Requests:
        def given(wanted: Object, entry: Object, *, known: bool = True) -> dict[str, Any]:
            resources = object_at(entry, "resources").get("requests") if running else None
            amounts = resources or entry.get("allocatedResources")
            return {"requests": amounts or (None if refused and known else wanted.get("requests"))}

        kinds = {
            kind: [
                {**one, "resources": given(object_at(one, "resources"), by_name.get(text_at(one, "name"), {}))}
                for one in objects_at(spec, kind)
            ]
            for kind in ("containers", "initContainers")
        }
        level = object_at(spec, "resources")
        own = given(level, status, known=bool(status.get("resources"))) if level else None
        return pod_requests({**spec, **kinds, "resources": own})[0]

    # The most of the sums, as from 1.37 on: a pod is resized in one step. 1.36 sums the most of each container, and
    # counts too much where one grows as another shrinks (kubernetes/kubernetes#140046).
    most = _most(reached(running=False), reached(running=True))
    return most if refused else _most(most, pod_requests(spec)[0])


Extended = tuple[tuple[str, int], ...]
"""Names of extended resources and amounts, in the order of the names."""
_SHAPES: Final = 1024
"""Pods of one template have one shape: their requests are summed up once."""
_Resources = tuple[tuple[str, str], ...]


def is_extended(resource: str) -> bool:
    """Whether a resource is one of a device plugin, by its name (IsExtendedResourceName of k8s.io/kubernetes)."""
    return "/" in resource and "kubernetes.io/" not in resource


def extended_requests(pod_spec: Mapping[str, Any]) -> Extended:
    """What a pod requests of extended resources; equal for all pods of a template. Unreadable amounts are 0."""
    shape = tuple(
        (part, container.get("restartPolicy") == "Always", _extended(object_at(container, "resources")))
        for part in ("containers", "initContainers")
        for container in objects_at(pod_spec, part)
    )
    return _summed(shape) if any(resources for _, _, resources in shape) else ()


def _extended(resources: Mapping[str, Any]) -> _Resources:
    # They have no overcommitment: what is requested is the limit.
    amounts = {**object_at(resources, "requests"), **object_at(resources, "limits")}
    return tuple((name, str(amount)) for name, amount in amounts.items() if is_extended(name))


@lru_cache(_SHAPES)
def _summed(shape: tuple[tuple[str, bool, _Resources], ...]) -> Extended:
    spec: dict[str, list[Mapping[str, Any]]] = {"containers": [], "initContainers": []}
    for part, restarts, resources in shape:
        policy = {"restartPolicy": "Always"} if restarts else {}
        spec[part].append({"resources": {"limits": dict(resources)}, **policy})
    requests, _ = pod_requests(spec)
    amounts = as_integers(requests).items()
    return tuple((sys.intern(name), amount) for name, amount in amounts if amount > 0 and is_extended(name))


def as_integers(requests: Requests) -> dict[str, int]:
    """Milli-CPU, bytes and counts, ``cpu`` and ``memory`` first and always present, the others by name."""
    integers = {"cpu": milli(requests.get("cpu", Fraction())), "memory": whole(requests.get("memory", Fraction()))}
    return integers | {name: whole(requests[name]) for name in sorted(requests) if name not in integers}


def times(requests: Mapping[str, int], pods: int) -> dict[str, int]:
    """The requests of a number of equal pods."""
    return {name: min(amount * pods, MAX) for name, amount in requests.items()}


def together(parts: list[dict[str, int]]) -> dict[str, int]:
    """The sum of several :func:`as_integers`."""
    names = sorted({name for part in parts for name in part} - set(_POD_LEVEL))
    return {name: min(sum(part.get(name, 0) for part in parts), MAX) for name in (*_POD_LEVEL, *names)}
