"""Definitions of custom resources, and objects of them."""

from __future__ import annotations

from typing import Any

from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.objects import Object
from tests.controlplane.wait import NotYet, wait_for

ME = Caller("me")
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
WIDGETS = "widgets.example.com"

OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def version(name: str = "v1", schema: Object | None = None, **fields: Any) -> Object:
    """A version that is served, and stored by default."""
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


async def create(api: Api, body: Object) -> Object:
    """Create a definition."""
    return await api.create(api.kind(DEFINITIONS), "", body, ME)


async def read(api: Api, name: str = WIDGETS) -> Object:
    """A definition."""
    return await api.get(api.kind(DEFINITIONS), "", name)


def conditions(obj: Object) -> list[tuple[str, str, str]]:
    """Type, status and reason of each condition."""
    return [(each["type"], each["status"], each["reason"]) for each in obj["status"]["conditions"] or ()]


async def established(api: Api, name: str = WIDGETS) -> Object:
    """The definition, once its resources are served."""

    async def done() -> Object:
        found = await read(api, name)
        if ("Established", "True", "InitialNamesAccepted") not in conditions(found):
            raise NotYet(str(found["status"]))
        return found

    return await wait_for(done, f"{name} to be established", interval=0.01)


def renamed(body: Object, **metadata: Any) -> Object:
    """The body with other metadata."""
    return {**body, "metadata": {**body["metadata"], **metadata}}
