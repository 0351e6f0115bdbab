"""The CustomResourceDefinition of PathwaysJob: the API of google/pathways-job v0.1.4, stricter for invalid objects.

Every object that the upstream controller can run is valid. Objects on which it panics, or whose errors it ignores or
finds late, are rejected: no workers, fewer slices than one, a missing main container, an edit without effect.
There is no rule on the whole object: an API server applies such a rule to every change of the status, too, and the
status of an older object could not be written. So only gangctl checks the length of the name.
"""

from __future__ import annotations

from typing import Any, Final

from gangctl.pathways.accelerators import MACHINE_TYPES_OF_JOBS, of_job
from gangctl.pathways.job import DEFAULT_MAIN_CONTAINER, DEFAULT_SLICE_RESTARTS, ComponentType, DeploymentMode
from gangctl.pathways.podchecks import RESERVED
from gangctl.pathways.words import GROUP, KIND, PLURAL

VERSION: Final = "v1"
_LONGEST_TOPOLOGY: Final = 32
_LONGEST_NAME: Final = 63
_MOST_CONTAINERS: Final = 64
"""Maximum of list items in the user's pod, so that an API server can bound the cost of rules."""
_MOST: Final = {"maximum": 2**31 - 1}
_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
_REASON: Final = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_TYPE: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def definitions() -> dict[str, dict[str, Any]]:
    """The definition by file name."""
    return {f"{PLURAL}.yaml": _definition()}


def _definition() -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": KIND.lower()},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object_schema()},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _columns(),
                }
            ],
        },
    }


def _columns() -> list[dict[str, Any]]:
    conditions = (
        {"name": kind, "type": "string", "jsonPath": f'.status.conditions[?(@.type=="{kind}")].status'}
        for kind in ("Completed", "Failed", "Suspended")
    )
    return [
        {"name": "TerminalState", "type": "string", "jsonPath": ".status.terminalState"},
        *conditions,
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def _object_schema() -> dict[str, Any]:
    return {
        "description": "A workload on Pathways: slices of TPUs, and the pod of the user's that drives them.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
    }


def _rule(rule: str, message: str) -> dict[str, str]:
    return {"rule": rule, "message": message}


def _fixed(name: str) -> list[dict[str, str]]:
    """The value is immutable; a rule on the parent object checks presence."""
    return [_rule("self == oldSelf", f"{name} is immutable")]


def _stays(name: str, unset: str) -> dict[str, str]:
    """An absent field may be set to its default, and the other way round; other changes are rejected."""
    now, before = (f"(has({each}.{name}) ? {each}.{name} : {unset})" for each in ("self", "oldSelf"))
    return _rule(f"{now} == {before}", f"{name} is immutable")


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"description": description, "type": "string", **more}


def _number(description: str, least: int, **more: Any) -> dict[str, Any]:
    """An int32, with its maximum, because API servers before 1.37 do not enforce the format."""
    return {"description": description, "type": "integer", "format": "int32", "minimum": least, **_MOST, **more}


def _spec() -> dict[str, Any]:
    components = "has({0}.customComponents) && size({0}.customComponents) > 0"
    return {
        "description": "The request; it is immutable.",
        "type": "object",
        "required": ["controller", "workers"],
        "properties": {
            "maxRestarts": _number("How many times the JobSet is restarted before it has failed.", 0),
            "pathwaysDir": _text("Directory in Google Cloud Storage, gs://BUCKET/DIRECTORY, which has to exist."),
            "pathwaysVersion": _text("Tag of the images of Pathways; latest if left out.", maxLength=128),
            "workers": {
                "description": "The workers: one group.",
                "type": "array",
                "minItems": 1,
                "maxItems": 1,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "x-kubernetes-validations": _fixed("workers"),
                "items": _worker(),
            },
            "controller": _controller(),
            "customComponents": {
                "description": "What is different about containers of Pathways, one entry for each.",
                "type": "array",
                "maxItems": len(ComponentType),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["componentType"],
                "x-kubernetes-validations": _fixed("customComponents"),
                "items": _component(),
            },
        },
        "x-kubernetes-validations": [
            _rule(
                "!has(self.controller.elasticSlices) || size(self.workers) != 1 "
                "|| self.controller.elasticSlices == 0 || self.controller.elasticSlices < self.workers[0].numSlices",
                "elasticSlices must be less than numSlices: at least one slice is there",
            ),
            _stays("maxRestarts", "0"),
            _stays("pathwaysDir", "''"),
            _stays("pathwaysVersion", "''"),
            _rule(
                f"({components.format('self')}) == ({components.format('oldSelf')})", "customComponents is immutable"
            ),
        ],
    }


def _worker() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["numSlices", "topology", "type"],
        "properties": {
            "type": _text("Machine type of GKE.", enum=list(MACHINE_TYPES_OF_JOBS)),
            "topology": _text("Topology of a slice, such as 2x2x2.", minLength=1, maxLength=_LONGEST_TOPOLOGY),
            "numSlices": _number("How many slices.", 1),
            "maxSliceRestarts": _number(
                "How many times the workers of a slice are restarted where slices may be missing.",
                0,
                default=DEFAULT_SLICE_RESTARTS,
            ),
            "terminationGracePeriodSeconds": {
                "description": "How long workers have to end after SIGTERM.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "priorityClassName": _text("Priority class of the workers.", maxLength=253),
            "nodeSelector": {
                "description": "Labels of the workers' nodes, beside those that type and topology stand for.",
                "type": "object",
                "additionalProperties": {"type": "string"},
            },
        },
        "x-kubernetes-validations": [_topologies(machine) for machine in MACHINE_TYPES_OF_JOBS],
    }


def _topologies(machine: str) -> dict[str, str]:
    known = of_job(machine)
    listed = ", ".join(f"'{each}'" for each in known)
    rule = f"self.type != '{machine}' || self.topology.lowerAscii().trim() in [{listed}]"
    return _rule(rule, f"topology of {machine} must be one of {', '.join(known)}")


def _controller() -> dict[str, Any]:
    reserved = ", ".join(f"'{name}'" for name in RESERVED)
    return {
        "description": "The head: where it runs, and the user's pod.",
        "type": "object",
        "required": ["deploymentMode"],
        "properties": {
            "deploymentMode": _text(
                "Whether the head runs beside the workers, or on nodes of its own (default).",
                enum=[mode.value for mode in DeploymentMode],
                **{"x-kubernetes-validations": _fixed("deploymentMode")},
            ),
            "mainContainerName": _text(
                "The container of the user's pod that gets the address of Pathways.",
                default=DEFAULT_MAIN_CONTAINER,
                minLength=1,
                maxLength=_LONGEST_NAME,
                **{"x-kubernetes-validations": _fixed("mainContainerName")},
            ),
            "enableMetricsCollection": {"description": "Whether Pathways collects metrics.", "type": "boolean"},
            "template": _template(),
            "elasticSlices": _number("How many slices may be missing.", 0),
        },
        "x-kubernetes-validations": [
            _stays("enableMetricsCollection", "false"),
            _stays("elasticSlices", "0"),
            _rule("has(self.template) == has(oldSelf.template)", "template is immutable"),
            _rule(
                "!has(self.template) || self.template.spec.containers.exists(c, c.name == self.mainContainerName)",
                "one container of the template must be named as mainContainerName says",
            ),
            _rule(
                f"!has(self.template) || self.template.spec.containers.all(c, !(c.name in [{reserved}]))",
                f"{' and '.join(RESERVED)} are containers that are added to the pod",
            ),
            _rule(
                "!has(self.template) || !has(self.template.spec.initContainers) "
                f"|| self.template.spec.initContainers.all(c, !(c.name in [{reserved}]))",
                f"{' and '.join(RESERVED)} are containers that are added to the pod",
            ),
        ],
    }


def _template() -> dict[str, Any]:
    """A pod template of any release of Kubernetes: only fields with rules are listed."""
    words = {"type": "object", "additionalProperties": {"type": "string"}}
    container = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME}},
        _UNKNOWN: True,
    }
    containers = {"type": "array", "maxItems": _MOST_CONTAINERS, "items": container}
    return {
        "description": "The user's pod, a PodTemplateSpec; without one a client connects from outside.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {
                    "annotations": words,
                    "labels": words,
                    "finalizers": {"type": "array", "items": {"type": "string"}},
                    "name": {"type": "string"},
                    "namespace": {"type": "string"},
                },
            },
            "spec": {
                "type": "object",
                "required": ["containers"],
                "properties": {"containers": {**containers, "minItems": 1}, "initContainers": containers},
                _UNKNOWN: True,
            },
        },
        _UNKNOWN: True,
        "x-kubernetes-validations": _fixed("template"),
    }


def _component() -> dict[str, Any]:
    texts = {"type": "array", "items": {"type": "string"}}
    sidecar = ComponentType.SIDECAR.value
    return {
        "type": "object",
        "required": ["componentType"],
        "properties": {
            "componentType": _text("Which container.", enum=[kind.value for kind in ComponentType]),
            "image": _text("Its image instead of the one of pathwaysVersion."),
            "customFlags": {"description": "Flags after its own.", **texts},
            "customEnv": {
                "description": "Variables, which win over its own of the same name.",
                "type": "array",
                "items": _variable(),
            },
        },
        "x-kubernetes-validations": [
            _rule(
                f"self.componentType != '{sidecar}' || (has(self.image) && size(self.image) > 0) || "
                "((!has(self.customFlags) || size(self.customFlags) == 0) "
                "&& (!has(self.customEnv) || size(self.customEnv) == 0))",
                f"flags and variables of {sidecar} need its image: it has none of its own",
            )
        ],
    }


def _variable() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": _text("Name of the variable.", minLength=1),
            "value": _text("Its value."),
            "valueFrom": {
                "description": "Where its value comes from instead, as in a container.",
                "type": "object",
                _UNKNOWN: True,
            },
        },
    }


def _status() -> dict[str, Any]:
    """Conditions, several of one type as upstream has them, and upstream's two fields."""
    return {
        "description": "The state of the PathwaysJob.",
        "type": "object",
        "properties": {
            "conditions": {
                "description": "Exactly one of Pending, Running, Suspended, Completed and Failed is True; Degraded is "
                "whether slices are missing.",
                "type": "array",
                "items": _status_condition(),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            "restarts": {"description": "How often it was restarted.", "type": "integer", "format": "int32"},
            "terminalState": {"description": "Completed or Failed, once it has ended.", "type": "string"},
        },
    }


def _status_condition() -> dict[str, Any]:
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
