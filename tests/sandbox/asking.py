"""Create and patch objects of a kind on an API server in memory, and get the errors of refused requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gangctl.api.objects import copy
from gangctl.sandbox.api import Api, Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object

ME = Caller("me")


async def create(api: Api, resource: str, name: str = "x", **fields: object) -> Object:
    """Create an object of the default namespace; ``metadata`` among the fields is added to the name."""
    kind = api.kind(resource)
    given = fields.pop("metadata", {})
    assert isinstance(given, dict)
    body = copy({"metadata": {"name": name, **given}, **fields})
    namespace = "default" if kind.namespaced else ""
    return await api.create(kind, namespace, body, ME)


async def refused(api: Api, resource: str, name: str = "x", **fields: object) -> StatusError:
    """The error that a create is answered with."""
    with pytest.raises(StatusError) as caught:
        await create(api, resource, name, **fields)
    return caught.value


async def patch(api: Api, resource: str, change: Object, name: str = "x", *, subresource: str = "") -> Object:
    """Merge a change into an object."""
    kind = api.kind(resource)
    namespace = "default" if kind.namespaced else ""
    return await api.patch(kind, namespace, name, change, "merge", ME, subresource=subresource)


async def patch_refused(
    api: Api, resource: str, change: Object, name: str = "x", *, subresource: str = ""
) -> StatusError:
    """The error that a change is answered with."""
    with pytest.raises(StatusError) as caught:
        await patch(api, resource, change, name, subresource=subresource)
    return caught.value


def messages(error: StatusError) -> list[str]:
    """What is wrong, by field: ``spec.x: Required value``."""
    causes = (error.details or {}).get("causes", [])
    return [f"{cause['field']}: {cause['message']}" for cause in causes]


def walk(value: Any) -> Iterator[Any]:
    """Every value inside a value, itself first."""
    yield value
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from walk(each)
