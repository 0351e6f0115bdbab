"""The controller of CustomResourceDefinitions: their resources are served while they exist.

JobSets are built in with their webhooks: their definition is accepted and has no effect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from gangctl.sandbox.api import Api
from gangctl.sandbox.controllers import StoreController
from gangctl.sandbox.kinds import ALL_VERBS, ResourceKind
from gangctl.sandbox.objects import Object, copy, now
from gangctl.sandbox.rules.definitions import (
    DEFINITIONS,
    FINALIZER,
    condition,
    custom_rules,
    definition_rules,
    schema_of,
)
from gangctl.sandbox.store import Change


class DefinitionController(StoreController[str]):
    """Works on the names of definitions."""

    name: ClassVar[str] = "crd-controller"

    def __init__(self, api: Api) -> None:
        """Start without definitions."""
        self._served: dict[str, tuple[ResourceKind, ...]] = {}
        self._built_in = frozenset(kind.qualified_name for kind in api.registry)
        kind = api.kind(DEFINITIONS)
        rules = definition_rules(api.registry.rules(kind))
        api.registry.add(kind, rules)
        super().__init__(api)

    def changed(self, storage: str, change: Change) -> None:
        """A definition has changed, or something that it defines has gone."""
        if storage == DEFINITIONS:
            self.queue.add(change.key[1])
        elif change.gone and storage in self._served:
            self.queue.add(storage)

    async def reconcile(self, key: str) -> None:
        """Serve the resource of a definition, or stop serving it."""
        stored = self.store.get(DEFINITIONS, ("", key))
        if stored is None:
            self._withdraw(key)
        elif "deletionTimestamp" in stored.obj["metadata"]:
            await self._end(stored.obj)
        else:
            await self._establish(copy(stored.obj))

    async def _establish(self, definition: Object) -> None:
        before, name = copy(definition), definition["metadata"]["name"]
        definition["status"]["acceptedNames"] = definition["spec"]["names"]
        _set(definition, "NamesAccepted", ("True", "NoConflicts", "no conflicts found"))
        self._serve(definition)
        _set(definition, "Established", ("True", "InitialNamesAccepted", "the initial names have been accepted"))
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
            kinds = {replace(kind, verbs=kind.verbs - {"create"}): version for kind, version in kinds.items()}
        for gone in set(self._served.get(name, ())) - set(kinds):
            self.api.registry.remove(gone)
        for kind, version in kinds.items():
            rules = custom_rules(kind, schema_of(version) or {})
            self.api.registry.add(kind, rules)
        self._served[name] = tuple(kinds)

    def _withdraw(self, name: str) -> None:
        for kind in self._served.pop(name, ()):
            self.api.registry.remove(kind)

    async def _end(self, definition: Object) -> None:
        """Delete its objects, and remove the finalizer when none is left."""
        metadata = definition["metadata"]
        if FINALIZER not in metadata.get("finalizers", ()):
            return
        name = metadata["name"]
        kinds = self._served.get(name, ())
        if kinds:
            self._serve(definition, ending=True)
        if kinds and await self.delete_all(self._served[name][0]):
            return
        await self.release(self.api.kind(DEFINITIONS), definition, FINALIZER)


def _kinds(definition: Object) -> list[tuple[ResourceKind, Object]]:
    """The resource in each version that is served."""
    spec = definition["spec"]
    names, found = spec["names"], []
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
            unconditional_update=False,
            custom=True,
        )
        found.append((kind, version))
    return found


def _set(definition: Object, type_: str, values: tuple[str, str, str]) -> None:
    """Put a condition in its place; the time is that of the last change of its status."""
    status, reason, message = values
    before = condition(definition, type_)
    since = before["lastTransitionTime"] if before is not None and before["status"] == status else now()
    new = {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    conditions = definition["status"].get("conditions") or []
    others = [new if each["type"] == type_ else each for each in conditions]
    definition["status"]["conditions"] = others if before is not None else [*others, new]
