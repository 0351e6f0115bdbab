"""Requests: user and options, which every verb has, and what admission gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, uid

Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The user a request is made by."""

    name: str
    groups: tuple[str, ...] = ()
    user_agent: str = ""


SYSTEM: Final = Caller("system:sandbox", ("system:masters",))
"""The server's own user: simulated controllers and the garbage collector."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """``CreateOptions``, ``UpdateOptions`` and ``PatchOptions`` in one.

    ``field_validation`` is Ignore, Warn or Strict; ``force`` is for apply.
    """

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """``metav1.DeleteOptions``; ``uid`` and ``resource_version`` are preconditions."""

    propagation: Propagation | None = None
    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


DEFAULT_WRITE: Final = WriteOptions()
DEFAULT_DELETE: Final = DeleteOptions()


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """Attributes of a request for webhooks; ``warnings`` collects their warnings for the client."""

    operation: Operation
    kind: ResourceKind
    subresource: str
    namespace: str
    name: str
    old: Object | None
    options: Object
    dry_run: bool
    caller: Caller
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # In the API server a Namespace is in the namespace of its name.
        if self.kind.storage == "namespaces":
            self.namespace = self.name


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
    # Go leaves out empty ones: an object with generateName has no name yet.
    names = {"name": attributes.name, "namespace": attributes.namespace}
    return {**request, **{key: value for key, value in names.items() if value}}


def _kind(kind: ResourceKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: ResourceKind) -> Object:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}
