"""Compares the OpenAPI document of an API version with what gangctl writes and reads in it.

What gangctl writes is not listed here: the adapter makes sample objects, with every option and with none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gangctl.api.scheduling import (
    GROUP,
    Claim,
    CompositeTemplate,
    Generation,
    Owner,
    PodGroup,
    Template,
    Workload,
)
from gangctl.errors import one_line
from gangctl.gang.build import ADAPTERS

_PREFIX: Final = "#/components/schemas/"
_REFERENCES: Final = 8
"""References that lead to a schema; more than that is a loop."""
_NAME: Final = 64
"""Characters of a field's name in a message."""
_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    dict: "object",
    int: "integer",
    list: "array",
    str: "string",
}
_OWNER: Final = Owner("js", "uid")
_CLAIMS: Final = (Claim("a", claim="c"), Claim("b", template="t"))
TEMPLATES: Final = (
    Template("w", 1),
    Template("w", 1, "high", "rack", "single", _CLAIMS),
    Template("w", 1, "high", "rack", "all", _CLAIMS),
)
COMPOSITE: Final = CompositeTemplate("all", 2, "high")
_CONDITION: Final = dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), "")


def differences(generation: Generation, document: object, *, composite: bool = False) -> tuple[str, ...]:
    """Fields of ``document`` that are not as gangctl writes and reads them; empty if it can use this generation.

    The generation has PodGroups. ``composite``: those of gangs that start together, under a CompositePodGroup.
    Each field that it writes or reads has to exist with that type, and none that it does not write may be required.
    Never raises, for any JSON.
    """
    schemas = _Schemas(document)
    return tuple(
        dict.fromkeys(
            found
            for sample in (_composite_samples if composite else _samples)(generation)
            for found in schemas.compare(sample["kind"], schemas.root(generation, sample["kind"]), sample)
        )
    )


def _samples(generation: Generation) -> Iterator[dict[str, Any]]:
    adapter = ADAPTERS[generation]
    for template in TEMPLATES:
        yield adapter.workload(Workload("ns", "wl", _OWNER, (template,)))
        group = adapter.pod_group(PodGroup("ns", "pg", _OWNER, "wl", template))
        yield group
        # As it is read: with what the API server and the scheduler have filled in.
        yield {**group, "spec": {**group["spec"], "priority": 0}, "status": {"conditions": [_CONDITION]}}


def _composite_samples(generation: Generation) -> Iterator[dict[str, Any]]:
    adapter = ADAPTERS[generation]
    for template in TEMPLATES:
        yield adapter.workload(Workload("ns", "wl", _OWNER, (template,), COMPOSITE))
        yield adapter.pod_group(PodGroup("ns", "pg", _OWNER, "wl", template, "parent"))


class _Schemas:
    """The schemas of one document, which may be anything."""

    def __init__(self, document: object) -> None:
        components = document.get("components") if isinstance(document, dict) else None
        schemas = components.get("schemas") if isinstance(components, dict) else None
        self._schemas: dict[str, Any] = schemas if isinstance(schemas, dict) else {}

    def root(self, generation: Generation, kind: str) -> object:
        """The schema of a kind; None without one."""
        wanted = {"group": GROUP, "version": generation.value, "kind": kind}
        for schema in self._schemas.values():
            kinds = schema.get("x-kubernetes-group-version-kind") if isinstance(schema, dict) else None
            if isinstance(kinds, list) and wanted in kinds:
                return schema
        return None

    def compare(self, path: str, schema: object, value: object) -> Iterator[str]:
        """What ``schema`` does not say of the field at ``path``, which has a value like this."""
        found, wanted = self._resolve(schema), _TYPES[type(value)]
        if not found:
            yield f"{path} does not exist"
        elif found.get("type") != wanted:
            yield f"{path} is not of type {wanted}"
        elif isinstance(value, dict):
            yield from self._compare_fields(path, found, value)
        elif isinstance(value, list):
            for item in value:
                yield from self.compare(f"{path}[]", found.get("items"), item)

    def _compare_fields(self, path: str, schema: Mapping[str, Any], value: Mapping[str, object]) -> Iterator[str]:
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict):
            properties = dict.fromkeys(value, schema.get("additionalProperties"))
        for name, part in value.items():
            yield from self.compare(f"{path}.{name}", properties.get(name), part)
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                yield f"{path}.{one_line(name, _NAME)} is required"

    def _resolve(self, schema: object) -> Mapping[str, Any]:
        """The schema itself, which may be behind references; empty without one."""
        for _ in range(_REFERENCES):
            if not isinstance(schema, dict):
                break
            parts = schema.get("allOf")
            only = parts[0] if isinstance(parts, list) and len(parts) == 1 else schema
            reference = only.get("$ref") if isinstance(only, dict) else None
            if not isinstance(reference, str):
                return schema
            schema = self._schemas.get(reference.removeprefix(_PREFIX))
        return {}
