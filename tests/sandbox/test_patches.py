from __future__ import annotations

from typing import Any

import pytest

from gangctl.sandbox import patches
from gangctl.sandbox.errors import StatusError
from tests.rows import each


@each(
    ("patch", "expected"),
    [
        ([{"op": "add", "path": "/l/-", "value": 3}], {"l": [1, 2, 3], "m": {"a/b": 1}}),
        ([{"op": "add", "path": "/l/0", "value": 0}], {"l": [0, 1, 2], "m": {"a/b": 1}}),
        ([{"op": "replace", "path": "/l/1", "value": 9}], {"l": [1, 9], "m": {"a/b": 1}}),
        ([{"op": "replace", "path": "/new", "value": 9}], {"l": [1, 2], "m": {"a/b": 1}, "new": 9}),
        ([{"op": "copy", "from": "/l/0", "path": "/c"}], {"l": [1, 2], "m": {"a/b": 1}, "c": 1}),
        ([{"op": "test", "path": "/l/0", "value": 1}], {"l": [1, 2], "m": {"a/b": 1}}),
    ],
)
def test_a_json_patch_changes_lists(patch: list[Any], expected: dict[str, Any]) -> None:
    assert patches.json_patch({"l": [1, 2], "m": {"a/b": 1}}, patch) == expected


@each(
    "operation",
    [
        {"op": "test", "path": "/l/0", "value": True},
        {"op": "add", "path": "/l/9", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_apply_is_refused_without_a_reason(operation: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as caught:
        patches.json_patch({"l": [1, 2]}, [operation])
    assert (caught.value.code, caught.value.message) == (
        422,
        "the server rejected our request due to an error in our request",
    )


POD = {
    "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "tolerations": [{"key": "x"}]}
}


def test_a_strategic_patch_merges_by_name_and_replaces_the_rest() -> None:
    patch = {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}], "tolerations": [{"key": "y"}]}}
    spec = patches.strategic(POD, patch, "Pod")["spec"]
    assert spec["containers"] == [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]
    assert spec["tolerations"] == [{"key": "y"}]


def test_a_strategic_patch_orders_by_directive() -> None:
    ordering = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert [each["name"] for each in patches.strategic(POD, ordering, "Pod")["spec"]["containers"]] == ["b", "a"]


def test_a_strategic_patch_keeps_the_other_conditions_of_a_webhook() -> None:
    """kubectl apply sends only the condition that has changed."""
    kept, old, new = ({"name": name, "expression": text} for name, text in (("a", "1"), ("b", "1"), ("b", "2")))
    configuration = {"webhooks": [{"name": "w", "matchConditions": [kept, old]}]}
    patch = {"webhooks": [{"name": "w", "matchConditions": [new]}]}
    (webhook,) = patches.strategic(configuration, patch, "ValidatingWebhookConfiguration")["webhooks"]
    assert webhook["matchConditions"] == [kept, new]
