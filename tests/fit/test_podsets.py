"""Podsets as Kueue makes them of a JobSet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.floor import NodeShape
from gangctl.fit.members import Neighbours
from gangctl.fit.nodes import node_fit
from gangctl.fit.requests import Surroundings, podsets_of
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets


@each(
    ("shape", "pods"),
    [
        ((1, None, None), 1),
        ((3, 4, None), 12),
        ((3, 4, 2), 6),
        ((3, 4, 8), 12),
        ((0, 4, None), 0),
        ((2, 0, None), 0),
        ((None, 2, None), 2),
    ],
)
def test_the_pod_count_follows_replicas_parallelism_and_completions(
    shape: tuple[int | None, int | None, int | None], pods: int
) -> None:
    (podset,) = podsets_of(jobset("js", rj("w", *shape)))
    assert podset.pods == pods


def test_a_jobset_has_a_podset_for_each_replicated_job_in_order() -> None:
    podsets = podsets_of(jobset("js", rj("Driver"), rj("workers", 2), rj("none", 0)))
    assert [(podset.index, podset.name, podset.pods) for podset in podsets] == [
        (0, "driver", 1),
        (1, "workers", 2),
        (2, "none", 0),
    ]
    assert podsets[0].pod_spec["containers"][0]["name"] == "main"


@each("spec", [None, [], {}, {"replicatedJobs": 3}])
def test_a_jobset_without_replicated_jobs_has_no_podsets(spec: object) -> None:
    assert podsets_of({"spec": spec}) == ()


@PROPERTY
@given(st.one_of(hostile_jobsets(), st.just({})))
def test_podsets_of_any_jobset_are_valid(raw: dict[str, Any]) -> None:
    for podset in podsets_of(raw):
        assert podset.pods >= 0
        assert podset.name == podset.name.lower()


@pytest.mark.parametrize(
    ("succeeded", "new", "pods"), [({}, False, 6), ({"w": 1}, False, 4), ({"w": 1}, True, 6), ({"w": 3}, False, 0)]
)
def test_jobs_that_have_succeeded_need_no_room(succeeded: dict[str, int], new: bool, pods: int) -> None:
    raw = jobset("js", rj("w", 3, 2, 2, cpu="1"), mode="Gang")
    raw["status"] = {"replicatedJobsStatus": [{"name": name, "succeeded": jobs} for name, jobs in succeeded.items()]}
    shapes = [NodeShape("n", {}, (), {"cpu": 4000, "pods": 110})]
    request = FitRequest(raw, "t", None, "", new, fixed_nodes=True)
    report = node_fit(request, shapes, Surroundings(runtime_classes={}), Neighbours([]))
    assert [podset["pods"] for podset in report["podSets"]] == [pods]
    assert report["verdict"] == ("fits" if pods <= 4 else "never")
