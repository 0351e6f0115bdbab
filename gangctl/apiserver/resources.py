"""What an API server refuses of the resources of a container or of a pod.

``validateResourceRequirements`` and ``validatePodResources`` of ``pkg/apis/core/validation``. ``pods.py`` checks the
names of resources of containers.
"""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction
from typing import Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.names import dns_label
from gangctl.api.objects import object_at
from gangctl.api.quantity import exact, milli, parse_quantity, whole
from gangctl.api.requests import pod_requests, read_list
from gangctl.apiserver.metadata import Causes, FieldCause, Object

_OVERCOMMITTED: Final = re.compile(r"[^/]*|([^/]*\.)?kubernetes\.io/.*")
"""Resources whose requests may be below their limits: those without a prefix, and Kubernetes' own."""
_HUGE_PAGES: Final = "hugepages-"
_CONTAINERS: Final = ("containers", "initContainers")
_OF_PODS: Final = ("cpu", _HUGE_PAGES, "memory")
"""What a pod may request as a whole (``IsSupportedPodLevelResource``); of huge pages it is a prefix."""


def validate_resources(resources: Object, claims: set[str], path: str, causes: Causes) -> None:
    """Check requests against limits, amounts, and claims against ``claims``, those of the pod."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            _amount(name, amount, f"{path}.{field}[{name}]", causes)
    for name, amount in requests.items():
        overcommitted = _OVERCOMMITTED.fullmatch(name) is not None and not name.startswith(_HUGE_PAGES)
        if name in limits:
            _request(name, amount, limits[name], f"{path}.requests", causes, exactly=not overcommitted)
        elif not overcommitted:
            causes.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        causes.forbidden(path, "HugePages require cpu or memory")
    for index, claim in enumerate(resources.get("claims") or ()):
        # The definition of JobSets has no name twice.
        name, request, place = claim.get("name", ""), claim.get("request", ""), f"{path}.claims[{index}]"
        if request:
            causes.invalid_each(f"{place}.request", request, dns_label(request))
        if name not in claims:
            causes.append(FieldCause("FieldValueNotFound", place, f'Not found: "{name}"'))


def validate_pod_resources(spec: Object, claims: set[str], path: str, causes: Causes) -> None:
    """Check what a pod requests as a whole, and against its containers."""
    resources, path = spec.get("resources"), f"{path}.resources"
    if resources is None:
        return
    if object_at(spec, "os").get("name") == "windows":
        causes.forbidden(path, "may not be set for a windows pod")
        return
    if resources.get("claims"):
        causes.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    _names_of_pod(resources, path, causes)
    validate_resources(resources, claims, path, causes)
    requests, limits = (read_list(resources.get(kind), FieldPath(), []) for kind in ("requests", "limits"))
    for name, amount in pod_requests(_only_requests(spec))[0].items():
        if name in requests and amount > requests[name]:
            _exceeded(name, amount, resources, path, causes)
    for index, container in enumerate(spec.get("containers") or ()):
        of_container = container["resources"].get("limits") or {}
        for name, amount in read_list(of_container, FieldPath(), []).items():
            if name in limits and amount > limits[name]:
                detail = f"must be less than or equal to pod limits of {resources['limits'][name]}"
                # At this path, as ``validatePodResourceConsistency`` reports it.
                causes.invalid(f"{path}.containers[{index}][{name}].limits", of_container[name], detail)


def _names_of_pod(resources: Object, path: str, causes: Causes) -> None:
    for kind in ("limits", "requests"):
        for name in resources.get(kind) or ():
            if name not in _OF_PODS and not name.startswith(_HUGE_PAGES):
                causes.unsupported(f"{path}.{kind}[{name}]", name, _OF_PODS)


def validate_limits_of_pod(spec: Object, path: str, causes: Causes) -> None:
    """Check what a pod requests as a whole against the limits of its containers.

    An API server takes them for requests in a pod (``SetDefaults_Pod``), not in a template.
    """
    resources = spec.get("resources") or {}
    requests = read_list(resources.get("requests"), FieldPath(), [])
    if not requests:
        return
    written = pod_requests(_only_requests(spec))[0]
    containers = {field: spec.get(field) for field in _CONTAINERS}
    for name, amount in pod_requests(containers)[0].items():
        # What the template itself says of too much is refused with it.
        if name in requests and written.get(name, 0) <= requests[name] < amount:
            _exceeded(name, amount, resources, f"{path}.resources", causes)


def _exceeded(name: str, amount: Fraction, resources: Object, path: str, causes: Causes) -> None:
    least = exact(name, milli(amount) if name == "cpu" else whole(amount))
    detail = f"must be greater than or equal to aggregate container requests of {least}"
    causes.invalid(f"{path}.requests[{name}]", resources["requests"][name], detail)


def _only_requests(spec: Object) -> Object:
    """The containers without limits: of a template they are no requests yet."""
    return {
        field: [
            {**one, "resources": {"requests": (one.get("resources") or {}).get("requests")}}
            for one in spec.get(field) or ()
        ]
        for field in _CONTAINERS
    }


def _amount(name: str, amount: object, path: str, causes: Causes) -> None:
    with suppress(ValueError):
        value = parse_quantity(str(amount))
        if value < 0:
            causes.invalid(path, str(amount), "must be greater than or equal to 0")
        elif not _OVERCOMMITTED.fullmatch(name) and value.denominator != 1:
            causes.invalid(path, str(amount), "must be an integer")
        if name.startswith(_HUGE_PAGES) and not _is_multiple(value, name.removeprefix(_HUGE_PAGES)):
            causes.invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _is_multiple(value: Fraction, size: str) -> bool:
    try:
        page = parse_quantity(size)
    except ValueError:
        return False
    return page > 0 and page.denominator == 1 and whole(value) % page == 0


def _request(name: str, amount: object, limit: object, path: str, causes: Causes, *, exactly: bool) -> None:
    with suppress(ValueError):
        wanted, most = parse_quantity(str(amount)), parse_quantity(str(limit))
        if wanted > most or (exactly and wanted != most):
            relation = "equal to" if exactly else "less than or equal to"
            causes.invalid(path, str(amount), f"must be {relation} {name} limit of {limit}")
