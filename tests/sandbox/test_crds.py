from __future__ import annotations

from typing import Any

import pytest

from gangctl.sandbox import writes
from gangctl.sandbox.api import Api, DeleteOptions, WriteOptions
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.reads import WatchQuery
from gangctl.sandbox.server import Sandbox
from gangctl.sandbox.watches import Watch
from gangctl.sandbox.writes import Write
from tests.controlplane.wait import wait_for, wait_until
from tests.sandbox.definitions import (
    DEFINITIONS,
    ME,
    OPEN,
    WIDGETS,
    create,
    definition,
    established,
    read,
    renamed,
    version,
    widget,
)


@pytest.fixture
def api(sandbox: Sandbox) -> Api:
    return sandbox.api


async def _served(api: Api, schema: Object | None = None, **fields: Any) -> None:
    await create(api, definition(version(schema=schema, **fields)))
    await established(api)


async def test_custom_objects_are_pruned_and_defaulted(api: Api) -> None:
    spec = {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "default": "A"},
            "nothing": {"type": "string", "nullable": True},
            "inner": {"type": "object", "default": {}, "properties": {"d": {"type": "integer", "default": 7}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "raw": OPEN,
        },
    }
    await _served(api, {"type": "object", "properties": {"spec": spec}})
    given = {
        "mode": None,
        "nothing": None,
        "odd": 1,
        "labels": {"a": None},
        "raw": {"x": {"y": None}},
        "inner": {"odd": 1},
    }
    kind, warnings = api.kind(WIDGETS), list[str]()
    write = Write(api.backend, kind, "default", ME, WriteOptions(), warnings)
    made = (await writes.create(write, widget(given, extra=1))).obj
    assert made["spec"] == {
        "mode": "A",
        "nothing": None,
        "inner": {"d": 7},
        "labels": {},
        "raw": {"x": {"y": None}},
    }
    assert "extra" not in made
    assert warnings == ['unknown field "extra"', 'unknown field "spec.inner.odd"', 'unknown field "spec.odd"']
    with pytest.raises(StatusError, match=r'strict decoding error: unknown field "spec.odd"'):
        await api.create(kind, "default", widget({"odd": 1}), ME, WriteOptions(field_validation="Strict"))


async def test_each_served_version_shows_the_stored_object(api: Api) -> None:
    old, hidden = version("v1alpha1", storage=False), version("v2", storage=False, served=False)
    await create(api, definition(version(), old, hidden))
    await established(api)
    await api.create(api.kind(WIDGETS, "v1"), "default", widget({"a": 1}), ME)
    read = await api.get(api.kind(WIDGETS, "v1alpha1"), "default", "w")
    assert (read["apiVersion"], read["spec"]) == ("example.com/v1alpha1", {"a": 1})
    with pytest.raises(KeyError):
        api.kind(WIDGETS, "v2")


async def test_a_version_that_is_no_longer_served_is_not_found(api: Api) -> None:
    await create(api, definition(version(), version("v2", storage=False)))
    await established(api)
    fewer = {"spec": {"versions": [version(), version("v2", storage=False, served=False)]}}
    await api.patch(api.kind(DEFINITIONS), "", WIDGETS, fewer, "merge", ME)

    async def gone() -> bool:
        return api.registry.find("example.com", "v2", "widgets") is None

    await wait_for(gone, "v2 to be served no more", interval=0.01)
    assert api.registry.find("example.com", "v1", "widgets") is not None


async def test_former_storage_versions_stay_in_the_status(api: Api) -> None:
    await _served(api)
    kind = api.kind(DEFINITIONS)
    moved = {"spec": {"versions": [version("v2"), version(storage=False)]}}
    changed = await api.patch(kind, "", WIDGETS, moved, "merge", ME)
    assert changed["status"]["storedVersions"] == ["v1", "v2"]


async def test_objects_are_deleted_with_their_definition(api: Api) -> None:
    await _served(api)
    kind = api.kind(WIDGETS)
    await api.create(kind, "default", renamed(widget(), finalizers=["example.com/held"]), ME)
    await api.create(kind, "default", renamed(widget(), name="free"), ME)
    marked = await api.delete(api.kind(DEFINITIONS), "", WIDGETS, ME, DeleteOptions())
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]

    await wait_until(lambda: len(api.store.items(kind.storage)) == 1, "the free one to go", interval=0.01)
    assert "create" not in api.kind(WIDGETS).verbs
    await api.patch(api.kind(WIDGETS), "default", "w", {"metadata": {"finalizers": None}}, "merge", ME)

    async def unserved() -> bool:
        return api.registry.find("example.com", "v1", "widgets") is None

    await wait_for(unserved, "the resource to be served no more", interval=0.01)
    with pytest.raises(StatusError, match="404 NotFound"):
        await read(api)


async def test_watches_end_with_their_definition(api: Api) -> None:
    await _served(api)
    watch = Watch(api.store, api.kind(WIDGETS), None, WatchQuery())
    other = Watch(api.store, api.kind(DEFINITIONS), None, WatchQuery())
    await api.delete(api.kind(DEFINITIONS), "", WIDGETS, ME, DeleteOptions())
    await wait_until(lambda: watch.ended, "the watch to end", interval=0.01)
    assert not other.ended


async def test_a_definition_of_jobsets_does_not_change_the_built_in_kind(api: Api) -> None:
    kind = api.kind("jobsets.jobset.x-k8s.io")
    body = definition(version("v1alpha2"), plural="jobsets", kind="JobSet", group="jobset.x-k8s.io")
    await create(api, body)
    await established(api, "jobsets.jobset.x-k8s.io")
    made = await api.create(kind, "default", {"metadata": {"name": "js"}, "spec": {"odd": 1}}, ME)
    assert "odd" not in made["spec"]
    assert made["spec"]["startupPolicy"]
    await api.delete(api.kind(DEFINITIONS), "", "jobsets.jobset.x-k8s.io", ME)

    await wait_until(lambda: not api.store.items(DEFINITIONS), "the definition to go", interval=0.01)
    assert api.kind("jobsets.jobset.x-k8s.io") == kind
