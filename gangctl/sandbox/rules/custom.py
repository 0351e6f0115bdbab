"""Objects that a CustomResourceDefinition defines, as their structural schema has them."""

from __future__ import annotations

from typing import Final

from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import KindRules, structural
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata
from gangctl.sandbox.rules.structural import Schema

_STATUS: Final = "status"


def custom_rules(kind: ResourceKind, schema: Schema) -> KindRules:
    """The rules of one version of a custom resource."""

    def drop(new: Object, old: Object | None) -> list[str]:
        del old
        return sorted(structural.prune(new, schema))

    def default(obj: Object) -> None:
        structural.default(obj, schema)

    def prepare_create(obj: Object) -> None:
        if kind.has_status:
            obj.pop(_STATUS, None)

    def validate(new: Object, old: Object | None, subresource: str) -> Causes:
        causes = validate_metadata(new, old, namespaced=kind.namespaced)
        if subresource == _STATUS:
            _check_status(new, old, schema, causes)
        else:
            causes += structural.validate(new, schema, old)
        return causes

    return KindRules(drop=drop, default=default, prepare_create=prepare_create, validate=validate)


def _check_status(new: Object, old: Object | None, schema: Schema, causes: Causes) -> None:
    """Only the status is checked; the server's messages use it as the whole body."""
    inner = (schema.get("properties") or {}).get(_STATUS)
    if inner is None or _STATUS not in new:
        return
    for cause in structural.validate(new[_STATUS], inner, (old or {}).get(_STATUS), _STATUS, whole=schema):
        message = cause.message.replace(f"{_STATUS}.", "", 1) if " in body " in cause.message else cause.message
        causes.append(type(cause)(cause.reason, cause.field, message))
