"""Fields and resources of a pod that its containers read, in variables and in volumes.

``validateObjectFieldSelector`` and ``validateContainerResourceFieldSelector`` of ``pkg/apis/core/validation``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from gangctl.api.names import qualified_name
from gangctl.apiserver.fields import canonical
from gangctl.apiserver.metadata import Causes, Object

FIELDS_OF_VARIABLES: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
FIELDS_OF_VOLUMES: Final = (
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
)
_FIELDS: Final = frozenset(
    {*FIELDS_OF_VARIABLES, *FIELDS_OF_VOLUMES, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
"""Those that a selector may name at all (``ConvertDownwardAPIFieldLabel``)."""
_RENAMED: Final = {"spec.host": "spec.nodeName"}
_MAPS: Final = ("metadata.annotations", "metadata.labels")
_RESOURCES: Final = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_DIVISORS_OF_CPU: Final = ("1m", "1")
_DIVISORS: Final = (
    *("1", "1k", "1M", "1G", "1T", "1P", "1E"),
    *("1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
)


def validate_field(selector: Object, supported: Sequence[str], path: str, causes: Causes) -> None:
    """Check a ``fieldRef``."""
    version, field = selector.get("apiVersion") or "v1", selector.get("fieldPath", "")
    place = f"{path}.fieldPath"
    if not field:
        causes.required(place)
        return
    of_map, bracket, key = field.removesuffix("']").partition("['")
    keyed = of_map and bracket and field.endswith("']")
    if version != "v1":
        causes.invalid(place, field, f"error converting fieldPath: unsupported pod version: {version}")
    elif keyed and of_map not in _MAPS:
        causes.invalid(place, field, f"error converting fieldPath: field label does not support subscript: {field}")
    elif keyed:
        # The case of an annotation's key does not matter, as in its metadata.
        key = key.lower() if of_map == "metadata.annotations" else key
        causes.invalid_each(path, key, qualified_name(key))
    elif (known := _RENAMED.get(field, field)) not in _FIELDS:
        causes.invalid(place, field, f"error converting fieldPath: field label not supported: {field}")
    elif known not in supported:
        causes.unsupported(place, known, supported)


def validate_resource_field(selector: Object, path: str, causes: Causes, *, of_volume: bool = False) -> None:
    """Check a ``resourceFieldRef``; in a volume it names its container."""
    resource = selector.get("resource", "")
    if of_volume and not selector.get("containerName"):
        causes.required(f"{path}.containerName")
    elif not resource:
        causes.required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        causes.unsupported(f"{path}.resource", resource, _RESOURCES)
    else:
        _divisor(resource, str(selector.get("divisor", 0)), f"{path}.divisor", causes)


def _divisor(resource: str, text: str, path: str, causes: Causes) -> None:
    kind = resource.partition(".")[2]
    supported = _DIVISORS_OF_CPU if kind == "cpu" else _DIVISORS
    with suppress(ValueError):
        if canonical(text) not in {"0", *supported}:
            detail = f"only divisor's values {', '.join(supported)} are supported with the {kind} resource"
            causes.invalid(path, resource, detail)
