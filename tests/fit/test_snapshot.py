"""The same answers from lists taken at once and from changes taken one at a time."""

from __future__ import annotations

import random

import pytest

from gangctl.fit.clusterstate import ClusterSnapshot, Held
from gangctl.fit.quotas import Quotas
from gangctl.kueue.objects import AdmissionCheck, Cohort, LocalQueue, PriorityClass, ResourceFlavor
from tests.fit.queues import holder, queue

QUEUE = queue("cq", 4, "all")
OTHER = queue("other", 2, "all")
BESIDE: tuple[Held, ...] = (
    Cohort("all"),
    LocalQueue("t", "q", "cq"),
    ResourceFlavor("f1", {"zone": "a"}),
    AdmissionCheck("check", "example.com/c"),
    PriorityClass("high", 7),
    holder("w1", "cq", {("f1", "cpu"): 3}),
)


def limit_range(name: str, namespace: str = "t") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"limits": []}}


def seen(snapshot: ClusterSnapshot) -> tuple[object, ...]:
    """Everything that a fit would ask."""
    surroundings = snapshot.surroundings("t")
    return (
        snapshot.quotas.ceiling("cq", "f1", "cpu").amount,
        snapshot.quotas.available("cq", "f1", "cpu"),
        [workload.uid for workload, _ in snapshot.quotas.holders("cq", [("f1", "cpu")])],
        snapshot.local_queue("t", "q"),
        snapshot.flavor("f1"),
        snapshot.check("check"),
        snapshot.priority("high"),
        [raw["metadata"]["name"] for raw in surroundings.limit_ranges or ()],
        surroundings.runtime_classes,
        surroundings.configuration.known,
    )


def test_a_snapshot_from_lists_equals_one_from_single_changes() -> None:
    at_once = ClusterSnapshot((QUEUE, OTHER, *BESIDE), limit_ranges=[limit_range("a")], runtime_classes=[])
    assert seen(at_once)[:3] == (6, 3, ["w1"])
    for seed in range(5):
        changes = [QUEUE, OTHER, *BESIDE]
        random.Random(seed).shuffle(changes)
        by_change = ClusterSnapshot()
        for change in changes:
            by_change.take(change)
        by_change.take_limit_range(limit_range("a"))
        by_change.take_runtime_classes([])
        assert seen(by_change) == seen(at_once)


def test_dropped_objects_leave_an_empty_snapshot() -> None:
    snapshot = ClusterSnapshot((QUEUE, OTHER, *BESIDE), limit_ranges=[limit_range("a"), limit_range("b", "elsewhere")])
    snapshot.drop_limit_range(limit_range("a"))
    for held in (*BESIDE, OTHER, QUEUE):
        snapshot.drop(held)
        snapshot.drop(held)
    snapshot.drop_limit_range(limit_range("a"))
    assert seen(snapshot) == seen(ClusterSnapshot())
    assert len(snapshot.surroundings("elsewhere").limit_ranges or ()) == 1


def test_unknown_sources_are_read_at_each_call() -> None:
    missing = ["cohorts cannot be read"]
    snapshot = ClusterSnapshot(unknown=lambda: missing)
    assert list(snapshot.unknown()) == missing
    missing.clear()
    assert list(snapshot.unknown()) == []
    assert not snapshot.configuration.known
    assert snapshot.surroundings("t").runtime_classes is None
    assert ClusterSnapshot(limit_ranges=None).surroundings("t").limit_ranges is None
    assert snapshot.queue_limit is None


def test_a_changed_object_replaces_the_earlier_one() -> None:
    snapshot = ClusterSnapshot((QUEUE, OTHER, *BESIDE))
    snapshot.take(queue("cq", 10, "all"))
    snapshot.take(LocalQueue("t", "q", "other"))
    snapshot.take(holder("w1", "cq", {("f1", "cpu"): 1}))
    found = snapshot.local_queue("t", "q")
    assert found is not None
    assert found.cluster_queue == "other"
    assert snapshot.quotas.ceiling("cq", "f1", "cpu").amount == 12
    assert snapshot.quotas.used("cq", "f1", "cpu") == 1
    snapshot.take_configuration("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
    assert snapshot.configuration.known
    snapshot.take_configuration(None)
    assert not snapshot.configuration.known


def test_the_tree_of_a_queue_is_not_walked_for_what_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = ClusterSnapshot([QUEUE])
    monkeypatch.setattr(Quotas, "tree", None)
    assert snapshot.usage_known("cq")
    assert snapshot.cohort_known("cq")
