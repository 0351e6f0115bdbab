"""Which generation is used, and why objects cannot be listed: what an upgrade leaves behind in the store."""

from __future__ import annotations

from gangctl.api.scheduling import Generation
from gangctl.gang.generation import ServedVersion, evaluate_unreadable, pick_generation
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


GANGS = frozenset({"workloads", "podgroups"})
SAME = ServedVersion(GANGS)
OTHER = ServedVersion(GANGS, tuple(f"PodGroup.spec.f{number} is required" for number in range(7)))


@each(
    ("served", "generation"),
    [
        ({"v1": SAME, "v1beta1": SAME}, Generation.V1),
        ({"v1": ServedVersion(frozenset({"priorityclasses"})), "v1beta1": SAME}, Generation.V1BETA1),
        ({"v1": ServedVersion(frozenset({"workloads"})), "v1alpha2": SAME}, Generation.V1ALPHA2),
        ({"v1alpha3": SAME}, None),
    ],
)
def test_the_newest_generation_that_is_served_is_used(
    served: dict[str, ServedVersion], generation: Generation | None
) -> None:
    state = pick_generation(served)
    assert (state.generation, state.available) == (generation, generation is not None)
    assert bool(state.reason) is (generation is None)


def test_a_version_with_other_fields_is_not_used() -> None:
    state = pick_generation({"v1": OTHER})
    assert state.generation is None
    fields = "; ".join(OTHER.differences[:5])
    assert state.reason == (
        f"scheduling.k8s.io/v1 is served with other fields than this gangctl writes and reads: {fields} and 2 more. "
        "Upgrade gangctl, or serve scheduling.k8s.io/v1beta1 beside it"
    )


def test_an_older_version_is_used_beside_one_with_other_fields() -> None:
    state = pick_generation({"v1": OTHER, "v1beta1": SAME})
    assert state.generation is Generation.V1BETA1
    assert "PodGroup.spec.f0 is required" in state.reason
