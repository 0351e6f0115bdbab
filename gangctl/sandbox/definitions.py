"""CustomResourceDefinitions of ``apiextensions.k8s.io/v1``, the objects that they define, and their controller.

Resources are served while their definition exists. Schemas are used as they are written. JobSets are built in with
their webhooks: their definition is accepted and has no effect. Left out: conversion by webhook, selectable fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from gangctl.api.objects import copy
from gangctl.apiserver.metadata import Causes, spelled, validate_metadata
from gangctl.sandbox.api import Api
from gangctl.sandbox.controllers import StoreController
from gangctl.sandbox.kinds import ALL_VERBS, ResourceKind
from gangctl.sandbox.objects import Object, put_condition
from gangctl.sandbox.rules import KindRules
from gangctl.sandbox.rules.custom import custom_rules
from gangctl.sandbox.store import ObjectStore, StoredChange

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"


FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_NO_CONFLICTS: Final = {"reason": "NoConflicts", "message": "no conflicts found"}
_ACCEPTED: Final = {"reason": "InitialNamesAccepted", "message": "the initial names have been accepted"}


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
    # Go writes these three although they are empty: they have no omitempty.
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
    return next((str(version.get("name", "")) for version in versions if version.get("storage")), "")


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
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        causes.invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
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
    schema: Mapping[str, Any] | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def version_of(store: ObjectStore, kind: ResourceKind) -> Object | None:
    """The version of a stored definition by which ``kind`` is served; None for what is built in."""
    definition = store.find(DEFINITIONS, "", kind.qualified_name)
    versions = definition["spec"].get("versions", ()) if definition is not None else ()
    return next((version for version in versions if version["name"] == kind.version), None)


class DefinitionController(StoreController[str]):
    """Works on the names of definitions."""

    name: ClassVar[str] = "crd-controller"

    def __init__(self, api: Api) -> None:
        """Start without definitions."""
        self._served: dict[str, tuple[ResourceKind, ...]] = {}
        self._built_in = frozenset(kind.qualified_name for kind in api.registry)
        kind = api.kind(DEFINITIONS)
        rules = KindRules(
            drop=api.registry.rules(kind).drop,
            default=default,
            prepare_create=prepare_create,
            prepare_update=prepare_update,
            validate=validate,
        )
        api.registry.add(kind, rules)
        super().__init__(api)

    def changed(self, storage: str, change: StoredChange) -> None:
        """A definition has changed, or something that it defines has gone."""
        if storage == DEFINITIONS:
            self.queue.add(change.key[1])
        elif change.gone and storage in self._served:
            self.queue.add(storage)

    async def reconcile(self, key: str) -> None:
        """Serve the resource of a definition, or stop serving it."""
        stored = self.store.get(DEFINITIONS, ("", key))
        if stored is None:
            for kind in self._served.pop(key, ()):
                self.api.registry.remove(kind)
                # As on a real server: otherwise a client with an open watch would not learn that nothing is served.
                self.store.end_subscriptions(kind.storage)
        elif "deletionTimestamp" in stored.obj["metadata"]:
            await self._end(stored.obj)
        else:
            await self._establish(copy(stored.obj))

    async def _establish(self, definition: Object) -> None:
        before, name = copy(definition), definition["metadata"]["name"]
        definition["status"]["acceptedNames"] = definition["spec"]["names"]
        put_condition(definition["status"], {"type": "NamesAccepted", "status": "True", **_NO_CONFLICTS})
        # Before the condition: clients that wait for Established create objects at once.
        self._serve(definition)
        put_condition(definition["status"], {"type": "Established", "status": "True", **_ACCEPTED})
        # A real server adds it when the definition is deleted; here all kinds are deleted alike.
        finalizers = definition["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        if definition != before:
            kind = self.api.kind(DEFINITIONS)
            await self.api.update(kind, "", name, definition, self.caller, subresource="status")

    def _serve(self, definition: Object, *, ending: bool = False) -> None:
        name = definition["metadata"]["name"]
        if name in self._built_in:
            return
        kinds = dict(_kinds(definition))
        if ending:
            # An object created while the others are deleted would keep the finalizer of the definition.
            kinds = {replace(kind, verbs=kind.verbs - {"create"}): version for kind, version in kinds.items()}
        for gone in set(self._served.get(name, ())) - set(kinds):
            self.api.registry.remove(gone)
        for kind, version in kinds.items():
            rules = custom_rules(kind, schema_of(version) or {})
            self.api.registry.add(kind, rules)
        self._served[name] = tuple(kinds)

    async def _end(self, definition: Object) -> None:
        """Delete its objects, and remove the finalizer when none is left."""
        metadata = definition["metadata"]
        if FINALIZER not in metadata.get("finalizers", ()):
            return
        name = metadata["name"]
        kinds = self._served.get(name, ())
        if kinds:
            self._serve(definition, ending=True)
        # One version is enough: the objects of a resource are stored once for all its versions.
        if kinds and await self.delete_all(self._served[name][0]):
            return
        await self.release(self.api.kind(DEFINITIONS), definition, FINALIZER)


def _kinds(definition: Object) -> list[tuple[ResourceKind, Object]]:
    """The resource in each version that is served."""
    spec = definition["spec"]
    names, kinds = spec["names"], []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = frozenset((version.get("subresources") or {}).keys()) & {"status"}
        kind = ResourceKind(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            singular=names["singular"],
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=subresources,
            verbs=ALL_VERBS,
            generation=True,
            # AllowUnconditionalUpdate of customResourceStrategy.
            unconditional_update=False,
            custom=True,
        )
        kinds.append((kind, version))
    return kinds
