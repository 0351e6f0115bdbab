"""Definitions of custom resources, and objects of them."""

from __future__ import annotations

from typing import Any

from gangctl.sandbox.objects import Object

OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def version(name: str = "v1", schema: Object | None = None, **fields: Any) -> Object:
    """A version that is served, and stored unless said otherwise."""
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema or OPEN}, **fields}


def definition(*versions: Object, plural: str = "widgets", kind: str = "Widget", **spec: Any) -> Object:
    group = spec.get("group", "example.com")
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def of_field(schema: Object) -> Object:
    """A definition with one field, ``spec.a``, of this schema."""
    spec = {"type": "object", "properties": {"a": schema}}
    return definition(version(schema={"type": "object", "properties": {"spec": spec}}))


def widget(spec: Any = None, **fields: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {} if spec is None else spec,
        **fields,
    }
