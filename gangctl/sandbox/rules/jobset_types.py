"""A JobSet as JobSet's webhooks read it into Go structs, and as they write it back.

What Go cannot read is 400; what it writes beyond what it was given are the fields that are never left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.quantity import parse_quantity
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object, copy
from gangctl.sandbox.rules.decoding import canonical
from gangctl.sandbox.rules.fields import SCALARS, Fields, Shape, fields_of

_GO_NAMES: Final[Mapping[str, str]] = {
    "jobset.Conditions": "v1.Condition",
    "jobset.Containers": "v1.Container",
    "jobset.DependsOn": "v1alpha2.DependsOn",
    "jobset.EnvFrom": "v1.EnvFromSource",
    "jobset.FailurePolicy": "v1alpha2.FailurePolicy",
    "jobset.JobSet": "v1alpha2.JobSet",
    "jobset.LivenessProbe": "v1.Probe",
    "jobset.Network": "v1alpha2.Network",
    "jobset.Metadata": "v1.ObjectMeta",
    "jobset.ReplicatedJobs": "v1alpha2.ReplicatedJob",
    "jobset.RetentionPolicy": "v1alpha2.VolumeRetentionPolicy",
    "jobset.Rules": "v1alpha2.FailurePolicyRule",
    "jobset.Spec": "v1.PersistentVolumeClaimSpec",
    "jobset.Spec2": "v1.PodSpec",
    "jobset.Spec3": "v1.JobSpec",
    "jobset.Spec4": "v1alpha2.JobSetSpec",
    "jobset.StartupPolicy": "v1alpha2.StartupPolicy",
    "jobset.SuccessPolicy": "v1alpha2.SuccessPolicy",
    "jobset.Coordinator": "v1alpha2.Coordinator",
    "jobset.Template": "v1.PodTemplateSpec",
    "jobset.Template2": "v1.JobTemplateSpec",
    "jobset.Templates": "v1.PersistentVolumeClaim",
    "jobset.VolumeClaimPolicies": "v1alpha2.VolumeClaimPolicy",
    "jobset.VolumeMounts": "v1.VolumeMount",
    "jobset.Volumes": "v1.Volume",
    "jobset.Env": "v1.EnvVar",
    "jobset.Ports": "v1.ContainerPort",
}
# Structs that are no pointers, and so are written whatever they hold.
_WRITTEN_STRUCTS: Final[Mapping[str, tuple[str, ...]]] = {
    "jobset.Template": ("metadata", "spec"),
    "jobset.Template2": ("metadata", "spec"),
    "jobset.Spec3": ("template",),
    "jobset.Containers": ("resources",),
    "jobset.EphemeralContainers": ("resources",),
    "jobset.Spec": ("resources",),
    "jobset.Templates": ("metadata", "spec", "status"),
    "jobset.VolumeClaimTemplate": ("metadata", "spec"),
}
_ROOT: Final = "jobset.JobSet"
_SPEC: Final = "jobset.Spec4"
_ZEROES: Final[Mapping[str, Any]] = {"string": "", "int32": 0, "int64": 0, "bool": False}
_INT_LIMITS: Final = {"int32": 2**31, "int64": 2**63}
_JSON_NAMES: Final = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
# What Go leaves out when false; other booleans are pointers.
_FALSE_IS_NOTHING: Final = frozenset({"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"})
_ORDER: Final = (
    *("name", "image", "groupName", "labels", "annotations", "metadata", "spec", "parallelism", "completions"),
    *("activeDeadlineSeconds", "podFailurePolicy", "successPolicy", "backoffLimit", "backoffLimitPerIndex"),
    *("maxFailedIndexes", "selector", "manualSelector", "template", "replicas", "dependsOn", "volumes"),
    *("initContainers", "containers", "command", "args", "workingDir", "ports", "envFrom", "env", "resources"),
    *("restartPolicy", "volumeMounts", "terminationGracePeriodSeconds", "dnsPolicy", "nodeSelector"),
    *("serviceAccountName", "serviceAccount", "nodeName", "hostNetwork", "securityContext", "subdomain", "affinity"),
    *("schedulerName", "tolerations", "priorityClassName", "priority", "topologySpreadConstraints", "schedulingGates"),
    *("schedulingGroup", "ttlSecondsAfterFinished", "completionMode", "suspend", "podReplacementPolicy", "managedBy"),
)
_PLACE: Final = {name: place for place, name in enumerate(_ORDER)}


class UnreadableError(Exception):
    """What Go's decoder says of a value of the wrong type."""


def complete(jobset: Object) -> None:
    """Write ``jobset`` as Go does, in place; StatusError 400 in the mutating webhook's words when it cannot read it."""
    fields = fields_of("1.37")
    spec = fields.of(_ROOT)["spec"]
    try:
        jobset["spec"] = _Reader(fields).read(jobset.get("spec") or {}, spec, _ROOT, "spec")
    except UnreadableError as error:
        told = f'admission webhook "mjobset.kb.io" denied the request: {error}'
        raise StatusError(400, "", told) from error


def replicated_jobs(jobset: Object) -> list[Any]:
    """A copy of ``spec.replicatedJobs`` in which equal things look alike, whether or not Go would write them."""
    fields = fields_of("1.37")
    shape = fields.of(_SPEC)["replicatedJobs"]
    found = copy({"value": jobset["spec"].get("replicatedJobs") or []})["value"]
    written: list[Any] = _Reader(fields, sparse=True).read(found, shape, _SPEC, "spec.replicatedJobs")
    return written


def in_go_order(value: Any) -> Any:
    """The value with the fields of its objects as Go declares them, which is how messages print them."""
    if isinstance(value, list):
        return [in_go_order(each) for each in value]
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: (_PLACE.get(key, len(_ORDER)), key))
    return {key: in_go_order(value[key]) for key in keys}


class _Reader:
    """Reads values; a ``sparse`` one removes what Go leaves out."""

    def __init__(self, fields: Fields, *, sparse: bool = False) -> None:
        self._fields = fields
        self._sparse = sparse

    def read(self, value: Any, shape: Shape, definition: str, path: str) -> Any:
        """The value as it is written back; ``path`` names no indexes, as Go does not."""
        if value is None:
            return None
        match shape.form:
            case "scalar":
                return _scalar(value, shape, definition, path)
            case "struct":
                _expect(dict, value, shape, definition, path)
                self._struct(value, shape.name, path)
            case "list":
                _expect(list, value, shape, definition, path)
                assert shape.item is not None  # noqa: S101 - a list has items
                value[:] = [self.read(each, shape.item, definition, path) for each in value]
            case "map":
                _expect(dict, value, shape, definition, path)
                assert shape.item is not None  # noqa: S101 - a map has values
                for key, each in value.items():
                    value[key] = self.read(each, shape.item, definition, path)
        return value

    def _struct(self, value: Object, definition: str, path: str) -> None:
        always = _WRITTEN_STRUCTS.get(definition, ())
        for field, shape in self._fields.of(definition).items():
            if value.get(field) is not None:
                value[field] = self.read(value[field], shape, definition, f"{path}.{field}")
            elif shape.required or field in always:
                value[field] = self._zero(shape, definition, f"{path}.{field}")
            if self._sparse and field in value and _is_nothing(field, shape, value[field]):
                del value[field]

    def _zero(self, shape: Shape, definition: str, path: str) -> Any:
        if shape.form == "struct":
            return self.read({}, shape, definition, path)
        return _ZEROES.get(shape.name) if shape.form == "scalar" else None


def _is_nothing(field: str, shape: Shape, value: Any) -> bool:
    if shape.required:
        return False
    return (
        value is None
        or value == ""
        or (shape.form in {"list", "map"} and not value)
        or (value is False and field in _FALSE_IS_NOTHING)
    )


def _expect(kind: type, value: Any, shape: Shape, definition: str, path: str) -> None:
    if not isinstance(value, kind):
        raise _wrong(value, shape, definition, path)


def _scalar(value: Any, shape: Shape, definition: str, path: str) -> Any:
    match shape.name:
        case "string" | "bytes" | "time" | "microTime":
            fits = isinstance(value, str)
        case "int32" | "int64":
            limit = _INT_LIMITS[shape.name]
            fits = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        case "bool":
            fits = isinstance(value, bool)
        case "quantity":
            return _quantity(value)
        case "intOrString":
            fits = isinstance(value, int | str) and not isinstance(value, bool)
        case _:
            fits = True
    if not fits:
        raise _wrong(value, shape, definition, path)
    return value


def _quantity(value: Any) -> str:
    text = str(value)
    try:
        parse_quantity(text)
    except ValueError:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise UnreadableError(f"quantities must match the regular expression '{pattern}'") from None
    return canonical(text)


def _wrong(value: Any, shape: Shape, definition: str, path: str) -> UnreadableError:
    found = _JSON_NAMES.get(type(value), "null")
    if found == "number" and shape.name in _INT_LIMITS:
        found = f"number {value}"
    struct = _go_name(definition).rpartition(".")[2]
    told = f"Go struct field {struct}.{path} of type {_go_type(shape)}"
    return UnreadableError(f"json: cannot unmarshal {found} into {told}")


def _go_type(shape: Shape) -> str:
    if shape.item is not None:
        return f"{'[]' if shape.form == 'list' else 'map[string]'}{_go_type(shape.item)}"
    return SCALARS[shape.name] if shape.form == "scalar" else _go_name(shape.name)


def _go_name(definition: str) -> str:
    return _GO_NAMES.get(definition, definition.partition(".")[2])
