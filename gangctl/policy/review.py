"""One request as policies see it, and existing JobSets as requests to create them now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from gangctl.api.objects import Object

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class Review:
    """The input of an evaluation, complete, so that any process can evaluate it: of JSON but for ``now``.

    ``request`` is the CEL variable of that name: the AdmissionRequest without its objects. ``namespace`` is the
    Namespace object of a namespaced request, None where it is unknown. ``gang`` is the plan of the JobSet as ``gangctl
    plan -o json`` prints it, or the reason (a text) why it cannot be planned; ``fit`` what ``gangctl fit -o json``
    prints. Both are None at DELETE and where no policy reads them. ``now`` decides whether exceptions have expired.
    """

    operation: Operation
    now: datetime
    request: Object
    object: Object | None = None
    old_object: Object | None = None
    namespace: Object | None = None
    gang: Object | str | None = None
    fit: Object | None = None
    params: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    """Parameter objects by policy name, resolved by :mod:`gangctl.policy.params`; no entry: the policy takes none."""
    param_errors: Mapping[str, str] = field(default_factory=dict)
    """Why the parameters of some policies are not available, by policy name: their failurePolicy decides."""


_KIND: Final = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"}
_RESOURCE: Final = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"}


def review_of_existing(
    jobset: Object, namespace: Object | None, gang: Object | str | None, now: datetime, fit: Object | None = None
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
