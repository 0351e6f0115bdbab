"""The schema of a PathwaysJob's status."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_REASON: Final = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_TYPE: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def status_schema() -> Schema:
    """Conditions by type, of which upstream has several each, and the two fields of upstream's."""
    return {
        "description": "Where it stands.",
        "type": "object",
        "properties": {
            "conditions": {
                "description": "Exactly one of Pending, Running, Suspended, Completed and Failed is True; Degraded is "
                "whether slices are missing.",
                "type": "array",
                "items": _condition(),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            "restarts": {"description": "How often it was restarted.", "type": "integer", "format": "int32"},
            "terminalState": {"description": "Completed or Failed, once it has ended.", "type": "string"},
        },
    }


def _condition() -> Schema:
    """``metav1.Condition``."""
    return {
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "message": {"type": "string", "maxLength": 32768},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": _REASON},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "type": {"type": "string", "maxLength": 316, "pattern": _TYPE},
        },
    }
