"""The CustomResourceDefinition of Gang, from the TypedDict of its status."""

from __future__ import annotations

from typing import Any

from gangctl.controllers.readiness.gangobjects import PLURAL
from gangctl.readiness.report import KIND, GangStatus
from tests.manifests.definitions.resource import Schema, column, definition_of
from tests.reportschema import Definitions, object_schema


def definitions() -> dict[str, dict[str, Any]]:
    """The definition by file name."""
    return {
        f"{PLURAL}.yaml": definition_of(
            KIND,
            PLURAL,
            _schema(),
            scope="Namespaced",
            columns=[
                column("Phase", ".status.phase", "Its progress."),
                column("Ready", ".status.ready", "Ready pods of those wanted."),
                column("Reason", ".status.reason", "Why it is not ready."),
                column("Since", ".status.since", "How long it has been in its phase.", "date"),
                column("Age", ".metadata.creationTimestamp", "", "date"),
                column("Queue", ".status.localQueue", "Its queue of Kueue.", wide=True),
                column("Message", ".status.message", "The reason in a sentence.", wide=True),
            ],
            status=True,
        )
    }


def _schema() -> Schema:
    """Nothing is required, and unknown fields are kept: the definition may be older than the gangctl that writes."""
    definitions = Definitions()
    status = _open(object_schema(GangStatus, definitions), definitions)
    status["properties"]["conditions"] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    # The keys of a list map are the only fields that an API server requires.
    status["properties"]["conditions"]["items"]["required"] = ["type"]
    return {
        "description": "The state of the JobSet with the same name; only gangctl writes it.",
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "status": status,
        },
    }


def _open(schema: Schema, definitions: Definitions) -> Schema:
    """One schema without references, in which every object accepts unknown fields."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return _open({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if "enum" in schema:
        return {**schema, "type": "string"}
    if "items" in schema:
        return {**schema, "items": _open(schema["items"], definitions)}
    if "properties" not in schema:
        return schema
    properties = {name: _open(each, definitions) for name, each in schema["properties"].items()}
    return {
        "description": schema["description"],
        "type": "object",
        "properties": properties,
        "x-kubernetes-preserve-unknown-fields": True,
    }
