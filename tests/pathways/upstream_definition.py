"""The definition of PathwaysJob as clusters have it from google/pathways-job v0.1.4: what it asks for, and no more.

Made of the table of its fields. It lets pass an empty list of workers, slices below one, several conditions of a type,
and most changes of the head.
"""

from __future__ import annotations

from typing import Any, Final

from gangctl.pathways.words import GROUP, KIND, PLURAL

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "integer", "format": "int32"}
_ANYTHING: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def upstream_definition() -> Schema:
    """The whole object, as it is applied."""
    columns = [
        {"name": "TerminalState", "type": "string", "jsonPath": ".status.terminalState"},
        *(
            {"name": kind, "type": "string", "jsonPath": f'.status.conditions[?(@.type=="{kind}")].status'}
            for kind in ("Completed", "Failed", "Suspended")
        ),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "apiVersion": _TEXT,
                    "kind": _TEXT,
                    "metadata": {"type": "object"},
                    "spec": _spec(),
                    "status": _status(),
                },
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": "pathwaysjob"},
            "versions": [version],
        },
    }


def _fixed(schema: Schema, name: str) -> Schema:
    rule = {"rule": "self == oldSelf", "message": f"{name} is immutable"}
    return {**schema, "x-kubernetes-validations": [rule]}


def _map_list(items: Schema, key: str, most: int) -> Schema:
    listed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return {"type": "array", "maxItems": most, "items": items, **listed}


def _spec() -> Schema:
    return {
        "type": "object",
        "required": ["controller", "workers"],
        "properties": {
            "maxRestarts": _fixed(_NUMBER, "maxRestarts"),
            "pathwaysDir": _fixed(_TEXT, "pathwaysDir"),
            "pathwaysVersion": _fixed(_TEXT, "pathwaysVersion"),
            "workers": _fixed(_map_list(_worker(), "type", 1), "workers"),
            "controller": _controller(),
            "customComponents": _fixed(_map_list(_component(), "componentType", 4), "custom components"),
        },
    }


def _worker() -> Schema:
    machines = (
        "tpu7x-standard-4t ct6e-standard-4t ct6e-standard-8t ct5p-hightpu-4t "
        "ct5lp-hightpu-4t ct5lp-hightpu-8t ct4p-hightpu-4t"
    )
    return {
        "type": "object",
        "required": ["numSlices", "topology", "type"],
        "properties": {
            "type": {"type": "string", "enum": machines.split()},
            "topology": _TEXT,
            "numSlices": _NUMBER,
            "maxSliceRestarts": {**_NUMBER, "default": 1},
            "terminationGracePeriodSeconds": {"type": "integer", "format": "int64"},
            "priorityClassName": _TEXT,
            "nodeSelector": {"type": "object", "additionalProperties": _TEXT},
        },
    }


def _controller() -> Schema:
    mode = {"type": "string", "enum": ["colocate_head_with_workers", "default"]}
    return {
        "type": "object",
        "required": ["deploymentMode"],
        "properties": {
            "deploymentMode": _fixed(mode, "deploymentMode"),
            "mainContainerName": {**_TEXT, "default": "main"},
            "enableMetricsCollection": _fixed({"type": "boolean"}, "enableMetricsCollection"),
            "template": _fixed(_ANYTHING, "userPodTemplate"),
            "elasticSlices": _NUMBER,
        },
    }


def _component() -> Schema:
    kinds = ["pathways_server", "worker", "proxy_server", "colocated_python_sidecar"]
    variable = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": _TEXT, "value": _TEXT, "valueFrom": _ANYTHING},
    }
    return {
        "type": "object",
        "required": ["componentType"],
        "properties": {
            "componentType": {"type": "string", "enum": kinds},
            "image": _TEXT,
            "customFlags": {"type": "array", "items": _TEXT},
            "customEnv": {"type": "array", "items": variable},
        },
    }


def _status() -> Schema:
    condition = {
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "message": {"type": "string", "maxLength": 32768},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "type": {"type": "string", "maxLength": 316},
        },
    }
    return {
        "type": "object",
        "properties": {
            "conditions": {"type": "array", "items": condition},
            "restarts": _NUMBER,
            "terminalState": _TEXT,
        },
    }
