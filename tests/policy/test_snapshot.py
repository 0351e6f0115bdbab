from __future__ import annotations

from dataclasses import replace

from gangctl.policy.loaded import PolicySet, snapshot_of
from tests.evaluation.scripted import policy, snapshot_with


def test_the_same_content_has_the_same_key() -> None:
    one, other = snapshot_with("a", "b"), snapshot_with("a", "b")
    assert one.keys == other.keys
    assert snapshot_with("a").entries[0].key == one.entries[0].key != one.entries[1].key
    changed = snapshot_of(PolicySet(2, (policy("a", failurePolicy="Ignore"),)))
    assert changed.entries[0].key != one.entries[0].key


def test_a_status_does_not_change_the_key() -> None:
    document = {"metadata": {"name": "a", "generation": 1, "resourceVersion": "1"}, "spec": {}}
    again = {"metadata": {"name": "a", "generation": 1, "resourceVersion": "2"}, "spec": {}, "status": {"x": 1}}
    first = snapshot_of(PolicySet(1, (replace(policy("a"), source=document),)))
    second = snapshot_of(PolicySet(2, (replace(policy("a"), source=again),)))
    assert first.keys == second.keys
