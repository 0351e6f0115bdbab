"""Discovery: version, health, groups and resources; and ``/openapi/v3`` with the schemas of what is served.

The schemas come from the tables that also decide which fields are dropped. There are no descriptions, and of paths only
what kubectl looks for before it leaves validation and dry runs to the server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from gangctl.apiserver.fields import SCALAR_SCHEMAS, Fields, FieldType, fields_of
from gangctl.apiserver.jobsets import jobset_schema
from gangctl.apiserver.minors import MINORS
from gangctl.sandbox.definitions import schema_of as schema_of_version
from gangctl.sandbox.definitions import version_of
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.registry import Registry
from gangctl.sandbox.store import ObjectStore

_GROUP_SUFFIX: Final = ".k8s.io"
_SUBRESOURCE_VERBS: Final = {"status": ["get", "patch", "update"], "finalize": ["update"]}


def version(minor: str) -> Object:
    """``/version``."""
    major, number = minor.split(".")
    return {
        "major": major,
        "minor": number,
        "gitVersion": MINORS[minor].release,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def groups(registry: Registry) -> Object:
    """``/apis``."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(registry, name) for name in _names(registry)]}


def group(registry: Registry, name: str) -> Object | None:
    """``/apis/GROUP``; None when it is not served."""
    if name not in _names(registry):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, name)}


def resources(registry: Registry, group_name: str, version_name: str) -> Object | None:
    """``/apis/GROUP/VERSION`` and ``/api/v1``; None when it is not served."""
    kinds = _kinds(registry, group_name, version_name)
    if not kinds:
        return None
    listed: Object = {"kind": "APIResourceList"}
    if group_name:
        listed["apiVersion"] = "v1"
    listed["groupVersion"] = kinds[0].api_version
    listed["resources"] = [entry for kind in kinds for entry in _entries(kind)]
    return listed


def _names(registry: Registry) -> list[str]:
    """The groups: Kubernetes' own first, in alphabetical order each."""
    names = {kind.group for kind in registry if kind.group}
    return sorted(names, key=lambda name: (not (name.endswith(_GROUP_SUFFIX) or "." not in name), name))


_VERSION: Final = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?", re.ASCII)
_STAGES: Final = (None, "beta", "alpha")


def _rank(name: str) -> tuple[int, int, int, str]:
    """As CompareKubeAwareVersionStrings: names of another form come last, in alphabetical order."""
    match = _VERSION.fullmatch(name)
    if match is None:
        return len(_STAGES), 0, 0, name
    return _STAGES.index(match[2]), -int(match[1]), -int(match[3] or 0), ""


def _group(registry: Registry, name: str) -> Object:
    # The preferred one first: stable before beta before alpha, then the highest.
    known = sorted({kind.version for kind in registry if kind.group == name}, key=_rank)
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in known]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _kinds(registry: Registry, group_name: str, version_name: str) -> list[ResourceKind]:
    kinds = [kind for kind in registry if (kind.group, kind.version) == (group_name, version_name)]
    return sorted(kinds, key=lambda kind: kind.plural)


def _entries(kind: ResourceKind) -> Iterable[Object]:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    yield entry
    for name in sorted(kind.subresources):
        sub: Object = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        if name == "eviction":
            yield {**sub, "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
        else:
            yield {**sub, "kind": kind.kind, "verbs": _SUBRESOURCE_VERBS[name]}


SchemaOf = Callable[[ResourceKind], Mapping[str, Any] | None]
"""The schema of a custom resource, as its definition has it; None when there is none."""

V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_PROTOBUF_TYPE: Final = V2_PROTOBUF.replace("@", ".")
"""The same without the sign that no media type may have."""
_REFERENCE: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCALARS: Final[Mapping[str, Mapping[str, Any]]] = {
    **SCALAR_SCHEMAS,
    "number": {"type": "number", "format": "double"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_METADATA: Final = "meta.v1.ObjectMeta"
_LOOKED_FOR: Final = ("dryRun", "fieldManager", "fieldValidation")


def index(registry: Registry, schema_of: SchemaOf) -> Object:
    """``/openapi/v3``: where the document of each group version is."""
    paths: Object = {}
    for path in sorted({_path(kind) for kind in registry}):
        group, version = path.removeprefix("api/").removeprefix("apis/").rpartition("/")[::2]
        text = orjson.dumps(document(registry, group, version, schema_of))
        # Clients keep a document by its hash, and ask again only when that changes.
        digest = hashlib.sha512(text).hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def document(registry: Registry, group: str, version: str, schema_of: SchemaOf) -> Object | None:
    """The document of one group version; None when it is not served."""
    kinds = _kinds(registry, group, version)
    if not kinds:
        return None
    components = _Components(fields_of(registry.minor))
    paths: Object = {}
    for kind in kinds:
        components.add_kind(kind, schema_of(kind) if kind.custom else None)
        paths |= _paths(kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": registry.minor},
        "paths": paths,
        "components": {"schemas": dict(sorted(components.schemas.items()))},
    }


def schemas_in(store: ObjectStore) -> SchemaOf:
    """The schemas of the CustomResourceDefinitions that are stored."""

    def schema_of(kind: ResourceKind) -> Mapping[str, Any] | None:
        version = version_of(store, kind)
        return None if version is None else schema_of_version(version)

    return schema_of


def _path(kind: ResourceKind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"


def _paths(kind: ResourceKind) -> Object:
    """The one operation that kubectl checks: whether a patch supports validation and dry runs."""
    if "patch" not in kind.verbs:
        return {}
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _LOOKED_FOR]
    operation = {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _type(kind),
    }
    where = "/namespaces/{namespace}" if kind.namespaced else ""
    return {f"/{_path(kind)}{where}/{kind.plural}/{{name}}": {"patch": operation}}


def _type(kind: ResourceKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


class _Components:
    """Component schemas: those of kinds, and whatever they refer to."""

    def __init__(self, fields: Fields) -> None:
        self.schemas: Object = {}
        self._fields = fields

    def add_kind(self, kind: ResourceKind, schema: Mapping[str, Any] | None) -> None:
        """Take in a kind; ``schema`` is that of a definition."""
        root = self._fields.root(kind.api_version, kind.kind)
        if kind.custom:
            name = _full_name(kind)
            # Those of JobSets are built in, without a definition.
            self.schemas[name] = self._inline(schema if schema is not None or root is None else jobset_schema())
        elif root is not None:
            name = self._add(root)
        else:
            name = _full_name(kind)
            self.schemas[name] = dict(_SCALARS["any"])
        self.schemas[name]["x-kubernetes-group-version-kind"] = [_type(kind)]

    def _inline(self, schema: Mapping[str, Any] | None) -> Object:
        """A definition's schema, which refers to nothing but what every object has."""
        # A copy: the schema is part of a stored definition.
        definition = dict(schema if schema is not None else _SCALARS["any"])
        metadata = {"allOf": [{"$ref": _REFERENCE + self._add(_METADATA)}]}
        own = {"apiVersion": _SCALARS["string"], "kind": _SCALARS["string"], "metadata": metadata}
        definition["properties"] = {**(definition.get("properties") or {}), **own}
        return definition

    def _add(self, definition: str) -> str:
        name = _component(definition)
        if name not in self.schemas:
            schema: Object = {"type": "object"}
            self.schemas[name] = schema
            shapes = self._fields.of(definition)
            required = [field for field, shape in shapes.items() if shape.required]
            if required:
                schema["required"] = required
            schema["properties"] = {field: self._schema(shape) for field, shape in shapes.items()}
            if self._fields.is_atomic(definition):
                schema["x-kubernetes-map-type"] = "atomic"
        return name

    def _schema(self, shape: FieldType) -> Object:
        if shape.form == "scalar":
            return {**_SCALARS[shape.name], **shape.constraints}
        if shape.item is None:
            # Beside a reference nothing else counts, so whatever else there is stands around it.
            return {"allOf": [{"$ref": _REFERENCE + self._add(shape.name)}], **shape.constraints}
        inner = self._schema(shape.item)
        if shape.form == "map":
            return {"type": "object", "additionalProperties": inner}
        return {"type": "array", "items": inner, **_list_type(shape), **shape.constraints}


def _list_type(shape: FieldType) -> Object:
    extensions = shape.list_type
    if shape.merge_key is not None:
        extensions["x-kubernetes-patch-strategy"] = "merge"
        if shape.merge_key:
            extensions["x-kubernetes-patch-merge-key"] = shape.merge_key
    return extensions


def _component(definition: str) -> str:
    """The name of a definition as the server spells it."""
    group, _, rest = definition.partition(".")
    if group == "meta":
        return _META + rest.removeprefix("v1.")
    if group == "apiextensions":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.{definition}"
    return f"io.k8s.api.{definition}"


def _full_name(kind: ResourceKind) -> str:
    """The name of what no table knows: its group backwards, its version, its kind."""
    return ".".join((*filter(None, reversed(kind.group.split("."))), kind.version, kind.kind))
