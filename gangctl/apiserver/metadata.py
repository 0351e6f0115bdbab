"""``metadata`` of every object, and errors worded like ``k8s.io/apimachinery`` ``field.Error``.

Order and messages are those of ``ValidateObjectMeta``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import orjson

from gangctl.api.labelselector import Operator
from gangctl.api.names import dns_label, dns_subdomain, label_value, qualified_name

Object = dict[str, Any]

Check = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One entry of ``details.causes``: a reason such as ``FieldValueInvalid``, a field path, a message."""

    reason: str
    field: str
    message: str
    place: str = dataclasses.field(default="", compare=False)
    """The field that it is about, where the server names none."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    def as_json(self) -> dict[str, str]:
        """A ``metav1.StatusCause``; empty parts are left out."""
        parts = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in parts.items() if value}


def spelled(value: Any) -> str:
    """A value as a field error quotes it: JSON, with what HTML minds escaped as Go does."""
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # an integer of more than 64 bits
        text = str(value)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


class Causes(list[FieldCause]):
    """Errors of one object, in the order they were found."""

    def required(self, path: str, detail: str = "") -> None:
        """A value is missing."""
        self.append(FieldCause("FieldValueRequired", path, f"Required value: {detail}" if detail else "Required value"))

    def invalid(self, path: str, value: Any, detail: str) -> None:
        """A value is wrong."""
        self.append(FieldCause("FieldValueInvalid", path, f"Invalid value: {spelled(value)}: {detail}"))

    def invalid_each(self, path: str, value: Any, details: Iterable[str]) -> None:
        """A value is wrong in several ways."""
        for detail in details:
            self.invalid(path, value, detail)

    def unsupported(self, path: str, value: Any, supported: Sequence[str]) -> None:
        """A value is none of an enumeration; ``supported`` in the server's order."""
        message = ", ".join(spelled(value) for value in supported)
        self.append(
            FieldCause(
                "FieldValueNotSupported", path, f"Unsupported value: {spelled(value)}: supported values: {message}"
            )
        )

    def duplicate(self, path: str, value: Any) -> None:
        """A value was there before."""
        self.append(FieldCause("FieldValueDuplicate", path, f"Duplicate value: {spelled(value)}"))

    def forbidden(self, path: str, detail: str) -> None:
        """A field may not be set, or changed."""
        self.append(FieldCause("FieldValueForbidden", path, f"Forbidden: {detail}"))

    def too_long(self, path: str, limit: int) -> None:
        """A text has more than ``limit`` bytes."""
        self.append(FieldCause("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes"))

    def internal(self, place: str, detail: str) -> None:
        """An error that names no field, of which a webhook makes an internal error; ``place`` is what it is about."""
        self.append(FieldCause("InternalError", "<nil>", f"Internal error: {detail}", place))

    def too_many(self, path: str, count: int, limit: int) -> None:
        """A list has more than ``limit`` items."""
        items = "item" if limit == 1 else "items"
        self.append(FieldCause("FieldValueTooMany", path, f"Too many: {count}: must have at most {limit} {items}"))


ANNOTATIONS_BYTES: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid")
_OWNERS: Final = "metadata.ownerReferences"


def validate_metadata(
    new: Object, old: Object | None, *, namespaced: bool = True, name: Check = dns_subdomain
) -> Causes:
    """Check the metadata of a changed object, or of a new one, whose name ``name`` looks at."""
    return _changed(new, old) if old is not None else _new(new, name, namespaced=namespaced)


def _new(obj: Object, check: Check, *, namespaced: bool) -> Causes:
    metadata, causes = obj["metadata"], Causes()
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
                message = "no new finalizers can be added if the object is being deleted, found new finalizers "
                causes.forbidden("metadata.finalizers", f'{message}[]string{{"{finalizer}"}}')
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if metadata.get(field, "") != before.get(field, ""):
            causes.invalid(f"metadata.{field}", metadata.get(field, ""), "field is immutable")
    return _shared(metadata, causes)


def _shared(metadata: Mapping[str, Any], causes: Causes) -> Causes:
    validate_labels(metadata.get("labels", {}), "metadata.labels", causes)
    validate_annotations(metadata.get("annotations", {}), "metadata.annotations", causes)
    _owners(metadata.get("ownerReferences", ()), causes)
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        path = f"metadata.finalizers[{index}]"
        causes.invalid_each(path, finalizer, qualified_name(finalizer))
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            causes.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
    return causes


def validate_annotations(annotations: Mapping[str, str], path: str, causes: Causes) -> None:
    """Check keys, and the size of all."""
    for key in sorted(annotations):
        # As in ValidateAnnotations, the case of a key does not matter.
        causes.invalid_each(path, key, qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_BYTES:
        causes.too_long(path, ANNOTATIONS_BYTES)


def validate_labels(labels: Mapping[str, str], path: str, causes: Causes) -> None:
    """Check keys and values."""
    for key, value in sorted(labels.items()):
        causes.invalid_each(path, key, qualified_name(key))
        causes.invalid_each(path, value, label_value(value))


def validate_member(name: str, known: Container[str], path: str, causes: Causes) -> None:
    """Check a name that is unique in its list; ``known`` has those before it."""
    if not name:
        causes.required(path)
    else:
        causes.invalid_each(path, name, dns_label(name))
    if name in known:
        causes.duplicate(path, name)


def selector_causes(selector: Mapping[str, Any], path: str) -> Causes:
    """Errors of a ``metav1.LabelSelector``."""
    causes = Causes()
    validate_labels(selector.get("matchLabels", {}), f"{path}.matchLabels", causes)
    for index, term in enumerate(selector.get("matchExpressions", ())):
        where, operator, values = f"{path}.matchExpressions[{index}]", term.get("operator", ""), term.get("values", ())
        if operator not in get_args(Operator):
            causes.invalid(f"{where}.operator", operator, "not a valid selector operator")
        elif operator in {"In", "NotIn"} and not values:
            causes.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator not in {"In", "NotIn"} and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.forbidden(f"{where}.values", detail)
        causes.invalid_each(f"{where}.key", term.get("key", ""), qualified_name(term.get("key", "")))
        for number, value in enumerate(values):
            causes.invalid_each(f"{where}.values[{number}]", value, label_value(value))
    return causes


def _owners(references: Any, causes: Causes) -> None:
    controller = ""
    for index, reference in enumerate(references):
        path = f"{_OWNERS}[{index}]"
        for field in _OWNER_FIELDS:
            if not reference.get(field):
                causes.required(f"{path}.{field}", "must not be empty")
        if reference.get("controller"):
            this = f"{reference.get('kind', '')}/{reference.get('name', '')}"
            if controller:
                told_twice = (
                    f'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}"
                )
                causes.invalid(_OWNERS, list(references), told_twice)
            controller = controller or this


_MANAGER_LENGTH: Final = 63


def validate_manager(name: str, causes: Causes) -> None:
    """Check ``spec.managedBy`` of a JobSet or a Job."""
    host, _, path = name.partition("/")
    if not host or not path:
        causes.invalid("spec.managedBy", name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        causes.invalid_each("spec.managedBy", host, dns_subdomain(host))
    if len(name) > _MANAGER_LENGTH:
        causes.too_long("spec.managedBy", _MANAGER_LENGTH)
