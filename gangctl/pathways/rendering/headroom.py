"""Requests of the head.

Resource manager and proxy are large, and a head that fits no node starts no slice. So the sizes are written as
requests, not only as limits, they can be chosen (``headResources``), and their sum is reported. Sizes are in units of
1000 (``G``) as XPK's are: those of 1024 exceed a quota that was made for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from gangctl.api.quantity import parse_quantity
from gangctl.gang.requests import as_integers, pod_requests
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import Quantities, Resources
from gangctl.pathways.origins import From, Origin, option, rule

RESOURCE_MANAGER_SIZE: Final[Mapping[str, str]] = {"cpu": "8", "memory": "32G"}
PROXY_SIZE: Final[Mapping[str, str]] = {"cpu": "16", "memory": "100G"}

_OPTION: Final = "headResources"


def resource_manager_resources(job: PathwaysJob) -> dict[str, Any]:
    """Requests and limits of the resource manager."""
    head = job.options.head_resources
    return _resources(RESOURCE_MANAGER_SIZE, head.resource_manager if head else None, f"{_OPTION}.resourceManager")


def proxy_resources(job: PathwaysJob) -> dict[str, Any]:
    """Requests and limits of the proxy."""
    head = job.options.head_resources
    return _resources(PROXY_SIZE, head.proxy if head else None, f"{_OPTION}.proxy")


def head_requests(pod_spec: Mapping[str, Any]) -> dict[str, int]:
    """Requests of the head's pod: milli-CPU, bytes, counts."""
    requests, _ = pod_requests(pod_spec)
    return as_integers(requests)


def _resources(usual: Mapping[str, str], chosen: Resources | None, place: str) -> dict[str, Any]:
    """The default size with the chosen values; a default limit grows to the chosen request."""
    asked = _chosen(chosen.requests if chosen else None, f"{place}.requests")
    limited = _chosen(chosen.limits if chosen else None, f"{place}.limits")
    limits = {name: _at_least(amount, asked.get(name)) for name, amount in usual.items()} | limited
    requests = {name: From(limit.value, _request_origin(limit.origin)) for name, limit in limits.items()} | asked
    return {"requests": requests, "limits": limits}


def _chosen(amounts: Quantities | None, place: str) -> dict[str, From]:
    return {name: option(amount, f"{place}.{name}") for name, amount in (amounts or {}).items()}


def _at_least(usual: str, asked: From | None) -> From:
    if asked is None or _amount(asked.value) <= _amount(usual):
        return rule(usual, "the size that Pathways is run with")
    return From(asked.value, Origin(asked.origin.kind, asked.origin.place, "no limit below the request"))


def _amount(quantity: str | int) -> Fraction:
    return parse_quantity(quantity) if isinstance(quantity, str) else Fraction(quantity)


def _request_origin(limit: Origin) -> Origin:
    return Origin(limit.kind, limit.place, "as much as the limit, said explicitly")
