"""CustomResourceDefinitions at work: what they define is served while they are there.

Of JobSets, which are built in with their webhooks, a definition is accepted and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import DeleteOptions
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ALL_VERBS, ResourceKind
from gangctl.sandbox.objects import Object, copy, now
from gangctl.sandbox.rules.catalogue import in_words_of
from gangctl.sandbox.rules.custom import custom_rules
from gangctl.sandbox.rules.definitions import FINALIZER, condition, definition_rules, is_established, schema_of
from gangctl.sandbox.store import Change
from gangctl.sandbox.storecontroller import StoreController

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_NOT_FOUND: Final = 404


class DefinitionController(StoreController[str]):
    """Works on the names of definitions."""

    name: ClassVar[str] = "crd-controller"

    def __init__(self, api: Api) -> None:
        """Serve nothing yet."""
        self._served: dict[str, tuple[ResourceKind, ...]] = {}
        self._built_in = frozenset(kind.qualified_name for kind in api.registry)
        kind = api.kind(DEFINITIONS)
        rules = definition_rules(api.registry.rules(kind))
        api.registry.add(kind, in_words_of(api.registry.minor, rules))
        super().__init__(api)

    def changed(self, storage: str, change: Change) -> None:
        """A definition has changed, or something that it defines has gone."""
        if storage == DEFINITIONS:
            self.queue.add(change.key[1])
        elif change.gone and storage in self._served:
            self.queue.add(storage)

    async def reconcile(self, key: str) -> None:
        """Serve what a definition asks for, or end it."""
        stored = self.store.get(DEFINITIONS, ("", key))
        if stored is None:
            self._withdraw(key)
            self._wake_rivals(key)
        elif "deletionTimestamp" in stored.obj["metadata"]:
            await self._end(stored.obj)
        else:
            await self._establish(copy(stored.obj))

    async def _establish(self, definition: Object) -> None:
        before, name = copy(definition), definition["metadata"]["name"]
        accepted, problem = self._accepted(definition)
        definition["status"]["acceptedNames"] = accepted
        _set(definition, "NamesAccepted", problem or ("True", "NoConflicts", "no conflicts found"))
        if not problem:
            self._serve(definition)
            _set(definition, "Established", ("True", "InitialNamesAccepted", "the initial names have been accepted"))
        elif not is_established(definition):
            _set(definition, "Established", ("False", "NotAccepted", "not all names are accepted"))
        finalizers = definition["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        if definition != before:
            kind = self.api.kind(DEFINITIONS)
            await self.api.update(kind, "", name, definition, self.caller, subresource="status")
            self._wake_rivals(name)

    def _accepted(self, definition: Object) -> tuple[Object, tuple[str, str, str] | None]:
        """The names it may have, and what is wrong with the last of the others."""
        asked, accepted = definition["spec"]["names"], copy(definition["status"].get("acceptedNames") or {})
        resources, kinds = self._taken(definition)
        problem: tuple[str, str, str] | None = None
        for field, taken in (("plural", resources), ("singular", resources), ("kind", kinds), ("listKind", kinds)):
            if asked[field] != accepted.get(field) and asked[field] in taken:
                reason = f"{field[0].upper()}{field[1:]}Conflict"
                problem = "False", reason, f'"{asked[field]}" is already in use'
            else:
                accepted[field] = asked[field]
        short = asked.get("shortNames") or []
        conflicts = [each for each in short if each not in accepted.get("shortNames", ()) and each in resources]
        if conflicts:
            told = [f'"{each}" is already in use' for each in conflicts]
            listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
            problem = problem or ("False", "ShortNamesConflict", listed)
        elif short:
            accepted["shortNames"] = short
        if asked.get("categories"):
            accepted["categories"] = asked["categories"]
        return accepted, problem

    def _taken(self, definition: Object) -> tuple[set[str], set[str]]:
        """The resources and the kinds that other definitions have in its group."""
        resources: set[str] = set()
        kinds: set[str] = set()
        for stored in self.store.items(DEFINITIONS):
            other = stored.obj
            if other["spec"]["group"] != definition["spec"]["group"]:
                continue
            if other["metadata"]["name"] == definition["metadata"]["name"]:
                continue
            names: Mapping[str, Any] = other["status"].get("acceptedNames") or {}
            resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
            kinds |= {names.get("kind", ""), names.get("listKind", "")}
        return resources - {""}, kinds - {""}

    def _wake_rivals(self, name: str) -> None:
        """Names may have become free for the others of the group."""
        group = name.partition(".")[2]
        for stored in self.store.items(DEFINITIONS):
            other = stored.obj
            if other["spec"]["group"] == group and other["metadata"]["name"] != name and not _has_its_names(other):
                self.queue.add(other["metadata"]["name"])

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
            self.api.registry.add(kind, in_words_of(self.api.registry.minor, rules))
        self._served[name] = tuple(kinds)

    def _withdraw(self, name: str) -> None:
        for kind in self._served.pop(name, ()):
            self.api.registry.remove(kind)

    async def _end(self, definition: Object) -> None:
        """Delete what it defines, and let it go when nothing is left."""
        metadata = definition["metadata"]
        if FINALIZER not in metadata.get("finalizers", ()):
            return
        name = metadata["name"]
        kinds = self._served.get(name, ())
        if kinds:
            self._serve(definition, ending=True)
        if kinds and await self._objects_left(self._served[name][0]):
            return
        left = [each for each in metadata["finalizers"] if each != FINALIZER]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": left or None}}
        await self.api.patch(self.api.kind(DEFINITIONS), "", name, patch, "merge", self.caller)

    async def _objects_left(self, kind: ResourceKind) -> bool:
        for stored in self.store.items(kind.storage):
            metadata = stored.obj["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            options = DeleteOptions(propagation="Background")
            place = metadata.get("namespace", "")
            try:
                await self.api.delete(kind, place, metadata["name"], self.caller, options)
            except StatusError as error:
                if error.code != _NOT_FOUND:
                    raise
        return bool(self.store.items(kind.storage))


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


def _has_its_names(definition: Object) -> bool:
    found = condition(definition, "NamesAccepted")
    return found is not None and found["status"] == "True"


def _set(definition: Object, type_: str, told: tuple[str, str, str]) -> None:
    """Put a condition in its place; the time is that of the last change of its status."""
    status, reason, message = told
    before = condition(definition, type_)
    since = before["lastTransitionTime"] if before is not None and before["status"] == status else now()
    new = {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    conditions = definition["status"].get("conditions") or []
    others = [new if each["type"] == type_ else each for each in conditions]
    definition["status"]["conditions"] = others if before is not None else [*others, new]
