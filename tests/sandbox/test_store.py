from __future__ import annotations

import pytest

from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import ObjectStore
from tests.rows import each


def _obj(name: str, value: int = 0) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "value": value}


def test_every_write_has_its_own_revision_across_resources() -> None:
    store = ObjectStore()
    first = store.put("a", ("n", "x"), _obj("x"))
    second = store.put("b", ("n", "x"), _obj("x"))
    assert second.revision == first.revision + 1
    assert second.obj["metadata"]["resourceVersion"] == str(second.revision)


def test_an_earlier_revision_can_be_read() -> None:
    store = ObjectStore()
    store.put("a", ("n", "x"), _obj("x", 1))
    before = store.revision
    store.put("a", ("n", "x"), _obj("x", 2))
    store.put("a", ("n", "y"), _obj("y"))
    store.remove("a", ("n", "x"))
    assert [stored.obj["value"] for stored in store.items("a", revision=before)] == [1]
    assert [stored.obj["metadata"]["name"] for stored in store.items("a")] == ["y"]


def test_a_subscription_receives_the_changes_after_its_revision_in_order() -> None:
    store = ObjectStore()
    store.put("a", ("n", "x"), _obj("x"))
    since = store.revision
    store.put("a", ("n", "y"), _obj("y"))
    subscription = store.subscribe("a", since)
    store.remove("a", ("n", "x"))
    changes = [(change.key[1], change.gone, change.revision) for change in subscription.take()]
    assert changes == [("y", False, since + 1), ("x", True, since + 2)]
    assert subscription.take() == []


def test_a_removed_object_has_the_revision_of_its_removal() -> None:
    store = ObjectStore()
    put = store.put("a", ("n", "x"), _obj("x"))
    removed = store.remove("a", ("n", "x"))
    assert removed.obj["metadata"]["resourceVersion"] == str(removed.revision)
    assert put.obj["metadata"]["resourceVersion"] == str(put.revision)


def test_a_closed_subscription_receives_nothing() -> None:
    store = ObjectStore()
    subscription = store.subscribe("a", store.revision)
    subscription.close()
    store.put("a", ("n", "x"), _obj("x"))
    assert subscription.take() == []


@each("forget", ["compaction", "bound"])
def test_a_compacted_revision_is_expired(forget: str) -> None:
    store = ObjectStore(remembered=2)
    start = store.revision
    store.put("a", ("n", "x"), _obj("x"))
    if forget == "compaction":
        store.compact()
    else:
        for name in "yz":
            store.put("a", ("n", name), _obj(name))
    with pytest.raises(StatusError) as caught:
        store.subscribe("a", start)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    store.subscribe("a", store.revision)


def test_a_compacted_revision_is_expired_for_a_new_resource_too() -> None:
    store = ObjectStore()
    store.put("a", ("n", "x"), _obj("x"))
    store.compact()
    with pytest.raises(StatusError, match="too old resource version: 1"):
        store.subscribe("b", 1)
