"""JobSets, as JobSet 0.12 with its CRD and its two webhooks makes and takes them.

The schema is rebuilt from the field table. What Go writes back beyond what it was given are the fields that are never
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from gangctl.api.objects import copy
from gangctl.apiserver.fields import SCALAR_SCHEMAS, Fields, FieldType, canonical, fields_of
from gangctl.apiserver.metadata import Causes, Object
from gangctl.apiserver.pods import containers
from gangctl.apiserver.structural import check_value, part

_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""Of the definition of JobSets."""
_SCALARS: Final[Mapping[str, Mapping[str, Any]]] = {
    **SCALAR_SCHEMAS,
    "number": {"type": "number"},
    "quantity": {"x-kubernetes-int-or-string": True, "pattern": _QUANTITY},
    "intOrString": {"x-kubernetes-int-or-string": True},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}


@lru_cache(maxsize=1)
def jobset_schema() -> Mapping[str, Any]:
    """``openAPIV3Schema``; the CRD is the same on every minor."""
    fields = fields_of("1.37")
    root = fields.root("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert root is not None  # noqa: S101 - the table has it
    schema = _definition(fields, root, {})
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def _definition(fields: Fields, name: str, made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if name not in made:
        shapes = fields.of(name)
        made[name] = {"type": "object", **fields.constraints_of_items(name)}
        required = [field for field, shape in shapes.items() if shape.required]
        if required:
            made[name]["required"] = required
        made[name]["properties"] = {field: schema_of(fields, shape, made) for field, shape in shapes.items()}
    return made[name]


def schema_of(fields: Fields, shape: FieldType, made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The schema of one field."""
    if shape.form == "scalar":
        schema = dict(_SCALARS[shape.name])
    elif shape.form == "struct":
        schema = dict(_definition(fields, shape.name, made))
    else:
        assert shape.item is not None  # noqa: S101 - a list or a map
        inner = schema_of(fields, shape.item, made)
        if shape.form == "map":
            schema = {"type": "object", "additionalProperties": inner}
        else:
            schema = {"type": "array", "items": inner, **shape.list_type}
    schema.update(shape.constraints)
    return schema


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
# What Go leaves out when false; other booleans are pointers.
_FALSE_IS_NOTHING: Final = frozenset({"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"})


def complete(jobset: Object) -> None:
    """Write ``jobset`` as Go does, in place."""
    fields = fields_of("1.37")
    jobset["spec"] = _Writer(fields).write(jobset.get("spec") or {}, fields.of(_ROOT)["spec"])


def replicated_jobs(jobset: Object) -> list[Any]:
    """A copy of ``spec.replicatedJobs`` in which equal things look alike, whether or not Go would write them."""
    fields = fields_of("1.37")
    shape = fields.of(_SPEC)["replicatedJobs"]
    jobs = copy({"value": jobset["spec"].get("replicatedJobs") or []})["value"]
    written: list[Any] = _Writer(fields, sparse=True).write(jobs, shape)
    return written


class _Writer:
    """Writes values; a ``sparse`` one removes what Go leaves out."""

    def __init__(self, fields: Fields, *, sparse: bool = False) -> None:
        self._fields = fields
        self._sparse = sparse

    def write(self, value: Any, shape: FieldType) -> Any:
        """The value as it is written back; one of another type than ``shape`` says stays as it is."""
        match shape.form, value:
            case "struct", dict():
                self._struct(value, shape.name)
            case "list", list():
                value[:] = [self.write(item, _item(shape)) for item in value]
            case "map", dict():
                value |= {key: self.write(entry, _item(shape)) for key, entry in value.items()}
            case "scalar", int() | float() | str() if shape.name == "quantity" and not isinstance(value, bool):
                text = str(value)
                # The schema reports other types.
                with suppress(ValueError):
                    return canonical(text)
                return text
        return value

    def _struct(self, value: Object, definition: str) -> None:
        always = _WRITTEN_STRUCTS.get(definition, ())
        for field, shape in self._fields.of(definition).items():
            if value.get(field) is not None:
                value[field] = self.write(value[field], shape)
            elif shape.required or field in always:
                value[field] = self._zero(shape)
            if self._sparse and field in value and _is_nothing(field, shape, value[field]):
                del value[field]

    def _zero(self, shape: FieldType) -> Any:
        if shape.form == "struct":
            return self.write({}, shape)
        return _ZEROES.get(shape.name) if shape.form == "scalar" else None


def _is_nothing(field: str, shape: FieldType, value: Any) -> bool:
    if shape.required:
        return False
    return (
        value is None
        or value == ""
        or (shape.form in {"list", "map"} and not value)
        or (value is False and field in _FALSE_IS_NOTHING)
    )


def _item(shape: FieldType) -> FieldType:
    assert shape.item is not None  # noqa: S101 - a list or a map
    return shape.item


def default(jobset: Object) -> None:
    """Fill in a new JobSet, in place; with type errors, which its schema reports, as far as possible."""
    complete(jobset)
    if _has_wrong_types(jobset):
        return
    spec = jobset["spec"]
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for replicated in spec.get("replicatedJobs") or ():
        job = replicated["template"]["spec"]
        job.setdefault("completionMode", "Indexed")
        pod = job["template"]["spec"]
        pod["restartPolicy"] = pod.get("restartPolicy") or "OnFailure"
        _name_references(pod)
    network = spec.setdefault("network", {})
    for field in ("enableDNSHostnames", "publishNotReadyAddresses"):
        network.setdefault(field, True)
    for index, rule in enumerate(spec.get("failurePolicy", {}).get("rules") or ()):
        rule["name"] = rule["name"] or f"failurePolicyRule{index}"
    for policy in spec.get("volumeClaimPolicies") or ():
        policy.setdefault("retentionPolicy", {"whenDeleted": "Delete"})


def _has_wrong_types(jobset: Object) -> bool:
    causes = Causes()
    check_value(jobset, jobset_schema(), "", causes)
    return any(cause.reason == "FieldValueTypeInvalid" for cause in causes)


def _name_references(pod: Object) -> None:
    """What refers to an object has a name, if an empty one."""
    for container in containers(pod):
        for variable in container.get("env") or ():
            for field in ("configMapKeyRef", "secretKeyRef"):
                reference = (variable.get("valueFrom") or {}).get(field)
                if reference is not None:
                    reference.setdefault("name", "")
        for source in container.get("envFrom") or ():
            for field in ("configMapRef", "secretRef"):
                if source.get(field) is not None:
                    source[field].setdefault("name", "")
    for reference in pod.get("imagePullSecrets") or ():
        reference.setdefault("name", "")


def unknown_field(path: str) -> str:
    """What an API server makes of a field that the CRD does not have, with the field that may be meant."""
    *parents, name = path.split(".")
    schema = jobset_schema()
    for step in parents:
        schema = part(schema, step.partition("[")[0]) or {}
        schema = schema.get("items", schema)
    known = fields_of("1.37").of("meta.v1.ObjectMeta") if parents == ["metadata"] else schema.get("properties") or {}
    near = get_close_matches(name, sorted(known), n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"JobSet has no such field, and the API server drops it{meant}"
