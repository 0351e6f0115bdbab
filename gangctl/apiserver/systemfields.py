"""What an API server itself writes into an object of a request, in the order of ``pkg/registry/rest`` of apiserver.

Mutating admission sees a new object without a generated name, UID, time and generation; validating admission sees them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from gangctl.api.jobset import GENERATED
from gangctl.api.objects import Object, keep, object_at
from gangctl.api.reportfields import rfc3339

_UID: Final = "00000000-0000-0000-0000-000000000000"
_FILLED: Final = ("uid", "creationTimestamp", "generation")
_KEPT: Final = ("creationTimestamp", "deletionTimestamp", "generation")
_ADDED: Final = ("name", "uid", "deletionGracePeriodSeconds", "resourceVersion")
"""Which an update keeps where it has none of its own."""
_WIPED: Final = (*_FILLED, "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink")


def wiped(obj: Object) -> dict[str, Any]:
    """A new object without what only the API server and controllers write, which a dump has."""
    metadata = {key: value for key, value in object_at(obj, "metadata").items() if key not in _WIPED}
    # Go writes the empty status of a Job; that of a custom resource is removed.
    status: dict[str, Any] = {"status": {}} if (obj.get("apiVersion"), obj.get("kind")) == ("batch/v1", "Job") else {}
    return {key: value for key, value in obj.items() if key != "status"} | {"metadata": metadata} | status


def identified(metadata: Object) -> dict[str, Any]:
    """Metadata with the name and the UID that the API server generates, where there is none."""
    generated = {} if metadata.get("name") else {"name": f"{metadata.get('generateName')}{GENERATED}"}
    return {"uid": _UID, **metadata, **(generated if metadata.get("generateName") else {})}


def filled(obj: Object, now: datetime) -> dict[str, Any]:
    """An object with the fields that the API server fills in at its creation, as far as it has none of its own."""
    metadata = identified(object_at(obj, "metadata"))
    return {**obj, "metadata": {"creationTimestamp": rfc3339(int(now.timestamp())), "generation": 1, **metadata}}


def unfilled(obj: Object) -> dict[str, Any]:
    """What :func:`filled` was given of a new object: mutating admission sees it so."""
    metadata = {key: value for key, value in object_at(obj, "metadata").items() if key not in _FILLED}
    if metadata.get("name") == f"{metadata.get('generateName') or None}{GENERATED}":
        del metadata["name"]
    return {**obj, "metadata": metadata}


def updated(obj: Object, before: Object, part: str = "") -> dict[str, Any]:
    """What an update makes of ``before``, an object that is filled in; ``part`` is its subresource."""
    metadata, old = {**object_at(obj, "metadata")}, object_at(before, "metadata")
    metadata |= {field: old[field] for field in _KEPT if field in old}
    metadata |= {field: old[field] for field in _ADDED if field in old and field not in metadata}
    new = {**obj, "metadata": metadata}
    if not part:
        keep(new, before, "status")
        # As in customresource/strategy.go: any change counts but one of metadata.
        changed = {**new, "metadata": None} != {**before, "metadata": None}
        if changed and isinstance(generation := old.get("generation"), int):
            metadata["generation"] = generation + 1
    return new
