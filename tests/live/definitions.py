"""CustomResourceDefinitions that a test brings along: served, and gone again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from tests.controlplane.api import ApiClient, ApiFailure, Object, path_of
from tests.controlplane.wait import NotYet, read_until, wait_for


def path_of_definition(definition: Object) -> str:
    """Where the API server has it."""
    return path_of("apiextensions.k8s.io/v1", "customresourcedefinitions", name=definition["metadata"]["name"])


async def serve(api: ApiClient, definitions: Iterable[Object]) -> None:
    """Apply them, and wait until their objects can be listed."""
    for definition in definitions:
        await api.patch(path_of_definition(definition), definition, kind="apply", fieldManager="test")
        spec = definition["spec"]
        collection = path_of(f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["plural"])
        await wait_for(_listed(api, collection), what=f"{collection} to be served")


async def withdraw(api: ApiClient, definitions: Iterable[Object]) -> None:
    """Delete them with their objects, and wait until they are gone; those that are not there are no trouble."""
    for definition in definitions:
        path = path_of_definition(definition)
        await api.remove(path)
        await read_until(partial(api.found, path), lambda live: live is None, f"{path} to be gone")


def _listed(api: ApiClient, collection: str) -> Callable[[], Awaitable[bool]]:
    async def listed() -> bool:
        try:
            await api.list(collection)
        except ApiFailure as failure:
            # 404: not known yet; 429: its storage is being made.
            if failure.status not in {404, 429}:
                raise
            raise NotYet(str(failure)) from failure
        return True

    return listed
