"""As much of JSON Schema as the published schemas use."""

from __future__ import annotations

from typing import Any

from gangctl.cli.quantities import with_quantities
from gangctl.fit.report import DispatchedFit, FitReport
from tests.cli.publishedschemas import schema_of

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
KNOWN = {
    *("$schema", "title", "description", "$defs", "$ref", "const", "enum", "anyOf"),
    *("type", "minimum", "properties", "required", "additionalProperties", "items"),
}


def answer_violations(document: Any, schema: dict[str, Any]) -> list[str]:
    """Where what ``-o json`` printed breaks the schema of one object: several are in a ``List``."""
    if document.get("kind") != "List":
        return violations(document, schema)
    assert (document["apiVersion"], document["metadata"]) == ("v1", {})
    return [bad for i, each in enumerate(document["items"]) for bad in violations(each, schema, path=f"$[{i}]")]


def violations(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None, path: str = "$") -> list[str]:
    """Where ``value`` breaks ``schema``."""
    root = root or schema
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        return violations(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    if "anyOf" in schema:
        options = [violations(value, option, root, path) for option in schema["anyOf"]]
        return [] if [] in options else [f"{path}: none of {schema['anyOf']}"]
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return [f"{path}: {value!r} is not allowed"]
    kinds = TYPES[schema["type"]] if "type" in schema else (object,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds == (int,)):
        return [f"{path}: {value!r} is no {schema['type']}"]
    if isinstance(value, int) and value < schema.get("minimum", value):
        return [f"{path}: {value} is too small"]
    if isinstance(value, list):
        return [
            bad
            for i, item in enumerate(value)
            for bad in violations(item, schema.get("items", {}), root, f"{path}[{i}]")
        ]
    return _of_object(value, schema, root, path) if isinstance(value, dict) else []


def _of_object(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], path: str) -> list[str]:
    found = [f"{path}: {name} is missing" for name in schema.get("required", []) if name not in value]
    for name, item in value.items():
        rule = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
        found += [f"{path}.{name}: unknown"] if rule is False else violations(item, rule, root, f"{path}.{name}")
    return found


def fit_violations(report: FitReport) -> list[str]:
    """What contradicts the schema of ``gangctl fit``, of a report without worker clusters."""
    return violations(with_quantities({**report, "workers": []}, DispatchedFit), schema_of("fit"))
