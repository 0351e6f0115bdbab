"""``metadata`` of every object, with the order and the messages of ``ValidateObjectMeta``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes

ANNOTATIONS_BYTES: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid")
_OWNERS: Final = "metadata.ownerReferences"


def validate_metadata(
    new: Object, old: Object | None, *, namespaced: bool = True, name: names.Check = names.dns_subdomain
) -> Causes:
    """Check the metadata of a changed object, or of a new one, whose name ``name`` looks at."""
    return _changed(new, old) if old is not None else _new(new, name, namespaced=namespaced)


def _new(obj: Object, check: names.Check, *, namespaced: bool) -> Causes:
    metadata, causes = obj["metadata"], Causes()
    prefix = metadata.get("generateName", "")
    if prefix:
        # A prefix may end in a dash or dot, which what is appended makes good.
        masked = prefix[:-1] + "a" if prefix.endswith(("-", ".")) else prefix
        causes.invalid_each("metadata.generateName", prefix, check(masked))
    name = metadata.get("name", "")
    if not name:
        causes.required("metadata.name", "name or generateName is required")
    else:
        causes.invalid_each("metadata.name", name, check(name))
    if namespaced and not metadata.get("namespace"):
        causes.required("metadata.namespace")
    return _shared(metadata, causes)


def _changed(new: Object, old: Object) -> Causes:
    metadata, before, causes = new["metadata"], old["metadata"], Causes()
    if before.get("deletionTimestamp"):
        known = set(before.get("finalizers", ()))
        for finalizer in metadata.get("finalizers", ()):
            if finalizer not in known:
                # One message for all of them, spelled as Go prints a slice.
                added = [each for each in metadata["finalizers"] if each not in known]
                message = "no new finalizers can be added if the object is being deleted, found new finalizers "
                quoted = ", ".join(f'"{each}"' for each in added)
                causes.forbidden("metadata.finalizers", f"{message}[]string{{{quoted}}}")
                break
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if metadata.get(field, "") != before.get(field, ""):
            causes.invalid(f"metadata.{field}", metadata.get(field, ""), "field is immutable")
    return _shared(metadata, causes)


def _shared(metadata: Mapping[str, Any], causes: Causes) -> Causes:
    validate_labels(metadata.get("labels", {}), "metadata.labels", causes)
    validate_annotations(metadata.get("annotations", {}), "metadata.annotations", causes)
    _owners(metadata.get("ownerReferences", ()), causes)
    _finalizers(metadata.get("finalizers", ()), causes)
    return causes


def validate_labels(labels: Mapping[str, str], path: str, causes: Causes) -> None:
    """Check keys and values."""
    for key, value in sorted(labels.items()):
        causes.invalid_each(path, key, names.qualified_name(key))
        causes.invalid_each(path, value, names.label_value(value))


def validate_annotations(annotations: Mapping[str, str], path: str, causes: Causes) -> None:
    """Check keys, which may be in capitals, and the size of all together."""
    for key in sorted(annotations):
        causes.invalid_each(path, key, names.qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_BYTES:
        causes.too_long(path, ANNOTATIONS_BYTES)


def _owners(references: Any, causes: Causes) -> None:
    controller = ""
    for index, reference in enumerate(references):
        path = f"{_OWNERS}[{index}]"
        for field in _OWNER_FIELDS:
            if not reference.get(field):
                causes.required(f"{path}.{field}", "must not be empty")
        if (reference.get("apiVersion"), reference.get("kind")) == ("v1", "Event"):
            causes.invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner")
        if reference.get("controller"):
            this = f"{reference.get('kind', '')}/{reference.get('name', '')}"
            if controller:
                told_twice = (
                    f'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}"
                )
                causes.invalid(_OWNERS, list(references), told_twice)
            controller = controller or this


def _finalizers(finalizers: Any, causes: Causes) -> None:
    for index, finalizer in enumerate(finalizers):
        path = f"metadata.finalizers[{index}]"
        wrong = names.qualified_name(finalizer)
        causes.invalid_each(path, finalizer, wrong)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            causes.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        message = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.invalid("metadata.finalizers", list(finalizers), message)
