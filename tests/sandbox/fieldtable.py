"""Writes ``gangctl/apiserver/fields.json``: which fields each Kubernetes minor has.

Names, types and list keys only, read from ``/openapi/v3`` of real API servers and from the
JobSet CRD that they hold. Run ``python -m tests.sandbox.fieldtable`` after a minor was added
or JobSet was updated; the planes of ``tests/controlplane`` have to be built.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.controlplane.api import ApiClient
from tests.controlplane.minors import MINORS, NEWEST
from tests.controlplane.plane import ControlPlane

TABLE: Final = Path(__file__).parents[2] / "gangctl" / "apiserver" / "fields.json"
MADE: Final = "by python -m tests.sandbox.fieldtable from /openapi/v3 of real API servers; not to be edited"

Schema = dict[str, Any]
Definitions = dict[str, dict[str, Any]]

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    # First, because the last of equal structs names those of JobSet's CRD.
    "apis/authentication.k8s.io/v1": ("SelfSubjectReview", "TokenReview"),
    "apis/authorization.k8s.io/v1": ("SelfSubjectAccessReview", "SubjectAccessReview"),
    "api/v1": (
        *("Binding", "ConfigMap", "Event", "Namespace", "Node", "PersistentVolumeClaim", "Pod", "Secret", "Service"),
        *("ServiceAccount", "ResourceQuota", "policy/v1/Eviction"),
    ),
    "apis/admissionregistration.k8s.io/v1": (
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    ),
    "apis/apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "apis/batch/v1": ("Job",),
    "apis/coordination.k8s.io/v1": ("Lease",),
    "apis/events.k8s.io/v1": ("Event",),
    "apis/rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "apis/scheduling.k8s.io/v1": ("PriorityClass",),
    "apis/scheduling.k8s.io/v1alpha1": ("Workload",),
    "apis/scheduling.k8s.io/v1alpha2": ("Workload", "PodGroup"),
    "apis/scheduling.k8s.io/v1alpha3": ("Workload", "PodGroup", "CompositePodGroup"),
    "apis/scheduling.k8s.io/v1beta1": ("Workload", "PodGroup"),
}
"""By document. What is a subresource there is of another group than the document, and has it in front."""
JOBSET: Final = "jobset.x-k8s.io/v1alpha2/JobSet"
_EXTRA_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {"1.37": ("scheduling.k8s.io/v1alpha3",)}
_SCALARS: Final[Mapping[str, str]] = {
    "api.resource.Quantity": "quantity",
    "util.intstr.IntOrString": "intOrString",
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "microTime",
    "meta.v1.FieldsV1": "any",
    "runtime.RawExtension": "any",
    "apiextensions.v1.JSON": "any",
    "apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
    "apiextensions.v1.JSONSchemaProps": "any",  # it is recursive and has a module of its own
}
_CONSTRAINTS: Final = (
    *("default", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"),
    "x-kubernetes-validations",
)


def short(name: str) -> str:
    """``io.k8s.api.core.v1.Pod`` is ``core.v1.Pod``; what is not an API group's keeps its package."""
    name = name.removeprefix("#/components/schemas/")
    for prefix in (
        "io.k8s.apimachinery.pkg.apis.",
        "io.k8s.apimachinery.pkg.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
    ):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name.removeprefix("io.k8s.api.")


class Built:
    """Definitions of built-in kinds, with everything that they refer to."""

    def __init__(self) -> None:
        self.definitions: Definitions = {}

    def add(self, name: str, schemas: Mapping[str, Schema]) -> None:
        """Take in the definition ``name`` (as spelled by the server) and what it needs."""
        key = short(name)
        if key in self.definitions:
            return
        schema = schemas[name]
        definition: dict[str, Any] = {}
        self.definitions[key] = definition
        if schema.get("x-kubernetes-map-type") == "atomic":
            definition[""] = "atomic"
        required = set(schema.get("required", ()))
        for field, value in schema.get("properties", {}).items():
            definition[field] = ("!" if field in required else "") + self._type(value, schemas)

    def _type(self, schema: Schema, schemas: Mapping[str, Schema]) -> str:
        reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), "")
        if reference:
            scalar = _SCALARS.get(short(reference))
            if scalar is None:
                self.add(reference.removeprefix("#/components/schemas/"), schemas)
            return scalar or short(reference)
        return shape(schema, lambda inner: self._type(inner, schemas))


def shape(schema: Schema, of: Callable[[Schema], str]) -> str:
    """The type expression of a schema that is not an object with properties; ``of`` gives that of its parts."""
    match schema.get("type"):
        case "array":
            return f"[{of(schema['items'])}]{_keys(schema)}"
        case "object" if "additionalProperties" in schema:
            return "{" + of(schema["additionalProperties"]) + "}"
        case "object":
            return "any"
        case "string":
            return {"byte": "bytes", "date-time": "time"}.get(schema.get("format", ""), "string")
        case "integer":
            return str(schema.get("format", "int64"))
        case "boolean":
            return "bool"
        case "number":
            return "number"
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in schema else "intOrString"
    raise SystemExit(f"no type expression for {json.dumps(schema)[:200]}")


def _keys(schema: Schema) -> str:
    """What makes two items of a list the same: for server-side apply, then ``~`` and for strategic merge."""
    kind = schema.get("x-kubernetes-list-type")
    keys = ",".join(schema.get("x-kubernetes-list-map-keys", ())) if kind == "map" else "*" if kind == "set" else ""
    strategy = schema.get("x-kubernetes-patch-strategy", "")
    if "merge" in strategy:
        keys += "~" + schema.get("x-kubernetes-patch-merge-key", "") + ("!" if "retainKeys" in strategy else "")
    return keys


class Crd:
    """Definitions of a CRD's schema; a struct that a built-in kind has as well has that name."""

    def __init__(self, known: Definitions) -> None:
        self.definitions: Definitions = {}
        self._names = {_print(definition): name for name, definition in known.items()}

    def add(self, field: str, schema: Schema, *, item: bool = False) -> str:
        """The name of the definition of an object schema, or of one of the items of a list."""
        required = set(schema.get("required", ()))
        definition: dict[str, Any] = {"": "atomic"} if schema.get("x-kubernetes-map-type") == "atomic" else {}
        for name, value in schema.get("properties", {}).items():
            text = ("!" if name in required else "") + self._type(name, value)
            constraints = _constraints(value)
            definition[name] = [text, constraints] if constraints else text
        # Those of other objects stand beside the type of the field.
        if item and (own := _constraints(schema)):
            definition["self"] = own
        print_ = _print(definition)
        if print_ not in self._names:
            base = f"jobset.{field[0].upper()}{field[1:]}"
            name, count = base, 1
            while name in self.definitions:
                count += 1
                name = f"{base}{count}"
            self._names[print_] = name
            self.definitions[name] = definition
        return self._names[print_]

    def _type(self, field: str, schema: Schema, *, item: bool = False) -> str:
        if schema.get("type") == "object" and schema.get("properties"):
            return self.add(field, schema, item=item)
        if schema.get("type") == "object" and field == "metadata":
            return "meta.v1.ObjectMeta"
        return shape(schema, lambda inner: self._type(field, inner, item=schema.get("type") == "array"))


def _constraints(schema: Schema) -> Schema | None:
    found: Schema = {key: schema[key] for key in _CONSTRAINTS if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        found.pop("pattern", None)  # what a quantity looks like
    if found.get("default") == "":
        del found["default"]  # a name that Go writes even when it is empty
    return found or None


def _print(definition: Mapping[str, Any]) -> str:
    """Equal for definitions that have the same fields, whatever strategic merge makes of them."""

    def plain(value: Any) -> Any:
        return value.partition("~")[0] if isinstance(value, str) else value

    return json.dumps({key: plain(value) for key, value in definition.items()}, sort_keys=True)


async def read(api: ApiClient) -> tuple[Definitions, list[str], Schema]:
    """Definitions and kinds of one server, and the schema of its JobSet CRD."""
    built, kinds = Built(), []
    index = (await api.get("/openapi/v3"))["paths"]
    for path, names in KINDS.items():
        if path not in index:
            continue
        schemas = (await api.get(f"/openapi/v3/{path}"))["components"]["schemas"]
        served = path.removeprefix("apis/").removeprefix("api/")
        for name in names:
            version, _, kind = name.rpartition("/") if "/" in name else (served, "", name)
            group, _, number = version.rpartition("/")
            found = next((name for name in schemas if _is(schemas[name], group, number, kind)), None)
            if found is not None:
                built.add(found, schemas)
                kinds.append(f"{version}/{kind}={short(found)}")
    crd = await api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io")
    return built.definitions, kinds, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def _is(schema: Schema, group: str, version: str, kind: str) -> bool:
    wanted = {"group": group, "version": version, "kind": kind}
    return schema.get("x-kubernetes-group-version-kind") == [wanted]


def differences(base: Definitions, other: Definitions) -> Definitions:
    """What ``other`` has that ``base`` has not, by definition and field; None where it lacks one."""
    found: Definitions = {}
    for name, definition in other.items():
        reference = base.get(name, {})
        changed = {field: text for field, text in definition.items() if reference.get(field) != text}
        changed |= {field: None for field in reference if field not in definition}
        if changed:
            found[name] = changed
    return found


async def table() -> dict[str, Any]:
    """The whole table, from one plane after the other."""
    read_: dict[str, tuple[Definitions, list[str], Schema]] = {}
    for minor in MINORS:
        extra = dict.fromkeys(_EXTRA_VERSIONS.get(minor, ()), True)
        async with ControlPlane.start(
            minor, ("jobset",), runtime_config=extra, scheduler=False, controller_manager=False
        ) as plane:
            read_[minor] = await read(plane.api)
    base, _, schema = read_[NEWEST]
    for definitions, _, _ in read_.values():
        base |= {name: definition for name, definition in definitions.items() if name not in base}
    crd = Crd(base)
    root = crd.add("jobSet", schema)
    crd.definitions[root]["metadata"] = "meta.v1.ObjectMeta"
    return {
        "made": MADE,
        "kinds": {
            minor: dict(entry.split("=") for entry in [*kinds, f"{JOBSET}={root}"])
            for minor, (_, kinds, _) in read_.items()
        },
        "definitions": dict(sorted({**base, **crd.definitions}.items())),
        "differences": {minor: differences(base, read_[minor][0]) for minor in MINORS if minor != NEWEST},
    }


def main() -> None:
    """Write the table, one definition a line."""
    made = asyncio.run(table())
    lines = []
    for section, content in made.items():
        if isinstance(content, str):
            lines.append(f"{json.dumps(section)}: {json.dumps(content)}")
            continue
        body = ",\n".join(
            f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in content.items()
        )
        lines.append(f"{json.dumps(section)}: {{\n{body}\n}}")
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
