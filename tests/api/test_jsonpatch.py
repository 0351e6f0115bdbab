"""A patch applied to the old value gives the new one, and names nothing that stayed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jsonpatch import Operation, diff, pointer
from tests.rows import each

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 1.0, 0.5]), st.sampled_from(["", "a", "~/"])
)
KEYS = st.sampled_from(["a", "b", "~", "/", "~1", "", "gangctl.dev/gang-ref"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=20,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)


def apply(operations: list[Operation], document: Any) -> Any:
    """RFC 6902, strict: a path must exist where the RFC requires it."""
    holder = [copy.deepcopy(document)]
    for operation in operations:
        *parents, last = ["0", *(s.replace("~1", "/").replace("~0", "~") for s in operation["path"].split("/")[1:])]
        target: Any = holder
        for segment in parents:
            target = target[int(segment)] if isinstance(target, list) else target[segment]
        _apply_one(operation, target, last)
    return holder[0]


def _apply_one(operation: Operation, target: Any, last: str) -> None:
    where: Any = int(last) if isinstance(target, list) else last
    match operation["op"]:
        case "remove":
            del target[where]
        case "replace":
            target[where]  # raises when there is nothing to replace
            target[where] = copy.deepcopy(operation["value"])
        case "add" if isinstance(target, list):
            assert 0 <= where <= len(target)
            target.insert(where, copy.deepcopy(operation["value"]))
        case "add":
            target[where] = copy.deepcopy(operation["value"])
        case other:
            pytest.fail(f"unknown operation {other}")


@given(JSON, JSON)
def test_applying_the_difference_gives_the_new_value(old: Any, new: Any) -> None:
    # repr distinguishes 1, 1.0 and True, which == does not; sorted keys, because objects have no order.
    assert canonical(apply(diff(old, new), old)) == canonical(new)


def canonical(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return repr(value)


@given(JSON)
def test_equal_values_have_no_difference(value: Any) -> None:
    assert diff(value, copy.deepcopy(value)) == []


@given(OBJECTS, OBJECTS)
def test_the_same_two_objects_always_give_the_same_operations_below_the_root(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    operations = diff(old, new)
    assert operations == diff(copy.deepcopy(old), copy.deepcopy(new))
    assert all(operation["path"].startswith("/") for operation in operations)


@given(st.lists(st.integers(), max_size=6), st.integers(0, 6), st.integers(100, 200))
def test_one_insertion_is_one_operation(items: list[int], at: int, value: int) -> None:
    longer = [*items[:at], value, *items[at:]]
    assert [operation["op"] for operation in diff(items, longer)] == ["add"]
    assert [operation["op"] for operation in diff(longer, items)] == ["remove"]


def test_a_stamp_is_a_minimal_patch() -> None:
    old: dict[str, Any] = {
        "metadata": {"labels": {"x": "1"}},
        "spec": {"replicatedJobs": [{"name": "w", "template": {"metadata": {}}}]},
    }
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    new["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"] = {"gangctl.dev/gang-ref": "{}"}
    assert diff(old, new) == [
        {"op": "remove", "path": "/metadata/labels/x"},
        {"op": "add", "path": "/metadata/labels/kueue.x-k8s.io~1queue-name", "value": "q"},
        {
            "op": "add",
            "path": "/spec/replicatedJobs/0/template/metadata/annotations",
            "value": {"gangctl.dev/gang-ref": "{}"},
        },
    ]


@each(("old", "new"), [(1, True), (0, False), (1, 1.0), (None, False), ("1", 1), ({}, [])])
def test_values_of_different_json_types_differ(old: object, new: object) -> None:
    assert diff({"a": old}, {"a": new}) == [{"op": "replace", "path": "/a", "value": new}]


def test_pointers_are_escaped() -> None:
    assert pointer(["a/b", "~c", 0]) == "/a~1b/~0c/0"
    assert pointer([]) == ""
