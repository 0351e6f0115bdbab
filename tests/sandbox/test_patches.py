from __future__ import annotations

from typing import Any

import pytest

from gangctl.sandbox import patches
from gangctl.sandbox.errors import StatusError
from tests.rows import each


def test_a_merge_patch_sets_and_removes_nested_keys() -> None:
    old = {"a": {"b": 1, "c": 2}, "l": [1, 2], "x": 1}
    assert patches.merge(old, {"a": {"b": None, "d": {"e": None, "f": 1}}, "l": [3]}) == {
        "a": {"c": 2, "d": {"f": 1}},
        "l": [3],
        "x": 1,
    }
    assert old == {"a": {"b": 1, "c": 2}, "l": [1, 2], "x": 1}


@each(
    ("patch", "expected"),
    [
        ([{"op": "add", "path": "/l/-", "value": 3}], {"l": [1, 2, 3], "m": {"a/b": 1}}),
        ([{"op": "add", "path": "/l/0", "value": 0}], {"l": [0, 1, 2], "m": {"a/b": 1}}),
        ([{"op": "remove", "path": "/m/a~1b"}], {"l": [1, 2], "m": {}}),
        ([{"op": "replace", "path": "/l/1", "value": 9}], {"l": [1, 9], "m": {"a/b": 1}}),
        ([{"op": "replace", "path": "/new", "value": 9}], {"l": [1, 2], "m": {"a/b": 1}, "new": 9}),
        ([{"op": "move", "from": "/m", "path": "/n"}], {"l": [1, 2], "n": {"a/b": 1}}),
        ([{"op": "copy", "from": "/l/0", "path": "/c"}], {"l": [1, 2], "m": {"a/b": 1}, "c": 1}),
        ([{"op": "test", "path": "/l/0", "value": 1}], {"l": [1, 2], "m": {"a/b": 1}}),
    ],
)
def test_a_json_patch_is_applied(patch: list[Any], expected: dict[str, Any]) -> None:
    assert patches.json_patch({"l": [1, 2], "m": {"a/b": 1}}, patch) == expected


@each(
    "operation",
    [
        {"op": "remove", "path": "/no"},
        {"op": "test", "path": "/l/0", "value": True},
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "add", "path": "/l/9", "value": 1},
        {"op": "frobnicate", "path": "/l"},
        {"op": "add"},
        {"op": "add", "path": "no-slash", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_apply_is_refused_without_a_reason(operation: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as caught:
        patches.json_patch({"l": [1, 2]}, [operation])
    assert (caught.value.code, caught.value.message) == (
        422,
        "the server rejected our request due to an error in our request",
    )


@each("patch", [{"op": "add"}, "x", [1]])
def test_an_invalid_json_patch_is_refused(patch: Any) -> None:
    with pytest.raises(StatusError) as caught:
        patches.json_patch({}, patch)
    assert caught.value.code == 400


POD = {
    "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "tolerations": [{"key": "x"}]}
}


def test_a_strategic_patch_merges_by_name_and_replaces_the_rest() -> None:
    patch = {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}], "tolerations": [{"key": "y"}]}}
    spec = patches.strategic(POD, patch, "Pod")["spec"]
    assert spec["containers"] == [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]
    assert spec["tolerations"] == [{"key": "y"}]


def test_a_strategic_patch_deletes_orders_and_replaces_by_directive() -> None:
    deleting = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}
    assert patches.strategic(POD, deleting, "Pod")["spec"]["containers"] == [{"name": "b", "image": "1"}]
    ordering = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert [each["name"] for each in patches.strategic(POD, ordering, "Pod")["spec"]["containers"]] == ["b", "a"]
    replacing = {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}
    assert patches.strategic(POD, replacing, "Pod")["spec"]["containers"] == [{"name": "z"}]


def test_a_strategic_patch_adds_to_and_removes_from_sets() -> None:
    obj = {"metadata": {"finalizers": ["a", "b"]}}
    adding = {"metadata": {"finalizers": ["c", "a"]}}
    assert patches.strategic(obj, adding, "Pod")["metadata"]["finalizers"] == ["a", "b", "c"]
    taking = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert patches.strategic(obj, taking, "Pod")["metadata"]["finalizers"] == ["b"]


def test_conditions_are_merged_by_type() -> None:
    obj = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "B", "status": "False"}, {"type": "A", "status": "False"}]}}
    merged = patches.strategic(obj, patch, "Pod")["status"]["conditions"]
    assert merged == [{"type": "A", "status": "False"}, {"type": "B", "status": "False"}]


def test_an_item_without_its_key_cannot_be_merged() -> None:
    with pytest.raises(StatusError, match="merge key"):
        patches.strategic(POD, {"spec": {"containers": [{"image": "1"}]}}, "Pod")
