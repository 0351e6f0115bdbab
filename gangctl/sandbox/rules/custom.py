"""The rules of custom resources, by the schemas of their definitions."""

from __future__ import annotations

from typing import Final

from gangctl.apiserver.fields import Decoder, fields_of
from gangctl.apiserver.metadata import Causes, validate_metadata
from gangctl.apiserver.minors import NEWEST
from gangctl.apiserver.structural import Schema, default, prune, validate
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import KindRules

_STATUS: Final = "status"


def custom_rules(kind: ResourceKind, schema: Schema) -> KindRules:
    """The rules of one version of a custom resource."""
    # The metadata has the same fields on every minor.
    decoder = Decoder(fields_of(NEWEST), kind.kind, kind.version)

    def drop(new: Object) -> list[str]:
        return sorted([*prune(new, schema), *decoder.decode_metadata(new)])

    def prepare_create(obj: Object) -> None:
        if kind.has_status:
            obj.pop(_STATUS, None)

    def check(new: Object, old: Object | None, subresource: str) -> Causes:
        causes = validate_metadata(new, old, namespaced=kind.namespaced)
        if subresource == _STATUS:
            _check_status(new, old, schema, causes)
        else:
            causes += validate(new, schema, old)
        return causes

    return KindRules(drop=drop, default=lambda obj: default(obj, schema), prepare_create=prepare_create, validate=check)


def _check_status(new: Object, old: Object | None, schema: Schema, causes: Causes) -> None:
    """Only the status is checked; the server's messages use it as the whole body."""
    inner = (schema.get("properties") or {}).get(_STATUS)
    if inner is None or _STATUS not in new:
        return
    for cause in validate(new[_STATUS], inner, (old or {}).get(_STATUS), _STATUS, whole=schema):
        message = cause.message.replace(f"{_STATUS}.", "", 1) if " in body " in cause.message else cause.message
        causes.append(type(cause)(cause.reason, cause.field, message))
