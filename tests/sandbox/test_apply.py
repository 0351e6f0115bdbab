from __future__ import annotations

from typing import Any

import pytest

from gangctl.sandbox.api import Api, Caller, WriteOptions
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from tests.rows import each

ME = Caller("me")


async def _apply(api: Api, manager: str, data: dict[str, str], *, force: bool = False, **metadata: Any) -> Object:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", **metadata},
        "data": data,
    }
    options = WriteOptions(field_manager=manager, force=force)
    return await api.patch(api.kind("configmaps"), "default", "c", body, "apply", ME, options)


def _managers(obj: Object) -> dict[tuple[str, str], Object]:
    return {(each["manager"], each["operation"]): each["fieldsV1"] for each in obj["metadata"]["managedFields"]}


async def test_apply_creates_an_object_and_owns_its_fields(api: Api) -> None:
    created = await _apply(api, "one", {"a": "1"}, labels={"l": "1"})
    assert created["data"] == {"a": "1"}
    assert _managers(created) == {
        ("one", "Apply"): {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}},
    }


async def test_a_field_no_longer_applied_is_removed_unless_another_manager_owns_it(api: Api) -> None:
    await _apply(api, "one", {"a": "1", "b": "1"})
    await _apply(api, "two", {"b": "1"})
    applied = await _apply(api, "one", {"c": "1"})
    assert applied["data"] == {"b": "1", "c": "1"}
    assert _managers(applied) == {
        ("one", "Apply"): {"f:data": {"f:c": {}}},
        ("two", "Apply"): {"f:data": {"f:b": {}}},
    }


async def test_another_value_is_a_conflict_naming_manager_and_field(api: Api) -> None:
    await _apply(api, "one", {"a": "1"})
    with pytest.raises(StatusError) as caught:
        await _apply(api, "two", {"a": "2"})
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert caught.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}]
    }


async def test_force_takes_the_field_over(api: Api) -> None:
    await _apply(api, "one", {"a": "1", "b": "1"})
    forced = await _apply(api, "two", {"a": "2"}, force=True)
    assert forced["data"] == {"a": "2", "b": "1"}
    assert _managers(forced) == {
        ("one", "Apply"): {"f:data": {"f:b": {}}},
        ("two", "Apply"): {"f:data": {"f:a": {}}},
    }


async def test_an_update_owns_the_fields_that_it_changes(api: Api) -> None:
    await _apply(api, "one", {"a": "1", "b": "1"})
    patched = await api.patch(api.kind("configmaps"), "default", "c", {"data": {"a": "2"}}, "merge", ME)
    assert _managers(patched) == {
        ("one", "Apply"): {"f:data": {"f:b": {}}},
        ("me", "Update"): {"f:data": {"f:a": {}}},
    }
    with pytest.raises(StatusError, match=r'conflict with "me" using v1: \.data\.a'):
        await _apply(api, "one", {"a": "1", "b": "1"})


async def test_an_identical_apply_is_no_write(api: Api) -> None:
    first = await _apply(api, "one", {"a": "1"})
    assert await _apply(api, "one", {"a": "1"}) == first


async def test_a_map_is_removed_with_its_last_key(api: Api) -> None:
    await _apply(api, "one", {"a": "1"})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    options = WriteOptions(field_manager="one")
    emptied = await api.patch(api.kind("configmaps"), "default", "c", body, "apply", ME, options)
    assert "data" not in emptied


async def test_list_items_are_owned_by_their_keys(api: Api) -> None:
    services = api.kind("services")

    async def apply(manager: str, *ports: Object) -> Object:
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": list(ports)}}
        options = WriteOptions(field_manager=manager)
        return await api.patch(services, "default", "s", body, "apply", ME, options)

    await apply("one", {"name": "a", "port": 1})
    both = await apply("two", {"name": "b", "port": 2})
    assert [each["port"] for each in both["spec"]["ports"]] == [1, 2]
    assert list(_managers(both)["two", "Apply"]["f:spec"]["f:ports"]) == ['k:{"port":2,"protocol":"TCP"}']
    with pytest.raises(StatusError, match=r'\.spec\.ports\[port=1,protocol="TCP"\]\.name'):
        await apply("two", {"name": "other", "port": 1}, {"name": "b", "port": 2})
    left = await apply("one")
    assert [each["port"] for each in left["spec"]["ports"]] == [2]


@each(
    ("body", "manager", "code", "message"),
    [
        ({"data": {}}, "m", 400, "invalid object type: /, Kind="),
        ({"apiVersion": "v1", "kind": "Secret"}, "m", 400, "invalid object type: /v1, Kind=Secret"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "", 422, "fieldManager: Required value"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "m", 400, "undeterminable: name must be provided"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "managedFields": [{}]}},
            "m",
            400,
            "metadata.managedFields must be nil",
        ),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u"}},
            "m",
            409,
            "no existing object was found",
        ),
    ],
)
async def test_an_invalid_apply_is_refused(api: Api, body: Object, manager: str, code: int, message: str) -> None:
    options = WriteOptions(field_manager=manager)
    with pytest.raises(StatusError) as caught:
        await api.patch(api.kind("configmaps"), "default", "c", body, "apply", ME, options)
    assert caught.value.code == code
    assert message in caught.value.message


async def test_a_dry_run_applies_nothing(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    options = WriteOptions(field_manager="m", dry_run=True)
    tried = await api.patch(api.kind("configmaps"), "default", "c", body, "apply", ME, options)
    assert "resourceVersion" not in tried["metadata"]
    with pytest.raises(StatusError, match="not found"):
        await api.get(api.kind("configmaps"), "default", "c")
