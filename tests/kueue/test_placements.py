"""Topology assignments of Kueue's Workloads, in each of their encodings."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.kueue.topology import with_placements
from tests.rows import each
from tests.strategies import PROPERTY

POD = {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "500m", "x.com/gpu": "2"}}}]}}


def workload(*slices: object, levels: object = ("rack", "host")) -> dict[str, Any]:
    assignment = {"levels": list(levels) if isinstance(levels, tuple) else levels, "slices": list(slices)}
    flavors = {"cpu": "f", "x.com/gpu": "g"}
    return {
        "metadata": {"name": "w"},
        "spec": {"podSets": [{"name": "other"}, {"name": "main", "count": 5, "template": POD}]},
        "status": {
            "admission": {
                "clusterQueue": "a",
                "podSetAssignments": [
                    {"name": "other", "flavors": flavors},
                    {"name": "main", "flavors": flavors, "topologyAssignment": assignment},
                ],
            }
        },
    }


def part(counts: object, *values: object) -> dict[str, Any]:
    return {"domainCount": 1, "valuesPerLevel": list(values), "podCounts": counts}


def roots(*values: str, **affixes: str) -> dict[str, Any]:
    return {"individual": {"roots": list(values), **affixes}}


def test_a_placement_has_flavors_levels_and_the_requests_of_a_pod() -> None:
    (found,) = with_placements(workload(part({"universal": 2}, {"universal": "r"}, {"universal": "h"}))).placements
    assert found.flavors == {"f", "g"}
    assert found.levels == ("rack", "host")
    assert found.domains == {("r", "h"): 2}
    assert found.requests == {"cpu": 500, "memory": 0, "x.com/gpu": 2}


@each(
    ("slices", "domains"),
    [
        ([part({"universal": 2}, {"universal": "r"}, roots("a", "b"))], {("r", "a"): 2, ("r", "b"): 2}),
        (
            [part({"individual": [2, 3]}, roots("r", "s"), roots("1", "2", prefix="n-", suffix="-x"))],
            {("r", "n-1-x"): 2, ("s", "n-2-x"): 3},
        ),
        (
            [
                part({"universal": 2}, {"universal": "r"}, {"universal": "a"}),
                part({"universal": 1}, {"universal": "s"}, {"universal": "a"}),
            ],
            {("r", "a"): 2, ("s", "a"): 1},
        ),
        ([], {}),
    ],
)
def test_every_encoding_of_domains_is_read(slices: list[Any], domains: dict[tuple[str, ...], int]) -> None:
    assert with_placements(workload(*slices)).placements[0].domains == domains


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["universal", "individual", "roots", "prefix", "valuesPerLevel", "podCounts", "domainCount"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@PROPERTY
@given(st.lists(anything, max_size=3), anything, anything)
def test_any_assignment_is_read_without_an_error(slices: list[Any], levels: Any, name: Any) -> None:
    raw = workload(*slices, levels=levels)
    raw["spec"]["podSets"][0]["name"] = raw["status"]["admission"]["podSetAssignments"][0]["name"] = name
    for placement in with_placements(raw).placements:
        assert all(isinstance(pods, int) for pods in placement.domains.values())
