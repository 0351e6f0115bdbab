"""Reviews of existing JobSets, as if they were created now."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from gangctl.api.objects import Object
from gangctl.policy.review import Review

_KIND: Final = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"}
_RESOURCE: Final = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"}


def review_of_existing(
    jobset: Object, namespace: Object | None, gang: Object | None, now: datetime, fit: Object | None = None
) -> Review:
    """The review of a stored JobSet, without params.

    Its creator is not known any more: ``request.userInfo`` is empty, and ``dryRun`` true, because the request has no
    effect.
    """
    metadata = jobset.get("metadata") or {}
    request: dict[str, Any] = {
        "uid": str(metadata.get("uid", "")),
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "name": str(metadata.get("name", "")),
        "namespace": str(metadata.get("namespace", "")),
        "operation": "CREATE",
        "userInfo": {},
        "dryRun": True,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return Review(operation="CREATE", now=now, request=request, object=jobset, namespace=namespace, gang=gang, fit=fit)
