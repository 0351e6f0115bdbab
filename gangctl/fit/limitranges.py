"""LimitRanges of a namespace: what they add to the resources of pods, and which pods are refused by them.

Kueue sums all of them up, and looks at pod templates. The API server looks at pods, at each LimitRange by itself, and
at what is missing. Source: Kueue 0.19 ``pkg/util/limitrange``; Kubernetes 1.37 ``plugin/pkg/admission/limitranger``,
``pkg/apis/core/v1`` (defaults) and ``pkg/apis/core/validation``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.objects import object_at, objects_at, text_at
from gangctl.api.requests import Requests, pod_limits, pod_requests, read_list
from gangctl.errors import one_line
from gangctl.kueue.amounts import amount, read_quantity

CONTAINER: Final = "Container"
POD: Final = "Pod"
CLAIM: Final = "PersistentVolumeClaim"
_CONTAINERS: Final = ("containers", "initContainers")
_THE_POD: Final = "the pod"
_ABOVE: Final = "is above the max of a LimitRange"
_BELOW: Final = "is below the min of a LimitRange"


@dataclass(slots=True)
class RangeLimits:
    """All LimitRanges of one type together."""

    max: Requests = field(default_factory=dict)
    min: Requests = field(default_factory=dict)
    default: Requests = field(default_factory=dict)
    default_request: Requests = field(default_factory=dict)
    contested: set[str] = field(default_factory=set)
    """Resources for which several LimitRanges have different defaults: any counts, here it is the least."""


def summed_up(limit_ranges: Iterable[Mapping[str, Any]]) -> dict[str, RangeLimits]:
    """The strictest of all LimitRanges, by type. Total: invalid entries are left out."""
    summary: dict[str, RangeLimits] = {}
    for limit_range in limit_ranges:
        for entry in objects_at(object_at(limit_range, "spec"), "limits"):
            if isinstance(entry.get("type"), str):
                _add(summary.setdefault(entry["type"], RangeLimits()), entry)
    return summary


def _add(limits: RangeLimits, entry: Mapping[str, Any]) -> None:
    most, least = _amounts(entry, "max"), _amounts(entry, "min")
    default, default_request = _amounts(entry, "default"), _amounts(entry, "defaultRequest")
    if entry["type"] == CONTAINER:
        # The API server does this to a LimitRange that it stores (SetDefaults_LimitRangeItem), and files lack it.
        default = most | default
        default_request = least | default | default_request
    limits.max = _merged(limits.max, most, min)
    limits.min = _merged(limits.min, least, max)
    for known, more in ((limits.default, default), (limits.default_request, default_request)):
        limits.contested |= {name for name, value in more.items() if known.get(name, value) != value}
        known.update(_merged(known, more, min))


def _amounts(entry: Mapping[str, Any], key: str) -> Requests:
    written = entry.get(key)
    quantities = {name: read_quantity(value) for name, value in (written if isinstance(written, dict) else {}).items()}
    return {name: value for name, value in quantities.items() if value is not None}


def refused_by_kueue(spec: Mapping[str, Any], total: Requests, limits: Mapping[str, RangeLimits]) -> Iterator[str]:
    """Why Kueue rejects a pod template at every attempt; ``spec`` has its defaults."""
    of_containers, of_pods = limits.get(CONTAINER), limits.get(POD)
    for what, requests, limit in _parts(spec):
        yield from _exceeds(requests, limit, f"{what} requests more than its limit")
        if of_containers is not None and what != _THE_POD:
            most, least = _merged(requests, limit, max), _merged(requests, limit, min)
            yield from _exceeds(most, of_containers.max, f"{what} {_ABOVE}")
            yield from _exceeds(of_containers.min, least, f"{what} {_BELOW}")
    if of_pods is not None:
        yield from _exceeds(total, of_pods.max, f"{_THE_POD} {_ABOVE}")
        yield from _exceeds(of_pods.min, total, f"{_THE_POD} {_BELOW}")


def refused_by_api_server(spec: Mapping[str, Any], limit_ranges: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Why the API server does not create a pod; ``spec`` has its defaults."""
    containers = {kind: spec.get(kind) for kind in _CONTAINERS}
    for what, requests, limit in _parts(spec):
        yield from _exceeds(requests, limit, f"{what} requests more than its limit")
        # KEP-2837: a pod requests no less than its containers do together, and no container has a higher limit.
        if what == _THE_POD:
            together = pod_requests(containers)[0]
            yield from _exceeds(together, requests, "its containers together request more than the pod")
            for one, _, own in _parts({"containers": spec.get("containers")}):
                yield from _exceeds(own, limit, f"{one} has a higher limit than the pod")
    for limit_range in limit_ranges:
        for entry in objects_at(object_at(limit_range, "spec"), "limits"):
            if entry.get("type") == CONTAINER:
                for part in _parts(containers):
                    yield from _outside(*part, entry)
            elif entry.get("type") == POD:
                # Without overhead, as podRequests of the plugin.
                total = pod_requests({**containers, "resources": spec.get("resources")})[0]
                yield from _outside(_THE_POD, total, pod_limits(spec), entry)


def refused_claims(jobset: Mapping[str, Any], limit_ranges: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Why the API server does not create a claim of volumeClaimPolicies (PersistentVolumeClaimValidateLimitFunc)."""
    policies = objects_at(object_at(jobset, "spec"), "volumeClaimPolicies")
    templates = [template for policy in policies for template in objects_at(policy, "templates")]
    ranges = [entry for one in limit_ranges for entry in objects_at(object_at(one, "spec"), "limits")]
    for entry in (entry for entry in ranges if entry.get("type") == CLAIM):
        for template in templates:
            title = f'claim "{one_line(text_at(object_at(template, "metadata"), "name"), 80)}" of volumeClaimPolicies'
            requests, _ = _read(object_at(object_at(template, "spec"), "resources"))
            # Limits of a claim do not count.
            yield from _outside(title, requests, requests, {"min": entry.get("min"), "max": entry.get("max")})


def _outside(what: str, requests: Requests, limits: Requests, entry: Mapping[str, Any]) -> Iterator[str]:
    """What one entry of a LimitRange has against a part of a pod."""
    for name, least in _amounts(entry, "min").items():
        if name not in requests:
            yield f"{what} has no request, which the min of a LimitRange needs, of {one_line(name, 80)}"
        # minConstraint compares the limit as well, if there is one.
        elif min(requests[name], limits.get(name, requests[name])) < least:
            yield f"{what} {_BELOW} of {one_line(name, 80)}"
    for name, most in _amounts(entry, "max").items():
        # maxConstraint needs a limit: without one a container may use more than the max.
        if name not in limits:
            yield f"{what} has no limit, which the max of a LimitRange needs, of {one_line(name, 80)}"
        elif max(limits[name], requests.get(name, most)) > most:
            yield f"{what} {_ABOVE} of {one_line(name, 80)}"
    for name, ratio in _amounts(entry, "maxLimitRequestRatio").items():
        request, limit = requests.get(name), limits.get(name)
        # limitRequestRatioConstraint: 0 has no ratio.
        if not request or not limit:
            needs = "has no request or no limit, and maxLimitRequestRatio of a LimitRange needs both,"
            yield f"{what} {needs} of {one_line(name, 80)}"
        elif limit > ratio * request:
            yield f"{what} has a limit above maxLimitRequestRatio of a LimitRange of {one_line(name, 80)}"


def _exceeds(one: Requests, other: Requests, words: str) -> Iterator[str]:
    names = sorted(name for name in one.keys() & other.keys() if amount(name, one[name]) > amount(name, other[name]))
    if names:
        yield f"{words} of {', '.join(one_line(name, 80) for name in names)}"


def _parts(spec: Mapping[str, Any]) -> Iterator[tuple[str, Requests, Requests]]:
    """All parts of a pod, with their names, requests and limits; unreadable amounts are left out."""
    for kind, word in (("initContainers", "init container"), ("containers", "container")):
        entries = spec.get(kind)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            resources = entry.get("resources") if isinstance(entry, dict) else None
            if isinstance(resources, dict):
                name = entry.get("name")
                title = f'{word} "{one_line(name, 80)}"' if isinstance(name, str) else f"{word} {index}"
                yield title, *_read(resources)
    if isinstance(spec.get("resources"), dict):
        yield _THE_POD, *_read(spec["resources"])


def _read(resources: Mapping[str, Any]) -> tuple[Requests, Requests]:
    requests, limits = (read_list(resources.get(key), FieldPath(), []) for key in ("requests", "limits"))
    return requests, limits


def _merged(one: Requests, other: Requests, choose: Callable[[Fraction, Fraction], Fraction]) -> Requests:
    return one | {name: choose(one.get(name, value), value) for name, value in other.items()}


def written(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """As quantities, exact to the billionth, the finest unit."""
    return {name: f"{(value * 10**9).numerator}n" for name, value in amounts.items()}
