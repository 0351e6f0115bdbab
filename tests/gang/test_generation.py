"""Why objects cannot be listed: what an upgrade leaves behind in the store, and everything else."""

from __future__ import annotations

from gangctl.gang.generation import evaluate_unreadable
from tests.rows import each

CAUSE = (
    'no kind "Workload" is registered for version "scheduling.k8s.io/v1alpha1" in scheme "pkg/runtime/scheme.go:111"'
)
SEEN = {
    "1.36": f"storage is (re)initializing: failed to list *scheduling.Workload: {CAUSE}",
    "1.37": "storage is (re)initializing: failed to list <unspecified>: failed to read one or more "
    "workloads.scheduling.k8s.io from the storage: StorageError: corrupt object, Code: 7, "
    f"Key: /registry/workloads/t/js, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=9: {CAUSE}",
}


@each("minor", SEEN)
def test_objects_that_an_upgrade_left_unreadable(minor: str) -> None:
    state = evaluate_unreadable(SEEN[minor])
    assert state is not None
    assert not state.available
    assert "cannot read the Workload objects" in state.reason
    assert "stored as scheduling.k8s.io/v1alpha1, " in state.reason
    assert "/registry/workloads/" in state.reason
    assert "/registry/podgroups/" in state.reason


@each("message", ["", "storage is (re)initializing", "workloads.scheduling.k8s.io is forbidden"])
def test_anything_else_may_pass(message: str) -> None:
    assert evaluate_unreadable(message) is None
