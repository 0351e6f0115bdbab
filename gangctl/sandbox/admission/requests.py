"""Requests as webhooks get them, and as expressions read them."""

from __future__ import annotations

from typing import Any

from gangctl.sandbox.admission import Attributes
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, uid


def variables(request: Object) -> dict[str, Any]:
    """The names of an expression: the objects, and ``request`` without them."""
    objects = {"object": request["object"], "oldObject": request["oldObject"]}
    return {**objects, "request": {key: value for key, value in request.items() if key not in objects}}


def admission_request(attributes: Attributes, obj: Object | None) -> Object:
    """The ``request`` of an AdmissionReview."""
    kind = attributes.kind
    subresource = {"subResource": attributes.subresource} if attributes.subresource else {}
    requested = {"requestSubResource": attributes.subresource} if attributes.subresource else {}
    user: Object = {"username": attributes.caller.name, "groups": [*attributes.caller.groups, "system:authenticated"]}
    request = {
        "uid": uid(),
        "kind": _kind(kind),
        "resource": _resource(kind),
        **subresource,
        "requestKind": _kind(kind),
        "requestResource": _resource(kind),
        **requested,
        "operation": attributes.operation,
        "userInfo": user,
        "object": obj,
        "oldObject": attributes.old,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    names = {"name": attributes.name, "namespace": attributes.namespace}
    return {**request, **{key: value for key, value in names.items() if value}}


def _kind(kind: ResourceKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: ResourceKind) -> Object:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}
