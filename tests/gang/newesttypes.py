"""
Writes ``newesttypes.json``: the schemas of ``scheduling.k8s.io`` in the newest pre-release of Kubernetes.

They are those of the OpenAPI documents in its source. Run ``python -m tests.gang.newesttypes``; it needs Go and the
module proxy. The API server itself needs a newer Go than the tests have.
"""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

VERSION: Final = "v1.38.0-beta.0"
TABLE: Final = Path(__file__).with_suffix(".json")
_MODULE: Final = "k8s.io/kubernetes"
_VERSIONS: Final = ("v1", "v1beta1", "v1alpha3")
_GROUP: Final = "scheduling.k8s.io"
_KEPT: Final = ("$ref", "additionalProperties", "allOf", "items", "properties", "required", "type")
_KINDS: Final = "x-kubernetes-group-version-kind"
_PREFIX: Final = "#/components/schemas/"


def document(version: str) -> dict[str, Any]:
    """The recorded document of an API version."""
    return {"components": {"schemas": json.loads(TABLE.read_text(encoding="utf-8"))[version]}}


def reduced(schema: Any) -> Any:
    """A schema without descriptions, formats and defaults.

    >>> reduced({"type": "object", "properties": {"type": {"type": "string", "default": ""}}})
    {'properties': {'type': {'type': 'string'}}, 'type': 'object'}
    """
    if not isinstance(schema, dict):
        return [reduced(part) for part in schema] if isinstance(schema, list) else schema
    kept = {key: reduced(schema[key]) for key in _KEPT if key in schema and key not in {"properties", "required"}}
    if "properties" in schema:
        kept["properties"] = {name: reduced(part) for name, part in schema["properties"].items()}
    if "required" in schema:
        kept["required"] = schema["required"]
    return dict(sorted(kept.items()))


def needed(schemas: dict[str, Any]) -> dict[str, Any]:
    """Those of the group's kinds, and what they refer to."""
    chosen: dict[str, Any] = {}
    left = [name for name, schema in schemas.items() if any(kind["group"] == _GROUP for kind in schema.get(_KINDS, ()))]
    while left:
        name = left.pop()
        if name not in chosen and not name.endswith(("List", "ListMeta")):
            chosen[name] = reduced(schemas[name])
            left += _references(chosen[name])
            if kinds := [kind for kind in schemas[name].get(_KINDS, ()) if kind["group"] == _GROUP]:
                chosen[name][_KINDS] = kinds
    return dict(sorted(chosen.items()))


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(_PREFIX)
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def main() -> None:
    """Write the table, one schema a line."""
    # Its go.mod may name a newer Go than this one, of which go writes an error beside the answer.
    command = ["go", "mod", "download", "-json", f"{_MODULE}@{VERSION}"]
    answer = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False).stdout
    parts = [f'"made": {json.dumps(f"by python -m tests.gang.newesttypes from {_MODULE} {VERSION}; not to be edited")}']
    with zipfile.ZipFile(json.loads(answer)["Zip"]) as archive:
        for version in _VERSIONS:
            name = f"{_MODULE}@{VERSION}/api/openapi-spec/v3/apis__{_GROUP}__{version}_openapi.json"
            schemas = needed(json.loads(archive.read(name))["components"]["schemas"])
            lines = (f"{json.dumps(name)}: {json.dumps(schema)}" for name, schema in schemas.items())
            parts.append(f'"{version}": {{\n' + ",\n".join(lines) + "\n}")
    TABLE.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
