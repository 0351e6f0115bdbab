"""Events: one stored type, served as ``v1`` and as ``events.k8s.io/v1``, which asks for more."""

from __future__ import annotations

from typing import Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata

_MAX_NAME: Final = 128
_MAX_NOTE: Final = 1024
_TYPES: Final = ("Normal", "Warning")
_FIXED: Final = (
    "eventTime",
    "reportingController",
    "reportingInstance",
    "action",
    "reason",
    "regarding",
    "type",
    "note",
)
# The server checks its internal type, whose names are those of v1.
_INTERNAL: Final = {"regarding": "involvedObject", "note": "message"}
# What Go writes of an event although it is empty.
_CORE_DEFAULTS: Final[Object] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEW_DEFAULTS: Final[Object] = {
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def default(event: Object) -> None:
    """The empty fields that are written."""
    new = event["apiVersion"] != "v1"
    for field, value in (_NEW_DEFAULTS if new else _CORE_DEFAULTS).items():
        event.setdefault(field, dict(value) if isinstance(value, dict) else value)
    if new:
        event.setdefault("eventTime", None)
        event.setdefault("regarding", {})
    else:
        event.setdefault("involvedObject", {})


def validate(new: Object, old: Object | None) -> Causes:
    """Errors of an event; events of cluster-scoped objects are in ``default``."""
    causes = validate_metadata(new, old)
    about = new.get("involvedObject" if new["apiVersion"] == "v1" else "regarding", {})
    namespace = about.get("namespace", "")
    if namespace != new["metadata"]["namespace"] and not (not namespace and new["metadata"]["namespace"] == "default"):
        causes.invalid("involvedObject.namespace", namespace, "does not match event.namespace")
    if new["apiVersion"] == "v1":
        return causes
    _new_event(new, causes)
    if old is not None:
        for field in _FIXED:
            if new.get(field) != old.get(field):
                causes.invalid(_INTERNAL.get(field, field), new.get(field), "field is immutable")
    return causes


def _new_event(event: Object, causes: Causes) -> None:
    if not event.get("eventTime"):
        causes.required("eventTime")
        if event.get("type") not in _TYPES:
            causes.invalid("type", "", f"has invalid value: {event.get('type', '')}")
        return
    controller = event.get("reportingController", "")
    if not controller:
        causes.required("reportingController")
    else:
        causes.invalid_each("reportingController", controller, names.qualified_name(controller))
    for field, required in (("reportingInstance", True), ("action", True), ("reason", True)):
        value = event.get(field, "")
        if required and not value:
            causes.required(field)
        elif len(value) > _MAX_NAME:
            causes.invalid(field, "", f"can have at most {_MAX_NAME} characters")
    if len(event.get("note", "")) > _MAX_NOTE:
        causes.invalid("message", "", f"can have at most {_MAX_NOTE} characters")
    if event.get("type") not in _TYPES:
        causes.invalid("type", "", f"has invalid value: {event.get('type', '')}")
