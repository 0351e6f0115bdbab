"""CustomResourceDefinitions of ``apiextensions.k8s.io/v1``, and the objects that they define.

Schemas are used as they are written. Left out: conversion by webhook, selectable fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.sandbox.kinds import NEWEST, ResourceKind
from gangctl.sandbox.objects import Object, copy
from gangctl.sandbox.rules import KindRules, structural
from gangctl.sandbox.rules.fields import Decoder, fields_of
from gangctl.sandbox.rules.metadata import Causes, spelled, validate_metadata
from gangctl.sandbox.rules.structural import Schema
from gangctl.sandbox.store import Store

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_STATUS: Final = "status"


def custom_rules(kind: ResourceKind, schema: Schema) -> KindRules:
    """The rules of one version of a custom resource."""
    # The metadata has the same fields on every minor.
    decoder = Decoder(fields_of(NEWEST), kind)

    def drop(new: Object) -> list[str]:
        return sorted([*structural.prune(new, schema), *decoder.decode_metadata(new)])

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


FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"


def definition_rules(known: KindRules) -> KindRules:
    """The rules of definitions; ``known`` drops their unknown fields."""
    return KindRules(
        drop=known.drop,
        default=default,
        prepare_create=prepare_create,
        prepare_update=prepare_update,
        validate=validate,
    )


def default(definition: Object) -> None:
    """Fill in names and conversion, in place."""
    spec = definition.get("spec") or {}
    kind = (spec.get("names") or {}).get("kind", "")
    if kind:
        spec["names"].setdefault("singular", kind.lower())
        spec["names"].setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def prepare_create(definition: Object) -> None:
    """A new definition is not established."""
    status: Object = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
    definition["status"] = status
    stored = _storage_version(definition)
    if stored:
        status["storedVersions"].append(stored)


def prepare_update(new: Object, old: Object, subresource: str) -> None:
    """Add a new storage version to the stored versions."""
    del old
    stored, status = _storage_version(new), new.get("status") or {}
    if not subresource and stored and stored not in status.get("storedVersions", ()):
        new["status"] = {**status, "storedVersions": [*status.get("storedVersions", ()), stored]}


def _storage_version(definition: Object) -> str:
    versions = (definition.get("spec") or {}).get("versions") or ()
    return next((str(each.get("name", "")) for each in versions if each.get("storage")), "")


def validate(new: Object, old: Object | None, subresource: str) -> Causes:
    """Why a definition is not served."""
    causes = validate_metadata(new, old, namespaced=False)
    # The server's own finalizer has no prefix.
    causes = Causes(cause for cause in causes if spelled(FINALIZER) not in cause.message)
    if subresource:
        return causes
    spec = new.get("spec") or {}
    names = spec.get("names") or {}
    name = new["metadata"].get("name", "")
    if name and name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    for path, value in (("spec.scope", spec.get("scope")), ("spec.names.kind", names.get("kind"))):
        if not value:
            causes.required(path)
    for index, version in enumerate(spec.get("versions") or ()):
        if not version.get("name"):
            causes.required(f"spec.versions[{index}].name")
        if schema_of(version) is None:
            causes.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        message = "the sandbox converts between versions by apiVersion alone: strategy None"
        causes.forbidden("spec.conversion.strategy", message)
    return causes


def schema_of(version: Object) -> Mapping[str, Any] | None:
    """``openAPIV3Schema`` of a version, None when it has none."""
    found: Mapping[str, Any] | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


def version_of(store: Store, kind: ResourceKind) -> Object | None:
    """The version of a stored definition by which ``kind`` is served; None for what is built in."""
    definition = store.find(DEFINITIONS, "", kind.qualified_name)
    versions = definition["spec"].get("versions", ()) if definition is not None else ()
    return next((version for version in versions if version["name"] == kind.version), None)


def condition(definition: Object, type_: str) -> Object | None:
    """A condition of a definition, or None; a copy."""
    for each in (definition.get("status") or {}).get("conditions") or ():
        if each["type"] == type_:
            return copy(each)
    return None
